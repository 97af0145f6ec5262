//! The invariants of Powder. (Distillation and similarities are tested beside their code.)

use std::sync::Arc;

use fedcast::data::{ClassOrder, Shard, TaskView};
use fedcast::learning::Classifier;
use fedcast::methods::powder::{
    Attention, Downlink, Looks, OWN_SHARE, OWN_TOKENS, Powder, PowderConfig, SlotDown, SlotPrompts,
    SlotTable, is_own,
};
use fedcast::model::{Adaptation, LinearHead, ParameterSet, VitConfig, ops};
use fedcast::policy::{
    ClassCounts, Layout, Member, Message, Method, ModelFacts, Period, RoundContext, Service,
    SketchFacts, UpSize, WireForm, parameters_of, refusal,
};
use fedcast::quantity::{ClientId, Round, TaskId};
use fedcast::wire::{BodySketch, Codec, CodecPlan, FrameSize};

use crate::gradients::every_variable_has_a_gradient;
use crate::toys::watched::Engine;
use crate::toys::{deal, facts, lab};
use crate::{engine, far};

/// Tokens in both blocks, or in the last one alone.
pub fn small() -> PowderConfig {
    let sizes = PowderConfig { components: 3, prompt_len: 2, ..PowderConfig::default() };
    PowderConfig { first_block: 0, n_blocks: 2, ..sizes }
}

fn powder_with(change: impl Fn(&mut PowderConfig)) -> Arc<dyn Method> {
    let mut config = small();
    change(&mut config);
    Arc::new(Powder::new(config, &facts()))
}

pub fn table(run: &Engine) -> SlotTable {
    SlotTable::load(&run.server.save()).unwrap()
}

fn task(run: &mut Engine, task: usize, clients: usize, rounds: u32) {
    let shards = deal(&run.lab, &run.view(task), clients);
    run.task(task, &shards, rounds);
}

fn uploads(run: &Engine) -> Vec<ParameterSet> {
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    trained.map(|exchange| parameters_of(exchange.up.as_ref().unwrap()).unwrap()).collect()
}

#[test]
fn a_slot_is_what_its_owner_sent_and_others_stay() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 2);
    let before = table(&run);
    assert_eq!(before.slots().len(), 2);
    for (slot, sent) in before.slots().iter().zip(&uploads(&run)[2..]) {
        assert_eq!(&slot.parameters, sent);
        assert_eq!(slot.rounds, 2);
        assert!(sent.iter().all(|(name, _)| is_own(name)));
    }
    // Client 1 does not take part in the second task.
    task(&mut run, 1, 1, 1);
    let after = table(&run);
    assert_eq!(after.slots().len(), 3);
    for (old, new) in before.slots().iter().zip(after.slots()) {
        assert_eq!(old.parameters, new.parameters);
    }
    assert_eq!(&after.slots()[2].parameters, uploads(&run).last().unwrap());
    assert_eq!(SlotTable::load(&after.save()).unwrap(), after);
}

#[test]
fn components_start_orthogonal_to_those_before() {
    let mut run = engine(powder_with(|c| c.components = 2), 3);
    let shards: Vec<Shard> = vec![[0u32, 1].into(); 3];
    let period = Period::of(run.view(0), 3);
    run.server.begin_period(&period, &run.lab).unwrap();
    let context = context(&run, 0, 1);
    let everyone: Vec<ClientId> = (0..shards.len() as u32).map(ClientId).collect();
    let seats = run.method.seats(&context, &everyone);
    run.server.broadcast(&context, &seats, &run.lab).unwrap();
    for name in ["prompt.00.key", "prompt.00.attention", "prompt.01.component"] {
        let rows: Vec<Vec<f32>> = (table(&run).slots().iter())
            .flat_map(|slot| {
                let rows = slot.parameters.get(name).unwrap();
                rows.values.chunks(rows.values.len() / 2).map(<[f32]>::to_vec).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(rows.len(), 6);
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((dot - expected).abs() < 1e-5, "{name}: {i}, {j}: {dot}");
            }
        }
    }
}

/// A round of a phase of a task.
pub fn context(run: &Engine, task: usize, phase: usize) -> RoundContext {
    RoundContext {
        round: Round(run.round),
        period: Period::of(run.view(task), 3),
        phase,
        phase_name: "train",
        round_in_phase: 0,
        rounds_in_phase: 1,
        run_seed: 5,
    }
}

/// In the first period, and where nothing is transferred, a slot learns from itself alone.
#[test]
fn slots_lend_each_other_nothing_in_the_first_task_and_something_later() {
    let runs = [true, false].map(|transfer| {
        let mut run = engine(powder_with(|c| c.transfer = transfer), 3);
        task(&mut run, 0, 2, 2);
        task(&mut run, 1, 2, 1);
        run
    });
    let [with, without] = [&runs[0], &runs[1]].map(uploads);
    assert_eq!(with[..4], without[..4]);
    assert_ne!(with[4..], without[4..]);
    let slot_downs = |run: &Engine| -> Vec<ParameterSet> {
        let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
        trained.map(|exchange| parameters_of(&exchange.down).unwrap()).collect()
    };
    assert!(slot_downs(&runs[1]).iter().all(|slot_down| slot_down.get(OWN_SHARE).is_none()));
    let second = &slot_downs(&runs[0])[4];
    let (share, tokens) = (second.get(OWN_SHARE).unwrap(), second.get(OWN_TOKENS).unwrap());
    assert!(share.values[0] > 0.0 && share.values[0] < 1.0, "{:?}", share.values);
    assert!((share.values[0] / tokens.values[0] - 3.0).abs() < 1e-4, "{:?}", tokens.values);
    let others = second.get("prompt.01.key.others").unwrap();
    assert_eq!(others.shape, [9, 16]);
    assert!(others.values.iter().any(|v| *v != 0.0));
    // A new slot uses others, and nobody uses it before it was trained.
    let table = table(&runs[0]);
    for slot in 0..4 {
        let weights = table.weights(slot);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((2..4).filter(|other| *other != slot).all(|other| weights[other] == 0.0));
    }
    assert!(table.weights(2)[0] > 0.0);
}

/// Card, invariant 4: everything else that a client was sent is no variable at all.
#[test]
fn gradients_reach_the_own_slot_and_its_head_alone() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    task(&mut run, 1, 2, 1);
    let slot_down = run.exchanges.iter().rfind(|exchange| exchange.phase == "train").unwrap();
    let received = parameters_of(&slot_down.down).unwrap();
    let foreign = received.iter().filter(|(name, _)| !is_own(name)).count();
    assert_eq!(foreign, 2 * 3 + 2); // three parts of two blocks, and two shares
    let prompting = Arc::new(SlotPrompts { blocks: 0..2, trains: true });
    let model =
        Classifier::pack_with(&run.lab.backbone, vec![received], 0..2, Some(prompting)).unwrap();
    let shard = deal(&run.lab, &run.view(1), 1).remove(0);
    let batch = run.lab.train_loader(&shard).in_order(8).next().unwrap().unwrap();
    let features = model.batch_features(&batch, &run.lab.device).unwrap();
    let labels: Vec<u32> = batch.labels().iter().map(|row| row - 2).collect();
    let loss = ops::cross_entropy(&model.logits(&features).unwrap(), &labels, 0..2).unwrap();
    every_variable_has_a_gradient(&model, &loss);
    let names: Vec<_> = model.variables().iter().map(|(name, _)| name.to_string()).collect();
    assert!(names.len() == 2 * 3 + 2 && names.iter().all(|name| is_own(name)), "{names:?}");
}

/// One client, so that a task has one slot: all of them fit into the rows of the head.
#[test]
fn a_client_that_gets_all_slots_mixes_them_itself() {
    let runs = [Downlink::Needed, Downlink::Table].map(|downlink| {
        let mut run = engine(powder_with(|c| c.downlink = downlink), 3);
        (0..3).for_each(|at| task(&mut run, at, 1, 2));
        run
    });
    assert_eq!(table(&runs[0]), table(&runs[1]));
    let bytes = |run: &Engine| {
        let down = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
        down.map(|exchange| payload(&exchange.down.sketch())).max()
    };
    assert!(bytes(&runs[1]) < bytes(&runs[0])); // three slots are fewer than one and three sums
}

#[test]
fn a_slot_teaches_itself_from_its_second_round_on() {
    let runs = [1.0, 0.0].map(|weight| {
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 2);
        uploads(&run)
    });
    assert_eq!(runs[0][0], runs[1][0]);
    assert_ne!(runs[0][1], runs[1][1]);
}

/// Invariant 7: without tokens the network is the frozen one, and only heads train.
#[test]
fn without_tokens_the_network_is_the_frozen_one() {
    let mut run = engine(powder_with(|c| c.prompt_len = 0), 3);
    task(&mut run, 0, 1, 1);
    let (lab, table) = (&run.lab, table(&run));
    let slot = &table.slots()[0];
    let loader = lab.statistics_loader(&(0..12).collect());
    let batch = loader.in_order(12).next().unwrap().unwrap();
    let pixels = lab.pixels(&batch).unwrap();
    let features = lab.backbone.features(&pixels, &Adaptation::none()).unwrap();
    let head = LinearHead::from_parameters(&slot.parameters).unwrap();
    let plain = head.logits(&features).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let scope = fedcast::policy::Scope::Task(slot.rows.clone());
    let predictor = run.server.predictor(lab).unwrap();
    let found = predictor.batch_scores(&batch, &lab.device, &scope).unwrap();
    let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(far(&plain, &found) < 1e-5);
}

#[test]
fn slots_learn_and_rows_without_a_slot_are_no_answers() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 3);
    let tally = run.tally(6);
    assert_eq!(tally.predicted[2..], [0; 4]);
    assert!(run.accuracy(2) > 0.6, "{}", run.accuracy(2));
    task(&mut run, 1, 2, 2);
    // Knowing the task never makes a right answer wrong.
    let seen = run.tally(4);
    let predictor = run.server.predictor(&run.lab).unwrap();
    let loader = run.lab.statistics_loader(&(0..30).collect());
    let batch = loader.in_order(30).next().unwrap().unwrap();
    let scores = |scope| {
        let scores = predictor.batch_scores(&batch, &run.lab.device, &scope).unwrap();
        scores.to_vec2::<f32>().unwrap()
    };
    let all = scores(fedcast::policy::Scope::Seen(4));
    let own = scores(fedcast::policy::Scope::Task(2..4));
    assert!(all.iter().zip(&own).all(|(all, own)| all[2..] == own[..]));
    assert!(seen.predicted[..4].iter().sum::<u64>() == seen.samples());
}

/// Ragged batches, one sample, none.
const SHARDS: [usize; 4] = [11, 1, 0, 9];

/// Digest of an upload, and what is said of its training.
pub type Sent = (u64, Vec<(&'static str, f64)>);

/// The uploads of a pack and of its members alone.
pub fn pack_and_alone(
    method: &Arc<dyn Method>,
    run: &mut Engine,
    phase: usize,
    view: &Arc<TaskView>,
) -> [Vec<Sent>; 2] {
    let cohort: Vec<ClientId> = (0..SHARDS.len() as u32).map(ClientId).collect();
    let context = context(run, view.task.index(), phase);
    let seats = run.method.seats(&context, &cohort);
    let downs = run.server.broadcast(&context, &seats, &run.lab).unwrap();
    let by_class = run.lab.dataset.train.by_class();
    let own = view.classes.iter().flat_map(|class| by_class[*class as usize].iter().copied());
    let own: Vec<u32> = own.collect();
    let members = || -> Vec<Member> {
        let mut next = 0;
        let member = |(seat, down): (&fedcast::policy::Seat, &_)| {
            let count = SHARDS[seat.client.index()];
            let shard: Shard = (next..next + count).map(|at| own[at * 5 % own.len()]).collect();
            next += count;
            Member {
                phase,
                down: Arc::clone(down),
                state: run.states.get(&seat.client).cloned().unwrap_or_default(),
                shard,
                key: seat.key(5, Round(40)),
                missed: Vec::new(),
                seat: seat.clone(),
            }
        };
        seats.iter().zip(&downs).map(member).collect()
    };
    let sent = |members: &mut [Member]| {
        let outcomes = method.train(members, &run.lab).into_iter();
        let sent = outcomes.map(|outcome| {
            let outcome = outcome.unwrap();
            (outcome.up.body().digest(), outcome.metrics)
        });
        sent.collect::<Vec<_>>()
    };
    let together = sent(&mut members());
    let alone = members().chunks_mut(1).flat_map(sent).collect();
    [together, alone]
}

#[test]
fn a_pack_learns_what_its_members_learn_alone() {
    let method = powder_with(|c| c.first_block = 1);
    // Three classes a task: two of them can be wrong.
    let mut run = engine(Arc::clone(&method), 2);
    let view = run.view(0);
    assert_eq!(
        [0, 1, 2].map(|phase| method.largest_pack(&view, phase)),
        [1, usize::MAX, usize::MAX]
    );
    let [together, alone] = pack_and_alone(&method, &mut run, 1, &view);
    assert_eq!(together, alone);
    // With teachers and other slots.
    task(&mut run, 0, 4, 1);
    let [together, alone] = pack_and_alone(&method, &mut run, 1, &view);
    assert_eq!(together, alone);
    task(&mut run, 1, 4, 1);
    let view = run.view(1);
    let [together, alone] = pack_and_alone(&method, &mut run, 2, &view);
    assert_eq!(together, alone);
}

/// What is sent down and up.
pub struct Sizes {
    pub down: BodySketch,
    pub up: Layout,
}

/// An exchange of a phase on ViT-B/16, for a slot of so many classes among 25.
pub fn on_imagenet_r<M: Method>(
    classes: usize,
    phase: usize,
    method: impl Fn(&ModelFacts) -> M,
) -> Sizes {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let form = WireForm::Full;
    let model =
        ModelFacts { backbone: vit.into(), classes: 25 * classes, tasks: 5, clients: 5, form };
    let rows = classes..2 * classes;
    let ids = rows.clone().map(|row| row as u32).collect();
    let view = Arc::new(TaskView { task: TaskId(0), rows, classes: ids });
    let counts = ClassCounts::new();
    let facts =
        SketchFacts { model: &model, view: &view, phase, round_in_phase: 0, counts: &counts };
    let method = method(&model);
    Sizes { down: method.down(&facts).body(), up: method.up(&facts) }
}

pub fn payload(sketch: &BodySketch) -> u64 {
    FrameSize::of_sketch(sketch, &CodecPlan::new(Codec::F32)).payload.0
}

/// Card, section 4 and invariant 6.
#[test]
fn powder_sends_the_bytes_of_its_card() {
    let method = |facts: &ModelFacts| Powder::new(PowderConfig::default(), facts);
    let of = |classes, phase| on_imagenet_r(classes, phase, method);
    assert_eq!(payload(&of(20, 1).up.body()), 983_120); // 245,780 floats
    assert_eq!(payload(&of(35, 2).up.body()), 1_029_260);
    // The slot as it is; closeness of its classes beside it.
    assert_eq!(payload(&of(20, 1).down), 983_120 + 4 * 20);
    // And three sums over other slots, with two shares each.
    let needed = 4 * (4 * 230_400 + 15_380);
    assert_eq!(payload(&of(20, 2).down), needed + 4 * 20 + 4 * 2 * 3);
    assert_eq!(of(20, 2).up.size, UpSize::Static);
    // All 25 slots: 24.58 MB; three rows of W beside them.
    let table = |facts: &ModelFacts| {
        let config = PowderConfig { downlink: Downlink::Table, ..PowderConfig::default() };
        Powder::new(config, facts)
    };
    let down = on_imagenet_r(20, 2, table).down;
    assert_eq!(payload(&down), 24_578_000 + 4 * 20 + 4 + 3 * 25 * 8);
    // Keys and attention of the five slots of the first period, and mean scores by class.
    let looks = of(20, 3);
    assert_eq!(payload(&looks.down), 5 * 4 * 3 * 10 * 2 * 768);
    assert_eq!(payload(&looks.up.body()), 4 * (20 * 3 * 5 * 10 + 20));
    assert_eq!(looks.up.size, UpSize::FromValues);
}

#[test]
fn messages_that_are_something_else_are_refused() {
    let lab = lab(3, ClassOrder::Native);
    let mut run = Engine::new(powder_with(|_| ()), facts(), lab);
    task(&mut run, 0, 1, 1);
    let slot_down = run.exchanges.iter().find(|exchange| exchange.phase == "train").unwrap();
    let sent = Message::from_body(&slot_down.down, &[]).unwrap();
    assert!(SlotDown::read(&sent).is_ok() && Looks::read(&sent).is_err());
    let mut longer = sent.clone();
    longer.control.push(7);
    assert!(SlotDown::read(&longer).is_err());
    assert!(SlotDown::read(&Message { control: Vec::new(), ..sent }).is_err());
}

/// Attention is as long as what was learnt; what does not fit the classes of its slot is refused, and nobody else is.
#[test]
fn attention_of_another_width_is_refused() {
    let method = powder_with(|_| ());
    let mut run = engine(Arc::clone(&method), 3);
    task(&mut run, 0, 2, 1);
    let look = run.exchanges.iter().rfind(|exchange| exchange.phase == "look").unwrap();
    let up = Message::from_body(look.up.as_ref().unwrap(), &[]).unwrap();
    let (model, counts) = (facts(), ClassCounts::new());
    let (view, shape) = (run.view(0), Powder::new(small(), &model).shape);
    let lift = |update: &Message, phase: usize| {
        let facts =
            SketchFacts { model: &model, view: &view, phase, round_in_phase: 0, counts: &counts };
        method.lift(&facts, &Message::default(), update.clone()).map_err(|error| error.to_string())
    };
    assert!(lift(&up, 3).is_ok());
    let found = Attention::read(&up).unwrap();
    assert_eq!(found.over, [0, 1]);
    let spoilt = Attention { over: vec![0], ..found.clone() };
    let kept = Message { control: Attention::layout(&shape, 2, &[0]).control, ..up.clone() };
    assert_eq!(Attention::read(&kept).unwrap(), spoilt);
    let why = lift(&kept, 3).unwrap_err();
    assert_eq!(why, "24 mean scores of 2 classes, where 2 classes have 6 each");
    let fewer = Attention { counts: vec![5], means: found.means[..12].to_vec(), ..found };
    assert!(lift(&fewer.write(&shape).unwrap(), 3).is_err());
    // A slot is no attention.
    let slot = run.exchanges.iter().find(|exchange| exchange.phase == "train").unwrap();
    let slot = Message::from_body(slot.up.as_ref().unwrap(), &[]).unwrap();
    assert!(lift(&slot, 1).is_ok() && lift(&slot, 3).is_err());
}

#[test]
fn slots_may_be_of_different_tasks_and_are_what_their_owners_last_sent() {
    let method = Powder::new(small(), &facts());
    let refused = |service| refusal(&method, &facts(), service).is_some();
    assert_eq!(
        Service::ALL.map(refused),
        [true, false, true, true, true],
        "late, mixed, robust, secure, lies"
    );
}
