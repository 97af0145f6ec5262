//! `[devices]`: what computes.

use clap::ValueEnum;
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
    /// Type of activations and frozen weights on GPUs; whatever trains is `f32` everywhere. On a CPU `bf16` rounds the
    /// factors of the products of a `vit` alone: faster where the CPU has AVX512-BF16, slower elsewhere, and the
    /// same bits. Default `auto`: `f32` on a CPU, `bf16` on GPUs.
    pub compute: Compute,
    /// Threads that train and evaluate, on GPUs so many for each. Changes no result on a CPU.
    /// Default `auto`: one per core, two per GPU.
    pub workers: Workers,
    /// Clients of a round that one worker trains in one forward and backward pass, where the method
    /// can. On a CPU it changes no result. Default `auto`: one on a CPU, by memory on a GPU.
    pub pack: Pack,
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
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum WorkersWord {
    /// One per core, two per GPU; or a number.
    Auto,
}

/// How many clients in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// One on a CPU, where clients side by side are faster; as many as memory holds on a GPU.
    Auto,
    /// At most so many.
    Count(u32),
}

impl Serialize for Pack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Pack::Auto => serializer.serialize_str("auto"),
            Pack::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

/// The one word [`Pack`] may be.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum PackWord {
    /// 1 on a CPU, by memory on a GPU; or a number.
    Auto,
}

impl DevicesSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> DevicesSection {
        let names = table.get(&Param::new("use", vec![DeviceName::Cpu], "what computes"));
        let compute =
            table.get(&Param::new("compute", Compute::Auto, "type of activations, or of products"));
        device_name::check(table, &names);
        let at_least_1 = |name, default, doc| Param::<u32>::new(name, default, doc).at_least(1.0);
        let doc = "threads that compute";
        let workers = match table.given_string("workers") || !table.given("workers") {
            true => {
                let WorkersWord::Auto = table.get(&Param::new("workers", WorkersWord::Auto, doc));
                Workers::Auto
            }
            false => Workers::Count(table.get(&at_least_1("workers", 1, doc).at_most(4096.0))),
        };
        let doc = "clients that one worker trains together";
        let pack = match table.given_string("pack") || !table.given("pack") {
            true => {
                let PackWord::Auto = table.get(&Param::new("pack", PackWord::Auto, doc));
                Pack::Auto
            }
            false => Pack::Count(table.get(&at_least_1("pack", 1, doc).at_most(4096.0))),
        };
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
