//! Estimates of a run's costs on this machine: measured once, kept, compared after the run.

use std::time::Duration;

use super::failure::CliError;
use crate::experiment::assemble::{blueprint, workforce};
use crate::experiment::estimate::{Costs, Estimate, KeptCosts, cost_key, trial};
use crate::experiment::plan::{Faults, Plan, plan};
use crate::methods::Registry;
use crate::quantity::WallSeconds;
use crate::scenario::Scenario;

/// Estimates of runs from kept costs; measures missing costs if it has a time budget.
pub(super) struct Estimator {
    costs_on_disk: Option<KeptCosts>,
    /// Time budget of a trial, which still waits for a client in training. `None` measures nothing.
    budget: Option<Duration>,
    /// Measures again even if costs are kept.
    again: bool,
}

impl Estimator {
    pub fn new(budget: Option<Duration>, again: bool) -> Estimator {
        Estimator { costs_on_disk: KeptCosts::of_this_user(), budget, again }
    }

    /// Estimates a planned run. Returns `None` if no costs are kept and none may be measured.
    pub fn estimate(
        &mut self,
        scenario: &Scenario,
        plan: &Plan,
        methods: &Registry,
        workers: Option<u32>,
    ) -> Result<Option<Estimate>, CliError> {
        let count = workforce(&scenario.devices, workers)?.count();
        let costs = self.costs(scenario, methods, count)?;
        Ok(costs.map(|costs| Estimate::of(plan, scenario, &costs, count)))
    }

    fn costs(
        &mut self,
        scenario: &Scenario,
        methods: &Registry,
        workers: usize,
    ) -> Result<Option<Costs>, CliError> {
        let key = cost_key(scenario, workers);
        let known =
            self.costs_on_disk.as_ref().and_then(|costs_on_disk| costs_on_disk.get(&key)).cloned();
        let Some(budget) = self.budget.filter(|_| self.again || known.is_none()) else {
            return Ok(known);
        };
        let costs = trial(scenario, methods, u32::try_from(workers).ok(), budget)?;
        // An estimate that cannot be kept is made again.
        let _ = self.costs_on_disk.as_mut().map(|costs_on_disk| costs_on_disk.keep(&key, &costs));
        Ok(Some(costs))
    }
}

/// Returns the line that compares a run of `took_s` seconds with its estimate, if costs are kept.
pub(super) fn estimate_line(
    scenario: &Scenario,
    methods: &Registry,
    workers: usize,
    took_s: f64,
) -> Option<String> {
    // Before the run is planned: most runs have not been estimated.
    let costs = Estimator::new(None, false).costs(scenario, methods, workers).ok()??;
    let plan = plan(&blueprint(scenario, methods).ok()?, Faults::Off).ok()?;
    let predicted_s = Estimate::of(&plan, scenario, &costs, workers).wall_s;
    Some(format!(
        "estimate    {}, the run took {}\n",
        WallSeconds(predicted_s),
        WallSeconds(took_s)
    ))
}
