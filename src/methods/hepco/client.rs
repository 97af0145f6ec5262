//! HePCo's client: FedAvg-Prompt's, which also says how many samples of each class it has.

use std::sync::Arc;

use super::Hepco;
use super::messages::{Down, Up};
use crate::methods::fedavg::Trained;
use crate::methods::fedavg_prompt::train_pools;
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, together,
};

/// Serves every client: it keeps nothing.
pub struct HepcoClient {
    pub(super) method: Arc<Hepco>,
}

impl ClientPolicy<Hepco> for HepcoClient {
    fn train(
        &self,
        members: &mut [Member<'_, Hepco>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        let Hepco { base, .. } = &*self.method;
        together(members, |members| {
            let trained = train_pools(&base.config, base.shape.prompting(), members, lab)?;
            let outcomes = members.iter().zip(trained).map(|(member, trained)| {
                let Trained { parameters, report } = trained?;
                let (view, counts) =
                    (&member.seat.view, lab.label_counts(&member.seat, &member.shard));
                let up = Up::cut(&parameters, base.up_rows(view), view.rows.clone(), &counts)?;
                Ok(Outcome { up, metrics: report.metrics() })
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
        Ok(Some(self.method.base.shape.predictor(&up.whole(down)?, lab)?))
    }
}
