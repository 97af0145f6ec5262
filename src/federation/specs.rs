//! Layouts that participants of a round share, made once, with the sizes of their messages.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::event::FrameBytes;
use crate::policy::{
    ClassCounts, ExchangeFacts, MessageKind, MessageSpec, Method, Role, UploadSize,
};
use crate::quantity::TaskId;
use crate::wire::{BodyShape, CodecPlan, FrameSize};

/// Layout of a message; its shape, size and contribution are derived on demand.
#[derive(Debug)]
pub struct CompiledSpec {
    /// Layout of the message.
    pub layout: MessageSpec,
    body: OnceLock<BodyShape>,
    bytes: OnceLock<Arc<FrameBytes>>,
    aggregate: OnceLock<MessageSpec>,
}

impl CompiledSpec {
    pub(super) fn of(layout: MessageSpec) -> Arc<CompiledSpec> {
        let (body, bytes, aggregate) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(CompiledSpec { layout, body, bytes, aggregate })
    }

    /// Returns the shape of the message.
    pub fn body(&self) -> &BodyShape {
        self.body.get_or_init(|| self.layout.body())
    }

    /// Returns the layout of the contribution of an upload of this shape.
    pub fn contribution(&self, method: &dyn Method, facts: &ExchangeFacts<'_>) -> &MessageSpec {
        self.aggregate.get_or_init(|| method.message_spec(MessageKind::Contribution, facts))
    }

    /// Returns the frame size under a run's codecs, without assets; an upper bound if it depends on values.
    pub fn bytes(&self, plan: &CodecPlan) -> &Arc<FrameBytes> {
        let size = || FrameSize::of_shape(self.body(), plan);
        self.bytes.get_or_init(|| Arc::new(FrameBytes::from(&size())))
    }
}

/// Part of a run in which participants share layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecKey {
    /// The task that began last.
    pub stage: TaskId,
    /// Index of the phase within the stage.
    pub phase: usize,
    /// Number of the round within the phase, from 0.
    pub round_in_phase: u32,
}

/// Task of a view, its first head row, the row after its last, and the role of the participant.
type View = (TaskId, usize, usize, Role);

/// Maximum number of upload layouts kept per view, if layouts depend on label counts.
///
/// Most of many clients have few samples or none, and thus few different layouts.
const MAX_KEPT: usize = 256;

/// Layouts of a view.
#[derive(Debug)]
struct ViewSpecs {
    download: Arc<CompiledSpec>,
    uploads: UploadSpecs,
}

/// Layouts of the uploads of a view.
#[derive(Debug)]
enum UploadSpecs {
    /// Equal for all clients.
    Shared(Arc<CompiledSpec>),
    /// By the label counts that they follow from, for the first [`MAX_KEPT`] different counts.
    ByCounts(BTreeMap<ClassCounts, Arc<CompiledSpec>>),
}

impl UploadSpecs {
    fn get(&self, counts: &ClassCounts) -> Option<Arc<CompiledSpec>> {
        match self {
            UploadSpecs::Shared(upload) => Some(Arc::clone(upload)),
            UploadSpecs::ByCounts(uploads) => uploads.get(counts).cloned(),
        }
    }

    fn add(&mut self, counts: &ClassCounts, upload: &Arc<CompiledSpec>) {
        match self {
            _ if upload.layout.size == UploadSize::Static => {
                *self = UploadSpecs::Shared(Arc::clone(upload));
            }
            UploadSpecs::ByCounts(uploads) if uploads.len() < MAX_KEPT => {
                uploads.insert(counts.clone(), Arc::clone(upload));
            }
            _ => {}
        }
    }
}

/// Layouts of a round, by view.
type RoundSpecs = BTreeMap<View, ViewSpecs>;

/// Layouts of the last requested round.
#[derive(Debug, Default)]
pub struct SpecCache(Mutex<(Option<SpecKey>, RoundSpecs)>);

impl SpecCache {
    /// Returns the layouts of a participant's download and upload.
    pub fn of(
        &self,
        method: &dyn Method,
        facts: &ExchangeFacts<'_>,
    ) -> (Arc<CompiledSpec>, Arc<CompiledSpec>) {
        let ExchangeFacts { stage, phase, round_in_phase, counts, .. } = *facts;
        let place = SpecKey { stage, phase, round_in_phase };
        let rows = &facts.view.rows;
        let view = (facts.view.task, rows.start, rows.end, facts.role);
        let known = |specs: &ViewSpecs| (Arc::clone(&specs.download), specs.uploads.get(counts));
        let known = self.at(place).1.get(&view).map(known);
        if let Some((download, Some(upload))) = known {
            return (download, upload);
        }
        // Made outside the lock, so that other threads can make theirs at the same time.
        let upload = CompiledSpec::of(method.message_spec(MessageKind::Upload, facts));
        let download = match known {
            Some((download, _)) => download,
            None => CompiledSpec::of(method.message_spec(MessageKind::Download, facts)),
        };
        let mut cache = self.at(place);
        let specs = cache.1.entry(view).or_insert_with(|| ViewSpecs {
            download: Arc::clone(&download),
            uploads: UploadSpecs::ByCounts(BTreeMap::new()),
        });
        specs.uploads.add(counts, &upload);
        (download, upload)
    }

    /// Returns the cached layouts of a round, and drops those of any other round.
    fn at(&self, place: SpecKey) -> MutexGuard<'_, (Option<SpecKey>, RoundSpecs)> {
        let mut cache = self.0.lock();
        if cache.0 != Some(place) {
            *cache = (Some(place), BTreeMap::new());
        }
        cache
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::data::TaskView;
    use crate::federation::rules::Rules;
    use crate::federation::simulation_context::SimulationContext;
    use crate::federation::testing::{Echo, setup};
    use crate::numerics::streams::StreamKey;
    use crate::policy::{
        ClientResult, Failure, Member, MethodProfile, ModelFacts, PolicyError, RunContext, Server,
        TensorSpec,
    };
    use crate::wire::{Dtype, Kind};

    /// Uploads with a number for every sample of a class, counted when they are laid out.
    #[derive(Default)]
    struct ByCounts(AtomicUsize);

    impl Method for ByCounts {
        fn server(
            &self,
            ctx: &RunContext,
            init: StreamKey,
        ) -> Result<Box<dyn Server>, PolicyError> {
            Echo.server(ctx, init)
        }
        fn profile(&self) -> MethodProfile {
            MethodProfile::default()
        }
        fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
            if message != MessageKind::Upload {
                return MessageSpec::default();
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            let place = |(row, count): (&u32, &u32)| {
                TensorSpec::new(Kind::Statistics, format!("{row}"), &[*count as usize], Dtype::F32)
            };
            let extra = facts.counts.iter().map(place).collect();
            MessageSpec { extra, size: UploadSize::FromShard, ..MessageSpec::default() }
        }
        fn train(
            &self,
            members: &mut [Member],
            ctx: &RunContext,
        ) -> Vec<Result<ClientResult, Failure>> {
            Echo.train(members, ctx)
        }
    }

    struct Asking {
        model: Arc<ModelFacts>,
        view: Arc<TaskView>,
        method: ByCounts,
        cache: SpecCache,
    }

    impl Asking {
        fn new() -> Asking {
            let simulation = SimulationContext::new(&setup(Rules::default())).expect("possible");
            let (model, view) = (simulation.facts, Arc::clone(&simulation.task_sequence.tasks[0]));
            Asking { model, view, method: ByCounts::default(), cache: SpecCache::default() }
        }

        /// Returns the layouts of a client with these counts in a round.
        fn of(&self, round_in_phase: u32, counts: &[(u32, u32)]) -> [Arc<CompiledSpec>; 2] {
            let counts: ClassCounts = counts.iter().copied().collect();
            let facts = ExchangeFacts {
                model: &self.model,
                view: &self.view,
                stage: self.view.task,
                phase: 0,
                round_in_phase,
                role: Role::default(),
                counts: &counts,
            };
            let (download, upload) = self.cache.of(&self.method, &facts);
            let expected = self.method.message_spec(MessageKind::Upload, &facts);
            self.method.0.fetch_sub(1, Ordering::Relaxed);
            assert_eq!(upload.layout.extra, expected.extra, "{counts:?}");
            [download, upload]
        }

        fn made(&self) -> usize {
            self.method.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn clients_with_equal_counts_share_a_layout() {
        let asking = Asking::new();
        let [first, one] = asking.of(0, &[(0, 3)]);
        let [second, other] = asking.of(0, &[(0, 3), (1, 2)]);
        let [third, again] = asking.of(0, &[(0, 3)]);
        assert!(Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first, &third));
        assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &other));
        assert_eq!(asking.made(), 2);
        let [next, _] = asking.of(1, &[(0, 3)]);
        assert!(!Arc::ptr_eq(&first, &next), "another round");
        assert_eq!(asking.made(), 3);
    }

    #[test]
    fn layouts_beyond_those_kept_are_made_again() {
        let asking = Asking::new();
        let most = MAX_KEPT as u32;
        for samples in 0..most + 1 {
            asking.of(0, &[(0, samples)]);
        }
        assert_eq!(asking.made(), MAX_KEPT + 1);
        asking.of(0, &[(0, 0)]);
        asking.of(0, &[(0, most - 1)]);
        assert_eq!(asking.made(), MAX_KEPT + 1);
        asking.of(0, &[(0, most)]);
        assert_eq!(asking.made(), MAX_KEPT + 2);
    }
}
