//! From the sections of a scenario to data: which set, which transforms, which tasks, whose samples.
//!
//! The sections were checked when the scenario was read; what can still fail here needs the data
//! itself (files, numbers of classes and samples).

use std::path::Path;
use std::sync::Arc;

use super::cifar::{self, Cifar};
use super::folder::{self, FolderOptions};
use super::text::{PlayOptions, Tokeniser, WordPieces, play};
use super::{
    ClassOrder, Curriculum, DataError, Dataset, FreshClients, FreshLaw, Kernel, Leftover,
    NaturalClients, Normalisation, PartitionKind, Partitioner, SlotRules, Slots, Split, Step,
    TaskSizes, Transform, digits,
};
use crate::scenario::{
    ArrivalChoice, BackboneSection, BertSection, ClassOrder as OrderKey, Crop, DataSection,
    DataSource, Interpolation, Normalise, PartitionKind as KindKey, PartitionSection, Rest,
    Scenario, StatisticsTransform, TaskSplit, TextSection, TransformSection,
};

/// The three pipelines of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Transforms {
    /// Local training.
    pub train: Arc<Transform>,
    /// Evaluation.
    pub test: Arc<Transform>,
    /// Statistics passes over training images.
    pub statistics: Arc<Transform>,
}

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
                let side = Some(section.store as usize);
                let options = FolderOptions { side, subset, ..FolderOptions::default() };
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

impl Transforms {
    /// The pipelines of `[data]`. `channels` are those the backbone reads: grey images are
    /// repeated to them; `None` leaves images as they are.
    pub fn from_scenario(section: &DataSection, channels: Option<usize>) -> Transforms {
        let train = Arc::new(Transform::from_scenario(&section.train, channels));
        let test = Arc::new(Transform::from_scenario(&section.test, channels));
        let statistics = match section.statistics {
            StatisticsTransform::Test => Arc::clone(&test),
            StatisticsTransform::Train => Arc::clone(&train),
            StatisticsTransform::Raw => Arc::new(raw(&section.test, channels)),
        };
        Transforms { train, test, statistics }
    }
}

/// The whole image at the size that `section` ends with, in `[0, 1]`.
fn raw(section: &TransformSection, channels: Option<usize>) -> Transform {
    let kernel = kernel(section.interpolation);
    let cropped = section.size.filter(|_| section.crop != Crop::None);
    let mut steps = Vec::new();
    if let Some(side) = cropped.or(section.resize) {
        steps.push(Step::Resize { side: side as usize, kernel });
    }
    if let Some(side) = cropped {
        steps.push(Step::CentreCrop { side: side as usize });
    }
    Transform { steps, normalise: Normalisation::None, channels }
}

impl Transform {
    /// The pipeline of one section: resize, crop, flip, normalise.
    pub fn from_scenario(section: &TransformSection, channels: Option<usize>) -> Transform {
        let kernel = kernel(section.interpolation);
        let mut steps = Vec::new();
        if let Some(side) = section.resize {
            steps.push(Step::Resize { side: side as usize, kernel });
        }
        if let Some(side) = section.size {
            let side = side as usize;
            match section.crop {
                Crop::None => {}
                Crop::Centre => steps.push(Step::CentreCrop { side }),
                Crop::Random => {
                    steps.push(Step::RandomCrop { side, padding: section.padding as usize });
                }
                Crop::RandomResized => steps.push(Step::RandomResizedCrop {
                    side,
                    scale: section.scale,
                    ratio: section.ratio,
                    kernel,
                }),
            }
        }
        if section.flip > 0.0 {
            steps.push(Step::Flip { probability: section.flip });
        }
        let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect();
        let normalise = match &section.normalise {
            Normalise::None => Normalisation::None,
            Normalise::Half => Normalisation::Half,
            Normalise::Imagenet => Normalisation::ImageNet,
            Normalise::Clip => Normalisation::Clip,
            Normalise::Cifar => Normalisation::Cifar100,
            Normalise::Explicit { mean, std } => {
                Normalisation::Explicit { mean: narrow(mean), deviation: narrow(std) }
            }
        };
        Transform { steps, normalise, channels }
    }
}

fn kernel(interpolation: Interpolation) -> Kernel {
    match interpolation {
        Interpolation::Bicubic => Kernel::Pillow,
        Interpolation::BicubicTorch => Kernel::Torch,
        Interpolation::BicubicAntialias => Kernel::Antialias,
    }
}

impl Curriculum {
    /// The tasks of a scenario for a data set of this many classes. Where clients have tasks of their own they are
    /// over the data set of slots.
    ///
    /// # Errors
    /// Sizes that do not fit the number of classes.
    pub fn from_scenario(scenario: &Scenario, classes: usize) -> Result<Curriculum, DataError> {
        let (section, seed) = (&scenario.tasks, scenario.seed.class_order);
        if let Some(rules) = SlotRules::from_scenario(scenario) {
            return Ok(Curriculum::of_slots(Arc::new(Slots::draw(rules, classes)?)));
        }
        let sizes = match &section.split {
            TaskSplit::Count(count) => TaskSizes::Even(*count as usize),
            TaskSplit::Sizes(sizes) => {
                TaskSizes::Explicit(sizes.iter().map(|&s| s as usize).collect())
            }
        };
        let order = match section.order {
            OrderKey::Native => ClassOrder::Native,
            OrderKey::Seeded => ClassOrder::Seeded(seed),
        };
        Curriculum::new(classes, &order, &sizes)
    }
}

impl SlotRules {
    /// Those of a scenario whose clients have tasks of their own.
    pub fn from_scenario(scenario: &Scenario) -> Option<SlotRules> {
        let ArrivalChoice::Powder { slot_classes, overlap, moving } = scenario.tasks.arrival else {
            return None;
        };
        Some(SlotRules {
            periods: scenario.tasks.count() as usize,
            clients: scenario.federation.clients,
            classes: slot_classes as usize,
            overlap: overlap as usize,
            moving,
            share: match scenario.partition.kind {
                KindKey::Slices { share } => share,
                // Refused when the scenario is read.
                _ => 1.0,
            },
            seed: scenario.seed.class_order,
        })
    }
}

impl Partitioner {
    /// The rule of `[partition]` among `clients` that hold data; `seed` is `seed.partition`.
    ///
    /// # Errors
    /// A rule that has no meaning for a whole task.
    pub fn from_scenario(
        section: &PartitionSection,
        clients: u32,
        seed: u64,
    ) -> Result<Partitioner, DataError> {
        let kind = match section.kind {
            KindKey::Iid => PartitionKind::Iid,
            KindKey::Dirichlet { beta } => PartitionKind::Dirichlet { beta },
            KindKey::Capped { beta } => PartitionKind::Capped { beta },
            KindKey::Lda { alpha } => PartitionKind::Lda { alpha },
            KindKey::Quantity { classes_per_client } => {
                PartitionKind::Quantity { classes: classes_per_client as usize }
            }
            KindKey::Extended { beta, picks, picks_beta } => {
                PartitionKind::Extended { beta, reserve_beta: picks_beta, picks }
            }
            KindKey::Slices { .. } => {
                return Err(DataError::unfit(
                    "slices are of tasks of a client's own",
                    "set tasks.arrival = \"powder\", or choose another partition",
                ));
            }
            // To plan with while the data are not there, see `NaturalClients::from_scenario`.
            KindKey::Natural { .. } => PartitionKind::Iid,
            KindKey::Ratios { .. } => {
                return Err(DataError::unfit(
                    "these shards are drawn client by client, for clients that do not come back",
                    "set participation.population = \"fresh\"",
                ));
            }
        };
        let (min_samples, attempts) = (section.min_samples, section.attempts);
        Ok(Partitioner { kind, clients, min_samples, attempts, seed })
    }
}

impl NaturalClients {
    /// The clients that `[partition]` finds in the data; `None` where it divides them instead.
    ///
    /// # Errors
    /// See [`NaturalClients::new`].
    pub fn from_scenario(
        section: &PartitionSection,
        clients: u32,
        split: &Split,
    ) -> Result<Option<NaturalClients>, DataError> {
        let KindKey::Natural { rest } = section.kind else { return Ok(None) };
        let rest = match rest {
            Rest::Drop => Leftover::Drop,
            Rest::Merge => Leftover::Merge,
        };
        NaturalClients::new(split, clients, section.min_samples, rest).map(Some)
    }
}

/// A fresh client's labels are this even where `[partition]` has no concentration (`iid`).
const EVEN: f64 = 1e9;

impl FreshClients {
    /// The stateless population of `[partition]`: its ratios, or its concentration and
    /// `samples_per_client`.
    ///
    /// # Errors
    /// A rule that has no meaning for single clients, or no size.
    pub fn from_scenario(section: &PartitionSection, seed: u64) -> Result<FreshClients, DataError> {
        let beta = match section.kind {
            KindKey::Dirichlet { beta } => beta,
            KindKey::Iid => EVEN,
            KindKey::Ratios { split, category, imbalance, counts_only } => {
                let law = FreshLaw::Ratios { split, category, imbalance, counts_only };
                return Ok(FreshClients { law, seed });
            }
            KindKey::Slices { .. }
            | KindKey::Capped { .. }
            | KindKey::Lda { .. }
            | KindKey::Natural { .. }
            | KindKey::Quantity { .. }
            | KindKey::Extended { .. } => {
                return Err(DataError::unfit(
                    "fresh clients are drawn one by one, this partition divides a task among all",
                    "use partition.kind = \"dirichlet\", \"iid\" or \"ratios\" with a fresh population",
                ));
            }
        };
        let samples = section.samples_per_client.ok_or_else(|| {
            DataError::unfit("fresh clients need a size", "give partition.samples_per_client")
        })?;
        Ok(FreshClients { law: FreshLaw::Dirichlet { beta, samples }, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::NominalSizes;

    fn plain() -> TransformSection {
        TransformSection {
            resize: Some(256),
            crop: Crop::Centre,
            size: Some(224),
            padding: 0,
            scale: [0.08, 1.0],
            ratio: [0.75, 4.0 / 3.0],
            flip: 0.0,
            interpolation: Interpolation::Bicubic,
            normalise: Normalise::Half,
        }
    }

    fn digits_section() -> DataSection {
        DataSection {
            source: DataSource::Digits,
            path: None,
            subset: None,
            store: 224,
            nominal: None,
            train: TransformSection { crop: Crop::RandomResized, flip: 0.5, ..plain() },
            test: plain(),
            statistics: StatisticsTransform::Raw,
            text: None,
        }
    }

    #[test]
    fn nominal_sizes_are_those_of_the_data() {
        let mut section = digits_section();
        let data = Dataset::open(&section, &Tokeniser::Characters).unwrap();
        assert_eq!(nominal_class_sizes(&section), Some(data.class_sizes()));
        let told = section.sizes().unwrap();
        assert_eq!(told.train as usize, data.train.len());
        assert_eq!(told.test as usize, data.test.len());
        section.subset = Some(20);
        let data = Dataset::open(&section, &Tokeniser::Characters).unwrap();
        assert_eq!(data.class_sizes(), [20; 10]);
        assert_eq!(nominal_class_sizes(&section), Some(data.class_sizes()));
        section.nominal = Some(NominalSizes { classes: 4, train: 42, test: 8 });
        section.subset = None;
        assert_eq!(nominal_class_sizes(&section), Some(vec![11, 11, 10, 10]));
    }

    #[test]
    fn a_subset_keeps_the_first_samples_of_every_class() {
        let all = Dataset::open(&digits_section(), &Tokeniser::Characters).unwrap();
        let few = Dataset::open(
            &DataSection { subset: Some(3), ..digits_section() },
            &Tokeniser::Characters,
        )
        .unwrap();
        for class in 0..10 {
            for (a, b) in all.train.by_class()[class].iter().zip(&few.train.by_class()[class]) {
                let (a, b) = (all.train.image(*a as usize), few.train.image(*b as usize));
                assert_eq!(a.unwrap().pixels, b.unwrap().pixels);
            }
        }
        assert_eq!(few.test.len(), all.test.len());
    }

    #[test]
    fn sections_become_the_steps_they_name() {
        let made = Transforms::from_scenario(&digits_section(), Some(3));
        let kernel = Kernel::Pillow;
        let resize = |side| Step::Resize { side, kernel };
        assert_eq!(made.test.steps, [resize(256), Step::CentreCrop { side: 224 }]);
        assert_eq!(made.train.steps[1..].len(), 2);
        assert!(!made.train.is_deterministic());
        assert_eq!(made.statistics.steps, [resize(224), Step::CentreCrop { side: 224 }]);
        assert_eq!(made.statistics.normalise, Normalisation::None);
        assert_eq!(made.test.output_shape([1, 8, 8]), [3, 224, 224]);
    }

    #[test]
    fn a_data_set_without_a_path_says_so() {
        let section = DataSection { source: DataSource::Cifar100, ..digits_section() };
        let message = Dataset::open(&section, &Tokeniser::Characters).unwrap_err().to_string();
        assert!(message.contains("give data.path"), "{message}");
    }
}
