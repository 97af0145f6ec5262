//! FedAvg's client: trains what it received on its shard.

use std::sync::Arc;

use super::{Down, FedAvg, Up};
use crate::learning::{Classifier, train_with};
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, one_by_one,
};

/// Serves every client: it keeps nothing.
pub struct FedAvgClient {
    pub(super) method: Arc<FedAvg>,
}

impl ClientPolicy<FedAvg> for FedAvgClient {
    fn train(
        &self,
        members: &mut [Member<'_, FedAvg>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        one_by_one(members, |member| self.learn(member, lab))
    }

    fn predictor(
        &self,
        down: &Down,
        up: &Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(Some(Arc::new(Classifier::frozen(&lab.backbone, &up.whole(down)?)?)))
    }
}

impl FedAvgClient {
    fn learn(&self, member: &Member<'_, FedAvg>, lab: &Lab) -> Result<Outcome<Up>, PolicyError> {
        let view = &member.seat.view;
        let model =
            Classifier::trainable(&lab.backbone, &member.down.parameters, view.rows.clone())?;
        let mut optimiser = self.method.optimiser(&model, &lab.training);
        let report = train_with(
            &lab.training,
            &mut optimiser,
            &lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?,
            model.variables(),
            member.key,
            |batch| model.batch_loss(batch, &lab.device),
        )?;
        let rows = self.method.up_rows(view);
        let up = Up::cut(&model.parameters()?, rows, member.shard.len())?;
        Ok(Outcome { up, metrics: report.metrics() })
    }
}
