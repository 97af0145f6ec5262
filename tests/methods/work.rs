//! Work of participants and servers for virtual time, counted from dimensions.

use std::sync::Arc;

use fedcast::data::AuxiliaryFacts;
use fedcast::learning::TrainingPlan;
use fedcast::learning::gradient_matching::LeNet;
use fedcast::methods::averaging::Reset;
use fedcast::methods::c2prompt::{C2Prompt, C2PromptConfig};
use fedcast::methods::ccvr::Ccvr;
use fedcast::methods::cfed::{Cfed, REVIEWER};
use fedcast::methods::coda_prompt::CodaPrompt;
use fedcast::methods::der::Der;
use fedcast::methods::dualprompt::DualPrompt;
use fedcast::methods::er::Er;
use fedcast::methods::fed_cprompt::{C2lForm, FedCPrompt};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedavgm::FedAvgM;
use fedcast::methods::fedcil::FedCil;
use fedcast::methods::fedhaf::{FedHaf, Stages};
use fedcast::methods::fedlwf_2t::FedLwf2t;
use fedcast::methods::fedlwf_mc::FedLwfMc;
use fedcast::methods::fedopt::{FedOpt, ServerOptimizer};
use fedcast::methods::fedproto::FedProto;
use fedcast::methods::fisheravg::FisherAvg;
use fedcast::methods::glfc::{Exemplars, Glfc, OldModel, Outputs, Proxy, Signal};
use fedcast::methods::gradma::{GradMa, Project};
use fedcast::methods::hgp::Hgp;
use fedcast::methods::icarl::{Icarl, Keeps};
use fedcast::methods::l2p::L2p;
use fedcast::methods::lander::Lander;
use fedcast::methods::lorm::Lorm;
use fedcast::methods::lwf::Lwf;
use fedcast::methods::mfcl::Mfcl;
use fedcast::methods::oracle::{Oracle, Site};
use fedcast::methods::pip::Pip;
use fedcast::methods::powder::{Powder, PowderConfig};
use fedcast::methods::regmean::RegMean;
use fedcast::methods::stsa::Stsa;
use fedcast::methods::target::{EpochEnd, TargetMethod};
use fedcast::policy::{
    Method, Participant, RoundContext, RoundWork, Stage, one_participant_per_client,
};
use fedcast::quantity::{ClientId, Round};

use crate::toys::facts;
use crate::{built, engine};

/// Width, tokens, hidden width and blocks of the tiny transformer, head rows, and classes of a task.
const DIM: usize = 16;
const TOKENS: usize = 5;
const MLP: usize = 32;
const DEPTH: usize = 2;

/// A round of a task in a phase.
fn round(method: &Arc<dyn Method>, task: usize, phase: usize, round_in_phase: u32) -> RoundContext {
    RoundContext {
        round: Round(10 * task as u32 + round_in_phase),
        stage: Stage::of(engine(Arc::clone(method), 3).view(task), 3),
        phase,
        phase_name: "",
        round_in_phase,
        rounds_in_phase: 3,
        run_seed: 0,
    }
}

/// Two epochs in batches of eight.
fn plan() -> TrainingPlan {
    TrainingPlan { epochs: 2, batch: 8, ..TrainingPlan::default() }
}

/// Passes of a client with this number of samples.
fn client(method: &Arc<dyn Method>, round: &RoundContext, samples: usize) -> f64 {
    let participant = one_participant_per_client(&round.stage, &[ClientId(0)]).remove(0);
    passes_of(method, round, &participant, samples)
}

/// Passes of a participant over this number of samples.
fn passes_of(
    method: &Arc<dyn Method>,
    round: &RoundContext,
    participant: &Participant,
    samples: usize,
) -> f64 {
    method.cost(round, &RoundWork::Participant { participant, samples, plan: &plan() })
}

/// Passes of the server when a round of this number of updates closes.
fn server_passes(method: &Arc<dyn Method>, round: &RoundContext, updates: usize) -> f64 {
    method.cost(round, &RoundWork::Server { updates })
}

/// Converts multiplications to sample passes.
fn passes(multiplications: usize) -> f64 {
    let block = TOKENS * (4 * DIM * DIM + 2 * DIM * MLP) + 2 * TOKENS * TOKENS * DIM;
    let forward = 4 * 16 * DIM + DEPTH * block + DIM * facts().classes;
    multiplications as f64 / (3 * forward) as f64
}

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() <= 1e-9 * wanted.abs(), "{found} instead of {wanted}");
}

#[test]
fn mfcl_trains_on_generated_images_of_its_server() {
    let mfcl = |repeat_moments| {
        let mut method = Mfcl { synthetic_batch: 12, repeat_moments, ..Mfcl::default() };
        method.generator.latent = 5;
        method.generator.width = 4;
        (method.generator.steps, method.generator.batch) = (7, 10);
        built(method, &facts())
    };
    // Images of 8 x 8 begin at 2 x 2: a linear layer, two convolutions of 4 channels and one to a single channel.
    let generator = 5 * 4 * 4 + 9 * (4 * 4 * 16 + 4 * 4 * 64 + 4 * 64);
    let (method, once) = (mfcl(true), mfcl(false));
    let trained = |method: &Arc<dyn Method>, task| client(method, &round(method, task, 0, 1), 40);
    near(trained(&method, 0), 2.0 * 40.0);
    // Two epochs of five batches, with twelve images in each of the ten steps.
    let images = 10.0 * 12.0;
    let generated = passes(10 * 12 * generator);
    near(trained(&method, 1), (2.0 * 40.0 + images) * 5.0 / 3.0 + generated);
    near(trained(&once, 2), (2.0 * 40.0 + images) * 4.0 / 3.0 + generated);
    let server =
        |task, round_in_phase| server_passes(&method, &round(&method, task, 0, round_in_phase), 3);
    let made = 70.0 * 2.0 / 3.0 + passes(70 * 3 * generator);
    near(server(0, 2), made);
    near(server(1, 2), made);
    // Not before a task's last round, and not for a task that does not come.
    assert_eq!((server(0, 1), server(1, 0), server(2, 2)), (0.0, 0.0, 0.0));
}

/// By layers of networks whose channels are a sixteenth, on images of 8 x 8.
#[test]
fn fedcil_trains_both_networks_at_clients_and_server() {
    let mut method = FedCil { channel_divisor: 16, noise: 12, ..FedCil::default() };
    (method.server.steps, method.server.batch) = (7, 10);
    method.consistency.real = 1.0;
    let method = built(method, &facts());
    let generator = 12 * 24 + 24 * 12 + 16 * (12 * 6 + 4 * 6 * 3 + 16 * 3);
    let discriminator =
        9 * (16 + 16 * 2 + 4 * 2 * 4 + 4 * 4 * 8 + 8 * 16 + 16 * 32) + 32 * (1 + facts().classes);
    let step = |branches: usize| {
        branches * (6 * discriminator + generator) + 3 * generator + 2 * discriminator
    };
    let trained = |task, at| client(&method, &round(&method, task, 0, at), 40);
    // Two epochs of 40 images.
    near(trained(0, 0), passes(80 * step(1)));
    near(trained(1, 0), passes(80 * (step(2) + generator)));
    near(trained(1, 1), passes(80 * (step(2) + 2 * generator + 3 * discriminator)));
    let server = |task, updates| server_passes(&method, &round(&method, task, 0, 1), updates);
    near(server(0, 3), passes(70 * (3 * generator + step(1))));
    near(server(1, 3), passes(70 * (6 * generator + step(2))));
    assert_eq!(server(1, 0), 0.0);
}

#[test]
fn lander_replays_images_and_its_server_makes_them() {
    let mut method = Lander { synthetic_batch: 12, embedding_width: 5, ..Lander::default() };
    (method.synthesis_rounds, method.warmup) = (3, 2);
    let synthesis = &mut method.synthesis;
    (synthesis.batch, synthesis.steps) = (10, 7);
    (synthesis.width, synthesis.latent) = (4, 6);
    (synthesis.student_steps, synthesis.student_batch) = (8, 9);
    let method = built(method, &facts());
    let trained = |task| client(&method, &round(&method, task, 0, 1), 40);
    near(trained(0), 2.0 * 40.0);
    // Two epochs of five batches, with twelve images in each of the ten steps, of which the old model has a pass, too.
    near(trained(1), 2.0 * 40.0 + 10.0 * 12.0 * 4.0 / 3.0);
    let server =
        |task, round_in_phase| server_passes(&method, &round(&method, task, 0, round_in_phase), 3);
    // A noisy layer, a linear one, convolutions of 8, 4 and 1 channels at 4 x 4, 8 x 8 and 8 x 8 pixels.
    let generator = 5 * 6 + 6 * 8 * 4 + 9 * (8 * 8 * 16 + 8 * 4 * 64 + 4 * 64);
    // Five calls, of which the last one has a student, and four after which it learns.
    let images = (5.0 + 1.0) * 70.0 * 2.0 / 3.0;
    let made = images + passes(5 * 70 * 3 * generator) + 4.0 * 72.0 * 4.0 / 3.0;
    near(server(0, 2), made);
    near(server(1, 2), made);
    assert_eq!((server(0, 1), server(1, 0), server(2, 2)), (0.0, 0.0, 0.0));
}

#[test]
fn target_replays_images_and_its_server_makes_them() {
    let target = |epoch_end| {
        let mut method = TargetMethod { synthetic_batch: 12, epoch_end, ..TargetMethod::default() };
        (method.synthesis_rounds, method.warmup) = (3, 2);
        let synthesis = &mut method.synthesis;
        (synthesis.batch, synthesis.steps) = (10, 7);
        (synthesis.width, synthesis.latent) = (4, 6);
        (synthesis.student_steps, synthesis.student_batch) = (8, 9);
        built(method, &facts())
    };
    let (method, whole) = (target(EpochEnd::First), target(EpochEnd::Samples));
    let trained = |method: &Arc<dyn Method>, task| client(method, &round(method, task, 0, 1), 40);
    near(trained(&method, 0), 2.0 * 40.0);
    // Two epochs of five batches of eight samples, or of three batches, as there are of 30 images.
    near(trained(&whole, 1), 2.0 * 40.0 + 10.0 * 12.0 * 4.0 / 3.0);
    near(trained(&method, 1), 2.0 * 24.0 + 6.0 * 12.0 * 4.0 / 3.0);
    let server =
        |task, round_in_phase| server_passes(&method, &round(&method, task, 0, round_in_phase), 3);
    // A linear layer, convolutions of 8, 4 and 1 channels at 4 x 4, 8 x 8 and 8 x 8 pixels.
    let generator = 6 * 8 * 4 + 9 * (8 * 8 * 16 + 8 * 4 * 64 + 4 * 64);
    // Three calls, of which the last two have a student, who learns after the last.
    let images = (3.0 + 2.0) * 70.0 * 2.0 / 3.0;
    let made = images + passes(3 * 70 * 3 * generator) + 72.0 * 4.0 / 3.0;
    near(server(0, 2), made);
    near(server(1, 2), made);
    assert_eq!((server(0, 1), server(1, 0), server(2, 2)), (0.0, 0.0, 0.0));
}

#[test]
fn icarl_trains_on_exemplars_herds_and_describes() {
    let classes = facts().classes / 3;
    let icarl = |change: fn(&mut Icarl)| {
        let mut method = Icarl { memory_size: 60, ..Icarl::default() };
        change(&mut method);
        built(method, &facts())
    };
    let method = icarl(|_| ());
    let trained = |task| client(&method, &round(&method, task, 0, 1), 40);
    // There is no teacher in the first task; later there are 40 exemplars, then as many as the budget has room for.
    near(trained(0), 2.0 * 40.0);
    near(trained(1), 2.0 * 80.0 * 4.0 / 3.0);
    near(trained(2), 2.0 * 100.0 * 4.0 / 3.0);
    // A third of a pass of each sample, and of each exemplar and its mirror image; distances of 40 samples for each
    // choice.
    let reported = |method: &Arc<dyn Method>, task| client(method, &round(method, task, 1, 0), 40);
    let each = (60 / (2 * classes)).min(40 / classes);
    near(reported(&method, 1), 40.0 / 3.0 + passes(40 * each * DIM) + 2.0 * 60.0 / 3.0);
    let plain = icarl(|method| (method.keep, method.flips) = (Keeps::Everything, false));
    near(reported(&plain, 1), 80.0 / 3.0);
}

/// A client that has kept samples of earlier tasks trains on them, too.
#[test]
fn oracle_and_fedhaf_train_on_what_they_keep() {
    let of = |method: &Arc<dyn Method>, task| client(method, &round(method, task, 0, 1), 40);
    let oracle = built(Oracle { site: Site::Clients, ..Oracle::default() }, &facts());
    for task in 0..3 {
        near(of(&oracle, task), (task + 1) as f64 * 80.0);
    }
    // Nothing distils in the first task, so there is one stage. Later two epochs of the head and three of the module,
    // and the previous model looks at exemplars.
    let fedhaf = |change: fn(&mut FedHaf)| {
        let mut method = FedHaf { retention: 1.0, module_epochs: Some(3), ..FedHaf::default() };
        change(&mut method);
        built(method, &facts())
    };
    let method = fedhaf(|_| ());
    for (task, kept) in [(0, 0.0), (1, 40.0), (2, 80.0)] {
        let epochs = if task == 0 { 2.0 } else { 5.0 };
        near(of(&method, task), epochs * (40.0 + kept * 4.0 / 3.0));
    }
    let one_of_each = (facts().classes / 3) as f64;
    near(of(&fedhaf(|method| method.retention = 0.01), 1), 5.0 * (40.0 + one_of_each * 4.0 / 3.0));
    near(of(&fedhaf(|method| method.retention = 0.0), 1), 2.0 * 40.0);
    near(
        of(&fedhaf(|method| (method.lambda_fd, method.lambda_fb) = (0.0, 0.0)), 1),
        2.0 * (40.0 + 160.0 / 3.0),
    );
    near(of(&fedhaf(|method| method.lambda_fd = 0.0), 1), 2.0 * (40.0 + 160.0 / 3.0) + 3.0 * 80.0);
    near(of(&fedhaf(|method| method.lambda_kd = 0.0), 1), 2.0 * 80.0 + 3.0 * (40.0 + 160.0 / 3.0));
    near(of(&fedhaf(|method| method.stages = Stages::One), 1), 2.0 * (40.0 + 160.0 / 3.0));
}

/// A third of a pass for each teacher, of whom there is none in the first task.
#[test]
fn teachers_answer_from_the_second_task_on() {
    let two = |alpha, beta| FedLwf2t { alpha, beta, ..FedLwf2t::default() };
    let of = [
        (built(Lwf::default(), &facts()), 1.0),
        (built(Lwf { weight: 0.0, ..Lwf::default() }, &facts()), 0.0),
        (built(FedLwfMc::default(), &facts()), 1.0),
        (built(two(0.5, 0.3), &facts()), 2.0),
        (built(two(0.5, 0.5), &facts()), 1.0),
        (built(two(0.5, 0.0), &facts()), 1.0),
    ];
    for (method, teachers) in of {
        near(client(&method, &round(&method, 0, 0, 1), 40), 80.0);
        near(client(&method, &round(&method, 1, 0, 1), 40), 80.0 * (1.0 + teachers / 3.0));
    }
}

#[test]
fn powder_and_c2prompt_pay_for_every_look() {
    let powder = crate::powder::small();
    let method: Arc<dyn Method> = Arc::new(Powder::new(powder.clone(), &facts()));
    let names = |method: &Arc<dyn Method>| -> Vec<&str> {
        let view = engine(Arc::clone(method), 3).view(1);
        method.phases(&Stage::of(view, 3), 3).iter().map(|phase| phase.name).collect()
    };
    let of = |method: &Arc<dyn Method>, name: &str| {
        let phase = names(method).iter().position(|other| *other == name).unwrap();
        client(method, &round(method, 1, phase, 0), 40)
    };
    // Queries; in training two epochs, with a teacher a third more.
    near(of(&method, "look"), 40.0 / 3.0);
    near(of(&method, "train"), 40.0 * (2.0 * 4.0 / 3.0 + 1.0 / 3.0));
    let plain = PowderConfig { kd_weight: 0.0, ..powder.clone() };
    let plain: Arc<dyn Method> = Arc::new(Powder::new(plain, &facts()));
    near(of(&plain, "train"), 40.0 * (2.0 + 1.0 / 3.0));
    let config = C2PromptConfig { powder, compensation_epochs: 7, ..C2PromptConfig::default() };
    let method: Arc<dyn Method> = Arc::new(C2Prompt::new(config, &facts()));
    near(of(&method, "statistics"), 40.0 / 3.0);
    near(of(&method, "compensate"), 280.0);
    // Whose client task began before has its prompts already, and is asked all the same.
    let goes_on = |name: &str| {
        let phase = names(&method).iter().position(|other| *other == name).unwrap();
        let (began, now) = (round(&method, 0, phase, 0), round(&method, 1, phase, 0));
        let participant = one_participant_per_client(&began.stage, &[ClientId(0)]).remove(0);
        passes_of(&method, &now, &participant, 40)
    };
    near(goes_on("statistics"), 40.0 / 3.0);
    near(goes_on("compensate"), 0.0);
    near(goes_on("train"), 40.0 * (2.0 * 4.0 / 3.0 + 1.0 / 3.0));
    near(of(&method, "train"), 40.0 * (2.0 * 4.0 / 3.0 + 1.0 / 3.0));
}

#[test]
fn stsa_looks_once_at_its_samples() {
    let method = Arc::new(Stsa::new(crate::stsa::exact(), &facts())) as Arc<dyn Method>;
    near(client(&method, &round(&method, 0, 0, 0), 40), 40.0 / 3.0);
}

#[test]
fn hgp_looks_once_at_its_samples_for_their_gaussians() {
    let method = built(Hgp::default(), &facts());
    near(client(&method, &round(&method, 0, 0, 1), 40), 40.0 * (2.0 + 1.0 / 3.0));
}

/// A forward pass of every sample in addition to its training: for queries, or for the report on its class.
#[test]
fn who_asks_or_describes_looks_once_at_its_samples() {
    let of = |method: Arc<dyn Method>| client(&method, &round(&method, 1, 0, 1), 40);
    let once = 40.0 * (2.0 + 1.0 / 3.0);
    near(of(built(L2p::default(), &facts())), once);
    near(of(built(CodaPrompt::default(), &facts())), once);
    near(of(built(DualPrompt::default(), &facts())), once);
    near(of(built(FedProto::default(), &facts())), once);
    near(of(built(Ccvr::default(), &facts())), once);
    // Two more passes of a batch through what was received.
    let mut contrast = FedCPrompt::default();
    contrast.c2l.form = C2lForm::FeatureHinge;
    near(of(built(contrast.clone(), &facts())), 40.0 * (2.0 * 5.0 / 3.0 + 1.0 / 3.0));
    contrast.c2l.form = C2lForm::Prompt;
    near(of(built(contrast, &facts())), once);
    near(of(built(Pip::default(), &facts())), once + 40.0 / 3.0);
    near(of(built(FisherAvg::default(), &facts())), 40.0 * 3.0);
}

/// Batches of eight, each with draws from memory.
#[test]
fn who_remembers_trains_on_what_it_draws() {
    let of = |method: Arc<dyn Method>| client(&method, &round(&method, 1, 0, 1), 40);
    let er = |draw, size| {
        let mut method = Er::default();
        (method.buffer.replay_batch_size, method.buffer.size) = (draw, size);
        of(built(method, &facts()))
    };
    near(er(None, 200), 80.0 * 2.0);
    near(er(Some(2), 200), 80.0 * 1.25);
    near(er(Some(50), 6), 80.0 * 1.75);
    near(er(None, 0), 80.0);
    let der = |alpha, beta, draw| {
        let mut method = Der { alpha, beta, ..Der::default() };
        method.buffer.replay_batch_size = draw;
        of(built(method, &facts()))
    };
    near(der(0.5, 0.5, None), 80.0 * 3.0);
    near(der(0.5, 0.0, Some(4)), 80.0 * 1.5);
    near(der(0.0, 0.5, Some(4)), 80.0 * 1.5);
    near(der(0.0, 0.0, None), 80.0);
}

/// On its own shard of 18 samples, whatever a client holds: five epochs at the server.
#[test]
fn reviewers_are_asked_once_and_train_on_auxiliary_samples() {
    let auxiliary = AuxiliaryFacts { samples: 18, image: Some([1, 8, 8]), server: true };
    let known = fedcast::policy::ModelFacts { auxiliary: Some(auxiliary), ..facts() };
    let cfed = |server_distils| built(Cfed { server_distils, ..Cfed::default() }, &known);
    let method = cfed(true);
    let at = round(&method, 1, 0, 1);
    let mut participant = one_participant_per_client(&at.stage, &[ClientId(0)]).remove(0);
    near(passes_of(&method, &at, &participant, 40), 80.0);
    participant.role = REVIEWER;
    near(passes_of(&method, &at, &participant, 40), 18.0 * (2.0 + 1.0 / 3.0));
    near(server_passes(&method, &at, 3), 18.0 * (5.0 + 4.0 / 3.0));
    assert_eq!(server_passes(&cfed(false), &at, 3), 0.0);
}

#[test]
fn gradma_solves_programs_on_both_sides() {
    let gradma = |change: fn(&mut GradMa)| {
        let fedavg = FedAvg { train: Train::Head, ..FedAvg::default() };
        let mut method = GradMa { fedavg, memory_clients: 3, ..GradMa::default() };
        change(&mut method);
        let facts = fedcast::policy::ModelFacts { clients: 20, ..facts() };
        built(method, &facts)
    };
    let numbers = facts().classes * (DIM + 1);
    let method = gradma(|_| ());
    // Three gradients of every sample; ten steps, and in nine of them four lengths, nine inner products, three rows.
    near(client(&method, &round(&method, 0, 0, 0), 40), 240.0 + passes(9 * 16 * numbers));
    // As many steps as given, of a batch, or of fewer samples.
    let limited = gradma(|method| method.steps = Some(5));
    near(client(&limited, &round(&limited, 0, 0, 0), 40), 120.0 + passes(4 * 16 * numbers));
    near(client(&limited, &round(&limited, 0, 0, 0), 3), 45.0 + passes(4 * 16 * numbers));
    let server = |method: &Arc<dyn Method>, at: u32, updates| {
        server_passes(method, &round(method, 1, 0, at), updates)
    };
    // Two who answered: three lengths, five inner products, two rows, the momentum and what is left of two updates.
    let of =
        |rows: usize| passes((1 + rows + rows * (rows + 1) / 2 + rows + rows + 1 + rows) * numbers);
    let forgets = gradma(|method| method.reset = Reset::Task);
    near(server(&forgets, 0, 2), of(2));
    near(of(2), passes((3 + 5 + 2 + 1 + 2) * numbers));
    near(server(&forgets, 1, 2), of(3));
    let keeps = gradma(|method| method.reset = Reset::Keep);
    near(server(&keeps, 0, 1), of(3));
    let clients = gradma(|method| method.project = Project::Clients);
    assert_eq!(server(&clients, 2, 2), 0.0);
    let at_server = gradma(|method| method.project = Project::Server);
    near(client(&at_server, &round(&at_server, 0, 0, 0), 40), 80.0);
}

#[test]
fn servers_with_an_optimizer_step_number_by_number() {
    let fedavg = || FedAvg { train: Train::Head, ..FedAvg::default() };
    let avgm = |nesterov| FedAvgM { fedavg: fedavg(), nesterov, ..FedAvgM::default() };
    let opt = |optimizer| FedOpt { fedavg: fedavg(), ..FedOpt::with(optimizer) };
    let numbers = facts().classes * (DIM + 1);
    for (method, multiplications) in [
        (built(avgm(false), &facts()), 2),
        (built(avgm(true), &facts()), 3),
        (built(opt(ServerOptimizer::Adagrad), &facts()), 6),
        (built(opt(ServerOptimizer::Yogi), &facts()), 7),
        (built(opt(ServerOptimizer::Adam), &facts()), 8),
    ] {
        let first = round(&method, 0, 0, 0);
        near(server_passes(&method, &first, 3), passes(multiplications * numbers));
        near(client(&method, &first, 40), 80.0);
    }
}

/// Width of the inputs and of the outputs of the four layers of a block.
const LAYERS: [(usize, usize); 4] = [(DIM, 3 * DIM), (DIM, DIM), (DIM, MLP), (MLP, DIM)];

#[test]
fn regmean_measures_moments_multiplies_each_update_and_inverts() {
    let classes = facts().classes;
    for (gamma, power) in [(0.5, 2), (0.0, 1)] {
        let mut method = RegMean::default();
        method.fedavg.train = Train::All;
        (method.statistics.gamma_backbone, method.statistics.gamma_head) = (gamma, gamma);
        let method = built(method, &facts());
        let blocks = |of: &dyn Fn((usize, usize)) -> usize| {
            DEPTH * LAYERS.into_iter().map(of).sum::<usize>()
        };
        let moments = blocks(&|(inputs, _)| TOKENS * inputs.pow(power)) + DIM.pow(power);
        let trained = 40.0 * (2.0 + 1.0 / 3.0);
        near(client(&method, &round(&method, 1, 0, 0), 40), trained + passes(40 * moments));
        let merge = |(inputs, outputs): (usize, usize)| {
            let inverse = if power == 2 { 10 * inputs.pow(3) } else { 0 };
            (3 + 1) * outputs * inputs.pow(power) + inverse
        };
        let server = server_passes(&method, &round(&method, 1, 0, 0), 3);
        near(server, passes(blocks(&merge) + merge((DIM, classes))));
    }
}

#[test]
fn lorm_inverts_what_the_factor_of_the_round_needs() {
    let (rank, classes) = (4, facts().classes);
    let mut method = Lorm { rank: rank as u32, ..Lorm::default() };
    (method.statistics.gamma_backbone, method.statistics.gamma_head) = (0.5, 0.0);
    let method = built(method, &facts());
    let blocks =
        |of: &dyn Fn((usize, usize)) -> usize| DEPTH * LAYERS.into_iter().map(of).sum::<usize>();
    let moments = blocks(&|(inputs, _)| TOKENS * inputs * inputs);
    let trained = client(&method, &round(&method, 1, 0, 0), 40);
    near(trained, 40.0 * (2.0 + 1.0 / 3.0) + passes(40 * (moments + DIM)));
    let reported = client(&method, &round(&method, 1, 1, 0), 40);
    near(reported, 40.0 / 3.0 + passes(40 * moments));

    let server = |task, phase, at| server_passes(&method, &round(&method, task, phase, at), 3);
    let head = 4 * classes * DIM;
    let a = |(inputs, _): (usize, usize)| 4 * rank * inputs * inputs + 10 * inputs.pow(3);
    near(server(1, 0, 1), passes(blocks(&a) + head));
    let b = |(inputs, outputs): (usize, usize)| {
        let through = rank * inputs * inputs + rank * rank * inputs;
        4 * (through + outputs * rank * rank) + 10 * rank.pow(3)
    };
    near(server(1, 0, 0), passes(blocks(&b) + head));
    // As a task ends: products of its A, and A of every task again, where there are several.
    let product = |(inputs, _): (usize, usize)| rank * inputs * inputs;
    near(server(0, 1, 0), passes(blocks(&product)));
    let merged = |(inputs, _): (usize, usize)| {
        rank * inputs * inputs + 3 * (rank * inputs * inputs + 10 * inputs.pow(3))
    };
    near(server(2, 1, 0), passes(blocks(&merged)));
}

#[test]
fn glfc_chooses_exemplars_and_says_gradients_on_its_signal() {
    let classes = facts().classes / 3;
    let glfc = |change: fn(&mut Glfc)| {
        let mut method = Glfc { memory_size: 60, ..Glfc::default() };
        change(&mut method);
        built(method, &facts())
    };
    let method = glfc(|_| ());
    let of = |method: &Arc<dyn Method>, task, at| client(method, &round(method, task, 0, at), 40);
    near(of(&method, 0, 0), 80.0);
    // Exemplars may repeat, so that 60 are chosen of 40 samples.
    near(of(&method, 1, 1), 2.0 * 100.0 * 4.0 / 3.0);
    let chosen = |each| 40.0 / 3.0 + passes(40 * each * DIM);
    near(of(&method, 1, 0), 2.0 * 100.0 * 4.0 / 3.0 + chosen(60 / classes));
    let once = glfc(|method| method.repeats = false);
    near(of(&once, 1, 1), 2.0 * 80.0 * 4.0 / 3.0);
    near(of(&once, 1, 0), 2.0 * 80.0 * 4.0 / 3.0 + chosen(40 / classes));
    // A client with its own rows shares its budget among as many as it has seen.
    let own = glfc(|method| (method.outputs, method.memory_size) = (Outputs::Own, 12));
    assert_eq!(classes, 2);
    for (task, each) in [(1, 12 / 2), (2, 12 / 4)] {
        near(of(&own, task, 0), of(&own, task, 1) + chosen(each));
    }
    let random = glfc(|method| method.exemplars = Exemplars::Random);
    near(of(&random, 1, 0), 2.0 * 100.0 * 4.0 / 3.0);
    let entropy = glfc(|method| method.task_detection = Signal::Entropy);
    near(of(&entropy, 1, 1), 2.0 * 100.0 * 4.0 / 3.0 + 40.0 / 3.0);
    assert_eq!(server_passes(&method, &round(&method, 1, 0, 0), 3), 0.0);

    let proxy = |method: &mut Glfc| {
        method.old_model = OldModel::Proxy;
        method.proxy.calls = 7;
        method.proxy.images = 5;
        method.proxy = Proxy { perturbation: 6, wait: 0, ..method.proxy };
    };
    let with_proxy = glfc(proxy);
    // 12 channels behind each convolution of 25 numbers, of 4 x 4, 2 x 2 and 2 x 2 places.
    let lenet = 12 * 25 * 16 + 2 * 12 * 12 * 25 * 4 + facts().classes * 12 * 4;
    assert_eq!(LeNet::multiplications_of([1, 8, 8], facts().classes), lenet);
    let nearest = 40.0 / 3.0 + passes(40 * DIM);
    let said = nearest + (classes * 6) as f64 + passes(classes * 3 * lenet);
    near(of(&with_proxy, 0, 0), 80.0 + said);
    near(of(&with_proxy, 0, 1), 80.0);
    let server = |at| server_passes(&with_proxy, &round(&with_proxy, 1, 0, at), 3);
    let images = 3 * classes;
    let scored = (images * 5) as f64 / 3.0;
    near(server(1), scored);
    near(server(0), scored + passes(images * 7 * 20 * 9 * lenet));
    let waits = glfc(|method| {
        method.old_model = OldModel::Proxy;
        method.proxy.wait = 2;
    });
    let server = |at| server_passes(&waits, &round(&waits, 1, 0, at), 3);
    assert!(server(1) == 0.0 && server(2) > 0.0);
}
