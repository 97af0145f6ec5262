//! Training steps of HGP and LoRA on a GPU: agreement with the CPU, images per second in packs of 1 to 32 clients,
//! their fraction of the device's peak rate in matrix products, and memory.
//!
//! ```text
//! cargo bench --features cuda --bench gpu               # cuda:0, ViT-B/16 at 224 pixels, bf16
//! cargo bench --bench gpu -- cpu                        # the same code on the CPU, a small network
//! cargo bench --features cuda --bench gpu -- cuda:0 hgp 8   # two steps of a pack of 8 alone, for a profiler
//! ```
//! `tools/gpu-check.sh` runs it with all other checks. If the device cannot be opened, it reports that and exits with
//! 20, the exit code of fedcast for devices.

#![allow(clippy::disallowed_methods, reason = "benches compare with other arithmetic")]

mod gemm;
mod step;

use std::error::Error;
use std::process::ExitCode;

use candle_core::DType;
use fedcast::model::{DeviceSpec, EMBEDDED_CONFIG, GpuMemory, VitConfig};
use fedcast::scenario::{Compute, DeviceName};
use step::{Step, Trained, images_per_second};

const PACKS: [usize; 4] = [1, 8, 16, 32];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let name = arguments.next().unwrap_or_else(|| "cuda:0".into());
    let alone = arguments.next().zip(arguments.next());
    let opened = name.parse().map_err(|why: String| why).and_then(|device: DeviceName| {
        DeviceSpec::open(device, Compute::Auto).map_err(|why| why.to_string())
    });
    match opened {
        Ok(place) => match alone.map_or_else(|| measure(&name, &place), |asked| two(asked, &place))
        {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("gpu: {error}");
                ExitCode::FAILURE
            }
        },
        Err(why) => {
            println!("gpu: nothing measured: {why}");
            ExitCode::from(20)
        }
    }
}

/// Takes two steps of `name` with a pack of this many clients.
fn two((name, pack): (String, String), place: &DeviceSpec) -> Result<(), Box<dyn Error>> {
    let trained = Trained::ALL.into_iter().find(|trained| trained.name() == name);
    let trained = trained.ok_or("hgp and lora are what is measured")?;
    Ok(step::two(&Step::new(trained, network(place)?, place, pack.parse()?)?)?)
}

fn network(place: &DeviceSpec) -> Result<VitConfig, Box<dyn Error>> {
    match place.device.is_cpu() {
        false => Ok(VitConfig::preset("vit-base").ok_or("no such network")?),
        true => Ok(EMBEDDED_CONFIG),
    }
}

fn measure(name: &str, place: &DeviceSpec) -> Result<(), Box<dyn Error>> {
    let on_cpu = place.device.is_cpu();
    let (side, packs) = if on_cpu { (512, &PACKS[..2]) } else { (8192, &PACKS[..]) };
    let peak = gemm::rate(place, side)?;
    let compute = place.compute.as_str();
    println!("{name}: {compute} products of {side} x {side}: {:.1} TFLOP/s", peak / 1e12);
    for trained in Trained::ALL {
        agreement(trained, place)?;
        println!(
            "{:4}   pack   images/s   clients/s   ms per step   TFLOP/s   share of the products   memory",
            trained.name()
        );
        let mut alone = None;
        // In the type of the device, and one pack in f32.
        let wide = DeviceSpec { compute: DType::F32, ..place.clone() };
        let of_place = packs.iter().map(|pack| (*pack, place));
        for (pack, place) in of_place.chain([(8, &wide)].into_iter().filter(|_| !on_cpu)) {
            let step = Step::new(trained, network(place)?, place, pack)?;
            let memory = GpuMemory::of(&place.device);
            memory.as_ref().map(GpuMemory::forget_peak).transpose()?;
            let rate = images_per_second(&step)?;
            let flops = rate * step.flops_per_image();
            let peak_bytes = memory.as_ref().map(GpuMemory::peak).transpose()?.unwrap_or(0);
            println!(
                "{:4}   {pack:4}   {rate:8.0}   {:7.1} x   {:11.1}   {:7.2}   {:19.1} %   {:.2} GB",
                place.compute.as_str(),
                rate / *alone.get_or_insert(rate),
                1e3 * step.images() as f64 / rate,
                flops / 1e12,
                1e2 * flops / peak,
                peak_bytes as f64 / 1e9,
            );
        }
    }
    Ok(())
}

/// Prints the differences between eight clients that trained on this device and on a CPU.
fn agreement(trained: Trained, place: &DeviceSpec) -> Result<(), Box<dyn Error>> {
    let here = step::learned(trained, &DeviceSpec::cpu())?;
    for compute in [DType::F32, place.compute] {
        let there = step::learned(trained, &DeviceSpec { compute, ..place.clone() })?;
        println!(
            "{} of eight clients after {} steps: losses differ by {:.1e}, values by {:.1e} (mean {:.1e})",
            compute.as_str(),
            here.steps,
            here.loss_distance(&there),
            here.largest_distance(&there),
            here.mean_distance(&there),
        );
    }
    Ok(())
}
