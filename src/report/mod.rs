//! What people read of a run: tables on stdout, CSV files, progress on stderr.

pub mod csv;
mod text_table;

pub use text_table::{TextTable, grouped, percent};
