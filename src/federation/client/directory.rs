//! The directory of clients: gives an actor to a client that is addressed, and takes it from those that idle longest.
//!
//! So live clients are as many as clients that hold something, and a bounded number of idle ones. A client that is
//! registered and never addressed is a number. An actor whose client retired becomes the next client that is addressed,
//! which takes less time than to end it and start another. Which clients live changes no result: an idle client is its
//! memory, and the order of retiring follows virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, Addr};

use super::actor::{At, ClientActor, Reaction, TakeOver};
use super::machine::ClientMachine;
use super::memory::{ClientMemory, ClientSnapshot};
use super::messages::{Keep, NewTerms, Retire, ToClient};
use crate::federation::compute::Supplier;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::simulation_context::SimulationContext;
use crate::quantity::{ClientId, ParticipantId, Round, VirtualTime};

/// Addresses of clients that live as actors, and the memory of those that do not.
pub(in crate::federation) struct Directory {
    simulation: Arc<SimulationContext>,
    supplier: Supplier,
    /// Maximum number of idle actors.
    max_idle: usize,
    live: BTreeMap<ClientId, LiveClient>,
    /// Idle clients by the number of `rests` when they became idle: the one idle longest is first.
    idle: BTreeMap<u64, ClientId>,
    /// Number of times that any client became idle.
    rests: u64,
    memories: BTreeMap<ClientId, ClientMemory>,
    /// Actors whose clients retired. There are never more of them than busy and idle clients at any one time.
    free_actors: Vec<Addr<ClientActor>>,
}

struct LiveClient {
    address: Addr<ClientActor>,
    /// Key of the client in `idle`, while it is idle.
    rest: Option<u64>,
}

impl Directory {
    /// Maximum number of idle actors of a run. A small cohort that is sampled again finds its clients alive; in a large
    /// one an actor that is taken over costs less than another that is started.
    pub const LIVE: usize = 256;

    pub fn new(
        simulation: Arc<SimulationContext>,
        supplier: Supplier,
        max_idle: usize,
    ) -> Directory {
        Directory {
            simulation,
            supplier,
            max_idle,
            live: BTreeMap::new(),
            idle: BTreeMap::new(),
            rests: 0,
            memories: BTreeMap::new(),
            free_actors: Vec::new(),
        }
    }

    /// Sends a client the message that is due at `now`, and returns the client's effects.
    ///
    /// # Errors
    /// Returns [`FederationError::ActorGone`] if the client panicked or is not registered.
    pub async fn deliver(
        &mut self,
        now: VirtualTime,
        id: ClientId,
        message: ToClient,
    ) -> Result<Vec<Effect>, FederationError> {
        let address = self.address(id)?;
        let answer = match message {
            ToClient::Asset(asset) => address.send(At(now, asset)).await,
            ToClient::Broadcast(broadcast) => address.send(At(now, *broadcast)).await,
            ToClient::Trained(trained) => address.send(At(now, *trained)).await,
            ToClient::Idles(uncomputed) => address.send(At(now, *uncomputed)).await,
            ToClient::Stops(stopped) => address.send(At(now, stopped)).await,
        };
        let Reaction { effects, is_idle } = answer.map_err(|_| gone(id))??;
        if is_idle {
            self.rest(id).await?;
        }
        Ok(effects)
    }

    /// Switches the context of every client.
    pub async fn turn(
        &mut self,
        simulation: Arc<SimulationContext>,
    ) -> Result<(), FederationError> {
        for (id, client) in &self.live {
            let delivered = client.address.send(NewTerms(Arc::clone(&simulation))).await;
            delivered.map_err(|_| gone(*id))?;
        }
        // Actors without a client would keep the context of the run before the fork in memory.
        self.free_actors.clear();
        self.simulation = simulation;
        Ok(())
    }

    /// Returns what a snapshot needs of each client while the participants `out` are pending.
    pub async fn keep(
        &mut self,
        out: BTreeSet<(Round, ParticipantId)>,
    ) -> Result<BTreeMap<ClientId, ClientSnapshot>, FederationError> {
        let out = Arc::new(out);
        let mut kept = BTreeMap::new();
        for (id, client) in &self.live {
            let answer = client.address.send(Keep(Arc::clone(&out))).await;
            kept.extend(answer.map_err(|_| gone(*id))?.map(|client| (*id, client)));
        }
        for (id, memory) in &mut self.memories {
            kept.extend(memory.keep(&self.supplier, *id, &out).map(|client| (*id, client)));
        }
        Ok(kept)
    }

    /// Returns the number of clients that live as actors.
    #[cfg(test)]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Returns the address of a client's actor, started if necessary; the client is idle no longer.
    fn address(&mut self, id: ClientId) -> Result<Addr<ClientActor>, FederationError> {
        if let Some(client) = self.live.get_mut(&id) {
            if let Some(rest) = client.rest.take() {
                self.idle.remove(&rest);
            }
            return Ok(client.address.clone());
        }
        let rules = &self.simulation.rules;
        let registered = rules.clients.saturating_add(rules.load).saturating_add(rules.idle);
        if id.0 >= registered {
            return Err(gone(id));
        }
        let memory = self.memories.remove(&id).unwrap_or_default();
        let terms = (Arc::clone(&self.simulation), self.supplier.clone());
        let client = ClientMachine::new(id, terms, memory);
        let address = match self.free_actors.pop() {
            Some(address) => {
                address.do_send(TakeOver(Box::new(client)));
                address
            }
            None => ClientActor(client).start(),
        };
        self.live.insert(id, LiveClient { address: address.clone(), rest: None });
        Ok(address)
    }

    /// Marks the client as idle; the client that idles longest retires if there is one too many.
    async fn rest(&mut self, id: ClientId) -> Result<(), FederationError> {
        self.rests += 1;
        self.idle.insert(self.rests, id);
        if let Some(client) = self.live.get_mut(&id) {
            client.rest = Some(self.rests);
        }
        if self.idle.len() > self.max_idle
            && let Some((_, longest)) = self.idle.pop_first()
            && let Some(LiveClient { address, .. }) = self.live.remove(&longest)
        {
            // A client without state has nothing to remember.
            if !self.simulation.stateless {
                let memory = address.send(Retire).await.map_err(|_| gone(longest))?;
                self.memories.extend(memory.map(|memory| (longest, memory)));
            }
            self.free_actors.push(address);
        }
        Ok(())
    }
}

fn gone(id: ClientId) -> FederationError {
    FederationError::ActorGone(id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::client::messages::{AssetArrived, WorkStopped};
    use crate::federation::event::{EndReason, Event};
    use crate::federation::rules::Rules;
    use crate::federation::testing::setup;
    use crate::policy::{Failure, RoundContext, Stage};
    use crate::quantity::TaskId;

    fn directory(max_idle: usize) -> Directory {
        let setup = setup(Rules { clients: 9, load: 2, idle: 3, ..Rules::default() });
        let simulation = Arc::new(SimulationContext::new(&setup).expect("possible"));
        Directory::new(simulation, Supplier::Workers, max_idle)
    }

    /// Sends a client an asset, which leaves it idle.
    async fn poke(directory: &mut Directory, client: u32) -> Result<usize, FederationError> {
        let charge = Event::RunEnded { reason: EndReason::Done };
        let asset = ToClient::Asset(AssetArrived { charge });
        let effects = directory.deliver(VirtualTime::ZERO, ClientId(client), asset).await?;
        Ok(effects.len())
    }

    #[test]
    fn clients_that_idle_longest_end_first() {
        actix::System::new().block_on(async {
            let mut directory = directory(3);
            for client in [4, 0, 2, 0, 7, 13] {
                assert_eq!(poke(&mut directory, client).await.expect("lives"), 1);
            }
            let live: Vec<u32> = directory.live.keys().map(|client| client.0).collect();
            assert_eq!(live, [0, 7, 13], "4 idles longest, then 2");
            assert!(directory.memories.is_empty(), "no client keeps a state");
        });
    }

    #[test]
    fn clients_that_are_not_registered_have_no_address() {
        actix::System::new().block_on(async {
            let mut directory = directory(3);
            assert!(poke(&mut directory, 13).await.is_ok());
            let error = poke(&mut directory, 14).await.expect_err("has no address");
            assert!(matches!(error, FederationError::ActorGone(_)), "{error}");
        });
    }

    /// The memory of a client stays its own when another takes its actor.
    #[test]
    fn actors_of_retired_clients_become_others() {
        actix::System::new().block_on(async {
            let mut directory = directory(1);
            let simulation = Arc::get_mut(&mut directory.simulation).expect("is not shared yet");
            simulation.stateless = false;
            for (client, task) in [(4, 3), (0, 1)] {
                let mut memory = ClientMemory::default();
                memory.last_task = Some(TaskId(task));
                directory.memories.insert(ClientId(client), memory);
            }
            let mut free_counts = Vec::new();
            for client in [4, 0, 5, 4, 0, 7] {
                poke(&mut directory, client).await.expect("lives");
                free_counts.push(directory.free_actors.len());
            }
            assert_eq!(free_counts, [0, 1, 1, 1, 1, 1], "two actors serve all");
            let tasks: Vec<(u32, Option<TaskId>)> = directory
                .memories
                .iter()
                .map(|(client, memory)| (client.0, memory.last_task))
                .collect();
            assert_eq!(tasks, [(0, Some(TaskId(1))), (4, Some(TaskId(3)))]);
            let gone = panicked(&mut directory, 2).await;
            assert_eq!(gone, ClientId(2).to_string(), "of the client that has the actor now");
        });
    }

    #[test]
    fn panic_of_a_client_names_it() {
        actix::System::new().block_on(async {
            let mut directory = directory(3);
            assert_eq!(panicked(&mut directory, 5).await, ClientId(5).to_string());
        });
    }

    /// Ends work that a client never began; returns the client that the error names.
    async fn panicked(directory: &mut Directory, client: u32) -> String {
        let task = &directory.simulation.task_sequence.tasks[0];
        let context = RoundContext {
            round: Round(0),
            stage: Stage::of(Arc::clone(task), 2),
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 0,
        };
        // Nothing was begun that could stop.
        let failure = Failure::Crashed;
        let stopped =
            WorkStopped { context: Arc::new(context), participant: ParticipantId(0), failure };
        let stops = ToClient::Stops(stopped);
        let answer = directory.deliver(VirtualTime::ZERO, ClientId(client), stops).await;
        match answer.err().expect("the client panics") {
            FederationError::ActorGone(who) => who,
            error => panic!("{error}"),
        }
    }
}
