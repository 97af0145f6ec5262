//! Members of a pack learn what they learn alone, bit for bit: on the CPU every product keeps the
//! shape it has for its member alone.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::learning::fisher::FisherForm;
use fedcast::methods::averaging::{Keeper, VectorKeeping};
use fedcast::methods::class_statistics::CovarianceForm;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::feddc::FedDc;
use fedcast::methods::scaffold::Scaffold;
use fedcast::model::ops::without_kernels;
use fedcast::model::{LinearHead, Parameter};
use fedcast::policy::{Failure, Member, Message, Method, Participant, RoundContext, RunContext};
use fedcast::quantity::{ClientId, ParticipantId, Round};
use fedcast::wire::{Body, NamedTensor};

use crate::adapter::adapter;
use crate::hepco::{fedavg_prompt, hepco_with};
use crate::toys::watched::Engine;
use crate::toys::{deal, facts, run_context};
use crate::{built, fedavg_of, hgp_with, max_pack_size};

/// Upload of a member, and the report of its training.
type Sent = Result<(u64, Vec<(&'static str, f64)>), Failure>;

/// Samples of the first task: ragged last batches, other step counts, one sample, none.
const SHARDS: [usize; 5] = [21, 8, 1, 0, 13];

/// Members of the first round.
fn members(method: &Arc<dyn Method>, ctx: &RunContext, spoilt: Option<usize>) -> Vec<Member> {
    let mut engine = Engine::new(Arc::clone(method), facts(), ctx.clone());
    members_of(&mut engine, 0, spoilt)
}

/// Members of the second round of the second task: there is an earlier model, and a round before.
fn late_members(method: &Arc<dyn Method>, ctx: &RunContext) -> Vec<Member> {
    let mut engine = Engine::new(Arc::clone(method), facts(), ctx.clone());
    let shards = [0, 1].map(|task| deal(ctx, &engine.view(task), 2));
    engine.task(0, &shards[0], 1);
    engine.first_phase(1, &shards[1], 1);
    members_of(&mut engine, 1, None)
}

fn members_of(engine: &mut Engine, task: usize, spoilt: Option<usize>) -> Vec<Member> {
    let (view, ctx) = (engine.view(task), engine.ctx.clone());
    let method = Arc::clone(&engine.method);
    let stage = fedcast::policy::Stage::of(Arc::clone(&view), 3);
    let round = RoundContext {
        round: Round(engine.round),
        stage,
        phase: 0,
        phase_name: "train",
        round_in_phase: task as u32,
        rounds_in_phase: 1 + task as u32,
        run_seed: 5,
    };
    let cohort: Vec<ClientId> = (0..SHARDS.len() as u32).map(ClientId).collect();
    let participants = method.participants(&round, &cohort);
    engine.server.begin_stage(&round.stage, &ctx).unwrap();
    let downloads = engine.server.broadcast(&round, &participants, &ctx).unwrap();
    let mut own = ctx.dataset.train.by_class()[view.classes[0] as usize].to_vec();
    own.extend(&ctx.dataset.train.by_class()[view.classes[1] as usize]);
    let mut next = 0;
    let member = |(participant, download): (Participant, Arc<Message>)| {
        let ParticipantId(place) = participant.id;
        let download = with_vectors(&download);
        let download = if spoilt == Some(place as usize) { with_nan(&download) } else { download };
        let count = SHARDS[place as usize];
        let shard: Shard = (next..next + count).map(|i| own[i % own.len()]).collect();
        next += count;
        Member {
            phase: 0,
            download,
            state: Body::default(),
            shard,
            key: participant.key(5, round.round),
            missed: Vec::new(),
            participant,
        }
    };
    participants.into_iter().zip(downloads).map(member).collect()
}

/// A download whose additional vectors, zeros in a first round, are none.
fn with_vectors(download: &Message) -> Arc<Message> {
    let mut extra = download.extra.clone();
    for tensor in extra.iter_mut().flat_map(|section| &mut section.tensors) {
        let Ok(values) = tensor.as_f32() else { continue };
        let wave =
            (0..values.len()).map(|at| 0.01 * ((7 * at) % 11) as f32 - 0.03).collect::<Vec<_>>();
        *tensor = NamedTensor::f32(Arc::clone(tensor.name()), tensor.shape(), wave).unwrap();
    }
    Arc::new(Message { extra, ..download.clone() })
}

/// A download whose head begins with NaN.
fn with_nan(download: &Message) -> Arc<Message> {
    let mut parameters = download.parameters.clone();
    let head = parameters.get(LinearHead::WEIGHT).unwrap().clone();
    let mut values = head.values.to_vec();
    values[0] = f32::NAN;
    parameters.insert(LinearHead::WEIGHT, Parameter { values: values.into(), ..head });
    Arc::new(Message { parameters, ..download.clone() })
}

fn train(method: &Arc<dyn Method>, ctx: &RunContext, members: &mut [Member]) -> Vec<Sent> {
    let outcomes = method.train(members, ctx);
    outcomes
        .into_iter()
        .map(|outcome| outcome.map(|o| (o.upload.body().digest(), o.metrics)))
        .collect()
}

fn alone(method: &Arc<dyn Method>, ctx: &RunContext, spoilt: Option<usize>) -> Vec<Sent> {
    let mut members = members(method, ctx, spoilt);
    members.chunks_mut(1).flat_map(|member| train(method, ctx, member)).collect()
}

fn together(method: &Arc<dyn Method>, ctx: &RunContext, spoilt: Option<usize>) -> Vec<Sent> {
    train(method, ctx, &mut members(method, ctx, spoilt))
}

fn packable() -> Vec<Arc<dyn Method>> {
    let full = hgp_with(|c| c.covariance = CovarianceForm::Full);
    let fisher = |train| crate::fishers::fisheravg(train, FisherForm::Truth);
    let others = [
        hgp_with(|_| ()),
        full,
        fisher(Train::Head),
        fisher(Train::Prompt),
        fedavg_of(Train::Head),
        fedavg_of(Train::Prompt),
        fedavg_of(Train::Lora),
        adapter(),
        fedavg_prompt(),
        hepco_with(|_| ()),
    ];
    let fedavg = || FedAvg { train: Train::Prompt, prompt_len: 6, ..FedAvg::default() };
    let scaffold = Scaffold { fedavg: fedavg(), ..Scaffold::default() };
    let keeping = VectorKeeping { keeper: Keeper::Server, ..VectorKeeping::default() };
    let feddc = FedDc { fedavg: fedavg(), keeping, alpha: 0.3, ..FedDc::default() };
    let controlled = [built(scaffold, &facts()), built(feddc, &facts())];
    let others = others.into_iter().chain(controlled).chain(crate::prompts::packable());
    others.chain(with_teachers()).collect()
}

fn with_teachers() -> Vec<Arc<dyn Method>> {
    use crate::lwf::{distilling, multi_class};
    vec![
        distilling(Train::Head),
        distilling(Train::Prompt),
        multi_class(Train::Head),
        crate::fedproto::drawn(Train::Prompt, 0.5),
        crate::ccvr::calibrating(Train::Prompt),
        crate::fishers::held(),
    ]
}

#[test]
fn a_pack_learns_what_its_members_learn_alone() {
    let ctx = run_context(3, ClassPermutation::Native);
    for method in packable() {
        assert!(max_pack_size(&*method, &ctx.task_sequence.tasks[0], 0) >= SHARDS.len());
        let (alone, together) = (alone(&method, &ctx, None), together(&method, &ctx, None));
        assert_eq!(alone, together);
        let steps: Vec<f64> = together.iter().map(|sent| sent.as_ref().unwrap().1[0].1).collect();
        assert_eq!(steps, [6.0, 2.0, 2.0, 0.0, 4.0]);
    }
}

/// Checks packs with earlier models and prototypes.
#[test]
fn a_pack_with_teachers_trains_as_its_members_alone() {
    let ctx = run_context(3, ClassPermutation::Native);
    for method in with_teachers().into_iter().chain(crate::regression::pairs()) {
        assert!(max_pack_size(&*method, &ctx.task_sequence.tasks[1], 0) >= SHARDS.len());
        let mut apart = late_members(&method, &ctx);
        let alone: Vec<Sent> =
            apart.chunks_mut(1).flat_map(|member| train(&method, &ctx, member)).collect();
        assert_eq!(alone, train(&method, &ctx, &mut late_members(&method, &ctx)));
        assert!(alone.iter().all(Result::is_ok));
    }
}

#[test]
fn a_member_that_is_not_finite_fails_alone() {
    let ctx = run_context(3, ClassPermutation::Native);
    for method in packable() {
        let (sound, spoilt) = (alone(&method, &ctx, None), together(&method, &ctx, Some(1)));
        for (member, (sound, sent)) in sound.iter().zip(&spoilt).enumerate() {
            match member {
                1 => assert!(matches!(sent, Err(Failure::NonFinite(_))), "{sent:?}"),
                _ => assert_eq!(sound, sent, "member {member}"),
            }
        }
        assert_eq!(alone(&method, &ctx, Some(1))[1], spoilt[1]);
    }
}

/// All values a member sends, and its metrics.
type Values = (Vec<f32>, Vec<f64>);

fn values(method: &Arc<dyn Method>, ctx: &RunContext, members: &mut [Member]) -> Vec<Values> {
    let outcomes = method.train(members, ctx).into_iter();
    let sent = outcomes.map(|outcome| {
        let outcome = outcome.expect("learns");
        let body = outcome.upload.body();
        let floats = body.tensors().filter_map(|(_, tensor)| tensor.as_f32().ok());
        let values = floats.flat_map(|values| values.to_vec()).collect();
        (values, outcome.metrics.into_iter().map(|(_, figure)| figure).collect())
    });
    sent.collect()
}

/// Runs the GPU's form of training on the CPU: ops composed, moments and clipping outside the variables.
///
/// Losses are read when an epoch is over. In packs and alone, uploads differ by rounding only.
#[test]
fn the_path_of_a_gpu_learns_what_the_cpu_learns() {
    let ctx = run_context(3, ClassPermutation::Native);
    for method in packable() {
        let here = values(&method, &ctx, &mut members(&method, &ctx, None));
        let there = without_kernels(|| values(&method, &ctx, &mut members(&method, &ctx, None)));
        let alone: Vec<Values> = without_kernels(|| {
            let mut members = members(&method, &ctx, None);
            members.chunks_mut(1).flat_map(|member| values(&method, &ctx, member)).collect()
        });
        for other in [&there, &alone] {
            for ((sent, metrics), (expected, of_kernels)) in other.iter().zip(&here) {
                assert_eq!(sent.len(), expected.len());
                // Adam moves a value whose gradient is nearly zero either way: the mean counts.
                let off: f64 =
                    sent.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs())).sum();
                assert!(
                    off <= 1e-4 * expected.len().max(1) as f64,
                    "{}",
                    off / expected.len() as f64
                );
                for (a, b) in metrics.iter().zip(of_kernels) {
                    assert!((a - b).abs() <= 1e-3 * b.abs().max(1.0), "{a} and {b}");
                }
            }
        }
    }
}

#[test]
fn a_backbone_that_trains_is_its_clients_own() {
    let ctx = run_context(3, ClassPermutation::Native);
    let method = fedavg_of(Train::All);
    assert_eq!(max_pack_size(&*method, &ctx.task_sequence.tasks[0], 0), 1);
    let refused = together(&method, &ctx, None);
    assert!(
        refused.iter().all(|sent| {
            matches!(sent, Err(Failure::Policy(why)) if why.contains("packs of one"))
        })
    );
}
