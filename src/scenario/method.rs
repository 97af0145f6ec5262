//! `[method]`: the name of a method and its own keys.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::reader::{self, TableReader};
use super::{
    BackboneSection, ChosenMethod, Ignored, MethodCatalogue, RequirementError, Scenario,
    ScenarioError,
};

/// What is learned, and how.
#[derive(Clone, Serialize)]
pub struct MethodSection {
    /// The name in the registry. Required.
    pub name: String,
    /// The method's own keys with every default written out, without `name`.
    #[serde(flatten)]
    parameters: toml::Table,
    /// What the registry read them as.
    #[serde(skip)]
    chosen: Option<Arc<dyn ChosenMethod>>,
}

impl MethodSection {
    /// A section as a program makes it; its keys are read when the method is built.
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

    /// The method's own keys with every default written out.
    pub fn parameters(&self) -> &toml::Table {
        &self.parameters
    }

    /// The section of the first of two methods, `[method.first]`.
    pub fn first(&self) -> Option<MethodSection> {
        let mut parameters = self.parameters.get("first")?.as_table()?.clone();
        let toml::Value::String(name) = parameters.remove("name")? else { return None };
        (name != "none").then(|| MethodSection::new(name, parameters))
    }

    /// What the method cannot work with elsewhere in the scenario.
    pub(super) fn violations(&self, scenario: &Scenario) -> Vec<RequirementError> {
        self.chosen.as_ref().map_or_else(Vec::new, |chosen| chosen.violations(scenario))
    }

    /// What of the scenario that it is in the method never looks at; nothing for a section made by a program.
    pub(super) fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        self.chosen.as_ref().map_or_else(Vec::new, |chosen| chosen.ignored(scenario))
    }

    /// The method as the registry read it, of this type; `None` for a section made by a program.
    pub fn chosen<C: ChosenMethod>(&self) -> Option<&C> {
        let chosen: &dyn Any = self.chosen.as_deref()?;
        chosen.downcast_ref()
    }

    /// Reads the parameters of a section made by a program.
    ///
    /// # Errors
    /// What is wrong with it.
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
