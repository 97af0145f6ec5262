//! What people read of a run: tables on stdout, CSV files, progress on stderr.

mod accuracy;
pub mod csv;
mod final_table;
mod plan_table;
mod progress;
mod shared;
pub mod summary;
pub mod tables;
mod text_table;
mod wall;
pub mod words;

pub use accuracy::Accuracy;
pub use final_table::final_table;
pub use plan_table::plan_table;
pub use progress::Progress;
pub use shared::{Both, Shared};
pub use summary::Summary;
pub use text_table::{TextTable, grouped, percent};
pub use wall::{Profile, WallTimes};
