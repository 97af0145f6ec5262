//! Who sits where by default, and what all seats are sent.

use std::sync::Arc;

use super::{Period, Seat};
use crate::quantity::{ClientId, SeatId};

/// The default seating: one seat per client.
pub fn one_seat_each(period: &Period, cohort: &[ClientId]) -> Vec<Seat> {
    cohort
        .iter()
        .enumerate()
        .map(|(place, client)| Seat {
            id: SeatId(place as u32),
            client: *client,
            role: Default::default(),
            unit: None,
            kind: Default::default(),
            view: period.view_of(*client),
        })
        .collect()
}

/// The same Down for every seat.
pub fn shared<D>(down: D, seats: &[Seat]) -> Vec<Arc<D>> {
    let down = Arc::new(down);
    vec![down; seats.len()]
}
