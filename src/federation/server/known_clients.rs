//! Clients that the server knows: the draws of each are recorded when it is first sampled.

use std::collections::BTreeSet;

use crate::federation::event::Event;
use crate::federation::simulation_context::SimulationContext;
use crate::quantity::{ClientId, VirtualTime};

#[derive(Default)]
pub(super) struct KnownClients(BTreeSet<ClientId>);

impl KnownClients {
    /// Returns the events of clients that are new, with their draws; empty if all clients are alike.
    pub fn meet(
        &mut self,
        simulation: &SimulationContext,
        clients: impl Iterator<Item = ClientId>,
    ) -> Vec<Event> {
        let rules = &simulation.rules;
        let alike = rules.compute.is_ideal() && rules.links.is_ideal();
        if alike && rules.availability.all_clients_stay() {
            return Vec::new();
        }
        clients
            .filter(|client| self.0.insert(*client))
            .map(|client| drawn(simulation, client))
            .collect()
    }
}

fn drawn(simulation: &SimulationContext, client: ClientId) -> Event {
    let link = simulation.links.link(client);
    let rate = |rate: f64| rate.is_finite().then(|| rate.round() as u64);
    Event::ClientProfiled {
        client,
        slowness: (simulation.clock.slowness(client) * 1e6).round() as u64,
        setup_ns: simulation.clock.setup(client).0,
        down: rate(link.down),
        up: rate(link.up),
        round_trip: VirtualTime::from_seconds(link.round_trip).0,
        leaves_ns: Some(simulation.availability.membership(client).1.0).filter(|at| *at < u64::MAX),
    }
}
