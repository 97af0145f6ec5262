//! The client: trains adapters and head, with dropout.

use std::sync::Arc;

use super::AdapterMethod;
use crate::learning::Classifier;
use crate::methods::fedavg::{Down, OldLogits, Up, train_members, uploads};
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, together,
};

/// Serves every client: it keeps nothing.
pub struct AdapterClient {
    pub(super) method: Arc<AdapterMethod>,
}

impl ClientPolicy<AdapterMethod> for AdapterClient {
    fn train(
        &self,
        members: &mut [Member<'_, AdapterMethod>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        together(members, |members| {
            let rule = &lab.training.optimiser;
            let optimiser =
                |model: &Classifier| rule.clone().over_pack(model.vars(), model.members());
            let dropout = self.method.config.dropout;
            let trained = train_members(members, lab, OldLogits::Mask, dropout, optimiser)?;
            Ok(uploads(members, trained, |view| self.method.up_rows(view)))
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
        Ok(Some(Arc::new(Classifier::frozen(&lab.backbone, &up.whole(down)?)?)))
    }
}
