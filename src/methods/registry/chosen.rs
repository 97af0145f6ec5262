//! A method as a scenario chose it: its settings are read, and its requirements on the rest of the scenario can be
//! checked.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::data::TaskView;
use crate::methods::recipe::Recipe;
use crate::methods::{Carried, Requirement, Uses, capabilities};
use crate::policy::{Composed, Method, ModelFacts, Stage};
use crate::quantity::TaskId;
use crate::scenario::{ChosenMethod, Ignored, RequirementError, Scenario};

/// Recipe of a method on the features of another, with the settings of both.
pub(super) struct ComposedRecipe {
    pub first: Box<dyn Recipe>,
    /// Number of rounds of the first method; `None`: that of the scenario.
    pub rounds: Option<u32>,
    pub then: Box<dyn Recipe>,
}

impl Recipe for ComposedRecipe {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        let staged = Composed::new(self.first.build(facts), self.then.build(facts));
        Arc::new(staged.with_rounds(self.rounds))
    }

    fn requirements(&self) -> Vec<Requirement> {
        self.then.requirements()
    }

    fn first(&self) -> Option<&dyn Recipe> {
        Some(&*self.first)
    }
}

/// Method as a scenario chose it, with its keys read.
pub(super) struct Chosen(pub Box<dyn Recipe>);

impl ChosenMethod for Chosen {
    fn violations(&self, scenario: &Scenario) -> Vec<RequirementError> {
        let mut violations = violations_of(&*self.0, scenario);
        violations.extend(check_dummy_client_phases(&*self.0, scenario));
        if violations.is_empty() && capabilities::wanted(scenario) {
            let facts = capabilities::facts(scenario);
            violations = capabilities::violations(scenario, &*self.0.build(&facts), &facts);
        }
        violations
    }

    fn phases(&self, scenario: &Scenario) -> Vec<String> {
        phases(&*self.0, scenario).into_iter().map(str::to_owned).collect()
    }

    fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        let facts = capabilities::facts(scenario);
        let method = self.0.build(&facts);
        let tasks = scenario.tasks.count() as usize;
        let mut ignored = Uses::of(&*method, tasks, scenario.federation.rounds).ignored(scenario);
        let load = scenario.federation.load_clients;
        if load > 0 && !method.profile().uses_network {
            let (key, name) = ("federation.load_clients", &scenario.method.name);
            let why = "no message crosses a link";
            let message = format!("{key} = {load} has no effect for `{name}`: {why}");
            ignored.push(Ignored::new(key, message));
        }
        let facts = ModelFacts { tasks: tasks.clamp(1, 2), ..facts };
        let build = |form| {
            let facts = ModelFacts { form, ..facts.clone() };
            Carried::of(&*self.0.build(&facts), &facts)
        };
        ignored.extend(Carried::ignored(scenario, build));
        ignored
    }
}

/// Returns the violations of a method's requirements by a scenario, and those of its first method.
///
/// The first method is checked as if the scenario had named it alone.
fn violations_of(recipe: &dyn Recipe, scenario: &Scenario) -> Vec<RequirementError> {
    let mut violations: Vec<RequirementError> =
        recipe.requirements().iter().flat_map(|one| one.violations(scenario)).collect();
    if let (Some(first), Some(method)) = (recipe.first(), scenario.method.first()) {
        violations.extend(violations_of(first, &Scenario { method, ..scenario.clone() }));
    }
    violations
}

/// Returns the names of the phases of all tasks.
fn phases(recipe: &dyn Recipe, scenario: &Scenario) -> BTreeSet<&'static str> {
    // Phases do not depend on dimensions, so any facts will do.
    let method = recipe.build(&capabilities::facts(scenario));
    let phases = |task: u16| {
        let view = TaskView { task: TaskId(task), rows: 0..1, classes: vec![0] };
        let stage = Stage::of(Arc::new(view), 2);
        method.phases(&stage, 1)
    };
    [phases(0), phases(1)].iter().flatten().map(|phase| phase.name).collect()
}

/// Returns an error if dummy clients are to act in a phase that the method does not have.
fn check_dummy_client_phases(recipe: &dyn Recipe, scenario: &Scenario) -> Option<RequirementError> {
    if scenario.federation.dummy_clients.count < 2 {
        return None;
    }
    let known = phases(recipe, scenario);
    let named = &scenario.federation.dummy_clients.phases;
    let unknown = named.iter().find(|name| !known.contains(name.as_str()))?;
    let known: Vec<String> = known.into_iter().map(|phase| format!("\"{phase}\"")).collect();
    Some(RequirementError {
        key: "federation.dummy_clients.phases".into(),
        message: format!("`{}` has no phase `{unknown}`", scenario.method.name),
        label: "no dummy clients there".into(),
        help: format!(
            "choose among its phases: federation.dummy_clients.phases = [{}]",
            known.join(", ")
        ),
    })
}
