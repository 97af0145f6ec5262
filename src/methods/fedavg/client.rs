//! FedAvg's client: trains what it received on its shard.

use std::sync::Arc;

use super::{Down, FedAvg, Train, Up, train_members, uploads};
use crate::learning::Classifier;
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, together,
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
        together(members, |members| {
            let optimiser = |model: &Classifier| self.method.optimiser(model, &lab.training);
            let trained =
                train_members(members, lab, self.method.config.old_logits, 0.0, optimiser)?;
            Ok(uploads(members, trained, |view| self.method.up_rows(view)))
        })
    }

    /// A backbone that trains is its client's own, and so is a module.
    fn largest_pack(&self, _phase: usize) -> usize {
        match self.method.config.train {
            Train::All | Train::Module => 1,
            Train::Head | Train::Prompt => usize::MAX,
        }
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
