//! Device of the tests of networks and ops: the CPU, or the value of `FEDCAST_TEST_DEVICE` (`cuda:0`). So one set of
//! tests serves every device.

use candle_core::Device;

use super::DeviceSpec;
use crate::scenario::{Compute, DeviceName};

/// Names the device; one that cannot be had fails the test.
const VARIABLE: &str = "FEDCAST_TEST_DEVICE";

thread_local! {
    static DEVICE: Device = open();
}

fn open() -> Device {
    let Ok(name) = std::env::var(VARIABLE) else { return Device::Cpu };
    let name: DeviceName = name.parse().unwrap_or_else(|why| panic!("{VARIABLE}: {why}"));
    DeviceSpec::open(name, Compute::F32).unwrap_or_else(|why| panic!("{VARIABLE}: {why}")).device
}

/// Returns the device of this thread's tests; every thread has its own object.
pub(crate) fn device() -> Device {
    DEVICE.with(Device::clone)
}

/// Returns the tests' device as a place, in `f32`.
pub(crate) fn place() -> DeviceSpec {
    DeviceSpec { device: device(), ..DeviceSpec::cpu() }
}
