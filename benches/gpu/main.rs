//! HGP's training step on a GPU.
//!
//! Measured are agreement with the CPU, images per second in packs of 1, 8 and 32 clients, and the fraction of the
//! device's own rate of matrix products.
//!
//! ```text
//! cargo bench --features cuda --bench gpu               # cuda:0, ViT-B/16 at 224 pixels, bf16
//! cargo bench --bench gpu -- cpu                        # the same code on the CPU, a small network
//! ```
//! `tools/gpu-check.sh` runs it with everything else there is to check. Where the device cannot be had
//! it says so and ends with 20, the exit code of fedcast for devices.

#![allow(clippy::disallowed_methods, reason = "benches compare with other arithmetic")]

mod gemm;
mod hgp;

use std::process::ExitCode;

use fedcast::model::{DeviceSpec, EMBEDDED_CONFIG, VitConfig};
use fedcast::scenario::{Compute, DeviceName};
use hgp::{Step, images_per_second};

const PACKS: [usize; 3] = [1, 8, 32];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let name = name.unwrap_or_else(|| "cuda:0".into());
    let opened = name.parse().map_err(|why: String| why).and_then(|device: DeviceName| {
        DeviceSpec::open(device, Compute::Auto).map_err(|why| why.to_string())
    });
    match opened {
        Ok(place) => match measure(&name, &place) {
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

fn measure(name: &str, place: &DeviceSpec) -> Result<(), Box<dyn std::error::Error>> {
    let on_cpu = place.device.is_cpu();
    let compute = place.compute.as_str();
    let (side, vit, packs) = match on_cpu {
        false => (8192, VitConfig::preset("vit-base").ok_or("no such network")?, &PACKS[..]),
        true => (512, EMBEDDED_CONFIG, &PACKS[..2]),
    };
    let peak = gemm::rate(place, side)?;
    println!("{name}: {compute} products of {side} x {side}: {:.1} TFLOP/s", peak / 1e12);

    for compute in [candle_core::DType::F32, place.compute] {
        let there = hgp::trained(&DeviceSpec { compute, ..place.clone() })?;
        let here = hgp::trained(&DeviceSpec::cpu())?;
        println!(
            "{} of eight clients after {} steps: losses differ by {:.1e}, values by {:.1e} (mean {:.1e})",
            compute.as_str(),
            here.steps,
            here.loss_distance(&there),
            here.largest_distance(&there),
            here.mean_distance(&there),
        );
    }

    println!("pack   images/s   ms per step   TFLOP/s   share of the products' rate");
    for &pack in packs {
        let step = Step::new(vit, place, pack)?;
        let rate = images_per_second(&step)?;
        let flops = rate * step.flops_per_image();
        println!(
            "{pack:4}   {rate:8.0}   {:11.1}   {:7.2}   {:.1} %",
            1e3 * step.images() as f64 / rate,
            flops / 1e12,
            1e2 * flops / peak,
        );
    }
    Ok(())
}
