//! Devices that a scenario can name, and number types of networks on them.

// The traits for reading keys are private to `scenario` on purpose; the types are public.
#![allow(private_interfaces)]

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

use super::reader::{Choice, Node, Readable, TableReader, TomlValue, ValueFault};

/// Device of the machine that runs a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// The CPU: `cpu`.
    Cpu,
    /// GPU by its index: `cuda:0`.
    Cuda(usize),
}

/// Number type of activations and frozen weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Compute {
    /// `f32` on a CPU, `bf16` on GPUs.
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit floats with the exponent range of f32: on GPUs for everything from pixels to features; on a CPU for the
    /// factors of a transformer's matrix products, which are accumulated in f32.
    Bf16,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceName, String> {
        let number = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
        match text.split_once(':') {
            None if text == "cpu" => Ok(DeviceName::Cpu),
            Some(("cuda", index)) if number(index).is_some() => {
                Ok(DeviceName::Cuda(number(index).unwrap_or_default()))
            }
            _ => Err(format!("`{text}` is not a device: write \"cpu\", or \"cuda:0\" for a GPU")),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Cpu => f.write_str("cpu"),
            DeviceName::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl Serialize for DeviceName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Readable for DeviceName {
    const WHAT: &'static str = "a device such as \"cpu\" or \"cuda:0\"";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        let TomlValue::String(text) = &node.value else {
            return Err(ValueFault::wrong_type(node, Self::WHAT));
        };
        text.parse().map_err(|why: String| {
            ValueFault::new(node, why, "unknown device")
                .help("several GPUs are [\"cuda:0\", \"cuda:1\"]")
        })
    }

    fn to_toml(&self) -> toml::Value {
        self.to_string().into()
    }
}

/// Reports devices that cannot be used together.
pub(super) fn check(table: &mut TableReader<'_>, devices: &[DeviceName]) {
    let on_cpu = devices.contains(&DeviceName::Cpu);
    let twice = (1..devices.len()).any(|i| devices[..i].contains(&devices[i]));
    let (message, label, help) = if devices.is_empty() {
        ("devices.use names no device", "empty", "write [\"cpu\"], or [\"cuda:0\"]")
    } else if on_cpu && devices.iter().any(|device| *device != DeviceName::Cpu) {
        (
            "devices.use names the CPU and GPUs, but a run uses only one kind",
            "mixed",
            "name only one kind: results would depend on which worker trained which client",
        )
    } else if twice {
        ("a device is named twice", "named twice", "set devices.workers for more workers on it")
    } else {
        return;
    };
    table.reject("use", message, label, help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_others_are_refused() {
        for name in [DeviceName::Cpu, DeviceName::Cuda(0), DeviceName::Cuda(11)] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for text in ["gpu", "cuda", "cuda:", "cuda:-1", "cuda:+1", "CPU", "cpu:0", "cuda:0 "] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
