//! `[method]`: name of a method and its own keys.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::reader::{self, TableReader};
use super::{
    BackboneSection, ChosenMethod, Ignored, MethodCatalogue, RequirementError, Scenario,
    ScenarioError,
};

/// Method with its own keys.
#[derive(Clone, Serialize)]
pub struct MethodSection {
    /// Name in the registry. Required.
    pub name: String,
    /// Method's own keys with every default written out, without `name`.
    #[serde(flatten)]
    parameters: toml::Table,
    /// Method as the registry read it.
    #[serde(skip)]
    chosen: Option<Arc<dyn ChosenMethod>>,
}

impl MethodSection {
    /// Creates a section in a program; its keys are read when the method is built.
    pub fn new(name: impl Into<String>, parameters: toml::Table) -> MethodSection {
        MethodSection { name: name.into(), parameters, chosen: None }
    }

    pub(super) fn read(
        table: &mut TableReader<'_>,
        backbone: &BackboneSection,
        methods: &dyn MethodCatalogue,
    ) -> Self {
        let name = table.name_of(&methods.names());
        let chosen = name.as_ref().map(|name| methods.read(name, &backbone.kind(), table));
        if chosen.is_none() {
            table.accept_rest();
        }
        let mut parameters = table.effective().clone();
        parameters.remove("name");
        MethodSection { name: name.unwrap_or_default(), parameters, chosen }
    }

    /// Returns the method's own keys with every default written out.
    pub fn parameters(&self) -> &toml::Table {
        &self.parameters
    }

    /// Returns the method's own keys, for the hash of a scenario.
    pub(super) fn parameters_mut(&mut self) -> &mut toml::Table {
        &mut self.parameters
    }

    /// Returns the section of the first of two methods, `[method.first]`.
    pub fn first(&self) -> Option<MethodSection> {
        let mut parameters = self.parameters.get("first")?.as_table()?.clone();
        let toml::Value::String(name) = parameters.remove("name")? else { return None };
        (name != "none").then(|| MethodSection::new(name, parameters))
    }

    /// Returns the requirements that the scenario violates.
    pub(super) fn violations(&self, scenario: &Scenario) -> Vec<RequirementError> {
        self.chosen.as_ref().map_or_else(Vec::new, |chosen| chosen.violations(scenario))
    }

    /// Returns the names of the method's phases. None for a section made by a program.
    pub(super) fn phases(&self, scenario: &Scenario) -> Vec<String> {
        self.chosen.as_ref().map_or_else(Vec::new, |chosen| chosen.phases(scenario))
    }

    /// Returns the settings of its scenario that the method never reads. None for a section made by a program.
    pub(super) fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        self.chosen.as_ref().map_or_else(Vec::new, |chosen| chosen.ignored(scenario))
    }

    /// Returns the method as the registry read it, if it has this type. `None` for a section made by a program.
    pub fn chosen<C: ChosenMethod>(&self) -> Option<&C> {
        let chosen: &dyn Any = self.chosen.as_deref()?;
        chosen.downcast_ref()
    }

    /// Reads the parameters of a section made by a program.
    ///
    /// # Errors
    /// Returns all errors of the parameters.
    pub fn config<C>(
        &self,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> Result<C, ScenarioError> {
        let text = self.parameters.to_string();
        reader::read_text(&text, &format!("[method] {}", self.name), read)
    }
}

impl PartialEq for MethodSection {
    fn eq(&self, other: &MethodSection) -> bool {
        (&self.name, &self.parameters) == (&other.name, &other.parameters)
    }
}

impl fmt::Debug for MethodSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MethodSection { name, parameters, .. } = self;
        f.debug_struct("MethodSection").field("name", name).field("parameters", parameters).finish()
    }
}
