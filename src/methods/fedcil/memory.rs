//! State of FedCIL's server: generators of earlier tasks, and moments of its optimizers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::moments::NetworkMoments;
use crate::methods::averaging::{ServerState, TRAINING};
use crate::model::{AcGanConfig, Parameter, ParameterSet};
use crate::policy::{Asset, AssetSpec, Message};
use crate::quantity::TaskId;
use crate::wire::{
    Body, BodyShape, Dtype, Kind, NamedTensor, Saved, Section, SectionShape, TensorShape, WireError,
};

/// Name of the asset, and of the set from which it is made.
const LAST: &str = "last_generator";
/// Name prefix of a participant's generator of its latest task; the next is that of the task before.
const OWN: &str = "own";
const BEFORE: &str = "before";

/// State of FedCIL's server besides the networks.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct FedCilMemory {
    /// Task after which the server's generator was stored.
    kept: Option<TaskId>,
    /// Head rows of all classes that clients have named.
    pub(super) known: BTreeSet<u32>,
    steps: u64,
    sets: BTreeMap<String, ParameterSet>,
}

impl ServerState for FedCilMemory {}

impl FedCilMemory {
    /// Stores a participant's generator of a task.
    ///
    /// The generator of its previous task replays from now on. A generator of an earlier task than the stored one is
    /// ignored.
    pub(super) fn take(&mut self, participant: u64, task: TaskId, generator: ParameterSet) {
        let own = format!("{OWN}.{participant}.");
        let known = self.sets.range(own.clone()..).next().map(|(name, _)| name.clone());
        if let Some(name) = known.filter(|name| name.starts_with(&own)) {
            let of: u16 = name[own.len()..].parse().unwrap_or(task.0);
            if of > task.0 {
                return;
            }
            let earlier = self.sets.remove(&name).filter(|_| of < task.0);
            if let Some(earlier) = earlier {
                self.sets.insert(format!("{BEFORE}.{participant}"), earlier);
            }
        }
        self.sets.insert(format!("{own}{}", task.0), generator);
    }

    /// Returns the generator of the task before a participant's latest one.
    pub(super) fn before(&self, participant: u64) -> Option<&ParameterSet> {
        self.sets.get(&format!("{BEFORE}.{participant}"))
    }

    /// Stores the server's generator at the end of a task.
    pub(super) fn keep(&mut self, task: TaskId, generator: ParameterSet) {
        self.kept = Some(task);
        self.sets.insert(LAST.to_owned(), generator);
    }

    /// Returns the server's generator of the end of the previous task.
    pub(super) fn last(&self) -> Option<&ParameterSet> {
        self.sets.get(LAST)
    }

    /// Returns that generator as the asset that clients are sent.
    ///
    /// # Errors
    /// Returns an error only if values do not fill a tensor, which cannot happen here.
    pub(super) fn asset(&self) -> Result<Option<Arc<Asset>>, WireError> {
        let (Some(task), Some(set)) = (self.kept, self.last()) else { return Ok(None) };
        let tensor = |(name, parameter): (&Arc<str>, &Parameter)| {
            let Parameter { shape, values } = parameter.clone();
            NamedTensor::f32(Arc::clone(name), shape, values)
        };
        let tensors = set.iter().map(tensor).collect::<Result<_, _>>()?;
        let body = Body::new(Vec::new(), vec![Section::new(Kind::Generator, tensors)]);
        Ok(Some(Arc::new(Asset::new(LAST, u32::from(task.0), Kind::Generator, body))))
    }

    /// Returns the moments of the server's optimizers; empty before their first step.
    pub(super) fn moments(&self) -> NetworkMoments {
        NetworkMoments::from_sets(self.steps, &self.sets)
    }

    /// Stores the moments of the server's optimizers.
    pub(super) fn keep_moments(&mut self, moments: NetworkMoments) {
        self.steps = moments.steps();
        moments.into_sets(&mut self.sets);
    }
}

/// Returns the specification of the asset with the server's generator after `task`.
pub(super) fn asset_spec(task: u16, config: &AcGanConfig) -> AssetSpec {
    let shapes = config.generator_shapes().into_iter();
    let tensors = shapes.map(|(name, shape)| TensorShape::new(name, shape, Dtype::F32));
    let section = SectionShape::new(Kind::Generator, tensors.collect());
    let (version, body) = (u32::from(task), BodyShape::new(0, vec![section]));
    AssetSpec { name: LAST, version, body, renewed_in: Some(TRAINING) }
}

/// Returns the server's generator that a download names, or `None` if it names none.
///
/// # Errors
/// When the values are not f32.
pub(super) fn last_generator_of(download: &Message) -> Result<Option<ParameterSet>, WireError> {
    let parameter = |tensor: &NamedTensor| {
        let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
        Ok((Arc::clone(tensor.name()), Parameter { shape, values }))
    };
    let read = |asset: &Arc<Asset>| asset.body.of_kind(Kind::Generator).map(parameter).collect();
    download.asset(LAST).map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::{Domain, StreamKey};
    use crate::policy::{parameter_sections, parameters_of};

    fn set(value: f32) -> ParameterSet {
        let one = Parameter { shape: vec![2], values: [value, 1.0].into() };
        [("generator.fc.bias", one)].into_iter().collect()
    }

    /// Participants 1 and 12 have separate generators, and an upload of an earlier task changes nothing.
    #[test]
    fn generators_of_an_earlier_task_replay() {
        let mut memory = FedCilMemory::default();
        memory.take(1, TaskId(0), set(1.0));
        memory.take(12, TaskId(0), set(2.0));
        memory.take(1, TaskId(0), set(3.0));
        assert_eq!((memory.before(1), memory.before(12)), (None, None));
        memory.take(1, TaskId(1), set(4.0));
        memory.take(1, TaskId(1), set(5.0));
        assert_eq!((memory.before(1), memory.before(12)), (Some(&set(3.0)), None));
        memory.take(1, TaskId(0), set(6.0));
        memory.take(1, TaskId(11), set(7.0));
        assert_eq!(memory.before(1), Some(&set(5.0)));
        memory.take(12, TaskId(2), set(8.0));
        assert_eq!(memory.before(12), Some(&set(2.0)));
        assert_eq!(memory.sets.len(), 4);
    }

    /// The state is saved bit for bit, apart from the server's parameters, and its asset is as specified.
    #[test]
    fn a_memory_is_saved_and_its_generator_sent_whole() {
        let config = AcGanConfig { image: 8, divisor: 16, ..AcGanConfig::default() };
        let all = config.initial_parameters(StreamKey::new(1, Domain::Init));
        let mut memory = FedCilMemory::default();
        assert!(memory.asset().unwrap().is_none());
        memory.take(3, TaskId(0), set(1.0));
        memory.known = [2, 5].into();
        memory.keep(TaskId(4), all.filter(crate::model::of_generator));
        let mut moments = memory.moments();
        moments.advance_for_tests(7, &set(0.25));
        memory.keep_moments(moments);
        let sent = memory.asset().unwrap().unwrap();
        let spec = asset_spec(4, &config);
        assert!(sent.body.fills(&spec.body));
        assert_eq!((&*sent.name, sent.version, sent.kind), (spec.name, 4, Kind::Generator));
        let mut saved = Body::new(Vec::new(), parameter_sections(&all));
        let own = memory.save();
        saved.meta.extend(own.meta);
        saved.sections.extend(own.sections);
        let loaded = FedCilMemory::load(&saved).unwrap();
        assert_eq!((&loaded, parameters_of(&saved).unwrap()), (&memory, all));
        assert_eq!((loaded.moments().steps(), loaded.known.len()), (7, 2));
        let download = Message { assets: vec![sent], ..Message::default() };
        assert_eq!(last_generator_of(&download).unwrap().as_ref(), memory.last());
        assert_eq!(last_generator_of(&Message::default()).unwrap(), None);
    }
}
