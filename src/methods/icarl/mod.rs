//! **iCaRL** (Rebuffi et al., CVPR 2017) over FedAvg: exemplars by herding, distillation of the previous network, and
//! the nearest class mean of exemplars in place of the head.
//!
//! ```text
//! client   a batch of new samples and exemplars, shuffled together:
//!            targets = sigmoid(previous network) on old outputs, one-hot on new ones; minimize BCE(sigmoid z, targets)
//! server   as FedAvg; after the last round of a task every participant gets theta,
//!            herds the task's samples on unit features, floor(budget / classes) of each, cuts older classes to their
//!            first, and returns with sums of unit features of its exemplars (and of their mirror images) and counts,
//!            by class
//!            mu_c = unit(sum of sums / sum of counts)
//! answer   argmax over c of cos(f(x), mu_c)
//! ```
//! A client that missed that exchange, or a task, herds when it next takes part, with the model that it then receives.
//! All means are computed again after each task, since features have moved: a class of which no participant holds an
//! exemplar has none, and the head predicts it (`absent = "head"`) or it is lost. Sums over a few exemplars reveal more
//! about single images than sums over whole classes do.
//!
//! The releases of LANDER, TARGET and STSA give the name iCaRL to another method: `keep = "everything"` draws
//! `memory_size` of all earlier samples in every round, `loss = "softmax"` is the cross-entropy over all classes seen
//! and that of the previous network's answers at temperature 2, and the head predicts (`inference = "head"`).
//!
//! A class's part of the memory is by the classes that a client holds, as in the releases of GLFC and LGA, where the
//! paper has one learner that sees all classes (`quota_of = "seen"`).

mod means;
mod objective;
mod state;

use std::sync::Arc;

use clap::ValueEnum;

pub use self::means::{Absent, Means};
use self::means::{COUNTS, NearestMean, SUMS, sums_of};
use self::objective::IcarlObjective;
pub use self::objective::{IcarlLoss, Reduction};
pub use self::state::ExemplarState;
use super::averaging::{
    ClosedRound, LocalTrainingResult, Objective, PackClient, PackResult, Requirement, first_of,
    previous, train_sequentially,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::herded::{choosing_work, exemplars_after};
use super::parts::{
    Answer, AveragingMethod, ClientContext, Demands, FinalExchange, LocalTraining, LocalUpdate,
    Parts, PreviousModel, TrainedRows, Workload,
};
use super::trainable::TrainableKeys;
use crate::data::{Shard, TaskView};
use crate::learning::Classifier;
use crate::learning::exemplars::Quota;
use crate::model::ParameterSet;
use crate::numerics::distributions::choose;
use crate::numerics::streams::Domain;
use crate::policy::{
    Capability, ExchangeFacts, Metrics, ModelFacts, PolicyError, Predictor, Restriction,
    RunContext, StalenessRule, TensorSpec,
};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Dtype, Kind, NamedTensor, Section};

/// Classifier at inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Answers {
    /// Nearest mean of exemplars.
    NearestMean,
    /// Head.
    Head,
}

/// Samples of earlier tasks that a client keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Keeps {
    /// The first of every class in herding order, within the budget.
    Herding,
    /// All samples, of which a round draws the budget.
    ///
    /// As in the releases of LANDER, TARGET and STSA.
    Everything,
}

/// Classes among which a client's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum QuotaOf {
    /// Classes of which the client holds exemplars.
    Held,
    /// All classes seen by now.
    Seen,
}

const FEDAVG_KEYS: TrainableKeys = TrainableKeys::FEDAVG.over_all_seen();

/// Keys of the `[method]` table of iCaRL.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Icarl {
    /// Trained parameters and their aggregation; all classes seen are trained.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Number of exemplars of a client, of all classes together.
    #[key(default = 2_000, at_most = 1e7, source = "Rebuffi et al.")]
    pub memory_size: u32,
    /// Rounding of a class's part of the memory.
    #[key(default = Quota::Ceil, source = "both releases; floor in the paper")]
    pub quota: Quota,
    /// Classes among which the memory is divided.
    #[key(default = QuotaOf::Held, source = "releases of GLFC and LGA; seen in the paper")]
    pub quota_of: QuotaOf,
    /// Samples of earlier tasks that a client keeps.
    #[key(default = Keeps::Herding)]
    pub keep: Keeps,
    /// Loss of a client.
    #[key(default = IcarlLoss::Sigmoid)]
    pub loss: IcarlLoss,
    /// Reduction of the sigmoid loss over outputs and samples.
    #[key(
        default = Reduction::Sum,
        source = "the paper; the mean over all outputs of the releases needs their rate of 2.0"
    )]
    pub bce: Reduction,
    /// Classifier at inference.
    #[key(name = "inference", default = Answers::NearestMean)]
    pub classifier: Answers,
    /// Mirror images of exemplars in the means of classes.
    #[key(default = true, source = "the releases of iCaRL")]
    pub flips: bool,
    /// Classifier for a class without exemplars.
    #[key(default = Absent::Head, source = "not in the paper")]
    pub absent: Absent,
}

impl Icarl {
    fn has_means(&self) -> bool {
        self.classifier == Answers::NearestMean
    }

    /// Returns the exemplars per class of a client that holds `held` of the `seen` classes.
    fn each(&self, held: usize, seen: usize) -> usize {
        let classes = match self.quota_of {
            QuotaOf::Held => held,
            QuotaOf::Seen => held.max(seen),
        };
        self.quota.of(self.memory_size as usize, classes)
    }

    /// Keeps exemplars of a shard: chosen by herding on this model's features, or all samples.
    fn absorb(
        &self,
        state: &mut ExemplarState,
        (shard, seen): (&Shard, usize),
        parameters: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        if self.memory_size == 0 || shard.is_empty() {
            return Ok(());
        }
        state.sample_bytes = ctx.dataset.train.sample_bytes()?;
        match self.keep {
            Keeps::Herding => {
                let model = Classifier::frozen(&ctx.backbone, parameters)?;
                state.herd(shard, &model, |held| self.each(held, seen), ctx)
            }
            Keeps::Everything => {
                state.keep_all(shard, ctx);
                Ok(())
            }
        }
    }

    /// Returns the exemplars of earlier classes that take part in a round: all, or a draw within the budget.
    fn replayed(&self, member: &PackClient<'_, ExemplarState>) -> Vec<u32> {
        let old = member.state.by_class.below(member.participant.view.rows.start as u32);
        let budget = self.memory_size as usize;
        if self.keep == Keeps::Herding || old.len() <= budget {
            return old;
        }
        let mut rng = member.key.domain(Domain::Method).rng();
        let drawn = choose(&mut rng, old.len() as u64, budget as u64);
        drawn.into_iter().map(|at| old[at as usize]).collect()
    }

    fn train(
        &self,
        training: &LocalTraining<'_, ExemplarState>,
        member: &mut PackClient<'_, ExemplarState>,
    ) -> Result<LocalTrainingResult, PolicyError> {
        let ctx = training.context.ctx;
        let task = member.participant.view.task;
        let mut state = std::mem::take(&mut member.state);
        let waiting = state.waiting.take_if(|(of, _)| *of < task).map(|(_, shard)| shard);
        let missed = member.missed.iter().map(|missed| Arc::clone(&missed.shard));
        for shard in waiting.into_iter().chain(missed) {
            let seen = member.participant.view.rows.start;
            self.absorb(&mut state, (&shard, seen), &member.received, ctx)?;
        }
        if state.seen <= u64::from(task.0) {
            state.waiting = Some((task, Arc::clone(member.shard)));
            state.seen = u64::from(task.0) + 1;
        }
        member.state = state;
        let old = self.replayed(member);
        let mut all = [member.shard, old.as_slice()].concat();
        all.sort_unstable();
        let all: Shard = all.into();
        let mut trained = training.train_single(&member.with_shard(&all))?;
        trained.samples = member.shard.len();
        trained.metrics.push(("exemplars", old.len() as f64));
        Ok(trained)
    }
}

impl AveragingMethod for Icarl {
    type State = ExemplarState;
    type Memory = Means;

    fn parts(&self) -> Parts<'_, ExemplarState, Means> {
        let trains = match (self.loss, self.bce) {
            (IcarlLoss::Sigmoid, Reduction::MeanAll) => TrainedRows::Carried,
            _ => TrainedRows::Seen,
        };
        Parts {
            trains,
            local: self,
            previous_model: Some(PreviousModel::default()),
            final_exchange: self.has_means().then_some(self as &dyn FinalExchange<_, _>),
            answer: self.has_means().then_some(self as &dyn Answer<_>),
            ..self.fedavg.base()
        }
    }
}

impl LocalUpdate<ExemplarState> for Icarl {
    fn client_update(
        &self,
        training: &LocalTraining<'_, ExemplarState>,
        pack: &mut [PackClient<'_, ExemplarState>],
    ) -> Result<PackResult, PolicyError> {
        Ok(train_sequentially(pack, |member| self.train(training, member)))
    }

    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ExemplarState>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let ctx = context.ctx;
        let member = first_of(pack)?;
        let previous = previous::of(member.download)?;
        let previous = previous.map(|set| Classifier::frozen(&ctx.backbone, &set)).transpose()?;
        let view = &member.participant.view;
        let columns = (view.rows.start, view.seen());
        Ok(Box::new(IcarlObjective { loss: self.loss, bce: self.bce, columns, previous }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Returns the passes of training on new samples and exemplars, with the previous network's outputs.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let (task, samples) = (load.participant.view.task.index(), load.samples);
        let exemplars = exemplars_after(task, samples, self.memory_size as usize);
        load.with_teachers(1, load.passes_over(samples + exemplars))
    }

    fn demands(&self) -> Demands {
        let requirements = match self.memory_size {
            0 => Vec::new(),
            _ => vec![Requirement::returning_clients(
                "clients keep exemplars, but fresh clients never come back",
                Some("`method.memory_size = 0`"),
            )],
        };
        let why = "the previous network that teaches is of one task";
        Demands { requirements, restrictions: Restriction::against(&[Capability::MixedTasks], why) }
    }
}

impl FinalExchange<ExemplarState, Means> for Icarl {
    fn name(&self) -> &'static str {
        "means"
    }

    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let (rows, dim) = (facts.view.seen(), facts.model.backbone.dim());
        let place = |name, shape: &[usize], dtype| {
            TensorSpec::new(Kind::Prototypes, name, shape, dtype).summed(StalenessRule::Refuse)
        };
        vec![place(SUMS, &[rows, dim], Dtype::F32), place(COUNTS, &[rows], Dtype::U32)]
    }

    /// Returns the passes of herding, and a forward pass of all exemplars and of their mirror images.
    fn work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        let budget = self.memory_size as usize;
        let herds = self.keep == Keeps::Herding && budget > 0;
        let classes = (view.rows.len(), view.seen());
        let herding = if herds { choosing_work(model, samples, classes, budget) } else { 0.0 };
        let exemplars = match self.keep {
            Keeps::Herding => exemplars_after(view.task.index() + 1, samples, budget),
            Keeps::Everything => samples * (view.task.index() + 1),
        };
        let images = if self.flips { 2.0 } else { 1.0 };
        herding + images * exemplars as f64 / 3.0
    }

    /// Chooses the exemplars of the task, then returns sums of unit features and counts of all exemplars.
    fn report(
        &self,
        context: &ClientContext<'_>,
        member: &mut PackClient<'_, ExemplarState>,
    ) -> Result<(Vec<Section>, Metrics), PolicyError> {
        let ctx = context.ctx;
        let mut state = std::mem::take(&mut member.state);
        if let Some((_, shard)) = state.waiting.take() {
            let seen = member.participant.view.seen();
            self.absorb(&mut state, (&shard, seen), &member.received, ctx)?;
        }
        member.state = state;
        let (rows, dim) = (member.participant.view.seen(), ctx.backbone.dim());
        let model = Classifier::frozen(&ctx.backbone, &member.received)?;
        let held: Shard = member.state.by_class.below(rows as u32).into();
        let (sums, counts) = sums_of(&held, &model, (rows, dim), self.flips, ctx)?;
        let sums = sums.into_iter().map(|sum| sum as f32).collect::<Vec<f32>>();
        let tensors = vec![
            NamedTensor::f32(SUMS, [rows, dim], sums)?,
            NamedTensor::u32(COUNTS, [rows], counts)?,
        ];
        Ok((vec![Section::new(Kind::Prototypes, tensors)], vec![("exemplars", held.len() as f64)]))
    }

    fn aggregate(
        &self,
        memory: &mut Means,
        ClosedRound { aggregate, .. }: ClosedRound<'_>,
    ) -> Result<Metrics, PolicyError> {
        *memory = Means::of(aggregate.sum(SUMS)?, aggregate.sum(COUNTS)?);
        Ok(vec![("classes_with_exemplars", memory.classes() as f64)])
    }
}

impl Answer<Means> for Icarl {
    fn server_predictor(
        &self,
        _model: &ModelFacts,
        memory: &Means,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        if memory.classes() == 0 {
            return Ok(None);
        }
        let model = Arc::new(Classifier::frozen(&ctx.backbone, theta)?);
        Ok(Some(Arc::new(NearestMean::new(model, memory.clone(), self.absent))))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients keep exemplars chosen by herding and distill the previous network; the nearest \
               mean of exemplars classifies.",
        source: "Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, CVPR \
                 2017",
        state: "client: exemplars; server: the parameters, those of the task before, class means",
        ..MethodEntry::averaging("icarl", Icarl::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that holds one of four classes seen keeps its whole memory of it, or a quarter.
    #[test]
    fn the_memory_is_divided_among_classes_held_or_seen() {
        let of = |quota_of| Icarl { memory_size: 18, quota_of, ..Icarl::default() };
        assert_eq!((of(QuotaOf::Held).each(1, 4), of(QuotaOf::Seen).each(1, 4)), (18, 5));
        assert_eq!((of(QuotaOf::Held).each(4, 4), of(QuotaOf::Seen).each(4, 4)), (5, 5));
        let floor = Icarl { quota: Quota::Floor, ..of(QuotaOf::Seen) };
        assert_eq!(floor.each(1, 4), 4);
    }
}
