//! Floating-point operations of methods, counted by hand from the dimensions of ViT-B/16 and ResNet-18.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, TaskSequence, TaskSizes, TaskView};
use fedcast::learning::TrainingPlan;
use fedcast::methods::coda_prompt::CodaPrompt;
use fedcast::methods::dualprompt::DualPrompt;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedavg_prompt::FedAvgPrompt;
use fedcast::methods::hgp::{Hgp, Learns};
use fedcast::methods::l2p::L2p;
use fedcast::methods::lwf::Lwf;
use fedcast::methods::powder::{Powder, PowderConfig};
use fedcast::methods::stsa::{Stsa, StsaConfig};
use fedcast::model::{BackboneConfig, ResNetConfig, VitConfig};
use fedcast::policy::{
    Method, ModelFacts, RoundContext, RoundWork, SampleCost, Stage, WireForm, multiplications,
    one_participant_per_client,
};
use fedcast::quantity::ClientId;
use fedcast::scenario::Stem;
use fedcast::scenario::reader::defaults;

use crate::built;

/// ViT-B/16: tokens, width, hidden width, blocks, classes.
const T: usize = 197;
const D: usize = 768;
const M: usize = 3072;
const L: usize = 12;
const C: usize = 100;
/// Products with weights in a block, and those of tokens.
const PRODUCTS: usize = T * (4 * D * D + 2 * D * M);
const ATTENTION: usize = 2 * T * T * D;
/// Patches of 3 x 16 x 16 values, then the blocks.
const BACKBONE: usize = 196 * 768 * D + L * (PRODUCTS + ATTENTION);
const HEAD: usize = D * C;

fn model(backbone: BackboneConfig) -> ModelFacts {
    ModelFacts {
        backbone,
        classes: C,
        tasks: 10,
        clients: 5,
        form: WireForm::Full,
        auxiliary: None,
    }
}

fn vit() -> ModelFacts {
    model(BackboneConfig::Vit(VitConfig::preset("vit-base").unwrap()))
}

fn view(task: usize) -> Arc<TaskView> {
    let tasks = TaskSequence::new(C, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    Arc::clone(&tasks.tasks[task])
}

fn cost(method: &Arc<dyn Method>, model: &ModelFacts, task: usize) -> SampleCost {
    method.sample_cost(model, &view(task), 0)
}

fn assert_costs(found: SampleCost, forward: usize, backward: usize, inference: usize) {
    let wanted = SampleCost {
        forward: forward as f64,
        backward: backward as f64,
        inference: inference as f64,
        work: None,
    };
    assert_eq!(found, wanted);
}

/// Gradient of the inputs of this number of blocks.
fn through(blocks: usize) -> usize {
    blocks * (PRODUCTS + 2 * ATTENTION)
}

/// What is published with a head of 1,000 classes: 17.56 and 1.81 billion.
#[test]
fn a_network_that_trains_costs_three_forward_passes() {
    let eighteen = ResNetConfig { image: 224, stem: Stem::ImageNet, ..ResNetConfig::default() };
    let resnet = model(BackboneConfig::ResNet(eighteen));
    for (model, published) in [(vit(), 17.56), (resnet, 1.81)] {
        let found = cost(&built(FedAvg::default(), &model), &model, 0);
        assert!((found.forward / 1e9 - published).abs() < 0.01, "{found:?}");
        assert_eq!((found.backward, found.inference), (2.0 * found.forward, found.forward));
    }
    let found = cost(&built(FedAvg::default(), &vit()), &vit(), 0);
    assert_costs(found, BACKBONE + HEAD, 2 * (BACKBONE + HEAD), BACKBONE + HEAD);
}

#[test]
fn what_is_frozen_has_no_gradient_of_weights() {
    let of = |train| {
        let mut method = FedAvg { train, prompt_len: 10, n_blocks: 3, ..FedAvg::default() };
        (method.lora.rank, method.lora.blocks) = (4, 2);
        cost(&built(method, &vit()), &vit(), 0)
    };
    let all = BACKBONE + HEAD;
    assert_costs(of(Train::Head), all, HEAD, all);
    // A and B of rank 4 at queries and values of two blocks, for every token.
    let pairs = T * 2 * 2 * (4 * D + D * 4);
    assert_costs(of(Train::Lora), all + pairs, through(L) + 2 * (pairs + HEAD), all + pairs);
    // Five keys and five values in each of three blocks.
    let prefix = 3 * T * 10 * D;
    assert_costs(of(Train::Prompt), all + prefix, through(L) + 2 * (prefix + HEAD), all + prefix);
}

#[test]
fn prompts_are_counted_by_their_rows_and_ask_for_queries() {
    let vit = vit();
    let all = BACKBONE + HEAD;
    let assert_prompts = |method: Arc<dyn Method>, task, prompts, blocks| {
        let backward = through(blocks) + 2 * (prompts + HEAD);
        let forward = all + prompts;
        assert_costs(cost(&method, &vit, task), forward, backward, forward + BACKBONE);
    };
    // Five prompts of five tokens, chosen among ten, stand before the others.
    let block = |tokens: usize| tokens * (4 * D * D + 2 * D * M) + 2 * tokens * tokens * D;
    let tokens = L * (block(T + 25) - block(T)) + 10 * D;
    assert_prompts(built(L2p::default(), &vit), 3, tokens, L);
    // Ten rows in two blocks, forty of an expert in three; ten keys.
    let prefixes = T * D * (2 * 10 + 3 * 40) + 10 * D;
    assert_prompts(built(DualPrompt::default(), &vit), 3, prefixes, L);
    // Of a hundred components those of three tasks of ten: prompts of eight rows, attention and key.
    let mut coda = CodaPrompt::default();
    (coda.sizes.pool, coda.sizes.prompt_len) = (100, 8);
    (coda.sizes.first_block, coda.sizes.n_blocks) = (2, 5);
    let components = 5 * (T * 8 * D + 30 * (8 + 2) * D);
    assert_prompts(built(coda, &vit), 2, components, L - 2);
    let pools = FedAvgPrompt { pool: 7, prompt_len: 20, n_blocks: 4, ..FedAvgPrompt::default() };
    assert_prompts(built(pools, &vit), 2, 4 * (T * 20 * D + 7 * 21 * D), L);
}

/// HGP's one prompt asks no query; without it a linear probe remains.
#[test]
fn hgp_costs_what_it_trains() {
    let of = |train| cost(&built(Hgp { train, ..Hgp::default() }, &vit()), &vit(), 4);
    let (all, prefix) = (BACKBONE + HEAD, 5 * T * 200 * D);
    assert_costs(of(Learns::Prompt), all + prefix, through(L) + 2 * (prefix + HEAD), all + prefix);
    assert_costs(of(Learns::Head), all, HEAD, all);
    assert_costs(of(Learns::All), all, 2 * all, all);
}

/// Powder: every client task of five clients in three tasks answers, after one query.
#[test]
fn all_client_tasks_of_powder_answer() {
    let config = PowderConfig { components: 6, prompt_len: 8, ..PowderConfig::default() };
    let (first, blocks, top) =
        (config.first_block as usize, config.n_blocks as usize, config.top as usize);
    let method: Arc<dyn Method> = Arc::new(Powder::new(config, &vit()));
    let block = |tokens: usize| tokens * (4 * D * D + 2 * D * M) + 2 * tokens * tokens * D;
    let prompts = blocks * (block(T + 8) - block(T) + top * 6 * 10 * D);
    let head = 10 * D;
    let forward = BACKBONE + prompts + head;
    let backward = through(L - first) + 2 * (prompts + head);
    assert_costs(cost(&method, &vit(), 2), forward, backward, BACKBONE + 15 * forward);
}

/// Multiplications of a client with 40 samples and of the server after five updates.
fn work(method: &Arc<dyn Method>, task: usize) -> [f64; 2] {
    let stage = Stage::of(view(task), 10);
    let round = RoundContext::alone(&stage, 0);
    let participant = one_participant_per_client(&stage, &[ClientId(0)]).remove(0);
    let plan = TrainingPlan { epochs: 3, ..TrainingPlan::default() };
    let client = RoundWork::Participant { participant: &participant, samples: 40, plan: &plan };
    let sample = method.sample_cost(&vit(), &stage.view, 0);
    [client, RoundWork::Server { updates: 5 }]
        .map(|work| multiplications(&**method, &vit(), &round, &work, &sample))
}

fn near(found: f64, wanted: usize) {
    assert!((found / wanted as f64 - 1.0).abs() < 1e-12, "{found} instead of {wanted}");
}

#[test]
fn rounds_are_training_passes_and_other_work() {
    let all = BACKBONE + HEAD;
    let [client, server] = work(&built(FedAvg::default(), &vit()), 1);
    near(client, 40 * 3 * 3 * all);
    assert_eq!(server, 0.0);
    // The teacher answers every sample in every epoch.
    let head = |train| FedAvg { train, ..FedAvg::default() };
    let [client, _] = work(&built(Lwf { fedavg: head(Train::Head), ..Lwf::default() }, &vit()), 1);
    near(client, 40 * 3 * (all + HEAD + all));
    // HGP describes its classes in one more pass.
    let [client, server] = work(&built(Hgp { train: Learns::Head, ..Hgp::default() }, &vit()), 1);
    near(client, 40 * (3 * (all + HEAD) + all));
    assert!(server > 0.0);
}

/// STSA: random features of width 1,250 and the triangle of their Gram matrix; at the server a Cholesky factor and two
/// triangular systems for each of twenty classes.
#[test]
fn stsa_has_one_pass_and_a_linear_system() {
    let method: Arc<dyn Method> = Arc::new(Stsa::new(defaults(StsaConfig::exact), &vit()));
    let [client, server] = work(&method, 1);
    near(client, 40 * (BACKBONE + 1250 * D + 1250 * 1251 / 2));
    assert!((server / (1250f64.powi(3) / 3.0 + 20.0 * 1250.0 * 1250.0) - 1.0).abs() < 1e-12);
    let found = cost(&method, &vit(), 1);
    assert_eq!(found.inference, (BACKBONE + 1250 * D + 1250 * C) as f64);
}
