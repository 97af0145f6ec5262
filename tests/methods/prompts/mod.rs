//! The invariants of L2P, DualPrompt, CODA-Prompt and Fed-CPrompt. (Cosines, orthogonality, the contrastive
//! loss and the golden files are tested with their code.)

mod asynchronous;
mod choices;
mod means;
mod messages;

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::{ClassPermutation, Step, TaskView, Transform};
use fedcast::learning::prompting::{
    ComponentPart, EXPERT_KEYS, Expert, ExpertLayout, Experts, KEYS, POOL, SelectedPrompts,
    expert_name, general_name,
};
use fedcast::learning::{
    Classifier, FeatureCache, PackBatch, PromptTensors, Prompting, QueryView, Storage,
};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::{ClientWeighting, RowPurpose};
use fedcast::methods::coda_prompt::{CodaPrompt, ComponentSizes, Orthogonal};
use fedcast::methods::dualprompt::DualPrompt;
use fedcast::methods::fed_cprompt::{C2lForm, FedCPrompt};
use fedcast::methods::fedavg::Train;
use fedcast::methods::l2p::{L2p, PromptPlace};
use fedcast::methods::parts::{AveragingMethod, RowQuery, TaskStart};
use fedcast::methods::prompted::{PoolForm, Prompted};
use fedcast::model::ops::SampleGroups;
use fedcast::model::{
    Adaptation, Parameter, ParameterSet, Pooling, Prefix, PromptPosition, PromptTokens, prompts,
};
use fedcast::policy::{
    Aggregate, ClassCounts, Composed, Message, MessageKind, MessageSpec, Method, ModelFacts,
    Predictor, RoundContext, Stage, UploadMeta, WireForm, masked_contribution,
    one_participant_per_client, parameters_of,
};
use fedcast::quantity::{ClientId, Round, TaskId};

use crate::hepco::fedavg_prompt;
use crate::toys::watched::{Engine, SEED};
use crate::toys::{deal, facts, first_exchange, run_context};
use crate::{built, engine, far, fedavg_of};

fn with<A: AveragingMethod>(mut method: A, change: impl Fn(&mut A)) -> Arc<dyn Method> {
    change(&mut method);
    built(method, &facts())
}

fn small_l2p() -> L2p {
    L2p { pool: 4, prompt_len: 2, top: 2, ..L2p::default() }
}

fn l2p_of(change: impl Fn(&mut L2p)) -> Arc<dyn Method> {
    with(small_l2p(), change)
}

fn small_dual() -> DualPrompt {
    let lengths = DualPrompt { g_len: 2, e_len: 3, ..DualPrompt::default() };
    DualPrompt { pool: 3, g_blocks: 1, e_blocks: 1, ..lengths }
}

fn dual_of(change: impl Fn(&mut DualPrompt)) -> Arc<dyn Method> {
    with(small_dual(), change)
}

fn small_sizes() -> ComponentSizes {
    ComponentSizes { pool: 6, prompt_len: 4, ..ComponentSizes::default() }
}

fn small_coda() -> CodaPrompt {
    CodaPrompt { sizes: small_sizes(), ..CodaPrompt::default() }
}

fn coda_of(change: impl Fn(&mut CodaPrompt)) -> Arc<dyn Method> {
    with(small_coda(), change)
}

fn small_contrast(form: C2lForm) -> FedCPrompt {
    let mut method = FedCPrompt::default();
    method.coda.sizes = small_sizes();
    method.c2l.form = form;
    method
}

fn contrast_of(form: C2lForm) -> Arc<dyn Method> {
    built(small_contrast(form), &facts())
}

/// One whose components begin with their task, so that there is nothing to train before.
pub fn beginning() -> Arc<dyn Method> {
    coda_of(|_| ())
}

/// With something to train from the start, for tests that ask no server to begin a task.
pub fn packable() -> [Arc<dyn Method>; 4] {
    [
        l2p_of(|c| c.pull_weight = 0.1),
        dual_of(|c| c.pull_weight = 1.0),
        coda_of(|c| (c.orthogonal, c.mu) = (Orthogonal::Once, 0.1)),
        contrast_of(C2lForm::FeatureHinge),
    ]
}

fn all() -> [Arc<dyn Method>; 4] {
    [l2p_of(|_| ()), dual_of(|_| ()), coda_of(|_| ()), contrast_of(C2lForm::FeatureHinge)]
}

fn saved(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

fn rows<'a>(set: &'a ParameterSet, name: &str, rows: Range<usize>) -> &'a [f32] {
    let parameter = set.get(name).unwrap();
    let width = parameter.values.len() / parameter.shape[0];
    &parameter.values[rows.start * width..rows.end * width]
}

fn task(run: &mut Engine, task: usize) {
    let shards = deal(&run.ctx, &run.view(task), 2);
    run.task(task, &shards, 1);
}

fn answers(predictor: &dyn Predictor, ctx: &fedcast::policy::RunContext) -> Vec<f32> {
    let loader = ctx.statistics_loader(&(0..20).collect());
    let batch = loader.in_order(20).next().unwrap().unwrap();
    let features = predictor.features(&ctx.pixels(&batch).unwrap()).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
}

/// The features of a server whose parameters were changed.
fn answers_with(method: Arc<dyn Method>, change: impl Fn(&str, &mut [f32])) -> Vec<f32> {
    let mut run = engine(method, 3).run(1, 1);
    let mut body = run.server.save();
    let mut set = parameters_of(&body).unwrap();
    for (name, Parameter { shape, values }) in set.clone().iter() {
        let (shape, mut values) = (shape.clone(), values.to_vec());
        change(name, &mut values);
        set.insert(Arc::clone(name), Parameter { shape, values: values.into() });
    }
    body.sections = fedcast::policy::parameter_sections(&set);
    run.server.load(&body).unwrap();
    answers(&*run.server.predictor(&run.ctx).unwrap(), &run.ctx)
}

/// The features of the first images with this adaptation of the backbone.
fn adapted(ctx: &fedcast::policy::RunContext, adaptation: &Adaptation) -> Vec<f32> {
    let batch = ctx.statistics_loader(&(0..20).collect()).in_order(20).next().unwrap().unwrap();
    let features = ctx.backbone.features(&ctx.pixels(&batch).unwrap(), adaptation).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
}

/// The first round of a task.
fn first_round(stage: &Stage) -> RoundContext {
    RoundContext {
        round: Round(0),
        stage: stage.clone(),
        phase: 0,
        phase_name: "train",
        round_in_phase: 0,
        rounds_in_phase: 1,
        run_seed: SEED,
    }
}

/// The layouts of a download and of an upload of a task.
fn layouts(method: &dyn Method, model: &ModelFacts, run: &Engine, task: usize) -> [MessageSpec; 2] {
    let (view, counts) = (run.view(task), ClassCounts::new());
    let facts = first_exchange(model, &view, &counts);
    [
        method.message_spec(MessageKind::Download, &facts),
        method.message_spec(MessageKind::Upload, &facts),
    ]
}

fn near(a: &[f32], b: &[f32]) -> bool {
    far(a, b) < 1e-3
}
