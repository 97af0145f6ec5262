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
use fedcast::methods::averaged::{Averaged, Base};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::hgp::{Hgp, Rebalancing};
use fedcast::methods::joint::Joint;
use fedcast::model::LinearHead;
use fedcast::policy::{Method, ModelFacts, parameters_of};
use fedcast::wire::{Body, Kind};
use toys::round_loop::Engine;
use toys::{facts, lab, rows_of};

/// A method that averages, for a model of these dimensions.
fn built(method: impl Averaged, facts: &ModelFacts) -> Arc<dyn Method> {
    Arc::new(Base::new(method, facts))
}

/// A small HGP: six prompt rows in both blocks, few draws.
fn hgp_with(change: impl Fn(&mut Hgp)) -> Arc<dyn Method> {
    built(small(change), &facts())
}

fn small(change: impl Fn(&mut Hgp)) -> Hgp {
    let rebalancing = Rebalancing { samples_per_class: 64, batch: 32, ..Rebalancing::default() };
    let mut method = Hgp { prompt_len: 6, rebalancing, ..Hgp::default() };
    change(&mut method);
    method
}

fn fedavg_of(train: Train) -> Arc<dyn Method> {
    built(FedAvg { train, prompt_len: 6, ..FedAvg::default() }, &facts())
}

fn joint_of(train: Train, keep_optimiser: bool) -> Arc<dyn Method> {
    let fedavg = FedAvg { train, ..FedAvg::default() };
    built(Joint { fedavg, keep_optimiser }, &facts())
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
