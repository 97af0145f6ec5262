//! Layouts that participants of a round have in common, made once, with what their messages weigh.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::event::FrameBytes;
use crate::policy::{ExchangeFacts, MessageKind, MessageSpec, Method, Role, UploadSize};
use crate::quantity::TaskId;
use crate::wire::{BodyShape, CodecPlan, FrameSize};

/// Layout of a message, and what follows from it on demand.
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

    /// Returns the message's size under a run's codecs, without assets; at most, if it depends on values.
    pub fn bytes(&self, plan: &CodecPlan) -> &Arc<FrameBytes> {
        let size = || FrameSize::of_sketch(self.body(), plan);
        self.bytes.get_or_init(|| Arc::new(FrameBytes::from(&size())))
    }
}

/// Part of a run in which participants have layouts in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecKey {
    /// The task that began last.
    pub stage: TaskId,
    /// Index of its phase.
    pub phase: usize,
    /// Number of the round within it.
    pub round_in_phase: u32,
}

/// Task, or a client's own task: its first and last row; and the role of its participant.
type View = (TaskId, usize, usize, Role);

/// Layouts of a view: the download, and the upload if it is equal for all clients.
type Known = (Arc<CompiledSpec>, Option<Arc<CompiledSpec>>);

/// Layouts of the last requested round.
#[derive(Debug, Default)]
pub struct SpecCache(Mutex<(Option<SpecKey>, BTreeMap<View, Known>)>);

impl SpecCache {
    /// Returns the layouts of a participant's download and upload.
    pub fn of(
        &self,
        method: &dyn Method,
        facts: &ExchangeFacts<'_>,
    ) -> (Arc<CompiledSpec>, Arc<CompiledSpec>) {
        let ExchangeFacts { stage, phase, round_in_phase, .. } = *facts;
        let place = SpecKey { stage, phase, round_in_phase };
        let rows = &facts.view.rows;
        let view = (facts.view.task, rows.start, rows.end, facts.role);
        let known = self.at(place).1.get(&view).cloned();
        if let Some((download, Some(upload))) = known {
            return (download, upload);
        }
        // Made without the lock: where they follow from samples, every participant makes its own.
        let upload = CompiledSpec::of(method.message_spec(MessageKind::Upload, facts));
        let shared = (upload.layout.size == UploadSize::Static).then(|| Arc::clone(&upload));
        let download = match known {
            Some((download, _)) if shared.is_none() => return (download, upload),
            Some((download, _)) => download,
            None => CompiledSpec::of(method.message_spec(MessageKind::Download, facts)),
        };
        self.at(place).1.insert(view, (Arc::clone(&download), shared));
        (download, upload)
    }

    /// Returns the layouts known of a round and forgets those of another round.
    fn at(&self, place: SpecKey) -> MutexGuard<'_, (Option<SpecKey>, BTreeMap<View, Known>)> {
        let mut cache = self.0.lock();
        if cache.0 != Some(place) {
            *cache = (Some(place), BTreeMap::new());
        }
        cache
    }
}
