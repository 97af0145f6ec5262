//! Snapshots: what the server puts into one, and where a recorded past ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::machine::ServerMachine;
use crate::federation::answers::Answers;
use crate::federation::assets::AssetCaches;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::frames::SentDown;
use crate::federation::snapshot::SnapshotPlace;
use crate::quantity::{ClientId, Round, SeatId};
use crate::wire::Body;

/// The server's part of a snapshot.
pub(crate) struct ServerKept {
    pub place: SnapshotPlace,
    pub round: Round,
    pub policy: Body,
    pub caches: Vec<(ClientId, Vec<u64>)>,
    pub unlifted: Vec<(Round, SeatId)>,
    /// Seats of closed rounds whose answers are still to come or to be used, with their Downs.
    pub out: BTreeMap<(Round, SeatId), Arc<SentDown>>,
}

impl ServerMachine {
    /// Who answers in place of workers and of the policy, as long as they do.
    pub(super) fn answers(&self) -> Option<&Arc<dyn Answers>> {
        self.world.answers.as_ref().filter(|_| !self.live)
    }

    /// No round is open: a snapshot is taken, or the past ends here.
    pub(super) fn between_rounds(
        &mut self,
        place: SnapshotPlace,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if self.answers().is_some() {
            self.wake(place)?;
            return self.turn(place, effects);
        }
        if let (SnapshotPlace::Task(task), true) = (place, self.world.rules.models) {
            effects.push(Effect::Learnt(task, self.saved.clone()));
        }
        if self.world.rules.snapshots.is_due(place) {
            effects.push(Effect::Keep(Box::new(self.kept(place))));
        }
        Ok(())
    }

    /// From here on the run is computed, if this is where the past ends.
    fn wake(&mut self, place: SnapshotPlace) -> Result<(), FederationError> {
        let Some(past) = self.answers().cloned() else { return Ok(()) };
        let Some(snapshot) = past.ends_at(place) else { return Ok(()) };
        if let Some(policy) = &mut self.policy {
            policy.load(&snapshot.server).map_err(|error| {
                let what = format!("the server's state in the checkpoint cannot be read ({error})");
                FederationError::Unrecorded(what)
            })?;
        }
        self.saved = snapshot.server.clone();
        self.caches.restore(&snapshot.caches);
        self.live = true;
        Ok(())
    }

    /// From here on something else holds, if this is where a run was forked.
    fn turn(
        &mut self,
        place: SnapshotPlace,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some((until, next)) = &self.world.next else { return Ok(()) };
        if place != SnapshotPlace::Task(*until) {
            return Ok(());
        }
        if !(self.stragglers.is_empty() && self.held.is_empty()) {
            return Err(FederationError::Impossible(format!(
                "updates of earlier rounds are still to come when {until} ends: nothing can change there"
            )));
        }
        let world = Arc::clone(next);
        let mut caches = AssetCaches::new(world.rules.cache);
        caches.restore(&self.caches.held());
        self.caches = caches;
        self.world = Arc::clone(&world);
        effects.push(Effect::Turn(world));
        Ok(())
    }

    fn kept(&self, place: SnapshotPlace) -> ServerKept {
        let held = self
            .held
            .iter()
            .map(|stale| ((stale.arrival.round, stale.arrival.seat), Arc::clone(&stale.sent.1)));
        let out = self.stragglers.iter().map(|(seat, down)| (*seat, Arc::clone(down)));
        ServerKept {
            place,
            round: self.last_round(),
            policy: self.saved.clone(),
            caches: self.caches.held(),
            unlifted: self.unlifted.clone(),
            out: out.chain(held).collect(),
        }
    }
}
