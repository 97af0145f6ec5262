//! **HePCo**, heterogeneous prompt consolidation ("Continual Adaptation of Vision Transformers for Federated
//! Learning", TMLR 2024).
//!
//! Clients train a pool of prompts and a head on a frozen transformer. The server averages both, then repairs the
//! average without data in the space of the *query*, the feature of the unprompted transformer: small
//! generators make pseudo-queries for the task's classes and for earlier ones, and prompts and head are
//! distilled on them.
//!
//! ```text
//! client   as FedAvg-Prompt; n_i(y), its samples of every class of the task           (fedavg_prompt)
//! server   P, k, W, b  <- uniform mean
//!          G, G_old    <- min CE of the teachers - l1 KL(Q_i || Q) - l2 sum_j |rho - rho_i|^2
//!          P, k        <- min sum_i omega_i(y) sum_j |rho - rho_i|^2 on G(y, eps), and towards the
//!                         server at the end of the last task on G_old                 (consolidation)
//!          W, b        <- min CE on both, all classes seen competing
//! ```
//! Clients keep nothing between rounds. Where paper and release differ there is a key of
//! [`HepcoConfig`]; its ablations are zeros: `lambda_kl`, `lambda_mse`, `replay_ratio` (no previous server),
//! `prompt_steps`, `head_steps`. With both distillations at zero it is [FedAvg-Prompt](super::fedavg_prompt),
//! bit for bit.

mod client;
mod config;
pub mod consolidation;
mod messages;
mod server;

use std::sync::Arc;

pub use client::HepcoClient;
pub use config::{HepcoConfig, KlForm, Weighting};
pub use messages::{Down, Up};
pub use server::HepcoServer;

use self::consolidation::Local;
use super::fedavg_prompt::FedAvgPrompt;
use super::transformer::needs_blocks;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ExchangeSketch, Field, Folding, Keep, Lab, Method, ModelFacts, ParameterAverage, Part,
    PolicyError, SketchFacts, UpMeta, UpSize,
};
use crate::scenario::{Complaint, Scenario};
use crate::wire::{BodySketch, Kind};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct Hepco {
    /// The settings.
    pub config: HepcoConfig,
    /// What it shares with FedAvg-Prompt.
    pub base: FedAvgPrompt,
}

impl Hepco {
    /// The method for a model of these dimensions.
    pub fn new(config: HepcoConfig, facts: &ModelFacts) -> Hepco {
        let base = FedAvgPrompt::new(config.client, facts);
        Hepco { config, base }
    }
}

/// What is left of an upload: the mean streams, clients are kept as teachers.
#[derive(Clone, Debug)]
pub struct HepcoPart {
    average: ParameterAverage,
    clients: Keep<Local>,
}

impl Part for HepcoPart {
    fn merge(self, later: Self) -> Self {
        HepcoPart {
            average: self.average.merge(later.average),
            clients: self.clients.merge(later.clients),
        }
    }
}

impl Method for Hepco {
    type Down = Down;
    type Up = Up;
    type Part = HepcoPart;
    type State = ();
    type Server = HepcoServer;
    type Client = HepcoClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<HepcoServer, PolicyError> {
        lab.backbone.config().blocks_for("a pool of prompts")?;
        Ok(HepcoServer {
            parameters: self.base.initial_parameters(init),
            counts: vec![0; self.base.classes()],
            previous: None,
            figures: Vec::new(),
            method: Arc::new(self.clone()),
        })
    }

    fn client(&self) -> HepcoClient {
        HepcoClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let ExchangeSketch { down, up, .. } = self.base.exchange(facts);
        let learnt = up.sections.into_iter().filter(|section| section.kind != Kind::Statistics);
        let up = Up::sketch(learnt.collect(), facts.view.rows.len());
        ExchangeSketch { down, up, up_size: UpSize::Static }
    }

    fn feature_sketch(&self) -> BodySketch {
        self.base.features()
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "prompts", folding: Folding::Keep },
            Field { name: "head", folding: Folding::Keep },
            Field { name: "label_counts", folding: Folding::Keep },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<HepcoPart, PolicyError> {
        let whole = up.whole(down)?;
        let weight = self.config.client.weights.of(up.samples());
        let average = ParameterAverage::one(weight, &down.parameters, &whole)?;
        let counts = up.counts_by_row(self.base.classes());
        let local = Local { parameters: Arc::new(whole), counts };
        Ok(HepcoPart { average, clients: Keep::one(meta.seat.id, local) })
    }

    fn additive(&self) -> Result<&dyn crate::policy::Additive<Hepco>, &'static str> {
        Err("every client teaches its server")
    }

    fn late(&self) -> Result<(), &'static str> {
        Err("its server compares the clients of one round")
    }
}

/// Pools need blocks to live in.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let instead = "use `method.name = \"fedavg\"`";
    needs_blocks(scenario, "a pool of prompts", instead).into_iter().collect()
}
