//! Names that most programs with fedcast need: to run a scenario, to read runs, to write a method.
//!
//! ```
//! use fedcast::prelude::*;
//!
//! let methods = Registry::builtin();
//! assert!(methods.find("fedavg").is_ok());
//! assert_eq!(Metric::parse("faa")?.title(), "final average accuracy");
//! # Ok::<(), fedcast::results::ResultsError>(())
//! ```
//!
//! `examples/` has three whole programs that import nothing else.

pub use crate::experiment::assemble::{assemble, load};
pub use crate::experiment::{Run, RunOptions};
pub use crate::federation::{
    Direction, Entry, Event, EventSink, Interrupt, MemorySink, SinkError, simulate,
};
pub use crate::methods::averaging::{ClosedRound, LocalTrainingResult, PackClient, ServerState};
pub use crate::methods::fedavg::FedAvg;
pub use crate::methods::parts::{AveragingMethod, ClientContext, Parts, ServerUpdate};
pub use crate::methods::{MethodEntry, Registry};
pub use crate::model::{Parameter, ParameterSet};
pub use crate::policy::{Metrics, PolicyError, RunContext};
pub use crate::quantity::{Bytes, ClientId, Round, TaskId, VirtualTime};
pub use crate::report::{Summary, final_table};
pub use crate::results::{Metric, RunRecord, Spread};
pub use crate::scenario::reader::{Param, TableReader};
pub use crate::scenario::{Override, Scenario};
