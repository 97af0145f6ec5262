//! HGP's client: trains prompt and the current head rows, then describes its classes.

use std::sync::Arc;

use super::messages::{Down, Up};
use super::{ClassGaussian, ClassStatistics, CovarianceForm, Hgp, Rebalance};
use crate::learning::Classifier;
use crate::methods::fedavg::{self, OldLogits};
use crate::numerics::gaussian::{Diagonal, Full};
use crate::numerics::streams::Domain;
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, together,
};

/// Serves every client: it keeps nothing.
pub struct HgpClient {
    pub(super) method: Arc<Hgp>,
}

impl ClientPolicy<Hgp> for HgpClient {
    fn train(
        &self,
        members: &mut [Member<'_, Hgp>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        together(members, |members| {
            let rule = &lab.training.optimiser;
            let optimiser =
                |model: &Classifier| rule.clone().over_pack(model.vars(), model.members());
            let trained = fedavg::train_members(members, lab, OldLogits::Mask, 0.0, optimiser)?;
            let outcomes = members.iter().zip(trained).map(|(member, trained)| {
                let fedavg::Trained { parameters, report } = trained?;
                let local = Classifier::frozen(&lab.backbone, &parameters)?;
                let classes = self.describe(&local, member, lab)?;
                let rows = self.method.up_rows(&member.seat.view);
                let learnt = fedavg::Up::cut(&parameters, rows, member.shard.len())?;
                Ok(Outcome { up: Up { learnt, classes }, metrics: report.metrics() })
            });
            Ok(outcomes.collect())
        })
    }

    fn largest_pack(&self, _phase: usize) -> usize {
        usize::MAX
    }

    fn predictor(
        &self,
        down: &Down,
        up: &Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let parameters = up.learnt.whole(down)?;
        Ok(Some(Arc::new(Classifier::frozen(&lab.backbone, &parameters)?)))
    }
}

impl HgpClient {
    /// Mean and spread of the features of every class with at least two samples, by the model
    /// as it was just trained here.
    fn describe(
        &self,
        local: &Classifier,
        member: &Member<'_, Hgp>,
        lab: &Lab,
    ) -> Result<Vec<Arc<ClassStatistics>>, PolicyError> {
        if self.method.config.rebalance == Rebalance::None {
            return Ok(Vec::new());
        }
        let rows = &member.seat.view.rows;
        let dim = lab.backbone.dim();
        let mut features: Vec<Vec<Vec<f32>>> = vec![Vec::new(); rows.len()];
        let augment = member.key.domain(Domain::Augment);
        let loader = lab.frozen(lab.statistics_loader(&member.shard), local.frozen_part())?;
        for batch in loader.in_order_drawn(lab.evaluation_batch, augment) {
            let batch = batch?;
            let batch_features = local.batch_features(&batch, &lab.device)?.to_vec2::<f32>()?;
            for (feature, label) in batch_features.into_iter().zip(batch.labels()) {
                features[*label as usize - rows.start].push(feature);
            }
        }
        let describe = |(features, row): (&Vec<Vec<f32>>, usize)| {
            let gaussian = match self.method.config.covariance {
                CovarianceForm::Diagonal => {
                    ClassGaussian::Diagonal(Diagonal::fit(dim, features.iter()))
                }
                CovarianceForm::Full => ClassGaussian::Full(Full::fit(dim, features)),
            };
            Arc::new(ClassStatistics { row: row as u32, gaussian })
        };
        let several = features.iter().zip(rows.clone()).filter(|(features, _)| features.len() >= 2);
        Ok(several.map(describe).collect())
    }
}
