//! **Powder** ("Federated Continual Learning via Prompt-based Dual Knowledge Transfer", ICML 2024), after its
//! released code.
//!
//! A *slot* is what one client learns in one task: components as CODA-Prompt has them, whose weighted sum becomes
//! *tokens* in some blocks, and head rows of its own. The server keeps slots side by side and averages nothing. What
//! clients learn from each other comes from mixing: slots whose samples attend to the same components are similar,
//! and a slot uses, beside its own components, those that its most similar slots would use.
//!
//! ```text
//! server   W = cos^30 of mean scores, rows sum to 1              as a period begins
//! client   K~_i = W_ig K_g + sum_(j != g) W_ij K_j               for the 3 slots i nearest to its slot g; same for A, P
//!          tokens of a block = (1/3) sum_c cos(q A~_c, K~_c) P~_c
//!          E epochs: minimise CE over the classes of the slot + tau^2 sum_b v_b KL(teacher || student, without y_b)
//! server   slot g <- what its owner sends
//! ```
//! Only `K_g`, `A_g`, `P_g` and the head rows of `g` train. The teacher is the slot as it arrived, from the second round
//! of a slot on; `v`, a softmax over the batch, is smaller for classes that have a close relative in another slot.
//!
//! # What it needs beside training
//! Scores of a slot's samples on the components of all trained slots are found by its client, which alone has the
//! samples: in a phase `look` of one round as a period ends, before clients move on, and in one as the next begins, so
//! that a new slot can use old ones from its first round on. Keys and attention of all trained slots travel
//! then. Similarities hold for a period.
//!
//! # Choices where the sources are silent
//! * `downlink = "needed"`: a Down holds the slot and, instead of all others, the three sums over `j != g` above.
//! * A slot that nobody looked at, and all slots in the first period, use their own components alone.
//! * Closeness of a class is its share in its row of the class counterpart of `W`, over itself and all classes of
//!   other slots.
//! * Rows of new components are orthogonal to as many earlier ones as there is room for in their width.
//! * Without a task id every slot answers for its own rows and the largest score wins.

mod client;
mod config;
mod distillation;
mod learner;
mod messages;
mod predictor;
mod prompts;
mod server;
mod shape;
mod similarity;
mod table;

use std::ops::Range;
use std::sync::Arc;

pub use client::PowderClient;
pub use config::{Downlink, PowderConfig};
pub use distillation::{NotTrue, batch_shares};
pub use learner::{Companion, Learnt, Pupil, Step};
pub use messages::{Down, Lesson, Looks, SharedTable, Up};
pub use predictor::{SlotModel, SlotModels};
pub use prompts::{OWN_SHARE, OWN_TOKENS, SlotPrompts, is_own, others_name};
pub use server::PowderServer;
pub use shape::SlotShape;
pub use similarity::{Attention, Likeness, most_similar};
pub use table::{Slot, SlotKey, SlotTable};

use super::prompted::check_blocks;
use crate::learning::TrainingPlan;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    CohortRule, ExchangeSketch, Field, Folding, Keep, Lab, Method, ModelFacts, Part, Period, Phase,
    PolicyError, Rounds, Seat, SketchFacts, UpMeta, UpSize,
};
use crate::scenario::{Complaint, Scenario};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct Powder {
    /// The settings.
    pub config: PowderConfig,
    /// Names and sizes.
    pub shape: SlotShape,
    /// Head rows of all slots together.
    classes: usize,
}

/// The phases of every period; those that it does not need have no rounds.
pub(super) const OPENING: usize = 0;
/// Training without other slots.
const ALONE: usize = 1;
/// Training with other slots.
const MIXED: usize = 2;

impl Powder {
    /// The method for a model of these dimensions.
    pub fn new(config: PowderConfig, facts: &ModelFacts) -> Powder {
        let shape = SlotShape::new(&config, facts);
        Powder { config, shape, classes: facts.classes }
    }

    /// All slots of a run, begun or not, where each has so many head rows of its own.
    fn slots(&self, rows: usize) -> usize {
        self.classes / rows.max(1)
    }

    /// Whether slots are trained in a phase.
    pub fn trains(phase: usize) -> bool {
        phase == ALONE || phase == MIXED
    }

    /// Whether slots arrive in a phase with what others give to them.
    fn mixes(phase: usize) -> bool {
        phase == MIXED
    }

    fn likeness(&self) -> Likeness {
        let SlotShape { blocks, components, .. } = &self.shape;
        let exponent = self.config.exponent;
        Likeness { blocks: blocks.len(), components: *components, exponent }
    }
}

/// How many slots were begun by the end of a task, if everybody took part: a period has slots for as many clients as
/// share its head rows.
fn begun(facts: &SketchFacts<'_>) -> usize {
    let SketchFacts { model, view, .. } = facts;
    let clients = model.classes / (view.rows.len() * model.tasks).max(1);
    clients.max(1) * (view.task.index() + 1)
}

impl Method for Powder {
    type Down = Down;
    type Up = Up;
    type Part = PowderPart;
    type State = ();
    type Server = PowderServer;
    type Client = PowderClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<PowderServer, PolicyError> {
        lab.backbone.config().blocks_for("a prompt")?;
        Ok(PowderServer::new(Arc::new(self.clone()), init))
    }

    fn client(&self) -> PowderClient {
        PowderClient { method: Arc::new(self.clone()) }
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        let (first, last) = (period.task.index() == 0, period.task.index() + 1 == period.tasks);
        let mixes = self.config.transfer && !first;
        let phase = |name, rounds, cohort| Phase { name, rounds: Rounds::Fixed(rounds), cohort };
        let closes = self.config.transfer && !last;
        vec![
            phase("look", u32::from(mixes), CohortRule::Sampled),
            phase("train", if mixes { 0 } else { rounds }, CohortRule::Sampled),
            phase("train", if mixes { rounds } else { 0 }, CohortRule::Sampled),
            phase("look", u32::from(closes), CohortRule::Participants),
        ]
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (shape, classes) = (&self.shape, facts.view.rows.len());
        if Powder::trains(facts.phase) {
            let mixes = Powder::mixes(facts.phase);
            let down = match self.config.downlink {
                Downlink::Needed => Down::lesson_sketch(shape, classes, mixes),
                Downlink::Table => Down::table_sketch(shape, classes, self.slots(classes)),
            };
            return ExchangeSketch {
                down,
                up: Up::learnt_sketch(shape, classes),
                up_size: UpSize::Static,
            };
        }
        ExchangeSketch {
            down: Down::looks_sketch(shape, begun(facts)),
            up: Up::attention_sketch(shape, classes, begun(facts)),
            up_size: UpSize::FromValues,
        }
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "slot", folding: Folding::Keep },
            Field { name: "attention", folding: Folding::Keep },
        ]
    }

    fn lift(&self, _down: &Down, up: Up, meta: &UpMeta) -> Result<PowderPart, PolicyError> {
        let PowderPart { mut learnt, mut attention } = PowderPart::default();
        match up {
            Up::Learnt(parameters) => {
                learnt = Keep::one(meta.seat.id, OfSlot::of(&meta.seat, parameters));
            }
            Up::Attention(found) => {
                let width = self.shape.blocks.len() * found.over.len() * self.shape.components;
                let classes = meta.seat.view.rows.len();
                if found.counts.len() != classes || found.means.len() != classes * width {
                    return Err(PolicyError::Unsupported(format!(
                        "{} mean scores of {} classes, where {classes} classes have {width} each",
                        found.means.len(),
                        found.counts.len()
                    )));
                }
                attention = Keep::one(meta.seat.id, OfSlot::of(&meta.seat, found));
            }
        }
        Ok(PowderPart { learnt, attention })
    }

    /// Every seat has a slot of its own.
    fn mixed(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn late(&self) -> Result<(), &'static str> {
        Err("a slot is what its owner last sent")
    }

    /// Training, a third of it for the pass of the teacher and once for queries; looking needs queries alone.
    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let teacher = if self.config.kd_weight > 0.0 { 1.0 / 3.0 } else { 0.0 };
        let epochs = if Powder::trains(phase) { plan.epochs as f64 * (1.0 + teacher) } else { 0.0 };
        samples as f64 * (epochs + 1.0 / 3.0)
    }
}

/// Something that was sent of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct OfSlot<T> {
    /// Whose it is.
    pub key: SlotKey,
    /// Its head rows.
    pub rows: Range<usize>,
    /// What it is.
    pub sent: T,
}

impl<T> OfSlot<T> {
    /// From a seat.
    pub fn of(seat: &Seat, sent: T) -> OfSlot<T> {
        OfSlot { key: SlotKey::of(seat), rows: seat.view.rows.clone(), sent }
    }
}

/// Uploads as they came.
#[derive(Clone, Debug)]
pub struct PowderPart {
    /// Trained slots.
    pub learnt: Keep<OfSlot<ParameterSet>>,
    /// What samples attend to.
    pub attention: Keep<OfSlot<Attention>>,
}

impl Default for PowderPart {
    fn default() -> Self {
        PowderPart { learnt: Keep(Vec::new()), attention: Keep(Vec::new()) }
    }
}

impl Part for PowderPart {
    fn merge(self, later: Self) -> Self {
        PowderPart {
            learnt: self.learnt.merge(later.learnt),
            attention: self.attention.merge(later.attention),
        }
    }
}

/// Tokens need blocks to live in, and a table of all slots as many head rows as they have.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let downlink = scenario.method.parameters.get("downlink").and_then(toml::Value::as_str);
    let shared = downlink == Some("table") && !scenario.tasks.arrival.has_slots();
    let shared = shared.then(|| Complaint {
        key: "method.downlink",
        message: "a table has a place for every slot, and tasks that all clients share leave it \
                  open how many there will be"
            .to_owned(),
        label: "for `tasks.arrival = \"powder\"`".to_owned(),
        help: "set `downlink = \"needed\"`, or `tasks.arrival = \"powder\"`".to_owned(),
    });
    check_blocks(scenario).into_iter().chain(shared).collect()
}
