//! `[backbone]`: network that turns a sample into features.

mod activation;
mod bert;
mod extractor;
mod ignore;
mod inferred;
mod part;
mod resnet;
mod vit;

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

pub use activation::Activation;
pub use bert::{BertPooling, BertSection, BertShape};
pub use extractor::ExtractorSection;
pub use resnet::{ResNetSection, StartWeights, Stem};
pub use vit::{Architecture, EMBEDDED_IMAGE, VitSection, VitShape, Weights};

use super::reader::{Choice, Param, TableReader, defaults};

/// Feature extractor, by its `kind`. Default `vit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BackboneSection {
    /// Pretrained vision transformer.
    Vit(VitSection),
    /// Residual network for small images, trained from scratch or read from a file.
    #[serde(rename = "resnet18")]
    ResNet18(ResNetSection),
    /// Pretrained ResNet-50, frozen only.
    #[serde(rename = "resnet50")]
    ResNet50(ExtractorSection),
    /// Pretrained ResNet-152, frozen only.
    #[serde(rename = "resnet152")]
    ResNet152(ExtractorSection),
    /// BERT for text, frozen only.
    Bert(BertSection),
    /// No network: a feature is a pixel after the transform. A linear head on it is logistic regression.
    Pixels,
}

/// Words of [`BackboneSection`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum BackboneKind {
    /// Pretrained vision transformer.
    Vit,
    /// ResNet-18, with a 3x3 stem for small images unless `stem` names another.
    #[value(name = "resnet18")]
    ResNet18,
    /// Pretrained ResNet-50, for features only.
    #[value(name = "resnet50")]
    ResNet50,
    /// Pretrained ResNet-152, for features only.
    #[value(name = "resnet152")]
    ResNet152,
    /// BERT for features of text, frozen only.
    Bert,
    /// Pixels without a network; with a linear head, logistic regression.
    Pixels,
}

impl BackboneSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> BackboneSection {
        let kind = table.get(&Param::new(
            "kind",
            BackboneKind::Vit,
            "network that turns a sample into features",
        ));
        if kind != BackboneKind::Bert {
            table.foreign(&BertSection::KEYS, &format!("kind = \"{}\"", kind.word()));
        }
        match kind {
            BackboneKind::Bert => {
                let foreign = ["resolution", "heads", "activation", "width", "stem"];
                table.foreign(&foreign, "kind = \"bert\"");
                BackboneSection::Bert(BertSection::read(table))
            }
            BackboneKind::Vit => {
                table.foreign(&["width", "stem"], "kind = \"vit\"");
                BackboneSection::Vit(VitSection::read(table))
            }
            BackboneKind::ResNet18 => {
                let foreign = ["architecture", "resolution", "heads", "activation"];
                table.foreign(&foreign, "kind = \"resnet18\"");
                BackboneSection::ResNet18(ResNetSection::read(table))
            }
            BackboneKind::ResNet50 | BackboneKind::ResNet152 => {
                let foreign =
                    ["architecture", "resolution", "heads", "activation", "width", "stem"];
                table.foreign(&foreign, &format!("kind = \"{}\"", kind.word()));
                let section = ExtractorSection::read(table, &kind.word());
                match kind {
                    BackboneKind::ResNet50 => BackboneSection::ResNet50(section),
                    _ => BackboneSection::ResNet152(section),
                }
            }
            BackboneKind::Pixels => {
                table.foreign(&VitSection::KEYS, "kind = \"pixels\"");
                table.foreign(&["width", "stem", "ignore", "part"], "kind = \"pixels\"");
                BackboneSection::Pixels
            }
        }
    }

    /// Returns the word of `backbone.kind`.
    pub fn kind(&self) -> String {
        match self {
            BackboneSection::Vit(_) => BackboneKind::Vit.word(),
            BackboneSection::ResNet18(_) => BackboneKind::ResNet18.word(),
            BackboneSection::ResNet50(_) => BackboneKind::ResNet50.word(),
            BackboneSection::ResNet152(_) => BackboneKind::ResNet152.word(),
            BackboneSection::Bert(_) => BackboneKind::Bert.word(),
            BackboneSection::Pixels => BackboneKind::Pixels.word(),
        }
    }

    /// Returns true if the backbone has parameters but cannot be trained.
    pub fn is_frozen_only(&self) -> bool {
        let deep = matches!(self, BackboneSection::ResNet50(_) | BackboneSection::ResNet152(_));
        deep || self.reads_text()
    }

    /// Returns true if the weights are drawn before the first round, with `seed.run`.
    pub fn is_random(&self) -> bool {
        matches!(
            self,
            BackboneSection::ResNet18(ResNetSection { weights: StartWeights::Random, .. })
                | BackboneSection::Bert(BertSection { weights: StartWeights::Random, .. })
        )
    }

    /// Returns true if the backbone reads text, not images.
    pub fn reads_text(&self) -> bool {
        matches!(self, BackboneSection::Bert(_))
    }

    /// Returns the vision transformer, if it is one.
    pub fn vit(&self) -> Option<&VitSection> {
        match self {
            BackboneSection::Vit(section) => Some(section),
            _ => None,
        }
    }

    /// Returns the pixels per side of the images that it takes; `None` if it takes any size.
    pub fn input(&self) -> Option<u32> {
        self.vit().map(VitSection::input)
    }

    /// Returns the file that its weights are read from.
    pub fn weights_file(&self) -> Option<&PathBuf> {
        match self {
            BackboneSection::Vit(VitSection { weights: Weights::File(path), .. })
            | BackboneSection::ResNet18(ResNetSection {
                weights: StartWeights::File(path), ..
            })
            | BackboneSection::Bert(BertSection { weights: StartWeights::File(path), .. })
            | BackboneSection::ResNet50(ExtractorSection { weights: path, .. })
            | BackboneSection::ResNet152(ExtractorSection { weights: path, .. }) => Some(path),
            _ => None,
        }
    }

    /// Returns the patterns of tensors in that file that may be left over.
    pub fn ignored(&self) -> &[String] {
        match self {
            BackboneSection::Vit(section) => &section.ignore,
            BackboneSection::ResNet18(section) => &section.ignore,
            BackboneSection::ResNet50(section) | BackboneSection::ResNet152(section) => {
                &section.ignore
            }
            BackboneSection::Bert(section) => &section.ignore,
            BackboneSection::Pixels => &[],
        }
    }

    /// Returns the set of weights to read from that file, if the scenario names one.
    pub fn part(&self) -> Option<&str> {
        match self {
            BackboneSection::Vit(section) => section.part.as_deref(),
            BackboneSection::ResNet18(section) => section.part.as_deref(),
            BackboneSection::ResNet50(section) | BackboneSection::ResNet152(section) => {
                section.part.as_deref()
            }
            BackboneSection::Bert(section) => section.part.as_deref(),
            BackboneSection::Pixels => None,
        }
    }

    /// Returns the paths of the files that it names, with their keys, to be changed.
    pub(super) fn files_mut(&mut self) -> Vec<(String, &mut PathBuf)> {
        let (weights, vocabulary) = match self {
            BackboneSection::Vit(VitSection { weights: Weights::File(path), .. })
            | BackboneSection::ResNet18(ResNetSection {
                weights: StartWeights::File(path), ..
            })
            | BackboneSection::ResNet50(ExtractorSection { weights: path, .. })
            | BackboneSection::ResNet152(ExtractorSection { weights: path, .. }) => {
                (Some(path), None)
            }
            BackboneSection::Bert(BertSection { weights, vocabulary, .. }) => match weights {
                StartWeights::File(path) => (Some(path), vocabulary.as_mut()),
                StartWeights::Random => (None, vocabulary.as_mut()),
            },
            _ => (None, None),
        };
        let weights = weights.map(|path| ("backbone.weights".to_owned(), path));
        let vocabulary = vocabulary.map(|path| ("backbone.vocabulary".to_owned(), path));
        weights.into_iter().chain(vocabulary).collect()
    }
}

impl Default for BackboneSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
