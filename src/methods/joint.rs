//! **Joint**: one site that has all data and all classes at once, the usual upper bound.
//!
//! It is FedAvg with one client and one task, whose client keeps its optimizer from round to
//! round, so that `rounds x epochs` is one training. Nothing crosses a network, so no bytes are
//! charged. The papers state no recipe; `[client]` says how it trains, and 25 epochs (five
//! rounds of five) see each sample as often as the incremental runs of the HGP benchmark do.

use super::averaging::{
    LocalTrainingResult, PackClient, PackResult, Requirement, train_sequentially,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{AveragingMethod, ClientContext, Demands, LocalTraining, LocalUpdate, Parts};
use super::trainable::TrainableKeys;
use crate::learning::{Classifier, Moments, OptimizerState, train_with};
use crate::policy::{Capability, ClientState, PolicyError, Restriction};
use crate::scenario::reader::Keys;
use crate::scenario::{RequirementError, Scenario};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError};

/// Keys of the `[method]` table of Joint.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Joint {
    /// Trained parameters.
    #[key(read = FedAvg::read_keys(table, TrainableKeys::ALONE))]
    pub fedavg: FedAvg,
    /// One optimizer state for the whole run.
    #[key(default = true)]
    pub keep_optimizer: bool,
}

/// Optimizer state between rounds; `None` before the first.
#[derive(Clone, Debug, Default)]
pub struct JointState(Option<OptimizerState>);

impl ClientState for JointState {}

impl Saved for JointState {
    fn save(&self) -> Body {
        let Some(state) = &self.0 else { return Body::default() };
        let mut meta = MetaWriter::new();
        meta.u64(state.steps).u64(state.moments.len() as u64);
        let moments = state.moments.iter().enumerate().flat_map(|(at, moments)| {
            [("first", &moments.first), ("second", &moments.second)].map(|(which, values)| {
                NamedTensor::f32(format!("{at}.{which}"), [values.len()], values.clone())
                    .expect("a list fills its length")
            })
        });
        let section = Section::new(Kind::Weights, moments.collect());
        Body::new(meta.finish(), vec![section])
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        if saved.meta.is_empty() {
            return Ok(JointState(None));
        }
        let mut meta = MetaReader::new(&saved.meta);
        let (steps, variables) = (meta.u64()?, meta.u64()?);
        meta.finish()?;
        let values = |name: String| -> Result<Vec<f32>, WireError> {
            Ok(saved.tensor(Kind::Weights, &name)?.as_f32()?.to_vec())
        };
        let moments = (0..variables)
            .map(|at| {
                let first = values(format!("{at}.first"))?;
                Ok(Moments { first, second: values(format!("{at}.second"))? })
            })
            .collect::<Result<_, WireError>>()?;
        Ok(JointState(Some(OptimizerState { steps, moments })))
    }
}

impl AveragingMethod for Joint {
    type State = JointState;
    type Memory = ();

    fn parts(&self) -> Parts<'_, JointState, ()> {
        Parts { local: self, uses_network: false, ..self.fedavg.base() }
    }
}

impl LocalUpdate<JointState> for Joint {
    fn client_update(
        &self,
        training: &LocalTraining<'_, JointState>,
        pack: &mut [PackClient<'_, JointState>],
    ) -> Result<PackResult, PolicyError> {
        let ClientContext { model: facts, shared, ctx } = training.context;
        Ok(train_sequentially(pack, |member| {
            let rows = shared.trained_rows(facts, &member.participant.view);
            let model = Classifier::trainable(&ctx.backbone, &member.received, rows)?;
            let rule = ctx.training.optimizer.clone();
            let mut optimizer = rule.over_pack(model.vars(), model.members());
            let factors =
                model.variables().iter().map(|(name, _)| shared.adaptation.rate_factor(name));
            optimizer.set_rate_factors(factors.collect());
            if let Some(state) = member.state.0.take() {
                optimizer.resume(state)?;
            }
            let loader =
                ctx.with_frozen_features(ctx.train_loader(member.shard), model.frozen_part())?;
            let (plan, key, variables) = (&ctx.training, member.key, model.variables());
            let report = train_with(plan, &mut optimizer, &loader, variables, key, |batch| {
                model.batch_loss(batch, &ctx.device)
            })?;
            if self.keep_optimizer {
                member.state.0 = Some(optimizer.into_state()?);
            }
            let (parameters, samples) = (model.parameters()?, member.shard.len());
            let metrics = report.metrics();
            Ok(LocalTrainingResult {
                parameters,
                samples,
                metrics,
                ..LocalTrainingResult::default()
            })
        }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Requires one client, one task, and a client that returns in every round.
    fn demands(&self) -> Demands {
        let (what, instead) = ("joint training", "use \"fedavg\" for several sites and one task");
        Demands {
            requirements: vec![
                Requirement::one_site(what, instead),
                Requirement::new(require_one_task).summarized("one task: tasks.count = 1"),
                Requirement::returning_clients("joint training has one site that stays", None),
            ],
            restrictions: Restriction::against(
                &Capability::ALL,
                "joint training has one site, and no server aggregates its uploads",
            ),
        }
    }
}

/// Returns an error if the scenario has several tasks.
fn require_one_task(scenario: &Scenario) -> Option<RequirementError> {
    let count = scenario.tasks.count();
    (count != 1).then(|| {
        let message = format!("joint training sees all classes at once, not in {count} tasks");
        let help =
            "set `tasks.count = 1`, or use \"fedavg\" with one client for one site and many tasks";
        RequirementError::new("tasks.count", message, "must be 1", help)
    })
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "One site with all data and all classes at once, and one optimizer for the whole run: the upper bound.",
        source: "the usual reference; no paper of the benchmark states its recipe",
        state: "client: its optimizer between rounds; server: the parameters",
        ..MethodEntry::averaging("joint", Joint::read)
    }
}
