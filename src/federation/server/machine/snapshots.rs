//! Transitions between two rounds: snapshots, the end of a record, and the switch of context at a fork.

use std::sync::Arc;

use super::ServerMachine;
use crate::federation::assets::AssetCaches;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::server::messages::ServerSnapshot;
use crate::federation::snapshot::SnapshotPlace;

impl ServerMachine {
    /// Takes a snapshot, or ends a record, at a point where no round is open.
    pub(super) fn between_rounds(
        &mut self,
        place: SnapshotPlace,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if !self.desk.computes() {
            self.desk.leave_record(place, &mut self.caches)?;
            return self.turn(place, effects);
        }
        if let (SnapshotPlace::Task(task), true) = (place, self.simulation.rules.models) {
            effects.push(Effect::RecordModel(task, self.desk.saved().clone()));
        }
        if self.simulation.rules.snapshots.is_due(place) {
            effects.push(Effect::TakeSnapshot(Box::new(self.kept(place))));
        }
        Ok(())
    }

    /// Switches the context from here on, if the run was forked at this point.
    fn turn(
        &mut self,
        place: SnapshotPlace,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some((until, next)) = &self.simulation.next else { return Ok(()) };
        if place != SnapshotPlace::Task(*until) {
            return Ok(());
        }
        if self.book.owes_updates() {
            return Err(FederationError::Impossible(format!(
                "updates of earlier rounds are still in transit when {until} ends, so nothing can change there"
            )));
        }
        let simulation = Arc::clone(next);
        let mut caches = AssetCaches::new(simulation.rules.cache);
        caches.restore(&self.caches.held());
        self.caches = caches;
        self.simulation = Arc::clone(&simulation);
        effects.push(Effect::SwitchContext(simulation));
        Ok(())
    }

    fn kept(&self, place: SnapshotPlace) -> ServerSnapshot {
        ServerSnapshot {
            place,
            round: self.schedule.last_round(),
            policy: self.desk.saved().clone(),
            caches: self.caches.held(),
            untransformed: self.book.untransformed().to_vec(),
            out: self.book.participants_out(),
            frames: self.book.frames_out(),
        }
    }
}
