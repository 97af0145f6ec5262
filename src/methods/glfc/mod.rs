//! **GLFC** (Dong et al., "Federated Class-Incremental Learning", CVPR 2022) over FedAvg: clients keep exemplars, weigh
//! samples so that old classes are not drowned, and hold the answers of an old model.
//!
//! ```text
//! client   on a signal: the classes of the task before are learned, floor(budget / learned classes) exemplars of each
//!          learns from the task's samples and all exemplars of learned classes, over all outputs seen
//!            1/2 mean w BCE(z, y) + 1/2 mean BCE(z, tau)         (objective, compensation)
//! server   the plain mean
//! ```
//! A signal is a task that the client had not met (`signal = "task"`), or a jump of the mean entropy of the received model's
//! answers on its data (`"entropy"`, in nats: with ten outputs there are at most 2.3, with a hundred 4.6). In the release
//! every registered client gets the model in every round, asks itself for a signal and chooses exemplars; here that is for
//! the clients that are drawn, and a client that was not drawn in a task chooses from it when it is next asked, with the
//! model that it then receives. Samples of tasks without a signal wait.
//!
//! Paper and release differ, and there is a key for each: the release may choose an exemplar again (`repeats`), and begins
//! every round at the whole rate (`lr_schedule`). It also gives clients all images of six of ten classes each, so that
//! shards overlap, and adds clients with every task: that is for the partition to say.
//!
//! **LGA** (Dong et al., "No One Left Behind: Real-World Federated Class-Incremental Learning", TPAMI 2023) balances every
//! earlier task by itself, with an exponent that grows with the tasks, and weighs both terms:
//!
//! ```text
//!            lambda mean w BCE(z, y) + lambda mean w BCE(z, tau)
//! ```
//! Its release adds a sample of an early task once for every later one (`groups = "cumulative"`).

mod compensation;
mod objective;
mod schedule;
mod state;

use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

pub use self::compensation::{Balance, Groups};
use self::objective::Compensated;
pub use self::objective::Terms;
pub use self::schedule::RateSchedule;
use self::state::Choosing;
pub use self::state::Learned;
use super::averaged::{
    Averaged, Client, Learnt, Needs, OldLogits, Trained, Weights, one_by_one, previous, train_by,
};
use super::fedavg::FedAvg;
use super::head_form::HeadForm;
use super::registry::MethodEntry;
use crate::data::{Shard, TaskView};
use crate::learning::{Classifier, Teacher, TrainingPlan};
use crate::policy::{Lab, ModelFacts, PolicyError, Service, Veto};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What tells a client that a new task has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Signal {
    /// The task itself.
    Task,
    /// A jump of the mean entropy of the received model's answers on the client's data.
    ///
    /// Of the clients that are drawn; the release asks all.
    Entropy,
}

impl Choice for Signal {}

/// The `[method]` table of GLFC, or of LGA.
#[derive(Clone, Debug, PartialEq)]
pub struct Glfc {
    /// What trains and how; all classes seen train.
    pub fedavg: FedAvg,
    /// Exemplars of a client, of all learned classes together.
    pub budget: u32,
    /// Whether a sample may be an exemplar several times.
    pub repeats: bool,
    /// What begins a task for a client.
    pub signal: Signal,
    /// How far the entropy jumps at a new task, in nats.
    pub threshold: f64,
    /// When the learning rate falls.
    pub lr_schedule: RateSchedule,
    /// The loss.
    pub terms: Terms,
}

impl Default for Glfc {
    fn default() -> Self {
        defaults(Glfc::read)
    }
}

impl Glfc {
    /// The defaults of LGA.
    pub fn default_lga() -> Glfc {
        defaults(Glfc::read_lga)
    }

    /// Reads the keys of a `[method]` table of GLFC.
    pub fn read(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of GLFC");
        let compensate = Param::new("compensate", true, "weigh old and new samples");
        let share = |name, doc| Param::new(name, 0.5, doc).source("GLFC").at_least(0.0);
        let labels = share("label_weight", "weight of the labels where there is an old model");
        let relation = share("relation_weight", "weight of the old model's answers");
        let compensate = compensate.source("GLFC; Powder's port does not");
        let balance = if table.get(&compensate) { Balance::Learned } else { Balance::None };
        let terms = Terms {
            balance,
            labels: table.get(&labels),
            relation: table.get(&relation),
            weighs_relation: false,
        };
        Glfc { terms, ..glfc }
    }

    /// Reads the keys of a `[method]` table of LGA.
    pub fn read_lga(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of LGA");
        let groups = Param::new("groups", Groups::Cumulative, "which learned classes are a group");
        let groups = groups.source("the release; the paper means task");
        let lambda = Param::new("lambda", 1.0, "weight of either term where there is an old model");
        let balance = Balance::Tasks(table.get(&groups));
        let lambda = table.get(&lambda.source("the release of LGA").at_least(0.0));
        let terms = Terms { balance, labels: lambda, relation: lambda, weighs_relation: true };
        Glfc { terms, ..glfc }
    }

    /// The keys of both; terms are still to be read.
    fn learning(table: &mut TableReader<'_>, release: &'static str) -> Glfc {
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Growing, "head rows in messages");
        let weights = table.get(&weights.source(release));
        let fedavg = FedAvg { weights, old_logits: OldLogits::Keep, ..FedAvg::learning(table) };
        let head = table.get(&head.source(release));
        let fedavg = FedAvg { head, ..fedavg }.upon_module(table);
        let budget = Param::new("budget", 2_000, "exemplars of a client, of all classes together");
        let repeats = Param::new("repeats", true, "a sample may be an exemplar several times");
        let signal = Param::new("signal", Signal::Task, "what begins a task for a client");
        let threshold = "how far the entropy jumps at a new task, in nats";
        let threshold = Param::new("threshold", 1.2, threshold).source(release).at_least(0.0);
        let rates = Param::new("lr_schedule", RateSchedule::Code, "when the learning rate falls");
        Glfc {
            fedavg,
            budget: table.get(&budget.source(release).at_most(1e7)),
            repeats: table.get(&repeats.source(release)),
            signal: table.get(&signal.source("Powder's port; the release has entropy")),
            threshold: table.get(&threshold),
            lr_schedule: table.get(&rates.source(release)),
            terms: Terms {
                balance: Balance::None,
                labels: 0.0,
                relation: 0.0,
                weighs_relation: false,
            },
        }
    }

    /// Whether the received model, or the task, says that a new one has begun.
    fn is_signalled(
        &self,
        state: &mut Learned,
        member: &Client<'_, Learned>,
        received: &Classifier,
        lab: &Lab,
    ) -> Result<bool, PolicyError> {
        let view = &member.seat.view;
        match self.signal {
            Signal::Task => Ok(state.task != Some(view.task)),
            Signal::Entropy => {
                let before = state.entropy;
                state.entropy = entropy(member.shard, received, view.seen(), lab)?;
                Ok(state.entropy - before > self.threshold)
            }
        }
    }

    fn train(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Learned>,
        lab: &Lab,
    ) -> Result<Trained, PolicyError> {
        let view = Arc::clone(&member.seat.view);
        let mut state = std::mem::take(&mut member.state);
        for missed in member.missed {
            state.meet(missed.task, &missed.shard);
        }
        state.meet(view.task, member.shard);
        let received = Classifier::frozen(&lab.backbone, &member.received)?;
        let signalled = self.is_signalled(&mut state, member, &received, lab)?;
        if signalled {
            let choosing = Choosing { budget: self.budget as usize, repeats: self.repeats };
            state.learn(view.task, &received, choosing, lab)?;
        }
        let old = state.by_class.below(view.rows.start as u32);
        let mut all = [member.shard, old.as_slice()].concat();
        all.sort_unstable();
        let (all, learned): (Shard, _) = (all.into(), state.of_tasks(&lab.curriculum));
        let teacher = previous::of(member.down)?
            .map(|previous| Teacher::new(&lab.backbone, &previous, 0..view.rows.start, None));
        let (terms, task, teacher) = (self.terms, view.task.index(), teacher.transpose()?);
        let lab = Lab { training: self.lr_schedule.plan(&lab.training), ..lab.clone() };
        let trained = train_by(self, model, &[member.upon(&all)], &lab, |_| {
            Ok(Box::new(Compensated { terms, learned, task, old: teacher }))
        })?;
        let none = || PolicyError::Unsupported("nobody was trained".to_owned());
        let mut trained = trained.into_iter().next().ok_or_else(none)??;
        trained.samples = member.shard.len();
        trained.metrics.push(("signal", f64::from(u8::from(signalled))));
        if self.signal == Signal::Entropy {
            trained.metrics.push(("entropy", state.entropy));
        }
        trained.metrics.push(("learned_classes", state.rows.len() as f64));
        trained.metrics.push(("exemplars", old.len() as f64));
        member.state = state;
        Ok(trained)
    }
}

/// The mean entropy of a model's answers on a shard, over the softmax of the outputs seen, in nats.
fn entropy(shard: &Shard, model: &Classifier, seen: usize, lab: &Lab) -> Result<f64, PolicyError> {
    let loader = lab.frozen(lab.statistics_loader(shard), model.frozen_part())?;
    let mut total = 0.0;
    for batch in loader.in_order(lab.evaluation_batch) {
        let logits = model.logits(&model.batch_features(&batch?, &lab.device)?)?;
        let logits = logits.narrow(1, 0, seen)?.contiguous()?.to_vec2::<f32>()?;
        total += logits.iter().map(|row| entropy_of(row)).sum::<f64>();
    }
    Ok(total / shard.len().max(1) as f64)
}

fn entropy_of(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|z| f64::from(*z) - f64::from(top));
    let sum: f64 = shifted().map(libm::exp).sum();
    libm::log(sum) - shifted().map(|z| libm::exp(z) * z).sum::<f64>() / sum
}

impl Averaged for Glfc {
    type State = Learned;
    type Memory = ();

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(&self.fedavg)
    }

    fn needs(&self) -> Vec<Needs> {
        let mut needs = self.fedavg.needs();
        needs.push(Needs::ReturningClients {
            why: "clients keep exemplars and what they have learned, and fresh clients never come \
                  back",
            otherwise: None,
        });
        if self.lr_schedule != RateSchedule::Client {
            needs.push(Needs::ConstantRate { key: "method.lr_schedule", otherwise: "\"client\"" });
        }
        needs
    }

    fn vetoes(&self) -> Vec<Veto> {
        Veto::against(&[Service::Mixed], "the old model that teaches is of one task")
    }

    fn teaches(&self) -> bool {
        true
    }

    fn trained_rows(&self, _model: &ModelFacts, view: &TaskView) -> Range<usize> {
        0..view.seen()
    }

    fn largest_pack(&self) -> usize {
        1
    }

    fn learn(
        &self,
        model: &ModelFacts,
        pack: &mut [Client<'_, Learned>],
        lab: &Lab,
    ) -> Result<Learnt, PolicyError> {
        Ok(one_by_one(pack, |member| self.train(model, member, lab)))
    }

    /// Training, and the old model's answers.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        (1.0 + 1.0 / 3.0) * self.fedavg.work(samples, plan)
    }
}

const STATE: &str = "client: exemplars, what it has learned and its last entropy; server: the \
                     parameters and those of the task before";

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients keep exemplars, weigh old and new samples so that neither drowns \
               the other, and hold the old model's answers.",
        source: "Dong et al., Federated Class-Incremental Learning, CVPR 2022, arXiv 2203.11473",
        state: STATE,
        ..MethodEntry::averaging("glfc", Glfc::read)
    }
}

/// LGA's.
pub(super) fn lga_entry() -> MethodEntry {
    MethodEntry {
        idea: "GLFC that balances every earlier task by itself, more gently as tasks go by, and weighs \
               the old model's answers, too.",
        source: "Dong et al., No One Left Behind: Real-World Federated Class-Incremental Learning, \
                 TPAMI 2023, arXiv 2302.00903",
        state: STATE,
        ..MethodEntry::averaging("lga", Glfc::read_lga)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLFC card, invariant 6 of the signal: uniform answers have `ln K`, certain ones nothing.
    #[test]
    fn uniform_answers_have_the_entropy_of_their_number() {
        assert!((entropy_of(&[0.7; 10]) - libm::log(10.0)).abs() < 1e-12);
        assert!(entropy_of(&[900.0, 0.0, -5.0]).abs() < 1e-12);
        // p = (3/4, 1/4)
        let wanted = 0.75 * libm::log(4.0 / 3.0) + 0.25 * libm::log(4.0);
        assert!((entropy_of(&[libm::logf(3.0), 0.0]) - wanted).abs() < 1e-7);
    }
}
