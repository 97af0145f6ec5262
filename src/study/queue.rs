//! Queue of cells to run: their order and estimated duration.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::outlook::total;
use super::prepare::PreparedCell;
use super::{CellState, Order, Outcomes, Pace};
use crate::methods::Registry;

/// Cells to run, in the order of their start.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Cells in the order of their start.
    pub cells: Arc<[PreparedCell]>,
    passes: Arc<OnceLock<Passes>>,
}

/// Planned work by index of the cell; `None` if it cannot be planned.
type Passes = BTreeMap<usize, Option<PlannedCost>>;

/// Planned work of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlannedCost {
    passes: f64,
    rounds: u64,
}

impl Queue {
    /// Returns the queue of the `wanted` cells that are left to run; failed ones only if they are retried.
    ///
    /// Their costs are planned on another thread, unless the order depends on them: plans of many large cells take a
    /// while, and runs need not wait for them.
    pub fn of(
        cells: &[PreparedCell],
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
        let mut cells: Vec<PreparedCell> = left.cloned().collect();
        if order == Order::CheapFirst {
            let passes = planned(&cells, methods);
            cheap_first(&mut cells, &passes);
            return Queue { cells: cells.into(), passes: Arc::new(OnceLock::from(passes)) };
        }
        let queue = Queue { cells: cells.into(), passes: Arc::default() };
        let (aside, methods) = (queue.clone(), methods.clone());
        thread::spawn(move || aside.passes.set(planned(&aside.cells, &methods)));
        queue
    }

    /// Estimates the seconds of a whole run of a cell; `None` while nothing is known.
    pub fn seconds(&self, pace: &Pace, prepared: &PreparedCell) -> Option<f64> {
        pace.seconds(&prepared.scenario.method.name, self.passes(prepared)?)
    }

    /// Returns the planned sample passes of a cell; `None` before it is planned.
    pub fn passes(&self, prepared: &PreparedCell) -> Option<f64> {
        self.cost(prepared).map(|cost| cost.passes)
    }

    /// Returns the planned rounds of a cell; `None` before it is planned.
    pub fn rounds(&self, prepared: &PreparedCell) -> Option<u64> {
        self.cost(prepared).map(|cost| cost.rounds)
    }

    fn cost(&self, prepared: &PreparedCell) -> Option<PlannedCost> {
        *self.passes.get()?.get(&prepared.cell.index)?
    }
}

/// Plans the sample passes of these cells, on all cores.
fn planned(cells: &[PreparedCell], methods: &Registry) -> Passes {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let some = || {
        let mut planned = Passes::new();
        while let Some(prepared) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
            let total = total(&prepared.scenario, methods).ok();
            let cost = total.map(|t| PlannedCost { passes: t.sample_passes, rounds: t.rounds });
            planned.insert(prepared.cell.index, cost);
        }
        planned
    };
    thread::scope(|scope| {
        let parts: Vec<_> = (0..cores.min(cells.len())).map(|_| scope.spawn(some)).collect();
        let parts = parts.into_iter().map(|part| part.join());
        parts.flat_map(|part| part.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// Sorts cells by cost: cheap ones first, those of unknown cost last.
fn cheap_first(cells: &mut [PreparedCell], passes: &Passes) {
    let cost = |prepared: &PreparedCell| {
        let cost = passes.get(&prepared.cell.index).copied().flatten();
        cost.map_or(f64::INFINITY, |cost| cost.passes)
    };
    // Stable: cells of equal cost keep their written order.
    cells.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
}

/// Returns true if a cell is left to run; failed ones only if they are retried.
fn is_left(state: &CellState, retry_failed: bool) -> bool {
    match state {
        CellState::Waiting | CellState::Unfinished => true,
        CellState::Failed(_) => retry_failed,
        CellState::Running | CellState::Done | CellState::Foreign(_) => false,
    }
}
