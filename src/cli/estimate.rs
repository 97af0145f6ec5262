//! What a run takes of this machine: measured once, kept, and judged when the run is over.

use std::time::Duration;

use super::failure::CliError;
use crate::experiment::assemble::{blueprint, workforce};
use crate::experiment::estimate::{Costs, Estimate, KeptCosts, cost_key, trial};
use crate::experiment::plan::{Faults, Plan, plan};
use crate::methods::Registry;
use crate::quantity::WallSeconds;
use crate::scenario::Scenario;

/// Estimates runs by costs that are kept, and measures those that are not where it may.
pub(super) struct Estimator {
    kept: Option<KeptCosts>,
    /// How long a trial may go on; a client that trains is waited for. `None` measures nothing.
    budget: Option<Duration>,
    /// Measure again what is kept.
    again: bool,
}

impl Estimator {
    pub fn new(budget: Option<Duration>, again: bool) -> Estimator {
        Estimator { kept: KeptCosts::of_this_user(), budget, again }
    }

    /// Of a planned run; `None` where nothing is kept and nothing may be measured.
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
        let known = self.kept.as_ref().and_then(|kept| kept.get(&key)).cloned();
        let Some(budget) = self.budget.filter(|_| self.again || known.is_none()) else {
            return Ok(known);
        };
        let costs = trial(scenario, methods, u32::try_from(workers).ok(), budget)?;
        // An estimate that cannot be kept is made again.
        let _ = self.kept.as_mut().map(|kept| kept.keep(&key, &costs));
        Ok(Some(costs))
    }
}

/// A line for the end of a run that took so long, where `fedcast plan --estimate` has measured its like.
pub(super) fn estimate_line(scenario: &Scenario, workers: usize, took_s: f64) -> Option<String> {
    let methods = Registry::builtin();
    // Before the run is planned: most runs have not been estimated.
    let costs = Estimator::new(None, false).costs(scenario, &methods, workers).ok()??;
    let plan = plan(&blueprint(scenario, &methods).ok()?, Faults::Off).ok()?;
    let said = Estimate::of(&plan, scenario, &costs, workers).wall_s;
    Some(format!("estimate    {}, the run took {}\n", WallSeconds(said), WallSeconds(took_s)))
}
