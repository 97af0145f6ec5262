//! Commands that describe the program: keys, schemas, completions and manual pages.

pub mod completions;
pub mod keys;
pub mod man;
pub mod schema;
