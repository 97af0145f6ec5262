//! The invariants of FedCIL that are seen from outside, on pictures of 8 x 8.

use std::sync::Arc;

use fedcast::learning::OptimizerConfig;
use fedcast::methods::fedcil::{FedCil, LastGenerator, MomentSpan};
use fedcast::model::{GanForm, ParameterSet, is_buffer, of_generator};
use fedcast::policy::{
    Capability, ClassCounts, MessageKind, MessageSpec, Method, check_capability, parameters_of,
};
use fedcast::wire::{Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{deal, facts, first_exchange, plan};
use crate::{built, engine, values};

/// Small networks, of which the server takes two steps.
fn fedcil(change: impl Fn(&mut FedCil)) -> FedCil {
    let mut method = FedCil { channel_divisor: 16, noise: 12, ..FedCil::default() };
    (method.server.steps, method.server.batch) = (2, 6);
    change(&mut method);
    method
}

fn started(change: impl Fn(&mut FedCil), tasks: usize) -> Engine {
    let mut engine = engine(built(fedcil(change), &facts()), tasks);
    engine.ctx.training = plan(OptimizerConfig::adamw(2e-3));
    engine.ctx.training.steps = Some(3);
    engine
}

fn run(change: impl Fn(&mut FedCil), tasks: usize) -> Engine {
    started(change, tasks).run(2, 2)
}

fn server(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

fn uploads(run: &Engine) -> Vec<Vec<f32>> {
    run.exchanges.iter().map(|exchange| values(exchange.up.as_ref().unwrap())).collect()
}

/// FedCIL card, invariant 1: without fine-tuning the model of one client is the server's.
#[test]
fn one_client_s_model_is_the_server_s() {
    let alone = started(|method| method.server.steps = 0, 1).run(1, 2);
    let last = parameters_of(alone.last().up.as_ref().unwrap()).unwrap();
    let own = server(&alone);
    assert_eq!(own.len(), last.len());
    for (name, parameter) in own.iter() {
        let sent = last.get(name).expect("every parameter travels");
        let pairs = parameter.values.iter().zip(sent.values.iter());
        // The mean is a difference that is added to what was sent.
        assert!(
            pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1e-2)),
            "{name}"
        );
    }
    let tuned = started(|_| (), 1).run(1, 2);
    assert_ne!(values(&tuned.server.save()), values(&alone.server.save()));
}

/// FedCIL card, invariant 2: by weights of 0 the server's generator does nothing, and each weight does something from
/// the second round on.
#[test]
fn consistency_begins_in_the_second_round() {
    let plain = uploads(&run(|_| (), 1));
    let set: [fn(&mut FedCil); 3] = [
        |method| method.consistency.real = 1.0,
        |method| method.consistency.generated = 1.0,
        |method| method.consistency.labels = 1.0,
    ];
    for set in set {
        let weighed = uploads(&run(set, 1));
        assert_eq!(plain[..2], weighed[..2], "the first round has none");
        assert_ne!(plain[2], weighed[2]);
        assert_ne!(plain[3], weighed[3]);
    }
    assert_eq!(plain, uploads(&run(|_| (), 1)), "the same bits again");
}

/// FedCIL card, invariant 5: the first task has no replay, so that the weight of new images does not matter there.
#[test]
fn replay_begins_in_the_second_task() {
    let of = |weight: f64| uploads(&started(|method| method.new_weight = weight, 2).run(2, 1));
    let (half, all) = (of(0.5), of(1.0));
    assert_eq!(half[..2], all[..2]);
    assert_ne!(half[2], all[2]);
}

/// A client's last generator is its own, as it sent it in the last round of the task before.
#[test]
fn clients_and_server_keep_the_generators_of_clients() {
    let run = run(|_| (), 2);
    let of_client = |task: usize, client: u32| -> ParameterSet {
        let own =
            |exchange: &&Exchange| exchange.task == task && exchange.participant.client.0 == client;
        let last = run.exchanges.iter().rfind(own).unwrap();
        parameters_of(last.up.as_ref().unwrap()).unwrap().filter(of_generator)
    };
    let kept = run.server.save();
    for (client, state) in &run.states {
        let sets = fedcast::policy::vectors_of(&state.sections, "last").unwrap();
        assert_eq!(sets, of_client(0, client.0));
        assert_eq!(
            fedcast::policy::vectors_of(&state.sections, "own").unwrap(),
            of_client(1, client.0)
        );
        // The server has what was uploaded, so that nothing is sent twice.
        let participant = u64::from(client.0) << 32;
        let before = format!("before.{participant}");
        assert_eq!(fedcast::policy::vectors_of(&kept.sections, &before).unwrap(), sets);
    }
    assert_eq!(run.states.len(), 2);
    // Metrics of a round: two generators replay in the second task.
    let replayed: Vec<f64> = run.metrics.iter().map(|one| one["replayed_generators"]).collect();
    assert_eq!(replayed, [0.0, 0.0, 2.0, 2.0]);
    // A server goes on from what it saved.
    let mut again = started(|_| (), 2);
    again.server.load(&kept).unwrap();
    assert_eq!(again.server.save().digest(), kept.digest());
}

/// With the server's last generator an asset travels once a task, and clients may keep nothing.
#[test]
fn the_server_s_last_generator_is_an_asset() {
    let stateless = |method: &mut FedCil| {
        method.last_generator = LastGenerator::Server;
        method.moments = MomentSpan::Round;
    };
    let mut run = started(stateless, 2);
    let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
    run.task(0, &shards[0], 2);
    let left = server(&run).filter(of_generator);
    run.task(1, &shards[1], 2);
    for exchange in &run.exchanges {
        match exchange.task {
            0 => assert!(exchange.assets.is_empty()),
            _ => {
                let [asset] = &exchange.assets[..] else { panic!("one asset") };
                assert_eq!((asset.kind, asset.version), (Kind::Generator, 0));
                let sent: u64 = asset.body.tensors().map(|(_, one)| one.values().bytes()).sum();
                assert_eq!(sent, left.bytes());
            }
        }
    }
    assert!(run.method.profile().stateless);
    assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
    let own: Arc<dyn Method> = built(fedcil(|_| ()), &facts());
    assert!(!own.profile().stateless);
}

/// Clients of a task draw noise of their own; moments that last change later rounds alone.
#[test]
fn clients_differ_and_moments_last() {
    let mut run = started(|_| (), 1);
    let shard = deal(&run.ctx, &run.view(0), 2).remove(0);
    run.ctx.training.batch = 1_000;
    run.task(0, &[shard.clone(), shard], 1);
    let both = uploads(&run);
    assert_ne!(both[0], both[1]);

    let rounds = |span: MomentSpan| uploads(&self::run(|method| method.moments = span, 2));
    let [task, whole, round] = [MomentSpan::Task, MomentSpan::Run, MomentSpan::Round].map(rounds);
    assert!(task[..4] == whole[..4] && task[..2] == round[..2]);
    assert!(task[4..6] != whole[4..6] && task[2..4] != round[2..4]);
}

/// FedCIL card, sections 2 and 4: 13.03 MB each way of 10 classes, 15.98 MB of 100, and running moments of the norms.
#[test]
fn fedcil_sends_the_bytes_of_its_card() {
    let of = |classes: usize| {
        let mut model = facts();
        model.backbone = fedcast::model::BackboneConfig::ResNet(Default::default());
        model.classes = classes;
        let method = built(FedCil::default(), &model);
        let view = Arc::new(fedcast::data::TaskView {
            task: fedcast::quantity::TaskId(0),
            rows: 0..2,
            classes: vec![0, 1],
        });
        let counts = ClassCounts::new();
        let facts = first_exchange(&model, &view, &counts);
        [MessageKind::Download, MessageKind::Upload].map(|kind| method.message_spec(kind, &facts))
    };
    let payload = |spec: &MessageSpec| {
        FrameSize::of_shape(&spec.body(), &CodecPlan::new(Codec::F32)).payload.0
    };
    let moments = 4 * 2 * (32 + 64 + 128 + 256 + 512);
    for (classes, discriminator) in [(10, 1_663_867), (100, 2_401_237)] {
        let [download, upload] = of(classes);
        let networks = 4 * (1_593_888 + discriminator);
        assert_eq!(payload(&download), networks + moments);
        // The number of samples, and a byte for every class.
        assert_eq!(payload(&upload), networks + moments + 4 + classes as u64);
        let buffers = download.parameters.iter().filter(|place| is_buffer(&place.name));
        assert!(buffers.into_iter().all(|place| place.name.starts_with("discriminator.")));
    }
}

/// Services that need no upload as a whole are there where the server only averages.
#[test]
fn a_server_that_trains_keeps_uploads_whole() {
    let refused = |steps: u32| {
        let method = built(fedcil(|method| method.server.steps = steps), &facts());
        Capability::ALL.map(|service| check_capability(&*method, &facts(), service).is_some())
    };
    // Late updates, mixed tasks, robust means, secure aggregation, malicious clients.
    assert_eq!(refused(2), [true, true, true, true, false]);
    assert_eq!(refused(0), [false, true, false, false, false]);
}

/// Both forms learn to distinguish pictures, and the discriminator's class head is what answers.
#[test]
fn both_forms_learn_their_pictures() {
    for form in [GanForm::Cifar, GanForm::Mnist] {
        let mut run = started(
            |method| {
                (method.gan, method.channel_divisor, method.dropout) = (form, 8, 0.1);
                method.server.steps = 0;
            },
            1,
        );
        run.ctx.training = plan(OptimizerConfig::adamw(3e-3));
        run.ctx.training.epochs = 6;
        let run = run.run(2, 4);
        let accuracy = run.accuracy(6);
        assert!(accuracy > 0.5, "{form:?}: {accuracy}");
    }
}

/// Two steps in each of two rounds of two tasks.
#[test]
fn steps_of_the_server_are_counted() {
    assert_eq!(run(|_| (), 2).ctx.server_steps.taken(), 8);
}
