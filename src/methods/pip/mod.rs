//! **PIP** (Ma'sum et al., "PIP: Prototypes-Injected Prompt for Federated Class Incremental Learning", CIKM 2024) on
//! DualPrompt, as in the benchmark of HGP: prototypes of all classes of the task, also of those that a client lacks,
//! are among the features that its head learns from.
//!
//! ```text
//! client   DualPrompt's; from a task's second round on one mean CE over images and injected prototypes (injection)
//!          sends what DualPrompt sends, and mean and variance of the features of every class with at least two samples
//! server   DualPrompt's; merges the Gaussians of the round by class                                (prototypes)
//! ```
//! Prototypes last for a task and protect no old class; a class that no client reports in a round keeps its own, and
//! one that no client has reported yet does not travel. With `copies = 0` nothing travels and nothing is injected: that
//! is DualPrompt, to the bit.
//!
//! The paper could not be read, and both public codes have slips, which the keys follow or mend: HGP's benchmark
//! squares the variances of clients and forgets to subtract the squared mean when a class is first reported
//! (`merge = "benchmark"`); the release means `inject = "spread"`, takes the fourth power of what should be a root and
//! loses its second moment. The release also leaves the head on clients and averages it in a task's last round only,
//! weighs parameters by visits, and forgets the prototype of a class that no client reports in a round; of these only
//! `proto_weights = "visits"` is here.
//!
//! Features for prototypes come from the answering model, with the expert whose key is nearest
//! (`features = "matched"`), or with the task's own expert (`"trained"`), which is all that a client knows under
//! `wire.form = "lean"`.

mod injection;
mod prototypes;
mod server;
mod upload;

use clap::ValueEnum;

pub use self::injection::Injection;
use self::injection::{InjectionSource, PipObjective};
use self::prototypes::received_prototypes;
pub use self::prototypes::{Gaussian, Merge, PipPrototypes, Weighing};
use super::averaging::{CrossEntropy, Objective, PackClient, Requirement};
use super::dualprompt::DualPrompt;
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, ClientContext, Demands, LocalUpdate, Parts, Workload};
use super::prompted;
use crate::learning::Classifier;
use crate::policy::PolicyError;
use crate::scenario::reader::{Choice, Keys};
use crate::scenario::{RequirementError, Scenario, WireForm};
use crate::wire::WireError;

/// Expert that computes features for prototypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Features {
    /// Expert with the nearest key, as at inference (code of HGP's benchmark).
    Matched,
    /// Expert of the task, as in training (the release).
    Trained,
}

/// Keys of the `[method]` table of PIP.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Pip {
    /// Prompts of DualPrompt.
    #[key(flatten)]
    pub base: DualPrompt,
    /// Copies of a prototype (`J`) in every batch with `inject = "variance"`; 0 is DualPrompt.
    #[key(default = 5, source = BENCHMARK, at_most = 1_000.0)]
    pub copies: u32,
    /// Features that are injected for a prototype.
    #[key(default = Injection::Variance, source = BENCHMARK)]
    pub inject: Injection,
    /// Rule that combines the Gaussians of clients.
    #[key(default = Merge::Moments, source = "what both codes mean")]
    pub merge: Merge,
    /// Weight of a client in the Gaussian of a class.
    #[key(default = Weighing::Samples, source = BENCHMARK)]
    pub proto_weights: Weighing,
    /// Expert that computes features for prototypes.
    #[key(default = Features::Matched, source = BENCHMARK)]
    pub features: Features,
}

/// Source of most defaults.
const BENCHMARK: &str = "the code of HGP's benchmark";

impl Pip {
    /// Returns true if prototypes are sent and injected.
    fn injects(&self) -> bool {
        self.copies > 0
    }
}

impl AveragingMethod for Pip {
    type State = ();
    type Memory = PipPrototypes;

    /// Returns DualPrompt's parts with prototypes or, if none are injected, as they are.
    fn parts(&self) -> Parts<'_, (), PipPrototypes> {
        let dualprompt = Parts { server: self, ..self.base.base() };
        match self.injects() {
            true => Parts {
                local: self,
                upload: self,
                class_means: Some(self),
                download: self,
                ..dualprompt
            },
            false => dualprompt,
        }
    }
}

impl LocalUpdate<()> for Pip {
    /// Returns the cross-entropy over images and injected prototypes, if a member received any.
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let source = |member: &PackClient<'_, ()>| {
            let prototypes = received_prototypes(member.download, &member.participant.view)?;
            let steps = member.shard.len().div_ceil(context.ctx.training.batch.max(1));
            Ok(InjectionSource::new(prototypes, member.key, steps))
        };
        let sources = pack.iter().map(source).collect::<Result<Vec<_>, WireError>>()?;
        if sources.iter().all(|source| source.prototypes.is_empty()) {
            return Ok(Box::new(CrossEntropy));
        }
        let (injection, copies) = (self.inject, self.copies as usize);
        Ok(Box::new(PipObjective { injection, copies, sources }))
    }

    fn work(&self, load: &Workload<'_>) -> f64 {
        prompted::work(load, 0.0)
    }

    fn demands(&self) -> Demands {
        let whole = || {
            Requirement::new(require_whole_messages)
                .summarized("whole messages: wire.form = \"full\"")
        };
        Demands::requiring((self.features == Features::Matched).then(whole))
    }
}

/// Returns an error if downloads carry only the trained expert.
fn require_whole_messages(scenario: &Scenario) -> Option<RequirementError> {
    (scenario.wire.form == WireForm::Lean).then(|| {
        let message = "a client that gets one expert cannot select the nearest";
        let help = "set `wire.form = \"full\"`, or `method.features = \"trained\"`";
        RequirementError::new("wire.form", message, "sends only the trained expert", help)
    })
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "DualPrompt whose head also learns from prototypes of all classes of the task, which \
               the server aggregates from those of the clients.",
        source: "Ma'sum et al.: PIP: Prototypes-Injected Prompt for Federated Class Incremental \
                 Learning, CIKM 2024, arXiv 2407.20705; as in the benchmark of HGP",
        state: "server: all prompts and the head, a Gaussian per class of the task; client: nothing",
        ..MethodEntry::averaging("pip", Pip::read)
    }
}
