//! `[method]`: the name of a method and its own keys.

use serde::Serialize;

use super::reader::{self, TableReader};
use super::{BackboneSection, MethodCatalogue, ScenarioError};

/// What is learnt, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSection {
    /// The name in the registry. Required.
    pub name: String,
    /// The method's own keys with every default written out, without `name`.
    #[serde(flatten)]
    pub parameters: toml::Table,
}

impl MethodSection {
    pub(super) fn read(
        table: &mut TableReader<'_>,
        backbone: &BackboneSection,
        methods: &dyn MethodCatalogue,
    ) -> Self {
        let name = table.name_of(&methods.names());
        match &name {
            Some(name) => methods.read(name, &backbone.kind(), table),
            None => table.accept_rest(),
        }
        let mut parameters = table.effective().clone();
        parameters.remove("name");
        MethodSection { name: name.unwrap_or_default(), parameters }
    }

    /// Name of the method of the first task in `[method.first]`, where there is one.
    pub fn first(&self) -> Option<&str> {
        let name = self.parameters.get("first")?.get("name")?.as_str()?;
        (name != "none").then_some(name)
    }

    /// Reads the parameters again, as the configuration of a method.
    ///
    /// # Errors
    /// None for a section that came out of a scenario file; for one made by a program, what is
    /// wrong with it.
    pub fn config<C>(
        &self,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> Result<C, ScenarioError> {
        let text = self.parameters.to_string();
        reader::read_text(&text, &format!("[method] {}", self.name), read)
    }
}
