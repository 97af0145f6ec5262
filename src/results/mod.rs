//! Results of recorded runs: metrics by name, deviations over seeds, paired differences, tables as files.
//!
//! A run writes a [directory](crate::experiment::RunDirectory). A [`RunRecord`] reads one of them. A [`Metric`] is a
//! number that runs may have, by its name (`faa`, `bytes_up`, `rounds_to:0.8`). [`Spread`] summarizes several runs, and
//! [`Paired`] the difference of two arms. A [`Table`] has typed columns and is written as CSV or Parquet. Nothing here
//! computes a run or writes into its directory.
//!
//! ```
//! use fedcast::results::{Metric, Paired, RunRecord, Spread};
//!
//! let faa = Metric::parse("faa")?;
//! assert_eq!((faa.title(), faa.show(0.9058).as_str()), ("final average accuracy", "90.58"));
//! assert!(Metric::parse("fa").unwrap_err().to_string().contains("did you mean `faa`?"));
//!
//! let runs = RunRecord::find("no/such/folder".as_ref())?;
//! let figures: Vec<f64> = runs.iter().filter_map(|run| run.figure(&faa)).collect();
//! assert_eq!(Spread::of(&figures), None);
//! let paired = Paired::of(&[(0.5, 0.4), (0.7, 0.4)]).unwrap();
//! assert!((paired.mean - 0.2).abs() < 1e-12 && paired.n == 2);
//! # Ok::<(), fedcast::results::ResultsError>(())
//! ```

mod arms;
mod best;
mod catalogue;
mod comparison;
mod curves;
mod differences;
mod distributions;
mod error;
mod holm;
mod inversions;
mod metric;
mod paired;
mod run;
mod sheet;
mod spread;
mod state;
mod stragglers;
mod table;
mod trace;

pub use arms::{Arm, Repeat};
pub use best::best;
pub use comparison::{Against, Comparison, Group, MetricLimit, MetricRow, Verdict};
pub use curves::{CurvePoint, thinned};
pub use differences::{Difference, Differences, Flat, flatten};
pub use distributions::Distribution;
pub use error::ResultsError;
pub use holm::holm;
pub use inversions::RunInversion;
pub use metric::{Better, Metric, Unit};
pub use paired::{Paired, equal_up_to_rounding};
pub use run::{FoundRuns, RunRecord};
pub use sheet::Sheet;
pub use spread::Spread;
pub use state::State;
pub use stragglers::RoundTiming;
pub use table::{Table, TableCell};
pub use trace::{FirstDifferences, Trace};
