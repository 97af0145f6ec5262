//! How good the estimate of a run was.

use crate::experiment::assemble::blueprint;
use crate::experiment::estimate::{Estimate, KeptCosts, cost_key};
use crate::experiment::plan::{Faults, plan};
use crate::methods::Registry;
use crate::report::duration;
use crate::scenario::Scenario;

/// A line for the end of a run that took so long, where `fedcast plan --estimate` has measured its like.
pub(super) fn estimate_line(scenario: &Scenario, workers: usize, took_s: f64) -> Option<String> {
    let kept = KeptCosts::of_this_user()?;
    let costs = kept.get(&cost_key(scenario, workers))?;
    let plan = plan(&blueprint(scenario, &Registry::builtin()).ok()?, Faults::Off).ok()?;
    let said = Estimate::of(&plan, scenario, costs, workers).wall_s;
    Some(format!("estimate    {}, the run took {}\n", duration(said), duration(took_s)))
}
