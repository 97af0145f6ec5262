//! Commands that describe the program to people, editors, shells and readers of manuals.

pub mod completions;
pub mod keys;
pub mod man;
pub mod schema;
