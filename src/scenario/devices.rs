//! `[devices]`: what computes.

use serde::{Serialize, Serializer};

use super::device_name::{self, Compute, DeviceName};
use super::reader::{Choice, Param, TableReader, defaults};

/// What computes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DevicesSection {
    /// What computes: `["cpu"]`, or GPUs such as `["cuda:0", "cuda:1"]`. Numbers on GPUs equal
    /// those on a CPU within a tolerance; events are the same. Default `["cpu"]`.
    #[serde(rename = "use")]
    pub names: Vec<DeviceName>,
    /// Type of activations and frozen weights. Whatever trains is `f32` everywhere.
    /// Default `auto`.
    pub compute: Compute,
    /// Threads that train and evaluate, on GPUs so many for each. Changes no result on a CPU.
    /// Default `auto`: one per core, two per GPU.
    pub workers: Workers,
    /// Clients trained together on one worker. Default 1, and nothing else: packs of more than
    /// one client are not built yet.
    pub pack: u32,
    /// Samples of a step of evaluation. Changes the last bits of numbers. Default 64.
    pub evaluation_batch: u32,
}

/// How many workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per core, or two per GPU, one of which prepares images while the other computes.
    Auto,
    /// So many.
    Count(u32),
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Workers::Auto => serializer.serialize_str("auto"),
            Workers::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

/// The one word [`Workers`] may be.
#[derive(Clone, Copy, PartialEq)]
struct Auto;

impl Choice for Auto {
    const CHOICES: &'static [(&'static str, Self, &'static str)] =
        &[("auto", Auto, "one per core, two per GPU; or a number")];
}

impl DevicesSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> DevicesSection {
        let names = table.get(&Param::new("use", vec![DeviceName::Cpu], "what computes"));
        let compute = table.get(&Param::new("compute", Compute::Auto, "type of activations"));
        device_name::check(table, &names, compute);
        let at_least_1 = |name, default, doc| Param::<u32>::new(name, default, doc).at_least(1.0);
        let workers = match table.given_string("workers") || !table.given("workers") {
            true => {
                let Auto = table.get(&Param::new("workers", Auto, "threads that compute"));
                Workers::Auto
            }
            false => {
                let count = at_least_1("workers", 1, "threads that compute").at_most(4096.0);
                Workers::Count(table.get(&count))
            }
        };
        let pack = at_least_1("pack", 1, "clients trained together; more than 1 is not built yet");
        let pack = table.get(&pack);
        if pack > 1 {
            table.reject(
                "pack",
                "packs of more than one client are not built yet",
                "only 1 so far",
                "set `pack = 1` or remove this line; `workers` train clients side by side",
            );
        }
        DevicesSection {
            names,
            compute,
            workers,
            pack,
            evaluation_batch: table.get(&at_least_1("evaluation_batch", 64, "samples of a step")),
        }
    }
}

impl Default for DevicesSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
