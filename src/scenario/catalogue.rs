//! What the scenario must know of methods without importing them.

use super::Scenario;
use super::reader::TableReader;

/// The registry of methods as the reader of scenarios sees it.
pub trait MethodCatalogue {
    /// Every name that `method.name` may have.
    fn names(&self) -> Vec<String>;

    /// Reads (and so checks) the keys of a method in its `[method]` table; the kind of backbone
    /// decides about defaults. The reader notes values and defaults; what this builds of them is
    /// not needed here.
    fn read(&self, name: &str, backbone: &str, table: &mut TableReader<'_>);

    /// What the method of a scenario cannot work with elsewhere in it. Asked once everything
    /// else is right.
    fn complaints(&self, scenario: &Scenario) -> Vec<Complaint> {
        let _ = scenario;
        Vec::new()
    }
}

/// Something in a scenario that a method cannot work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The key it is about, for example `federation.clients`.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What stands at the caret.
    pub label: String,
    /// What to do.
    pub help: String,
}

/// Any method with any keys: for tools and tests that know no methods.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyMethod;

impl MethodCatalogue for AnyMethod {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, _name: &str, _backbone: &str, table: &mut TableReader<'_>) {
        table.accept_rest();
    }
}
