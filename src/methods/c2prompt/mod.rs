//! **C2Prompt** ("C2Prompt: Class-aware Client Knowledge Interaction for Federated Continual Learning", NeurIPS 2025,
//! arXiv 2509.19674), after a review of the paper: its code is not public.
//!
//! [Powder](super::powder)'s learner, and class-aware interaction of clients on top of it:
//!
//! * **LCDC** (local class distribution compensation). In a round 0 of every task clients report moments of the frozen
//!   network's features by class; the server returns the Gaussian of all clients' samples, and each client trains
//!   three tokens per class that move its features there. In training a step has them with probability 0.5: the
//!   slot learns from what the class is like everywhere.
//! * **CPA** (class-aware prompt aggregation). While a slot is trained its client notes how well every component
//!   matches every class; the server mixes the components of a round's slots by the similarity of these rows.
//!
//! ```text
//! round 0  client  mu_ki, var_ki, n_ki of class i                               up
//!          server  mu_i = sum p mu_k,  var_i = sum p (mu_k^2 + var_k) - mu_i^2  down
//!          client  minimise 1/2 (f - mu_i)^T diag(1 / var_i) (f - mu_i) over the tokens of class i, which it keeps
//! rounds   client  Powder's round, tokens of the true class behind the patches in half of the steps; H = mean scores
//!          server  slot <- upload;  W = softmax(H H^T / tau);  (K, A, P) <- W (K, A, P)
//! ```
//! Without compensation prompts (`lcdc = false`, or `probability = 0`) and mixing (`cpa = false`) it is Powder, bit for
//! bit. Nothing of it is there at inference.
//!
//! # Choices where the review is silent
//! * Components go where Powder's do; heads stay with their slots.
//! * `H` is a mean over the samples of a class and over blocks, 0 where negative; its rows get unit length.
//! * The triple of key, attention and tokens is mixed with one `W`, over the slots of all clients of a round; columns
//!   are the classes that any of them has.
//! * Steps with compensation prompts are the same for all clients of a round; the teacher sees the same input.
//! * A client that goes on with a slot keeps its compensation prompts.

mod affinity;
mod client;
mod compensation;
mod config;
mod messages;
mod moments;
mod server;
mod state;

use std::sync::Arc;

pub use affinity::{Histogram, affinity};
pub use client::C2PromptClient;
pub use compensation::Compensated;
pub use config::C2PromptConfig;
pub use messages::{Down, Up};
pub use moments::{Gaussians, SlotMoments, pooled};
pub use server::C2PromptServer;
pub use state::{Compensation, Prompts};

use super::powder::{self, Powder, PowderPart, PowderServer, SlotKey};
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    CohortRule, ExchangeSketch, Field, Folding, Keep, Lab, Method, ModelFacts, Part, Period, Phase,
    PolicyError, Rounds, SketchFacts, UpMeta, UpSize,
};
use crate::scenario::{Complaint, Population, Scenario};

/// The method: its settings, and the learner below it.
#[derive(Clone, Debug)]
pub struct C2Prompt {
    /// The settings.
    pub config: C2PromptConfig,
    /// What is learnt and how.
    pub powder: Powder,
    dim: usize,
}

/// Round 0, between the phases of Powder: the first leg, and the second.
const STATISTICS: usize = 1;
const COMPENSATE: usize = 2;

impl C2Prompt {
    /// The method for a model of these dimensions.
    pub fn new(config: C2PromptConfig, facts: &ModelFacts) -> C2Prompt {
        let powder = Powder::new(config.powder.clone(), facts);
        C2Prompt { config, powder, dim: facts.backbone.dim() }
    }

    /// The phase of Powder that a phase is, if it is one.
    fn inner(phase: usize) -> Option<usize> {
        match phase {
            0 => Some(0),
            STATISTICS | COMPENSATE => None,
            later => Some(later - 2),
        }
    }

    /// Whether moments are asked for in a phase.
    fn asks(phase: usize) -> bool {
        phase == STATISTICS
    }

    /// Whether slots are trained in a phase.
    fn trains(phase: usize) -> bool {
        C2Prompt::inner(phase).is_some_and(Powder::trains)
    }
}

impl Method for C2Prompt {
    type Down = Down;
    type Up = Up;
    type Part = C2Part;
    type State = Compensation;
    type Server = C2PromptServer;
    type Client = C2PromptClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<C2PromptServer, PolicyError> {
        lab.backbone.config().blocks_for("a prompt")?;
        let powder = PowderServer::new(Arc::new(self.powder.clone()), init);
        let (method, reports) = (Arc::new(self.clone()), Vec::new());
        Ok(C2PromptServer { method, powder, reports, figures: Vec::new() })
    }

    fn client(&self) -> C2PromptClient {
        C2PromptClient { method: Arc::new(self.clone()) }
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        let mut phases = self.powder.phases(period, rounds);
        let rounds = Rounds::Fixed(u32::from(self.config.compensates()));
        let phase = |name, cohort| Phase { name, rounds, cohort };
        phases.insert(STATISTICS, phase("statistics", CohortRule::Sampled));
        phases.insert(COMPENSATE, phase("compensate", CohortRule::Participants));
        phases
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let classes = facts.view.rows.len();
        let (down, up) = match C2Prompt::inner(facts.phase) {
            Some(phase) => {
                let inner = self.powder.sketch(&SketchFacts { phase, ..facts.clone() });
                let histogram = self.config.cpa && Powder::trains(phase);
                let shape = [self.powder.shape.components, classes];
                return ExchangeSketch {
                    down: Down::powder_sketch(inner.down),
                    up: Up::powder_sketch(inner.up, histogram.then_some(shape)),
                    up_size: inner.up_size,
                };
            }
            None if C2Prompt::asks(facts.phase) => {
                (Down::ask_sketch(), Up::moments_sketch(classes, self.dim))
            }
            None => (Down::gaussians_sketch(classes, self.dim), Up::done_sketch()),
        };
        ExchangeSketch { down, up, up_size: UpSize::Static }
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "slot", folding: Folding::Keep },
            Field { name: "attention", folding: Folding::Keep },
            Field { name: "histogram", folding: Folding::Keep },
            Field { name: "moments", folding: Folding::Keep },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<C2Part, PolicyError> {
        let (seat, key) = (meta.seat.id, SlotKey::of(&meta.seat));
        let (view, classes) = (Arc::clone(&meta.seat.view), meta.seat.view.rows.len());
        let mut part = C2Part::default();
        match (down, up) {
            (Down::Powder(down), Up::Powder(up, histogram)) => {
                part.powder = self.powder.lift(down, up, meta)?;
                if let Some(scores) = histogram {
                    if scores.len() != self.powder.shape.components * classes {
                        return Err(PolicyError::Unsupported(format!(
                            "{} scores of {} components for {classes} classes",
                            scores.len(),
                            self.powder.shape.components
                        )));
                    }
                    part.histograms.0.push((seat, (key, view, scores)));
                }
            }
            (Down::Ask, Up::Moments(moments)) if moments.counts.len() == classes => {
                part.moments.0.push((seat, (key, view, moments)));
            }
            (Down::Gaussians(_), Up::Done) => {}
            _ => {
                let what = "an upload does not answer what was asked of its client";
                return Err(PolicyError::Unsupported(what.to_owned()));
            }
        }
        Ok(part)
    }

    /// As Powder's.
    fn mixed(&self) -> Result<(), &'static str> {
        self.powder.mixed()
    }

    fn late(&self) -> Result<(), &'static str> {
        self.powder.late()
    }

    /// Powder's, a pass for moments, and the training of compensation prompts.
    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        match C2Prompt::inner(phase) {
            Some(phase) => self.powder.work(phase, samples, plan),
            None if C2Prompt::asks(phase) => samples as f64 / 3.0,
            None => samples as f64 * f64::from(self.config.compensation_epochs),
        }
    }
}

/// Something of a slot, with what is known of its classes.
type OfSlot<T> = (SlotKey, Arc<TaskView>, T);

/// Uploads as they came.
#[derive(Clone, Debug)]
pub struct C2Part {
    /// Powder's.
    pub powder: PowderPart,
    /// Scores of components for classes.
    pub histograms: Keep<OfSlot<Vec<f32>>>,
    /// Moments of classes.
    pub moments: Keep<OfSlot<SlotMoments>>,
}

impl Default for C2Part {
    fn default() -> Self {
        let powder = PowderPart::default();
        C2Part { powder, histograms: Keep(Vec::new()), moments: Keep(Vec::new()) }
    }
}

impl Part for C2Part {
    fn merge(self, later: Self) -> Self {
        C2Part {
            powder: self.powder.merge(later.powder),
            histograms: self.histograms.merge(later.histograms),
            moments: self.moments.merge(later.moments),
        }
    }
}

/// Tokens need blocks to live in; clients that keep compensation prompts must come back.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let fresh = scenario.participation.population == Population::Fresh;
    let fresh = fresh.then(|| Complaint {
        key: "participation.population",
        message: "clients keep compensation prompts, and fresh ones have none".to_owned(),
        label: "nobody comes back".to_owned(),
        help: "set `participation.population = \"fixed\"`".to_owned(),
    });
    powder::check(scenario).into_iter().chain(fresh).collect()
}
