//! Training of a round's participants: packs, and those that begin before their download arrives.

use super::OpenRound;
use crate::federation::client;
use crate::federation::effect::Effect;
use crate::federation::packs::{self, Candidate};
use crate::federation::simulation_context::SimulationContext;
use crate::policy::Participant;

impl OpenRound {
    /// Groups the reached participants into packs, and trains those that are certain to train.
    ///
    /// Uploads of participants that train in order merge at once. If they trained in the order in which downloads
    /// arrive, a third of the cohort's sums would wait.
    pub(super) fn begin_training(
        &self,
        simulation: &SimulationContext,
        reached: &[&Participant],
        effects: &mut Vec<Effect>,
    ) {
        effects.extend(self.plan_packs(simulation, reached));
        // Links without delay keep the order.
        if !self.aggregates_at_once || simulation.rules.links.is_ideal() {
            return;
        }
        let round = self.context.round;
        let certain =
            reached.iter().filter(|participant| simulation.certainly_trains(round, participant));
        effects.extend(certain.map(|participant| {
            let download = &self.downloads[participant.id.index()];
            client::train_ahead(self.down(participant, download))
        }));
    }

    /// Returns the effect that groups the participants that a download reaches; `None` if all train alone.
    fn plan_packs(
        &self,
        simulation: &SimulationContext,
        reached: &[&Participant],
    ) -> Option<Effect> {
        if self.max_pack_size <= 1 {
            return None;
        }
        let plan = &simulation.training;
        let candidate = |participant: &&Participant| {
            let samples = simulation.participant_samples(self.context.phase_name, participant);
            let steps = samples.div_ceil(plan.batch.max(1)) as u64 * u64::from(plan.epochs);
            Candidate::new(participant, steps)
        };
        let train = reached.iter().filter(|participant| participant.trains());
        let candidates = train.map(candidate).collect();
        Some(Effect::GroupPacks(self.context.round, packs::plan(candidates, self.max_pack_size)))
    }
}
