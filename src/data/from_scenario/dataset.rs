//! Which data set.

use std::path::Path;
use std::sync::Arc;

use crate::data::cifar::{self, Cifar};
use crate::data::folder::{self, FolderOptions};
use crate::data::text::{PlayOptions, Tokeniser, WordPieces, play};
use crate::data::{DataError, Dataset, digits};
use crate::scenario::{BackboneSection, BertSection, DataSection, DataSource, TextSection};

impl Dataset {
    /// Opens what `[data]` names; `tokeniser` is for text.
    ///
    /// # Errors
    /// Whatever is missing or damaged.
    pub fn open(section: &DataSection, tokeniser: &Tokeniser) -> Result<Dataset, DataError> {
        let subset = section.subset.map(|n| n as usize);
        let mut data = match section.source {
            DataSource::Digits => digits::embedded()?,
            DataSource::Cifar10 => cifar::open(Cifar::Ten, path(section)?)?,
            DataSource::Cifar100 => cifar::open(Cifar::Hundred, path(section)?)?,
            DataSource::Play => {
                let text = section.text.clone().unwrap_or_default();
                play::open(path(section)?, &play_options(&text), tokeniser)?
            }
            DataSource::Folder => {
                let size = section.store;
                let options = FolderOptions { size, subset, ..FolderOptions::default() };
                return folder::open(path(section)?, &options);
            }
        };
        if let Some(most) = subset {
            data.train = Arc::new(data.train.first_of_each_class(most)?);
        }
        Ok(data)
    }
}

fn play_options(section: &TextSection) -> PlayOptions {
    PlayOptions {
        context: section.context as usize,
        stride: section.stride as usize,
        symbols: section.symbols as usize,
        fold_case: section.fold_case,
        test: section.test,
    }
}

impl Tokeniser {
    /// What the backbone of a scenario reads text with.
    ///
    /// # Errors
    /// A vocabulary that cannot be read, or has more pieces than the network knows.
    pub fn from_scenario(section: &BackboneSection) -> Result<Tokeniser, DataError> {
        let BackboneSection::Bert(BertSection { vocabulary, architecture, .. }) = section else {
            return Ok(Tokeniser::Characters);
        };
        let (tokeniser, tokens) = match vocabulary {
            None => (Tokeniser::Characters, Tokeniser::CHARACTERS),
            Some(path) => {
                let pieces = WordPieces::open(path)?;
                let tokens = pieces.tokens();
                (Tokeniser::WordPieces(Arc::new(pieces)), tokens)
            }
        };
        if tokens > architecture.vocabulary as usize {
            return Err(DataError::unfit(
                format!("{tokens} tokens for a network of {}", architecture.vocabulary),
                format!("set backbone.architecture.vocabulary = {tokens}, as the weights have it"),
            ));
        }
        Ok(tokeniser)
    }
}

fn path(section: &DataSection) -> Result<&Path, DataError> {
    section.path.as_deref().ok_or_else(|| {
        DataError::unfit("this data set is not embedded and [data] has no path", "give data.path")
    })
}

/// Training samples of every class without the data at hand: those of the embedded digits, otherwise the
/// published total spread evenly (the first classes take the rest). `None` where no size is known.
pub fn nominal_class_sizes(section: &DataSection) -> Option<Vec<usize>> {
    if section.source == DataSource::Digits && section.nominal.is_none() {
        let data = Dataset::open(section, &Tokeniser::Characters);
        return data.ok().map(|data| data.class_sizes());
    }
    let sizes = section.sizes()?;
    let (classes, train) = (sizes.classes as usize, sizes.train as usize);
    let of = |class: usize| train / classes + usize::from(class < train % classes);
    (classes > 0).then(|| (0..classes).map(of).collect())
}
