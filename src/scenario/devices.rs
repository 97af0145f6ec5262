//! `[devices]`: devices and threads.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::device_name::{self, Compute, DeviceName};
use super::reader::{Choice, Keys, Param, TableReader};

/// Devices and threads that compute.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = device_name::check(table, &section.names))]
pub struct DevicesSection {
    /// Devices: `["cpu"]`, or GPUs such as `["cuda:0", "cuda:1"]`.
    ///
    /// Numbers on GPUs equal those on a CPU within a tolerance; events are the same.
    #[key(name = "use", default = vec![DeviceName::Cpu])]
    #[serde(rename = "use")]
    pub names: Vec<DeviceName>,
    /// Number type of activations and frozen weights; trained parameters are always f32.
    ///
    /// On a CPU `bf16` only rounds the factors of the matrix products of a `vit`. That is faster on CPUs with
    /// AVX512-BF16, slower on others, and gives the same bits on both. Default `auto`: `f32` on a CPU, `bf16` on GPUs.
    #[key(default = Compute::Auto)]
    pub compute: Compute,
    /// Worker threads; on GPUs per GPU. `auto`: one per core, two per GPU.
    ///
    /// Changes no result on a CPU.
    #[key(read = Workers::read(table, doc))]
    pub workers: Workers,
    /// Clients that one worker trains in one batch. `auto`: 1 on a CPU, by memory on a GPU.
    ///
    /// They share one forward and backward pass if the method supports it. Changes no result on a CPU.
    #[key(read = Pack::read(table, doc))]
    pub pack: Pack,
    /// Samples per batch of evaluation; changes the last bits of numbers.
    #[key(default = 64, at_least = 1.0)]
    pub evaluation_batch: u32,
}

/// Number of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One per core, or two per GPU, one of which prepares images while the other computes.
    Auto,
    /// This many.
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

/// Word of [`Workers`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum WorkersWord {
    /// One per core, two per GPU; or a number.
    Auto,
}

/// Number of clients in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pack {
    /// One on a CPU, which is faster with clients in parallel; as many as memory holds on a GPU.
    Auto,
    /// At most this many.
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

/// Word of [`Pack`].
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
