//! `[devices]`: what computes.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::device_name::{self, Compute, DeviceName};
use super::reader::{Choice, Keys, Param, TableReader};

/// What computes.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = device_name::check(table, &section.names))]
pub struct DevicesSection {
    /// Devices that compute.
    ///
    /// `["cpu"]`, or GPUs such as `["cuda:0", "cuda:1"]`. Numbers on GPUs equal those on a CPU within a tolerance; events
    /// are the same.
    #[key(name = "use", default = vec![DeviceName::Cpu])]
    #[serde(rename = "use")]
    pub names: Vec<DeviceName>,
    /// Type of activations, or of products.
    ///
    /// Of activations and frozen weights on GPUs; whatever trains is `f32` everywhere. On a CPU `bf16` rounds the
    /// factors of the products of a `vit` alone: faster where the CPU has AVX512-BF16, slower elsewhere, and the
    /// same bits. Default `auto`: `f32` on a CPU, `bf16` on GPUs.
    #[key(default = Compute::Auto)]
    pub compute: Compute,
    /// Threads that compute.
    ///
    /// On GPUs so many for each. Changes no result on a CPU. Default `auto`: one per core, two per GPU.
    #[key(read = Workers::read(table, doc))]
    pub workers: Workers,
    /// Clients of a round that one worker trains together.
    ///
    /// In one forward and backward pass, where the method can. On a CPU it changes no result. Default `auto`: one on a
    /// CPU, by memory on a GPU.
    #[key(read = Pack::read(table, doc))]
    pub pack: Pack,
    /// Samples of a step of evaluation.
    ///
    /// Changes the last bits of numbers.
    #[key(default = 64, at_least = 1.0)]
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

impl Workers {
    fn read(table: &mut TableReader<'_>, doc: &'static str) -> Workers {
        if table.given_string("workers") || !table.given("workers") {
            let WorkersWord::Auto = table.get(&Param::new("workers", WorkersWord::Auto, doc));
            return Workers::Auto;
        }
        Workers::Count(table.get(&Param::new("workers", 1, doc).at_least(1.0).at_most(4096.0)))
    }
}

impl Pack {
    fn read(table: &mut TableReader<'_>, doc: &'static str) -> Pack {
        if table.given_string("pack") || !table.given("pack") {
            let PackWord::Auto = table.get(&Param::new("pack", PackWord::Auto, doc));
            return Pack::Auto;
        }
        Pack::Count(table.get(&Param::new("pack", 1, doc).at_least(1.0).at_most(4096.0)))
    }
}
