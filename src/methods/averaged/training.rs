//! Local training of a pack: the one loop of all methods that average.

use crate::data::Shard;
use crate::learning::{Classifier, Course, train_pack};
use crate::model::{Dropout, MaskPlace, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Lab, Message, MissedTask, ModelFacts, PolicyError, Seat};

use super::{Averaged, Objective, Pass, SAMPLES};
use crate::wire::{Kind, NamedTensor, Section, WireError};

/// One seat of a pack.
pub struct Client<'a, S> {
    pub seat: &'a Seat,
    /// What the server sent.
    pub down: &'a Message,
    /// Its parameters, rows in the places they have on the server; zeros before the first that was sent.
    pub received: ParameterSet,
    /// What the client kept.
    pub state: S,
    /// The seat's samples.
    pub shard: &'a Shard,
    /// The address of everything drawn here.
    pub key: StreamKey,
    /// Tasks whose shards the client held since the server last spoke to it.
    pub missed: &'a [MissedTask],
}

impl<'a, S> Client<'a, S> {
    /// The same over other samples, with no state of its own.
    pub fn upon<'b>(&'b self, shard: &'b Shard) -> Client<'b, S>
    where
        S: Default,
    {
        let (received, state) = (self.received.clone(), S::default());
        let Client { seat, down, key, missed, .. } = *self;
        Client { seat, down, received, state, shard, key, missed }
    }
}

/// What a member has after its training.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    /// Everything it received, with what trained as it is now.
    pub parameters: ParameterSet,
    /// How many samples it counts for.
    pub samples: usize,
    /// Sum of the learning rates of its steps, before factors of parameters.
    pub rates: f64,
    /// Vectors that [`describe`](Averaged::describe) sends beside the parameters, rows in the same places.
    pub beside: ParameterSet,
    /// Named figures for the journal.
    pub metrics: Vec<(&'static str, f64)>,
}

impl Trained {
    /// How many samples it counts for, as an upload says it.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn sample_count(&self) -> Result<Section, WireError> {
        let samples = NamedTensor::u32(SAMPLES, [], vec![self.samples as u32])?;
        Ok(Section::new(Kind::Statistics, vec![samples]))
    }
}

/// One answer per member, in order; each fails alone.
pub type Learnt = Vec<Result<Trained, PolicyError>>;

/// The first member of a pack, for what all its members have in common.
///
/// # Errors
/// Where the pack is empty.
pub(in crate::methods) fn first_of<'p, 'c, S>(
    pack: &'p [Client<'c, S>],
) -> Result<&'p Client<'c, S>, PolicyError> {
    let none = || PolicyError::Unsupported("nobody is to be trained".to_owned());
    pack.first().ok_or_else(none)
}

/// Trains the members of a pack one after another.
pub fn one_by_one<'m, S>(
    pack: &mut [Client<'m, S>],
    learn: impl FnMut(&mut Client<'m, S>) -> Result<Trained, PolicyError>,
) -> Learnt {
    pack.iter_mut().map(learn).collect()
}

/// [`train`] for a member alone.
///
/// # Errors
/// As there, and why the member fails.
pub fn train_alone<A: Averaged>(
    method: &A,
    model: &ModelFacts,
    member: &Client<'_, A::State>,
    lab: &Lab,
) -> Result<Trained, PolicyError> {
    let learnt = train(method, model, std::slice::from_ref(member), lab)?;
    let none = || PolicyError::Unsupported("nobody was trained".to_owned());
    learnt.into_iter().next().ok_or_else(none)?
}

/// Minimises the method's objective for all members of a pack at once.
///
/// # Errors
/// What stops all of them: parameters that do not fit, samples that cannot be read.
pub fn train<A: Averaged>(
    method: &A,
    model: &ModelFacts,
    pack: &[Client<'_, A::State>],
    lab: &Lab,
) -> Result<Learnt, PolicyError> {
    train_by(method, model, pack, lab, |network| method.objective(model, pack, network, lab))
}

/// [`train`] by an objective that may change what its maker holds, made for the network that trains.
///
/// # Errors
/// As there.
pub fn train_by<'o, A: Averaged>(
    method: &A,
    model: &ModelFacts,
    pack: &[Client<'_, A::State>],
    lab: &Lab,
    objective: impl FnOnce(&Classifier) -> Result<Box<dyn Objective + 'o>, PolicyError>,
) -> Result<Learnt, PolicyError> {
    let Some(first) = pack.first() else { return Ok(Vec::new()) };
    let view = &first.seat.view;
    let received = pack.iter().map(|member| member.received.clone()).collect();
    let prompting = method.prompting(model, view.task.index(), true);
    let rows = method.trained_rows(model, view);
    let norms = method.norms(view);
    // A pack is of one round, in which the same stays for all.
    let stays = |name: &str| method.stays(first, name);
    let network = Classifier::pack_but(&lab.backbone, received, rows, prompting, norms, &stays)?;
    let loader = |member: &Client<'_, A::State>| {
        let loader = lab.frozen(lab.train_loader(member.shard), network.frozen_part())?;
        match method.query() {
            Some(query) => lab.queried(loader, query),
            None => Ok(loader),
        }
    };
    let loaders = pack.iter().map(loader).collect::<Result<Vec<_>, _>>()?;
    let courses: Vec<_> = loaders
        .iter()
        .zip(pack)
        .map(|(loader, member)| Course { loader, key: member.key })
        .collect();
    let mut objective = objective(&network)?;
    let mut optimiser = lab.training.optimiser.clone().over_pack(network.vars(), network.members());
    let factors = network.variables().iter().map(|(name, _)| method.rate_factor(name));
    optimiser.set_rate_factors(factors.collect());
    let rate = method.dropout();
    let variables = network.variables();
    let reports = train_pack(&lab.training, &mut optimiser, variables, &courses, |step| {
        let places = pack.iter().zip(&step.steps).map(|(member, step)| MaskPlace {
            key: member.key.domain(Domain::Dropout),
            step: *step,
        });
        let dropout = (rate > 0.0).then(|| Dropout { rate, places: places.collect() });
        objective.losses(&Pass { model: &network, step, device: &lab.device, dropout })
    })?;
    let learnt = network.pack_parameters()?.into_iter().zip(reports).zip(&loaders);
    let trained = |(member, ((parameters, report), loader)): (&Client<'_, A::State>, _)| {
        let report: Result<crate::learning::TrainingReport, _> = report;
        let report = report?;
        let (rates, mut metrics) = (report.rates, report.metrics());
        metrics.extend(method.figures(model, member, &parameters, loader)?);
        let (samples, beside) = (member.shard.len(), ParameterSet::new());
        Ok(Trained { parameters, samples, rates, beside, metrics })
    };
    Ok(pack.iter().zip(learnt).map(trained).collect())
}
