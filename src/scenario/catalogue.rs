//! Interface to methods for the reader of scenarios, which does not import them.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::Scenario;
use super::reader::TableReader;

/// Registry of methods as the reader of scenarios sees it.
pub trait MethodCatalogue {
    /// Returns every name that `method.name` may have.
    fn names(&self) -> Vec<String>;

    /// Reads and checks the keys of a method in its `[method]` table. Some defaults depend on the kind of backbone.
    fn read(
        &self,
        name: &str,
        backbone: &str,
        table: &mut TableReader<'_>,
    ) -> Arc<dyn ChosenMethod>;
}

/// Method with its settings, as chosen by a scenario. The registry that read it builds it.
pub trait ChosenMethod: Any + Send + Sync {
    /// Returns requirements that the scenario violates. Called if everything else is right.
    fn violations(&self, scenario: &Scenario) -> Vec<RequirementError>;

    /// Returns the names of the method's phases; none if they are not known.
    fn phases(&self, scenario: &Scenario) -> Vec<String> {
        let _ = scenario;
        Vec::new()
    }

    /// Returns the keys that the method never reads. Called for valid scenarios.
    fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        let _ = scenario;
        Vec::new()
    }
}

/// Requirement of a method that a scenario violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError {
    /// Key that the error is about, for example `federation.clients` or `faults.0.kind`.
    pub key: Cow<'static, str>,
    /// Problem, in one sentence.
    pub message: String,
    /// Label at the caret.
    pub label: String,
    /// Advice for the user.
    pub help: String,
}

impl RequirementError {
    /// Creates an error at a key, with a message, a label for the caret, and help.
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> RequirementError {
        let (message, label, help) = (message.into(), label.into(), help.into());
        RequirementError { key: key.into(), message, label, help }
    }
}

/// Key of a scenario that has no effect on the run, or not in all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Key or its table, for example `participation.count`.
    pub key: Cow<'static, str>,
    /// Explanation of the missing effect and of the actual behavior.
    pub message: String,
    /// True if the key has an effect in a part of the run.
    pub partly: bool,
}

impl Ignored {
    /// Creates a note about a key.
    pub fn new(key: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Ignored {
        Ignored { key: key.into(), message: message.into(), partly: false }
    }

    /// Marks the key as one that has an effect in a part of the run, if `partly` is true.
    pub fn partly(self, partly: bool) -> Ignored {
        Ignored { partly, ..self }
    }
}

/// Any method with any keys, for tools and tests that know no methods.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyMethod;

impl MethodCatalogue for AnyMethod {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, _: &str, _: &str, table: &mut TableReader<'_>) -> Arc<dyn ChosenMethod> {
        table.accept_rest();
        Arc::new(AnyMethod)
    }
}

impl ChosenMethod for AnyMethod {
    fn violations(&self, _: &Scenario) -> Vec<RequirementError> {
        Vec::new()
    }
}
