//! What the scenario must know of methods without importing them.

use super::reader::TableReader;

/// The registry of methods as the reader of scenarios sees it.
pub trait MethodCatalogue {
    /// Every name that `method.name` may have.
    fn names(&self) -> Vec<String>;

    /// Reads (and so checks) the keys of a method in its `[method]` table. The reader notes
    /// values and defaults; what this builds of them is not needed here.
    fn read(&self, name: &str, table: &mut TableReader<'_>);
}

/// Any method with any keys: for tools and tests that know no methods.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyMethod;

impl MethodCatalogue for AnyMethod {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&self, _name: &str, table: &mut TableReader<'_>) {
        table.accept_rest();
    }
}
