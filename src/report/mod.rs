//! What people read of a run: tables on stdout, CSV files, progress on stderr.

mod accuracy;
pub mod csv;
mod progress;
pub mod summary;
pub mod tables;
mod text_table;
pub mod traffic;
mod wall;

pub use accuracy::Accuracy;
pub use progress::Progress;
pub use summary::Summary;
pub use text_table::{TextTable, grouped, percent};
pub use wall::{WallClock, WallTimes};
