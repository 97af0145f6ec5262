//! Workers of a run: threads of the CPU, or workers on GPUs.

use super::error::FederationError;
use crate::model::DeviceSpec;
use crate::policy::RunContext;

/// The workers of a run.
#[derive(Clone, Debug)]
pub enum Workforce {
    /// Number of threads (at least one), which share one copy of everything. Changes no result.
    Cpu(usize),
    /// One worker per device, each with its own device object and its own copy of the backbone.
    Gpus(Vec<DeviceSpec>),
}

impl Workforce {
    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        match self {
            Workforce::Cpu(threads) => (*threads).max(1),
            Workforce::Gpus(places) => places.len(),
        }
    }

    /// Returns a context for every worker; on GPUs the backbone is copied to each.
    pub(super) fn contexts(&self, ctx: &RunContext) -> Result<Vec<RunContext>, FederationError> {
        match self {
            Workforce::Cpu(_) => Ok(vec![ctx.clone(); self.count()]),
            Workforce::Gpus(places) => places
                .iter()
                .map(|place| ctx.to_device(place))
                .collect::<Result<_, _>>()
                .map_err(|error| FederationError::Device(error.to_string())),
        }
    }
}

impl From<usize> for Workforce {
    fn from(threads: usize) -> Workforce {
        Workforce::Cpu(threads)
    }
}
