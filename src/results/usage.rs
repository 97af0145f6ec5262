//! What the processes took that worked on a run: `usage.json`.
//!
//! Written by whoever starts runs as processes and watches them (`fedcast study`), one entry per process: a run that was
//! killed and went on had several. Like all wall times it is no part of what a run is.

use serde::{Deserialize, Serialize};

/// The content of `usage.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// In the order in which they ran.
    pub processes: Vec<ProcessUsage>,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// From its start to its end.
    pub wall_s: f64,
    /// Peak resident memory in MB (10^6 bytes), where the system tells it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak_memory_mb: Option<f64>,
}

impl Usage {
    /// Seconds of all processes together.
    pub fn wall_s(&self) -> f64 {
        self.processes.iter().map(|process| process.wall_s).sum()
    }

    /// The largest of them.
    pub fn peak_memory_mb(&self) -> Option<f64> {
        self.processes.iter().filter_map(|process| process.peak_memory_mb).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_and_memory_is_the_largest() {
        let process = |wall_s, peak_memory_mb| ProcessUsage { wall_s, peak_memory_mb };
        let usage = Usage {
            processes: vec![process(1.5, Some(80.0)), process(2.0, None), process(1.0, Some(70.0))],
        };
        assert_eq!((usage.wall_s(), usage.peak_memory_mb()), (4.5, Some(80.0)));
        assert_eq!(Usage::default().peak_memory_mb(), None);
    }
}
