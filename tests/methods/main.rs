//! Promise: HGP, FedAvg, adapters, prompts, Joint, STSA, FedAvg-Prompt, HePCo, FedHAF and its baselines, FisherAVG,
//! EWC, optimizers of servers, rehearsal, GLFC, LGA, CFed, MFCL, LANDER, TARGET, FedWEIT, FedCIL, PIP, Powder and C2Prompt keep every
//! invariant of their method cards, on a tiny network; the interface of policies carries more. (Mixture weights, means
//! of parameters, the zero prefix and the normalized loss are tested with their code.)

#![allow(clippy::disallowed_methods, reason = "tests compare with other arithmetic")]

mod adapter;
mod baselines;
mod bytes;
mod c2prompt;
mod ccvr;
mod cfed;
mod controls;
mod fedavg;
mod fedcil;
mod fedhaf;
mod fedproto;
mod fedweit;
mod fisher_values;
mod fishers;
mod flops;
mod frozen;
mod gaussians;
mod glfc;
mod glfc_client_tasks;
mod glfc_picture;
mod gradients;
mod gradma;
mod hepco;
mod hgp;
mod icarl;
mod image_replay;
mod joint;
mod lander;
mod lwf;
mod mfcl;
mod packs;
mod pilora;
mod pip;
mod powder;
mod prompts;
mod refusals;
mod regression;
mod rehearsal;
mod server_optimizers;
mod staged;
mod stsa;
mod target;
mod toy_methods;
mod toys;
mod work;

use std::ops::Range;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, TaskView};
use fedcast::learning::TrainingPlan;
use fedcast::methods::averaging::Averager;
use fedcast::methods::class_statistics::Rebalancing;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::hgp::Hgp;
use fedcast::methods::joint::Joint;
use fedcast::methods::parts::AveragingMethod;
use fedcast::model::{LinearHead, Parameter, ParameterSet};
use fedcast::policy::{
    Aggregate, ClassCounts, Message, MessageKind, MessageSpec, Method, ModelFacts, RoundContext,
    RoundWork, Stage, TensorSpec, UploadMeta, one_participant_per_client, parameters_of,
};
use fedcast::quantity::{ClientId, Round};
use fedcast::wire::{Body, Kind, MetaReader, TensorValues};
use toys::watched::Engine;
use toys::{facts, first_exchange, rows_of, run_context};

/// A method that averages, for a model of these dimensions.
fn built(method: impl AveragingMethod, facts: &ModelFacts) -> Arc<dyn Method> {
    Arc::new(Averager::new(method, facts))
}

/// A small HGP: six prompt rows in both blocks, few draws.
fn hgp_with(change: impl Fn(&mut Hgp)) -> Arc<dyn Method> {
    built(small(change), &facts())
}

fn small(change: impl Fn(&mut Hgp)) -> Hgp {
    let mut method = Hgp { prompt_len: 6, ..Hgp::default() };
    method.rebalancing = Rebalancing { samples_per_class: 64, batch: 32, ..Rebalancing::default() };
    change(&mut method);
    method
}

fn fedavg_of(train: Train) -> Arc<dyn Method> {
    built(FedAvg { train, prompt_len: 6, ..FedAvg::default() }, &facts())
}

fn joint_of(train: Train, keep_optimizer: bool) -> Arc<dyn Method> {
    let fedavg = FedAvg { train, ..FedAvg::default() };
    built(Joint { fedavg, keep_optimizer }, &facts())
}

/// Aggregates such uploads of the first task, where the server had sent `base` to all.
///
/// Each upload has its values of every parameter, and its number of samples.
fn mean_of(method: &dyn Method, base: f32, uploads: &[(f32, u32)]) -> ParameterSet {
    let (model, counts) = (facts(), ClassCounts::new());
    let view = Arc::clone(&run_context(3, ClassPermutation::Native).task_sequence.tasks[0]);
    let facts = first_exchange(&model, &view, &counts);
    let (download, upload) = (
        method.message_spec(MessageKind::Download, &facts),
        method.message_spec(MessageKind::Upload, &facts),
    );
    let filled = |layout: &MessageSpec, value: f32| -> ParameterSet {
        let of = |place: &TensorSpec| {
            let values = vec![value; place.shape.iter().product()].into();
            (Arc::clone(&place.name), Parameter { shape: place.shape.clone(), values })
        };
        layout.parameters.iter().map(of).collect()
    };
    let sent = Arc::new(Message::of(filled(&download, base)));
    let participant =
        one_participant_per_client(&Stage::of(Arc::clone(&view), 3), &[ClientId(0)]).remove(0);
    let meta = UploadMeta::timely(participant, Round(0));
    let fold = |(value, samples): &(f32, u32)| {
        let samples = TensorValues::U32([*samples].into());
        let update = Message::filling(&upload, filled(&upload, *value), [samples]).unwrap();
        Aggregate::of(&meta, (&sent, &download), (update, &upload)).unwrap()
    };
    let aggregate = uploads.iter().map(fold).reduce(Aggregate::merge).unwrap();
    aggregate.apply(&sent.parameters)
}

/// The most clients that are trained together in a phase of the task with this view, one of three.
fn max_pack_size(method: &dyn Method, view: &Arc<TaskView>, phase: usize) -> usize {
    method.phases(&Stage::of(Arc::clone(view), 3), 1)[phase].max_pack_size
}

/// Returns the sample passes of a client with this number of samples in the first round of a task.
fn client_passes(
    method: &dyn Method,
    view: &Arc<TaskView>,
    samples: usize,
    plan: &TrainingPlan,
) -> f64 {
    let round = RoundContext::alone(&Stage::of(Arc::clone(view), 3), 0);
    let participant = &one_participant_per_client(&round.stage, &[ClientId(0)])[0];
    method.cost(&round, &RoundWork::Participant { participant, samples, plan })
}

fn engine(method: Arc<dyn Method>, tasks: usize) -> Engine {
    Engine::new(method, facts(), run_context(tasks, ClassPermutation::Native))
}

/// The server's parameters, without those that the task before left.
fn own(run: &Engine) -> Body {
    let saved = run.server.save();
    if saved.meta.is_empty() {
        return saved;
    }
    let own = MetaReader::new(&saved.meta).u64().expect("the number of sections");
    Body::new(Vec::new(), saved.sections[..own as usize].to_vec())
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
