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

/// Planned sample passes by index of the cell; `None` if it cannot be planned.
type Passes = BTreeMap<usize, Option<f64>>;

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

    /// Estimates the seconds until all cells in `left` have ended; `None` while one of them is unknown.
    pub fn seconds_left(
        &self,
        pace: &Pace,
        jobs: usize,
        left: impl Fn(&PreparedCell) -> bool,
    ) -> Option<f64> {
        let left = self.cells.iter().filter(|prepared| left(prepared));
        let seconds = left
            .map(|prepared| pace.seconds(&prepared.scenario.method.name, self.passes(prepared)?));
        let seconds: Option<Vec<f64>> = seconds.collect();
        Some(seconds?.iter().sum::<f64>() / jobs.max(1) as f64)
    }

    /// Returns the planned sample passes of a cell; `None` before it is planned.
    pub fn passes(&self, prepared: &PreparedCell) -> Option<f64> {
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
            planned.insert(prepared.cell.index, total.map(|total| total.sample_passes));
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
        passes.get(&prepared.cell.index).copied().flatten().unwrap_or(f64::INFINITY)
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
