//! Shared loop of local training, for all methods that average parameters.

use super::{ClientContext, LocalUpdate, RowQuery, SharedModel};
use crate::learning::{Classifier, MemberData, TrainingReport, train_pack};
use crate::methods::averaging::{
    LocalTrainingResult, Objective, PackClient, PackResult, RowPurpose, TrainingStep, take_single,
};
use crate::model::{Dropout, MaskPlace, ParameterSet};
use crate::numerics::streams::Domain;
use crate::policy::{PolicyError, RunContext};

/// Shared loop of local training, which minimizes a method's objective.
///
/// It trains all members of a pack at once.
pub struct LocalTraining<'a, S> {
    /// Model, trained parameters and run context.
    pub context: ClientContext<'a>,
    /// Part of the method that provides the objective.
    pub local: &'a dyn LocalUpdate<S>,
    /// Round of the phase, from 0; 0 if rounds do not train different parameters.
    pub round: u32,
}

impl<'a, S> LocalTraining<'a, S> {
    /// Returns this training with another run context, and so another plan.
    pub fn in_context<'b>(&self, ctx: &'b RunContext) -> LocalTraining<'b, S>
    where
        'a: 'b,
    {
        let ClientContext { model, shared, .. } = self.context;
        LocalTraining {
            context: ClientContext { model, shared, ctx },
            local: self.local,
            round: self.round,
        }
    }

    /// Trains a pack by the method's objective; members may fail one by one.
    ///
    /// # Errors
    /// When all members fail: parameters do not fit, or samples cannot be read.
    pub fn train(&self, pack: &[PackClient<'_, S>]) -> Result<PackResult, PolicyError> {
        let objective = |network: &Classifier| self.local.objective(&self.context, pack, network);
        self.train_with_objective(pack, objective)
    }

    /// Trains a single member.
    ///
    /// # Errors
    /// When [`train`](LocalTraining::train) fails, or this member does.
    pub fn train_single(
        &self,
        member: &PackClient<'_, S>,
    ) -> Result<LocalTrainingResult, PolicyError> {
        take_single(self.train(std::slice::from_ref(member))?)
    }

    /// Trains a pack by an objective that may borrow state of its creator mutably.
    ///
    /// The closure creates the objective from the network that is trained.
    ///
    /// # Errors
    /// When all members fail, as in [`train`](LocalTraining::train).
    pub fn train_with_objective<'o>(
        &self,
        pack: &[PackClient<'_, S>],
        objective: impl FnOnce(&Classifier) -> Result<Box<dyn Objective + 'o>, PolicyError>,
    ) -> Result<PackResult, PolicyError> {
        let ClientContext { model, shared, ctx } = self.context;
        let SharedModel { adaptation, .. } = shared;
        let Some(first) = pack.first() else { return Ok(Vec::new()) };
        let view = &first.participant.view;
        let received = pack.iter().map(|member| member.received.clone()).collect();
        let prompting = adaptation.prompting(model, view.task.index(), true);
        let rows = shared.trained_rows(model, view);
        let settings = adaptation.settings(view);
        // All members of a pack are of one round, so the same parameters are frozen for all.
        let query =
            RowQuery { round: self.round, ..shared.query(model, view, RowPurpose::Training) };
        let stays = |name: &str| !adaptation.takes_part(&query, name);
        let backbone = &ctx.backbone;
        let network =
            Classifier::pack_but(backbone, received, rows, prompting, settings.norms, &stays)?;
        let loader = |member: &PackClient<'_, S>| {
            let loader =
                ctx.with_frozen_features(ctx.train_loader(member.shard), network.frozen_part())?;
            match settings.query {
                Some(query) => ctx.with_queries(loader, query),
                None => Ok(loader),
            }
        };
        let loaders = pack.iter().map(loader).collect::<Result<Vec<_>, _>>()?;
        let courses: Vec<_> = loaders
            .iter()
            .zip(pack)
            .map(|(loader, member)| MemberData { loader, key: member.key })
            .collect();
        let mut objective = objective(&network)?;
        let rule = ctx.training.optimizer.clone();
        let mut optimizer = rule.over_pack(network.vars(), network.members());
        let factors = network.variables().iter().map(|(name, _)| adaptation.rate_factor(name));
        optimizer.set_rate_factors(factors.collect());
        let rate = settings.dropout;
        let variables = network.variables();
        let reports = train_pack(&ctx.training, &mut optimizer, variables, &courses, |step| {
            let places = pack.iter().zip(&step.steps).map(|(member, step)| MaskPlace {
                key: member.key.domain(Domain::Dropout),
                step: *step,
            });
            let dropout = (rate > 0.0).then(|| Dropout { rate, places: places.collect() });
            objective.losses(&TrainingStep { model: &network, step, device: &ctx.device, dropout })
        })?;
        let results = network.pack_parameters()?.into_iter().zip(reports).zip(&loaders);
        let trained = |(member, ((parameters, report), loader)): (&PackClient<'_, S>, _)| {
            let report: TrainingReport = report?;
            let (rates, mut metrics) = (report.rates, report.metrics());
            metrics.extend(adaptation.metrics(model, member.participant, &parameters, loader)?);
            let (samples, first_epoch) = (member.shard.len(), report.first_epoch);
            let vectors = ParameterSet::new();
            Ok(LocalTrainingResult { parameters, samples, rates, first_epoch, vectors, metrics })
        };
        Ok(pack.iter().zip(results).map(trained).collect())
    }
}
