//! Which cells are left, in which order they run, and how long they will take.

use super::outlook::total;
use super::prepare::Prepared;
use super::{CellState, Order, Outcomes, Pace};
use crate::methods::Registry;

/// Cells to run, in order.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// In the order in which they are begun.
    pub cells: Vec<Prepared>,
    /// Planned sample passes of each; none where a cell cannot be planned.
    passes: Vec<Option<f64>>,
}

impl Queue {
    /// Of those cells that are `wanted`, cell by cell, and that are left. Failed ones are when they are tried again.
    pub fn of(
        cells: &[Prepared],
        outcomes: &Outcomes,
        order: Order,
        retry_failed: bool,
        wanted: &[bool],
        methods: &Registry,
    ) -> Queue {
        let left =
            cells.iter().zip(&outcomes.all).zip(wanted).filter_map(|((cell, outcome), wanted)| {
                (*wanted && is_left(&outcome.state, retry_failed)).then_some(cell)
            });
        let passes =
            |prepared: &Prepared| Some(total(&prepared.scenario, methods).ok()?.sample_passes);
        let mut cells: Vec<(Prepared, Option<f64>)> =
            left.map(|prepared| (prepared.clone(), passes(prepared))).collect();
        if order == Order::CheapFirst {
            cheap_first(&mut cells);
        }
        let (cells, passes) = cells.into_iter().unzip();
        Queue { cells, passes }
    }

    /// Seconds until all of those that `left` names are over, so many at once; none while one is unknown.
    pub fn seconds_left(
        &self,
        pace: &Pace,
        jobs: usize,
        left: impl Fn(&Prepared) -> bool,
    ) -> Option<f64> {
        let left = self.cells.iter().zip(&self.passes).filter(|(prepared, _)| left(prepared));
        let seconds =
            left.map(|(prepared, passes)| pace.seconds(&prepared.scenario.method.name, (*passes)?));
        let seconds: Option<Vec<f64>> = seconds.collect();
        Some(seconds?.iter().sum::<f64>() / jobs.max(1) as f64)
    }

    /// Planned sample passes of a cell.
    pub fn passes(&self, prepared: &Prepared) -> Option<f64> {
        let at = self.cells.iter().position(|other| other.cell == prepared.cell)?;
        self.passes[at]
    }
}

/// Puts cells in the order in which they shall run: cheap ones first, those of unknown cost last.
fn cheap_first(cells: &mut [(Prepared, Option<f64>)]) {
    // Stable: cells of one cost stay as they are written.
    cells.sort_by(|(_, one), (_, other)| {
        one.unwrap_or(f64::INFINITY).total_cmp(&other.unwrap_or(f64::INFINITY))
    });
}

/// Whether a cell is left to run: failed ones only when they are tried again.
fn is_left(state: &CellState, retry_failed: bool) -> bool {
    match state {
        CellState::Waiting | CellState::Unfinished => true,
        CellState::Failed(_) => retry_failed,
        CellState::Running | CellState::Done | CellState::Foreign(_) => false,
    }
}
