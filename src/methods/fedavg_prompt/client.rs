//! FedAvg-Prompt's client.

use std::sync::Arc;

use super::{FedAvgPrompt, train_pools};
use crate::methods::fedavg::{Down, Up, uploads};
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, together,
};

/// Serves every client: it keeps nothing.
pub struct FedAvgPromptClient {
    pub(super) method: Arc<FedAvgPrompt>,
}

impl ClientPolicy<FedAvgPrompt> for FedAvgPromptClient {
    fn train(
        &self,
        members: &mut [Member<'_, FedAvgPrompt>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        let FedAvgPrompt { config, shape, .. } = &*self.method;
        together(members, |members| {
            let trained = train_pools(config, shape.prompting(), members, lab)?;
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
        Ok(Some(self.method.shape.predictor(&up.whole(down)?, lab)?))
    }
}
