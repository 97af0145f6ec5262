//! Opens data and weights and puts a run together.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use candle_core::Device;

use super::blueprint::{check_requirements, divide, task_sequence_of};
use super::division::shards;
use super::error::AssembleError;
use super::workforce::{ClientSize, pack, received_values, workforce};
use super::{terms, weight_sets};
use crate::data::{
    Auxiliary, AuxiliaryFacts, DataError, Dataset, Split, Tokenizer, Transform, Transforms,
    auxiliary_shards,
};
use crate::experiment::ClassNames;
use crate::experiment::machine::ARITHMETIC;
use crate::experiment::manifest::Source;
use crate::experiment::ranks::{ComputeResources, RankRoster};
use crate::federation::{Rules, RunSpec, Setup, ShardSource};
use crate::fetch::{FetchError, Settings};
use crate::learning::{FeatureCache, Storage};
use crate::methods::Registry;
use crate::model::vit::Checkpoint;
use crate::model::{
    Backbone, BackboneConfig, Bert, DeepResNet, DeviceSpec, ParameterSet, ResNet, Vit,
    WeightsSource, backbone_config, embedded_vit,
};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::RunContext;
use crate::scenario::{
    BackboneSection, CachePlace, CacheSection, DeviceName, Scenario, StartWeights, Weights,
};
use crate::weights::Sets;

/// A run that is ready to begin, and what it was made from.
pub struct Assembly {
    /// Setup for [`simulate`](crate::federation::simulate).
    pub setup: Setup,
    /// The data set.
    pub data: Source,
    /// The names of its classes, in its own numbers.
    pub class_names: ClassNames,
    /// Name of the backbone's weights, with their digest.
    pub backbone: Source,
    /// Ranks that compute the run, if it is not this process alone.
    pub roster: Option<RankRoster>,
}

/// Assembles a run as [`assemble`] does, together with other ranks.
///
/// They assemble the same run meanwhile, and have agreed with this process when this returns.
///
/// # Errors
/// Returns the errors of [`assemble`], and an error if ranks differ, cannot take part, or are lost.
pub fn assemble_by(
    scenario: &Scenario,
    methods: &Registry,
    resources: &ComputeResources,
) -> Result<Assembly, AssembleError> {
    let ComputeResources { workers, ranks } = resources;
    let Some(ranks) = ranks else { return assemble(scenario, methods, *workers) };
    ranks.handshake(scenario);
    let mut assembly = assemble(scenario, methods, *workers)?;
    assembly.roster = Some(ranks.join(scenario, &mut assembly)?);
    Ok(assembly)
}

/// Opens what the scenario names and puts the run together. `asked` is a number of workers
/// from the command line.
pub fn assemble(
    scenario: &Scenario,
    methods: &Registry,
    asked: Option<u32>,
) -> Result<Assembly, AssembleError> {
    let workers = workforce(&scenario.devices, asked)?;
    // A partition that cannot be drawn is the first error to report: no weights would help.
    let mut backbone = match open_backbone(scenario) {
        Ok(backbone) => backbone,
        Err(error) => return Err(divide(scenario).err().map_or(error, AssembleError::from)),
    };
    if scenario.devices.names.contains(&DeviceName::Cpu) {
        let place = DeviceSpec::open(DeviceName::Cpu, scenario.devices.compute)?;
        if !backbone.place().same(&place) {
            backbone = backbone.to_device(&place)?;
        }
    }
    let tokenizer = Tokenizer::from_scenario(&scenario.backbone)?;
    let (mut dataset, auxiliary_samples) = Dataset::with_auxiliary(scenario, &tokenizer)?;
    let sets = weight_sets::of(&scenario.backbone);
    dataset.notes.extend(weight_sets::note(&scenario.backbone, &sets));
    let digest = data_digest(&dataset, auxiliary_samples.as_deref())?;
    let data = Source { name: dataset.name.clone(), digest };
    let class_names = ClassNames::of_dataset(&dataset);
    let config = backbone.config();
    let task_sequence = Arc::new(task_sequence_of(scenario, dataset.classes())?);
    check_requirements(scenario, dataset.classes())?;
    let dataset = Arc::new(task_sequence.dataset(dataset)?);
    let auxiliary = auxiliary(scenario, auxiliary_samples.as_ref(), task_sequence.classes())?;
    let transforms = Transforms::from_scenario(&scenario.data, Some(config.input()[0]));
    let train = if scenario.client.augment { &transforms.train } else { &transforms.test };
    for (key, transform) in [
        ("data.train", train),
        ("data.test", &transforms.test),
        ("data.statistics", &transforms.statistics),
    ] {
        check_image_size(key, transform, &dataset.train, &config)?;
        if let Some((_, samples)) = &auxiliary {
            check_image_size(key, transform, samples.split(), &config)?;
        }
    }
    let known = auxiliary.as_ref().map(|(facts, _)| *facts);
    let terms = terms(scenario, (config, known), Arc::clone(&task_sequence), methods)?;
    let RunSpec { rules, name, method, training, facts, coding, charged, .. } = terms;
    let shards = shards(scenario, &dataset, &task_sequence)?;
    let reported = match &shards {
        ShardSource::Fresh(fresh) => Some(*fresh),
        ShardSource::Drawn(_) => None,
    };
    let client = ClientSize {
        backbone: config,
        batch: scenario.client.batch_size as usize,
        values: received_values(&*method, &facts, &task_sequence, rules.rounds),
    };
    let rules = Rules { pack: pack(&scenario.devices, &workers, &client)?, ..rules };
    let weights = Source {
        name: backbone_name(&scenario.backbone, &sets),
        digest: backbone.digest()?.to_hex()[..16].to_string(),
    };
    let ctx = RunContext {
        device: Device::Cpu,
        backbone: Arc::new(backbone),
        dataset,
        task_sequence,
        train_transform: Arc::clone(train),
        statistics_transform: transforms.statistics,
        training,
        evaluation_batch: rules.evaluation_batch,
        cache: Arc::new(feature_cache(&scenario.cache)),
        server_steps: Arc::default(),
        first_method: None,
        auxiliary: auxiliary.map(|(_, samples)| samples),
        reported,
    };
    let setup = Setup {
        rules,
        name,
        charged,
        method,
        ctx,
        test_transform: transforms.test,
        shards,
        facts,
        coding,
        workers,
        fleet: None,
        shaker: None,
        recorded: None,
        before: Vec::new(),
    };
    Ok(Assembly { setup, data, class_names, backbone: weights, roster: None })
}

/// Opens the backbone of a scenario; its shape must be the one the scenario states.
fn open_backbone(scenario: &Scenario) -> Result<Backbone, AssembleError> {
    let stated = backbone_config(scenario);
    let source = |path: &Path| -> Result<WeightsSource, FetchError> {
        let ignore = scenario.backbone.ignored().to_vec();
        let at = Settings::from_env().weights_at(path)?;
        let part = scenario.backbone.part().map(str::to_owned);
        Ok(WeightsSource { path: at, name: path.display().to_string(), ignore, part })
    };
    let backbone = match (&scenario.backbone, &stated) {
        (BackboneSection::Vit(section), BackboneConfig::Vit(config)) => match &section.weights {
            Weights::Embedded => embedded_vit()?.into(),
            Weights::File(path) => {
                let native =
                    section.architecture.map_or(config.image, |it| it.shape().image as usize);
                let read = Checkpoint::stated(&source(path)?, config.at_resolution(native))?;
                Vit::from_checkpoint(read, Some(config.image))?.into()
            }
        },
        (BackboneSection::ResNet18(section), BackboneConfig::ResNet(config)) => {
            match &section.weights {
                StartWeights::Random => {
                    let key = StreamKey::new(scenario.seed.run, Domain::Init);
                    ResNet::from_parameters(*config, &ResNet::initial_parameters(config, key))?
                }
                StartWeights::File(path) => ResNet::load(&source(path)?, *config)?,
            }
            .into()
        }
        (
            BackboneSection::ResNet50(section) | BackboneSection::ResNet152(section),
            BackboneConfig::DeepResNet(config),
        ) => DeepResNet::load(&source(&section.weights)?, *config)?.into(),
        (BackboneSection::Bert(section), BackboneConfig::Bert(config)) => match &section.weights {
            StartWeights::Random => {
                let key = StreamKey::new(scenario.seed.run, Domain::Init);
                Bert::from_parameters(*config, &Bert::initial_parameters(config, key))?
            }
            StartWeights::File(path) => Bert::load(&source(path)?, *config)?,
        }
        .into(),
        _ => Backbone::from_parameters(&stated, &ParameterSet::new())?,
    };
    debug_assert_eq!(stated, backbone.config(), "files are read as stated or refused");
    Ok(backbone)
}

/// Makes the cache of a scenario. Files are for programs of one version and arithmetic, on any machine.
fn feature_cache(section: &CacheSection) -> FeatureCache {
    let place = match (section.features, &section.folder) {
        (CachePlace::Off, _) => Storage::Off,
        (CachePlace::File, Some(folder)) => {
            let program = format!("fedcast {}, {ARITHMETIC}", env!("CARGO_PKG_VERSION"));
            Storage::File { folder: folder.clone(), program }
        }
        (CachePlace::Memory, _) | (CachePlace::File, None) => Storage::Memory,
    };
    FeatureCache::new(place, u64::from(section.limit_mb) * 1_000_000, section.tokens)
}

/// Returns the file, and the set in it if it has several.
fn backbone_name(section: &BackboneSection, sets: &Sets) -> String {
    match (section, section.weights_file()) {
        (_, Some(path)) => match &sets.read {
            Some(part) if section.part().is_some() || !sets.others.is_empty() => {
                format!("{}, `{part}`", path.display())
            }
            _ => path.display().to_string(),
        },
        (BackboneSection::Vit(_), None) => "embedded".to_string(),
        (BackboneSection::ResNet18(_) | BackboneSection::Bert(_), None) => "random".to_string(),
        _ => section.kind().to_string(),
    }
}

/// Returns the auxiliary samples, if the scenario asks for some.
fn auxiliary(
    scenario: &Scenario,
    auxiliary_samples: Option<&Arc<Split>>,
    classes: usize,
) -> Result<Option<(AuxiliaryFacts, Arc<Auxiliary>)>, DataError> {
    let (Some(section), Some(split)) = (&scenario.data.auxiliary, auxiliary_samples) else {
        return Ok(None);
    };
    let shards = auxiliary_shards(scenario, section)?;
    let dealt = Auxiliary::new(split, classes, shards, scenario.seed.partition)?;
    Ok(Some((AuxiliaryFacts::of(scenario, section, split.len())?, Arc::new(dealt))))
}

/// Checks that every pipeline ends with the pixels that the backbone reads.
fn check_image_size(
    key: &str,
    transform: &Transform,
    split: &Split,
    backbone: &BackboneConfig,
) -> Result<(), AssembleError> {
    let Some(shape) = split.image_shape() else { return Ok(()) };
    let ([_, height, width], [_, image, _]) = (transform.output_shape(shape), backbone.input());
    if (height, width) == (image, image) {
        return Ok(());
    }
    let otherwise = match backbone {
        BackboneConfig::Vit(_) => format!(", or backbone.resolution to what [{key}] gives"),
        _ => String::new(),
    };
    Err(AssembleError::unsupported_at(
        key,
        format!("[{key}] gives {height}x{width} pixels, the backbone reads {image}x{image}"),
        format!("set {key}.resize = {image}{otherwise}"),
    ))
}

/// Maximum number of images in the digest of a split that is decoded on demand, spread evenly.
const SAMPLED: usize = 512;

/// Returns the digest of class names, labels and pixels.
///
/// All pixels count if they are in memory, those of a sample of images if each would have to be decoded.
fn data_digest(dataset: &Dataset, auxiliary_samples: Option<&Split>) -> Result<String, DataError> {
    let mut hasher = blake3::Hasher::new();
    for name in &dataset.class_names {
        hasher.update(name.as_bytes()).update(b"\n");
    }
    for split in [&*dataset.train, &dataset.test].into_iter().chain(auxiliary_samples) {
        if !split.has_bytes() {
            hasher.update(split.digest()?.as_bytes());
            continue;
        }
        for label in split.labels() {
            hasher.update(&label.to_le_bytes());
        }
        let in_memory = split.is_empty() || matches!(split.image(0)?.pixels, Cow::Borrowed(_));
        let step = if in_memory { 1 } else { split.len().div_ceil(SAMPLED) };
        for index in (0..split.len()).step_by(step) {
            hasher.update(&split.image(index)?.pixels);
        }
    }
    Ok(hasher.finalize().to_hex()[..16].to_string())
}
