//! HePCo's server step by part, compared with the computation of its clients.
//!
//! A round of the paper's benchmark on ViT-Tiny at 96 pixels: 100 prompts of 20 rows in 5 blocks, five clients
//! of 300 images, ten epochs; the second task, so that old classes are replayed. One epoch of one client is
//! measured and taken times fifty. A second line gives the server step at the width of ViT-B. One thread each.
//!
//! ```text
//! cargo bench --bench hepco
//! ```

#[path = "../figures/mod.rs"]
mod figures;
mod setting;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use fedcast::model::VitConfig;
use figures::{Asked, Times};
use setting::{CLIENTS, EPOCHS, Parts, Setting};

fn vit(preset: &str) -> VitConfig {
    VitConfig { image: 96, ..VitConfig::preset(preset).expect("a preset") }
}

fn figures(criterion: &mut Criterion) {
    figures::begin();
    let tiny = Setting::new(vit("vit-tiny-patch16-224"));
    let mut epoch = Times::default();
    let mut group = criterion.benchmark_group("hepco");
    group.sample_size(10);
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(5));
    group.bench_function("vit-tiny, 96 pixels, an epoch of a client", |b| {
        b.iter_custom(|n| epoch.take(n, || tiny.client_epoch()));
    });
    group.finish();
    let Some(epoch) = epoch.median() else { return };
    let clients = epoch * f64::from(CLIENTS * EPOCHS);
    println!("figure  HePCo, ViT-Tiny: clients of a round {clients:.1} s on one thread");
    let share = print("ViT-Tiny", &tiny.server_step(), Some(clients));
    figures::print("HePCo, server step against its clients", "%", Asked::AtMost(25.0), share);
    print("ViT-B", &Setting::new(vit("vit-base-patch16-224")).server_step(), None);
}

/// Prints the parts of a server step, and their total in percent of the clients' time, which it returns.
fn print(name: &str, parts: &Parts, clients: Option<f64>) -> f64 {
    let seconds = [parts.generators, parts.prompts, parts.head].map(|part| part.as_secs_f64());
    let [generators, prompts, head] = seconds;
    let all = parts.all().as_secs_f64();
    let share = clients.map_or(0.0, |clients| 100.0 * all / clients);
    println!(
        "figure  HePCo, {name}: server step {all:.1} s: generators {generators:.1}, prompt \
         distillation {prompts:.1}, head distillation {head:.1}"
    );
    share
}

criterion_group!(benches, figures);
criterion_main!(benches);
