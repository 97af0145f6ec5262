//! Layouts that seats of a round have in common, made once, with what their messages weigh.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::event::FrameBytes;
use crate::policy::{Layout, Method, SketchFacts, UpSize};
use crate::quantity::TaskId;
use crate::wire::{BodySketch, CodecPlan, FrameSize};

/// What a message holds, and what follows from it once it is asked for.
#[derive(Debug)]
pub struct Sketch {
    /// What it holds.
    pub layout: Layout,
    body: OnceLock<BodySketch>,
    bytes: OnceLock<Arc<FrameBytes>>,
    folded: OnceLock<Layout>,
}

impl Sketch {
    fn of(layout: Layout) -> Arc<Sketch> {
        let (body, bytes, folded) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Sketch { layout, body, bytes, folded })
    }

    /// Its shape.
    pub fn body(&self) -> &BodySketch {
        self.body.get_or_init(|| self.layout.body())
    }

    /// What an Up of this shape is lifted to.
    pub fn folded(&self, method: &dyn Method, facts: &SketchFacts<'_>) -> &Layout {
        self.folded.get_or_init(|| method.folded(facts))
    }

    /// What it weighs under a run's codecs, without assets; at most, where that depends on values.
    pub fn bytes(&self, plan: &CodecPlan) -> &Arc<FrameBytes> {
        let size = || FrameSize::of_sketch(self.body(), plan);
        self.bytes.get_or_init(|| Arc::new(FrameBytes::from(&size())))
    }
}

/// Where in a task seats have layouts in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    phase: usize,
    round_in_phase: u32,
}

/// A task, or the slot of a client: its first and last row.
type View = (TaskId, usize, usize);

/// Of a view, the Down, and the Up where that is the same whatever a client holds.
type Known = (Arc<Sketch>, Option<Arc<Sketch>>);

/// The layouts of the round that was asked for last.
#[derive(Debug, Default)]
pub struct LayoutCache(Mutex<(Option<Place>, BTreeMap<View, Known>)>);

impl LayoutCache {
    /// What a seat is sent, and what it is to send.
    pub fn of(&self, method: &dyn Method, facts: &SketchFacts<'_>) -> (Arc<Sketch>, Arc<Sketch>) {
        let place = Place { phase: facts.phase, round_in_phase: facts.round_in_phase };
        let view = (facts.view.task, facts.view.rows.start, facts.view.rows.end);
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.0 != Some(place) {
            *cache = (Some(place), BTreeMap::new());
        }
        let (down, up) =
            cache.1.entry(view).or_insert_with(|| (Sketch::of(method.down(facts)), None));
        let down = Arc::clone(down);
        if let Some(up) = up {
            return (down, Arc::clone(up));
        }
        let made = Sketch::of(method.up(facts));
        if made.layout.size == UpSize::Static {
            *up = Some(Arc::clone(&made));
        }
        (down, made)
    }
}
