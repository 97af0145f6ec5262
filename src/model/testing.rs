//! Device of the tests of networks and operations: the CPU, or the one in `FEDCAST_TEST_DEVICE` (such as `cuda:0`). So
//! the same tests serve every device.

use candle_core::Device;

use super::DeviceSpec;
use crate::scenario::{Compute, DeviceName};

/// Environment variable with the device; one that cannot be opened fails the test.
const VARIABLE: &str = "FEDCAST_TEST_DEVICE";

thread_local! {
    static DEVICE: Device = open();
}

fn open() -> Device {
    let Ok(name) = std::env::var(VARIABLE) else { return Device::Cpu };
    let name: DeviceName = name.parse().unwrap_or_else(|why| panic!("{VARIABLE}: {why}"));
    DeviceSpec::open(name, Compute::F32).unwrap_or_else(|why| panic!("{VARIABLE}: {why}")).device
}

/// Returns the device of this thread's tests. Every thread has a separate device object.
pub(crate) fn device() -> Device {
    DEVICE.with(Device::clone)
}

/// Returns the tests' device, computing in `f32`.
pub(crate) fn place() -> DeviceSpec {
    DeviceSpec { device: device(), ..DeviceSpec::cpu() }
}
