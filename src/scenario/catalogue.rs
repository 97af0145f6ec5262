//! What the scenario must know of methods without importing them.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

use super::Scenario;
use super::reader::TableReader;

/// The registry of methods as the reader of scenarios sees it.
pub trait MethodCatalogue {
    /// Every name that `method.name` may have.
    fn names(&self) -> Vec<String>;

    /// Reads (and so checks) the keys of a method in its `[method]` table; the kind of backbone
    /// decides about defaults.
    fn read(
        &self,
        name: &str,
        backbone: &str,
        table: &mut TableReader<'_>,
    ) -> Arc<dyn ChosenMethod>;
}

/// A method with its settings, as a scenario chose it. The registry that read it builds it.
pub trait ChosenMethod: Any + Send + Sync {
    /// Returns requirements that the scenario violates. Asked once everything else is right.
    fn violations(&self, scenario: &Scenario) -> Vec<RequirementError>;

    /// What it never looks at. Asked of scenarios that are right.
    fn ignored(&self, scenario: &Scenario) -> Vec<Ignored> {
        let _ = scenario;
        Vec::new()
    }
}

/// Requirement of a method that a scenario violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementError {
    /// The key it is about, for example `federation.clients`.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What stands at the caret.
    pub label: String,
    /// What to do.
    pub help: String,
}

impl RequirementError {
    /// Says what is wrong at a key, in a few words at the caret, and what to do.
    pub fn new(
        key: &'static str,
        message: impl Into<String>,
        label: impl Into<String>,
        help: impl Into<String>,
    ) -> RequirementError {
        let (message, label, help) = (message.into(), label.into(), help.into());
        RequirementError { key, message, label, help }
    }
}

/// A key that a scenario has and that changes nothing of its run, or not everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The key or its table, for example `participation.count`.
    pub key: Cow<'static, str>,
    /// What has no meaning, and what happens in its place.
    pub message: String,
}

impl Ignored {
    /// A key and the sentence that is said of it.
    pub fn new(key: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Ignored {
        Ignored { key: key.into(), message: message.into() }
    }
}

/// Any method with any keys: for tools and tests that know no methods.
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
