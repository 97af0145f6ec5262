//! Promise: HGP, FedAvg, adapters, prompts, Joint, STSA, FedAvg-Prompt, HePCo, FedHAF and its baselines, Powder and
//! C2Prompt keep every invariant of their method cards, on a tiny network; the interface of policies carries more.
//! (Mixture weights, means of parameters, the zero prefix and the normalised loss are tested
//! beside their code.)

mod adapter;
mod baselines;
mod bytes;
mod c2prompt;
mod fedavg;
mod fedhaf;
mod frozen;
mod gradients;
mod hepco;
mod hgp;
mod joint;
mod packs;
mod powder;
mod prompts;
mod staged;
mod stsa;
mod toy_methods;
mod toys;

use std::ops::Range;
use std::sync::Arc;

use fedcast::data::ClassOrder;
use fedcast::methods::fedavg::{FedAvg, FedAvgConfig, Train};
use fedcast::methods::hgp::{Hgp, HgpConfig};
use fedcast::methods::joint::{Joint, JointConfig};
use fedcast::model::LinearHead;
use fedcast::policy::{Method, erase, parameters_of};
use fedcast::wire::{Body, Kind};
use toys::round_loop::Engine;
use toys::{facts, lab, rows_of};

/// A small HGP: six prompt rows in both blocks, few draws.
fn hgp_with(change: impl Fn(&mut HgpConfig)) -> Arc<dyn Method> {
    erase(Hgp::new(small(change), &facts()))
}

fn small(change: impl Fn(&mut HgpConfig)) -> HgpConfig {
    let mut config = HgpConfig {
        prompt_len: 6,
        samples_per_class: 64,
        rebalance_batch: 32,
        ..HgpConfig::default()
    };
    change(&mut config);
    config
}

fn fedavg_of(train: Train) -> Arc<dyn Method> {
    let config = FedAvgConfig { train, prompt_len: 6, ..FedAvgConfig::default() };
    erase(FedAvg::new(config, &facts()))
}

fn joint_of(train: Train, keep_optimiser: bool) -> Arc<dyn Method> {
    let learning = FedAvgConfig { train, ..FedAvgConfig::default() };
    erase(Joint::new(JointConfig { learning, keep_optimiser }, &facts()))
}

fn engine(method: Arc<dyn Method>, tasks: usize) -> Engine {
    Engine::new(method, facts(), lab(tasks, ClassOrder::Native))
}

/// The head's bits over some rows, weights then biases.
fn head(saved: &Body, rows: Range<usize>) -> Vec<u32> {
    let weight = rows_of(saved, Kind::Head, LinearHead::WEIGHT, rows.clone());
    weight.into_iter().chain(rows_of(saved, Kind::Head, LinearHead::BIAS, rows)).collect()
}

fn values(saved: &Body) -> Vec<f32> {
    let set = parameters_of(saved).unwrap();
    set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}
