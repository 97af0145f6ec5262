//! Where tests of networks and ops compute: on the CPU, or where `FEDCAST_TEST_DEVICE` says
//! (`cuda:0`), so that one set of tests serves every device.

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

/// The device of this thread's tests; every thread has an object of its own.
pub(crate) fn device() -> Device {
    DEVICE.with(Device::clone)
}

/// The same as a place, in `f32`.
pub(crate) fn place() -> DeviceSpec {
    DeviceSpec { device: device(), ..DeviceSpec::cpu() }
}
