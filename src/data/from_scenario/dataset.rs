//! Data set of a scenario.

use std::path::PathBuf;
use std::sync::Arc;

use crate::data::cifar::{self, Cifar};
use crate::data::folder::{self, FolderOptions, StoredForm};
use crate::data::image_arrays::{self, ImageArrays};
use crate::data::packed::{self, PackedOptions};
use crate::data::synthetic::{self, SyntheticOptions};
use crate::data::table::{self, TableNames};
use crate::data::text::{PlayOptions, Tokenizer, WordPieces, play};
use crate::data::{DataError, Dataset, Purpose, Split, digits, idx, leaf};
use crate::fetch::Settings;
use crate::scenario::{
    BackboneSection, BertSection, DataSection, DataSource, Evaluated, FolderLayout, Scenario,
    TextSection,
};

impl Dataset {
    /// Returns the training and test data of a scenario. These are the data that `[data]` names, without auxiliary
    /// samples and without what is held out for validation, which replaces the test set if `data.evaluate` says so.
    ///
    /// # Errors
    /// Returns an error if data are missing or damaged, or if classes are too small to hold samples out.
    pub fn from_scenario(scenario: &Scenario, tokenizer: &Tokenizer) -> Result<Dataset, DataError> {
        Ok(Dataset::with_auxiliary(scenario, tokenizer)?.0)
    }

    /// Returns the data of a scenario, and the auxiliary samples if `[data.auxiliary]` asks for some.
    ///
    /// # Errors
    /// Fails as [`from_scenario`](Self::from_scenario) does.
    pub fn with_auxiliary(
        scenario: &Scenario,
        tokenizer: &Tokenizer,
    ) -> Result<(Dataset, Option<Arc<Split>>), DataError> {
        let section = &scenario.data;
        let data = Dataset::open(section, tokenizer)?.noting_other_sizes(section);
        let data = data.noting_normalized_floats(section);
        let (data, taken) = data.split_by(scenario)?;
        let other = section.auxiliary.as_ref().and_then(|auxiliary| auxiliary.as_data(section));
        let auxiliary = match other {
            Some(other) => Some(Dataset::open(&other, tokenizer)?.train),
            None => taken,
        };
        Ok((data.noting_untested(), auxiliary))
    }

    /// Returns labels and owners of a scenario's data, and its auxiliary samples, without decoding images.
    ///
    /// It serves to count samples: where images can be listed, their files are not read.
    ///
    /// # Errors
    /// Returns an error if data are missing or damaged, or if classes are too small to hold samples out.
    pub fn listed_from_scenario(
        scenario: &Scenario,
    ) -> Result<(Dataset, Option<Arc<Split>>), DataError> {
        Dataset::listed(&scenario.data)?.split_by(scenario)
    }

    /// Opens the data that `[data]` names for counting: where images can be listed, only their labels and owners are
    /// read.
    ///
    /// # Errors
    /// Fails as [`open`](Self::open) does.
    pub fn listed(section: &DataSection) -> Result<Dataset, DataError> {
        Dataset::opened(section, &Tokenizer::Characters, 0)
    }

    /// Applies the owners listed in a file, and removes auxiliary (returned second) and held-out samples.
    fn split_by(self, scenario: &Scenario) -> Result<(Dataset, Option<Arc<Split>>), DataError> {
        let (section, seed) = (&scenario.data, scenario.seed.partition);
        let data = self.held_as_listed(&scenario.partition)?;
        let (data, taken) = match section.auxiliary.as_ref().filter(|of| of.source.is_none()) {
            None => (data, None),
            Some(auxiliary) => {
                let share = |samples| auxiliary.of_class(samples);
                let (data, taken) = data.hold_out(share, (seed, Purpose::Auxiliary))?;
                (data, Some(taken))
            }
        };
        if section.validation_fraction.is_none() {
            return Ok((data, taken));
        }
        let held = |samples| section.held_out(samples);
        let (data, validation) = data.hold_out(held, (seed, Purpose::Validation))?;
        let data = match section.evaluate {
            Evaluated::Test => data,
            Evaluated::Validation => Dataset { test: validation, ..data },
        };
        Ok((data, taken))
    }

    /// Opens what `[data]` names, all of it; `tokenizer` is for text.
    ///
    /// # Errors
    /// Returns an error if data are missing or damaged.
    pub fn open(section: &DataSection, tokenizer: &Tokenizer) -> Result<Dataset, DataError> {
        Dataset::opened(section, tokenizer, IN_MEMORY)
    }

    fn opened(
        section: &DataSection,
        tokenizer: &Tokenizer,
        budget: usize,
    ) -> Result<Dataset, DataError> {
        let most = |samples: Option<u32>| samples.map(|samples| samples as usize);
        let (subset, test_subset) = (most(section.subset), most(section.test_subset));
        let (size, test_fraction) = (section.stored_size, section.test_fraction);
        let orientation = section.orientation.unwrap_or_default();
        let mut data = match section.source {
            DataSource::Digits => digits::embedded()?,
            DataSource::Synthetic => synthetic::open(&synthetic_options(section))?,
            DataSource::Cifar10 => cifar::open(Cifar::Ten, &path(section)?)?,
            DataSource::Cifar100 => cifar::open(Cifar::Hundred, &path(section)?)?,
            DataSource::Idx => idx::open(&path(section)?)?,
            DataSource::Leaf => leaf::open(&path(section)?, test_fraction)?,
            DataSource::Table => {
                table::open(&path(section)?, &table_names(section), test_fraction)?
            }
            DataSource::Arrays => {
                let TableNames { input, label, client, .. } = table_names(section);
                let shape = section.shape.unwrap_or([1; 3]).map(|extent| extent as usize);
                let options = ImageArrays { shape, input, label, client };
                image_arrays::open(&path(section)?, &options, test_fraction)?
            }
            DataSource::Parquet => {
                let TableNames { input, label, client, .. } = table_names(section);
                let form = StoredForm { size, orientation };
                let options = PackedOptions { form, input, label, client, test_fraction, budget };
                packed::open(&path(section)?, &options)?
            }
            DataSource::Play => {
                let text = section.text.clone().unwrap_or_default();
                play::open(&path(section)?, &play_options(&text), tokenizer)?
            }
            DataSource::Folder => {
                let (split, clients) = (section.split.clone(), section.client.is_some());
                let layout = if clients { FolderLayout::Domains } else { section.layout };
                let options = FolderOptions {
                    size,
                    orientation,
                    split,
                    test_fraction,
                    layout,
                    clients,
                    subset,
                    test_subset,
                    budget,
                };
                return folder::open(&path(section)?, &options);
            }
        };
        if let Some(most) = subset {
            data.train = Arc::new(data.train.first_of_each_class(most)?);
        }
        if let Some(most) = test_subset {
            data.test = Arc::new(data.test.first_of_each_class(most)?);
        }
        Ok(data)
    }
}

/// Limit of the bytes of decoded images in memory, per split.
const IN_MEMORY: usize = 4 << 30;

fn table_names(section: &DataSection) -> TableNames {
    let word = |name: &Option<String>| name.clone().unwrap_or_default();
    TableNames {
        width: section.width.unwrap_or(1) as usize,
        input: word(&section.input),
        label: word(&section.label),
        client: section.client.clone(),
    }
}

fn synthetic_options(section: &DataSection) -> SyntheticOptions {
    let given = section.synthetic.clone().unwrap_or_default();
    SyntheticOptions {
        classes: given.classes as usize,
        width: given.width as usize,
        train_samples: given.train_samples as usize,
        test_samples: given.test_samples as usize,
        separation: given.separation,
        clients: given.clients.map(|clients| clients as usize),
        classes_per_client: given.classes_per_client.map(|held| held as usize),
        client_shift: given.client_shift,
        seed: given.seed,
    }
}

fn play_options(section: &TextSection) -> PlayOptions {
    PlayOptions {
        context: section.sequence_length as usize,
        stride: section.stride as usize,
        symbols: section.vocabulary_size as usize,
        lowercase: section.lowercase,
        test: section.test,
    }
}

impl Tokenizer {
    /// Returns the tokenizer of a scenario's backbone.
    ///
    /// # Errors
    /// Returns an error if the vocabulary cannot be read, or has more pieces than the network has embeddings.
    pub fn from_scenario(section: &BackboneSection) -> Result<Tokenizer, DataError> {
        let BackboneSection::Bert(BertSection { vocabulary, architecture, .. }) = section else {
            return Ok(Tokenizer::Characters);
        };
        let (tokenizer, tokens) = match vocabulary {
            None => (Tokenizer::Characters, Tokenizer::CHARACTERS),
            Some(path) => {
                let pieces = WordPieces::open(&Settings::from_env().weights_at(path)?)?;
                let tokens = pieces.tokens();
                (Tokenizer::WordPieces(Arc::new(pieces)), tokens)
            }
        };
        if tokens > architecture.vocabulary as usize {
            return Err(DataError::unfit(
                format!("{tokens} tokens for a network of {}", architecture.vocabulary),
                format!("set backbone.architecture.vocabulary = {tokens}, as the weights have it"),
            ));
        }
        Ok(tokenizer)
    }
}

/// Returns true if the data are present, so that they can be listed; embedded ones always are.
pub fn is_present(section: &DataSection) -> bool {
    section.source.is_built_in() || path(section).is_ok_and(|path| path.exists())
}

/// Returns the path of the data: the given one, or that to which they were fetched by name.
fn path(section: &DataSection) -> Result<PathBuf, DataError> {
    let settings = Settings::from_env();
    match (&section.path, section.name()) {
        (Some(path), _) => Ok(settings.data_at(path)?),
        (None, Some(name)) => Ok(settings.find_data(&name)?),
        (None, None) => Err(DataError::unfit(
            "this data set is not embedded and [data] has no path",
            "give data.path",
        )),
    }
}

/// Returns the training samples of every class that clients learn from, without opening data. Sizes of the embedded
/// digits are exact; otherwise the published total is spread evenly (the first classes take the remainder). Samples
/// that clients do not get are subtracted. `None` if no size is known.
pub fn nominal_class_sizes(section: &DataSection) -> Option<Vec<usize>> {
    let sizes = whole_class_sizes(section)?;
    Some(sizes.into_iter().map(|whole| section.trained_samples(whole)).collect())
}

/// Returns the number of training samples of every class. None are subtracted for other purposes.
pub(super) fn whole_class_sizes(section: &DataSection) -> Option<Vec<usize>> {
    if section.source == DataSource::Digits && section.nominal.is_none() {
        let data = Dataset::open(section, &Tokenizer::Characters).ok()?;
        return Some(data.class_sizes());
    }
    let sizes = section.sizes()?;
    let (classes, train) = (sizes.classes as usize, sizes.train as usize);
    let of = |class: usize| train / classes + usize::from(class < train % classes);
    (classes > 0).then(|| (0..classes).map(of).collect())
}
