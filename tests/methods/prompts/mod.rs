//! The invariants of L2P, DualPrompt, CODA-Prompt and Fed-CPrompt. (Cosines, orthogonality, the contrastive
//! loss and the golden files are tested beside their code.)

mod choices;
mod means;
mod messages;

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::{ClassOrder, Step, Transform};
use fedcast::learning::prompting::{
    ComponentPart, EXPERT_KEYS, Expert, Experts, KEYS, POOL, SelectedPrompts, expert_name,
    general_name,
};
use fedcast::learning::{
    Classifier, FeatureCache, PackBatch, PromptTensors, Prompting, QueryView, Shelf,
};
use fedcast::methods::coda_prompt::{self, CodaConfig, Orthogonal};
use fedcast::methods::dualprompt::{self, DualPromptConfig};
use fedcast::methods::fed_cprompt::{self, C2lForm, FedCPromptConfig};
use fedcast::methods::fedavg::Train;
use fedcast::methods::l2p::{self, L2pConfig, PromptPlace};
use fedcast::methods::prompted::{PoolForm, PromptKind, Prompted, PromptedConfig};
use fedcast::methods::{HeadForm, fedavg};
use fedcast::model::ops::Groups;
use fedcast::model::{
    Adaptation, Parameter, ParameterSet, Pooling, Prefix, PromptPosition, PromptTokens, prompts,
};
use fedcast::policy::{
    AnyMethod, ClientPolicy, Member, Method, ModelFacts, Part, Period, Predictor, RoundContext,
    ServerPolicy, Staged, UpMeta, WireForm, erase, one_seat_each, parameters_of,
};
use fedcast::quantity::{ClientId, Round};

use crate::hepco::fedavg_prompt;
use crate::toys::round_loop::{Engine, SEED};
use crate::toys::{deal, facts, lab};
use crate::{engine, far, fedavg_of};

fn shared() -> PromptedConfig {
    fedcast::scenario::reader::defaults(PromptedConfig::read)
}

fn l2p_of(change: impl Fn(&mut L2pConfig)) -> Arc<dyn AnyMethod> {
    let mut config = L2pConfig { pool: 4, prompt_len: 2, top: 2, ..L2pConfig::default() };
    change(&mut config);
    erase(l2p::method(config, shared(), &facts()))
}

fn dual_config() -> DualPromptConfig {
    let lengths = DualPromptConfig { g_len: 2, e_len: 3, ..DualPromptConfig::default() };
    DualPromptConfig { pool: 3, g_blocks: 1, e_blocks: 1, ..lengths }
}

fn dual_of(change: impl Fn(&mut DualPromptConfig)) -> Arc<dyn AnyMethod> {
    let mut config = dual_config();
    change(&mut config);
    erase(dualprompt::method(config, shared(), &facts()))
}

fn coda_config() -> CodaConfig {
    CodaConfig { pool: 6, prompt_len: 4, ..CodaConfig::default() }
}

fn coda_of(change: impl Fn(&mut CodaConfig)) -> Arc<dyn AnyMethod> {
    let mut config = coda_config();
    change(&mut config);
    erase(coda_prompt::method(config, shared(), &facts()))
}

fn contrast_of(form: C2lForm) -> Arc<dyn AnyMethod> {
    let mut config = FedCPromptConfig::default();
    config.components = CodaConfig { pool: 6, prompt_len: 4, ..config.components };
    config.c2l.form = form;
    erase(fed_cprompt::method(config, shared(), &facts()))
}

/// With something to train from the start, for tests that ask no server to begin a task.
pub fn packable() -> [Arc<dyn AnyMethod>; 4] {
    [
        l2p_of(|c| c.pull_weight = 0.1),
        dual_of(|c| c.pull_weight = 1.0),
        coda_of(|c| (c.orthogonal, c.mu) = (Orthogonal::Once, 0.1)),
        contrast_of(C2lForm::FeatureHinge),
    ]
}

fn all() -> [Arc<dyn AnyMethod>; 4] {
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
    let shards = deal(&run.lab, &run.view(task), 2);
    run.task(task, &shards, 1);
}

fn answers(predictor: &dyn Predictor, lab: &fedcast::policy::Lab) -> Vec<f32> {
    let loader = lab.statistics_loader(&(0..20).collect());
    let batch = loader.in_order(20).next().unwrap().unwrap();
    let features = predictor.features(&lab.pixels(&batch).unwrap()).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
}

/// The features of a server whose parameters were changed.
fn answers_with(method: Arc<dyn AnyMethod>, change: impl Fn(&str, &mut [f32])) -> Vec<f32> {
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
    answers(&*run.server.predictor(&run.lab).unwrap(), &run.lab)
}

/// The features of the first images with this adaptation of the backbone.
fn adapted(lab: &fedcast::policy::Lab, adaptation: &Adaptation) -> Vec<f32> {
    let batch = lab.statistics_loader(&(0..20).collect()).in_order(20).next().unwrap().unwrap();
    let features = lab.backbone.features(&lab.pixels(&batch).unwrap(), adaptation).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
}

/// The first round of a task.
fn first_round(period: &Period) -> RoundContext {
    RoundContext {
        round: Round(0),
        period: period.clone(),
        phase: 0,
        phase_name: "train",
        round_in_phase: 0,
        rounds_in_phase: 1,
        run_seed: SEED,
    }
}

fn near(a: &[f32], b: &[f32]) -> bool {
    far(a, b) < 1e-3
}
