//! `[backbone]`: what turns an image into features.

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
pub use bert::{BertSection, BertShape, Pooling};
pub use extractor::ExtractorSection;
pub use resnet::{ResNetSection, StartWeights, Stem};
pub use vit::{Architecture, EMBEDDED_IMAGE, VitSection, VitShape, Weights};

use super::reader::{Choice, Param, TableReader, defaults};

/// The feature extractor, by its `kind`. Default `vit`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BackboneSection {
    /// A pretrained vision transformer.
    Vit(VitSection),
    /// A residual network for small images, trained from scratch or read from a file.
    #[serde(rename = "resnet18")]
    ResNet18(ResNetSection),
    /// ResNet-50 with pretrained weights, frozen only.
    #[serde(rename = "resnet50")]
    ResNet50(ExtractorSection),
    /// ResNet-152 with pretrained weights, frozen only.
    #[serde(rename = "resnet152")]
    ResNet152(ExtractorSection),
    /// A BERT, for text; frozen only.
    Bert(BertSection),
    /// None: a feature is a pixel, as the transform leaves it. A linear head on it is logistic
    /// regression.
    Pixels,
}

/// [`BackboneSection`] without its keys.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Kind {
    /// A pretrained vision transformer.
    Vit,
    /// ResNet-18, with a 3x3 stem for small images unless another is named.
    #[value(name = "resnet18")]
    ResNet18,
    /// A pretrained ResNet-50 that gives features only.
    #[value(name = "resnet50")]
    ResNet50,
    /// A pretrained ResNet-152 that gives features only.
    #[value(name = "resnet152")]
    ResNet152,
    /// A BERT that gives features of text only.
    Bert,
    /// The pixels as they are; with a linear head, logistic regression.
    Pixels,
}

impl BackboneSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> BackboneSection {
        let kind = table.get(&Param::new("kind", Kind::Vit, "what turns an image into features"));
        if kind != Kind::Bert {
            table.foreign(&BertSection::KEYS, &format!("kind = \"{}\"", kind.word()));
        }
        match kind {
            Kind::Bert => {
                let foreign = ["resolution", "heads", "activation", "width", "stem"];
                table.foreign(&foreign, "kind = \"bert\"");
                BackboneSection::Bert(BertSection::read(table))
            }
            Kind::Vit => {
                table.foreign(&["width", "stem"], "kind = \"vit\"");
                BackboneSection::Vit(VitSection::read(table))
            }
            Kind::ResNet18 => {
                let foreign = ["architecture", "resolution", "heads", "activation"];
                table.foreign(&foreign, "kind = \"resnet18\"");
                BackboneSection::ResNet18(ResNetSection::read(table))
            }
            Kind::ResNet50 | Kind::ResNet152 => {
                let foreign =
                    ["architecture", "resolution", "heads", "activation", "width", "stem"];
                table.foreign(&foreign, &format!("kind = \"{}\"", kind.word()));
                let section = ExtractorSection::read(table, &kind.word());
                match kind {
                    Kind::ResNet50 => BackboneSection::ResNet50(section),
                    _ => BackboneSection::ResNet152(section),
                }
            }
            Kind::Pixels => {
                table.foreign(&VitSection::KEYS, "kind = \"pixels\"");
                table.foreign(&["width", "stem", "ignore", "part"], "kind = \"pixels\"");
                BackboneSection::Pixels
            }
        }
    }

    /// What a scenario calls it.
    pub fn kind(&self) -> String {
        match self {
            BackboneSection::Vit(_) => Kind::Vit.word(),
            BackboneSection::ResNet18(_) => Kind::ResNet18.word(),
            BackboneSection::ResNet50(_) => Kind::ResNet50.word(),
            BackboneSection::ResNet152(_) => Kind::ResNet152.word(),
            BackboneSection::Bert(_) => Kind::Bert.word(),
            BackboneSection::Pixels => Kind::Pixels.word(),
        }
    }

    /// Whether it gives features and cannot be trained, though it has parameters.
    pub fn is_frozen_only(&self) -> bool {
        let deep = matches!(self, BackboneSection::ResNet50(_) | BackboneSection::ResNet152(_));
        deep || self.reads_text()
    }

    /// Whether it reads text and no images.
    pub fn reads_text(&self) -> bool {
        matches!(self, BackboneSection::Bert(_))
    }

    /// The transformer, where it is one.
    pub fn vit(&self) -> Option<&VitSection> {
        match self {
            BackboneSection::Vit(section) => Some(section),
            _ => None,
        }
    }

    /// Pixels of both sides of the images it takes; `None` where it takes any.
    pub fn input(&self) -> Option<u32> {
        self.vit().map(VitSection::input)
    }

    /// The file its weights are read from.
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

    /// Patterns of tensors in that file that may be left over.
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

    /// Which of several sets of weights in that file is read, where it is said.
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

    /// The files it names with their keys, to be changed.
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
