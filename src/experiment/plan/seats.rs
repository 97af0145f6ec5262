//! The seats of a round that is never opened: clients, their units, load clients.

use std::sync::Arc;

use super::walk::Blueprint;
use crate::data::units;
use crate::experiment::assemble::TaskCounts;
use crate::policy::{ClassCounts, Period, Role, Seat, SeatKind};
use crate::quantity::{ClientId, SeatId, TaskId};

/// Where in a run a round stands.
pub(super) struct Place<'a> {
    pub period: &'a Period,
    /// Index of the phase.
    pub phase: usize,
    pub name: &'static str,
    pub round_in_phase: u32,
}

/// A seat as far as it is known without a policy.
pub(super) struct PlannedSeat {
    pub seat: Seat,
    /// Its samples by head row.
    pub counts: ClassCounts,
}

/// The seats of a cohort, one per client or unit, and those of the load clients.
pub(super) fn seats(
    of: &Blueprint,
    place: &Place<'_>,
    cohort: &[ClientId],
    counts: &[TaskCounts],
) -> Vec<PlannedSeat> {
    let load = of.rules.load_clients().take_while(|_| !cohort.is_empty());
    let mut seats = Vec::new();
    for client in cohort.iter().copied().chain(load) {
        let holder = of.rules.holder(client);
        let view = place.period.view_of(holder);
        let held = counts[view.task.index()].of(holder, &of.class_sizes);
        for (unit, counts) in parts(of, (place, view.task), holder, held) {
            let kind = match unit {
                _ if holder != client => SeatKind::Load,
                Some(_) => SeatKind::Unit,
                None => SeatKind::Client,
            };
            let (id, view) = (SeatId(seats.len() as u32), Arc::clone(&view));
            let seat = Seat { id, client, role: Role::default(), unit, kind, view };
            seats.push(PlannedSeat { seat, counts });
        }
    }
    seats
}

/// A shard as a whole, or what its units hold.
fn parts(
    of: &Blueprint,
    (place, task): (&Place<'_>, TaskId),
    holder: ClientId,
    held: ClassCounts,
) -> Vec<(Option<u32>, ClassCounts)> {
    let rows: Vec<u32> = held.iter().flat_map(|(row, count)| vec![*row; *count as usize]).collect();
    if of.rules.units.of(place.name, rows.len()).is_none() {
        return vec![(None, held)];
    }
    let key = units::key(of.rules.seed, task, holder);
    let cut = units::cut(rows.len(), of.rules.units.count, key);
    let count = |places: Vec<u32>| {
        let mut counts = ClassCounts::new();
        for place in places {
            *counts.entry(rows[place as usize]).or_default() += 1;
        }
        counts
    };
    cut.into_iter().zip(0..).map(|(places, unit)| (Some(unit), count(places))).collect()
}
