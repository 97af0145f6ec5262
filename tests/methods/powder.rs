//! The invariants of Powder. (Distillation and similarities are tested beside their code.)

use std::sync::Arc;

use fedcast::data::{ClassOrder, Shard, TaskView};
use fedcast::learning::Classifier;
use fedcast::methods::coda_prompt::CodaPrompt;
use fedcast::methods::powder::{
    Attention, Downlink, Lend, Likeness, Looks, OWN_SHARE, OWN_TOKENS, Powder, PowderConfig,
    Similarity, SlotDown, SlotForm, SlotKey, SlotPrompts, SlotTable, is_own,
};
use fedcast::model::{Adaptation, FrozenPart, LinearHead, ParameterSet, VitConfig, ops};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{
    ClassCounts, Layout, Member, Message, Method, ModelFacts, Period, RoundContext, Service,
    SketchFacts, UpSize, WireForm, parameters_of, refusal,
};
use fedcast::quantity::{ClientId, Round, TaskId};
use fedcast::wire::{BodySketch, Codec, CodecPlan, FrameSize, Kind};

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

fn downs<'a>(run: &'a Engine, phase: &'a str) -> impl Iterator<Item = Message> + 'a {
    let of_phase = run.exchanges.iter().filter(move |exchange| exchange.phase == phase);
    of_phase.map(|exchange| Message::from_body(&exchange.down, &[]).unwrap())
}

fn values<'a>(set: &'a ParameterSet, name: &str) -> &'a [f32] {
    &set.get(name).unwrap().values
}

/// Card, invariant 8: two clients with the same images in the first task are alike from its first round on, and what each
/// of them lends is what it sent last.
#[test]
fn slots_that_begin_together_lend_each_other_at_once() {
    let mut run = engine(powder_with(|_| ()), 3);
    let shard = deal(&run.lab, &run.view(0), 1).remove(0);
    run.task(0, &[Arc::clone(&shard), shard], 2);
    let slots = table(&run);
    for slot in 0..2 {
        let weights = slots.weights(slot);
        assert!(weights.iter().all(|weight| (weight - 0.5).abs() < 1e-6), "{weights:?}");
        // Both classes have a twin in the other slot, and perhaps another relative there.
        let shares = &slots.slots()[slot].class_shares;
        assert!(shares.iter().all(|share| (0.33..0.500_001).contains(share)), "{shares:?}");
    }
    let received: Vec<ParameterSet> = downs(&run, "train").map(|down| down.parameters).collect();
    let sent = uploads(&run);
    assert_eq!((received.len(), sent.len()), (4, 4));
    // Of three mixtures two are there; each leaves half to the slot itself.
    for parameters in &received {
        let shares = values(parameters, OWN_SHARE);
        assert!((shares[0] - 0.5).abs() < 1e-6 && (shares[1] - 0.5).abs() < 1e-6);
        assert_eq!(shares[2], 0.0);
    }
    for (client, other) in [(0, 1), (1, 0)] {
        let lent = values(&received[2 + client], "prompt.01.key.others");
        let last = values(&sent[other], "prompt.01.key");
        let half: Vec<f32> = last.iter().map(|value| value / 2.0).collect();
        assert!(
            far(&lent[..half.len()], &half) < 1e-6 && far(&half, &vec![0.0; half.len()]) > 0.01
        );
    }
    // Who learns from others learns something else, from the first round on.
    let mut alone = engine(powder_with(|c| c.transfer = false), 3);
    let shard = deal(&alone.lab, &alone.view(0), 1).remove(0);
    alone.task(0, &[Arc::clone(&shard), shard], 1);
    assert!(uploads(&alone).iter().zip(&sent).all(|(alone, with)| alone != with));
}

/// What is scored is what slots mixed when they were last worked on; a slot that begins is scored as it is.
#[test]
fn samples_are_scored_on_mixed_components() {
    let mut run = engine(powder_with(|_| ()), 3);
    let shard = deal(&run.lab, &run.view(0), 1).remove(0);
    run.task(0, &[Arc::clone(&shard), shard], 1);
    let looks: Vec<Looks> = downs(&run, "look").map(|down| Looks::read(&down).unwrap()).collect();
    assert_eq!(looks.len(), 4); // as the period begins, and as it ends
    let sent = uploads(&run);
    let keys = [0, 1].map(|client| values(&sent[client], "prompt.00.key"));
    let mean: Vec<f32> = keys[0].iter().zip(keys[1]).map(|(a, b)| (a + b) / 2.0).collect();
    let closing = values(&looks[2].parameters, "prompt.00.key");
    assert!(far(closing, &[&mean[..], &mean[..]].concat()) < 1e-6);
    assert!(far(keys[0], &mean) > 1e-3);
    // Rows of unit length, orthogonal: as they were drawn.
    let opening = values(&looks[0].parameters, "prompt.00.key");
    for (at, row) in opening.chunks(16).enumerate() {
        let norm: f32 = row.iter().map(|value| value * value).sum();
        assert!((norm - 1.0).abs() < 1e-5, "{at}: {norm}");
    }
    assert_eq!(opening.len(), 2 * 3 * 16);
}

/// What a client would answer that was sent keys and attention of these slots, all as they are.
fn answered(run: &Engine, mut slots: SlotTable, task: usize) -> Attention {
    (0..slots.slots().len()).for_each(|slot| slots.slot_mut(slot).row.clear());
    let shape = Powder::new(small(), &facts()).shape;
    let (numbers, parameters) = slots.looks(&shape, Lend::Begun, &[]);
    let down = Looks { slots: numbers, parameters }.write(&shape).unwrap();
    let view = run.view(task);
    let seats = run.method.seats(&context(run, task, 3), &[ClientId(0)]);
    let mut member = Member {
        phase: 3,
        down: Arc::new(down),
        state: Default::default(),
        shard: deal(&run.lab, &view, 1).remove(0),
        key: seats[0].key(5, Round(9)),
        missed: Vec::new(),
        seat: seats[0].clone(),
    };
    let found = run.method.train(std::slice::from_mut(&mut member), &run.lab).remove(0).unwrap();
    Attention::read(&found.up).unwrap()
}

/// What a client tells of a class is the mean over its samples of their attended cosines: block by block, slot by slot.
#[test]
fn answers_are_means_of_attended_cosines() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    let slots = table(&run);
    let found = answered(&run, slots.clone(), 0);
    let shard = deal(&run.lab, &run.view(0), 1).remove(0);
    let mut wanted = vec![0f64; found.means.len()];
    let mut counts = vec![0u32; 2];
    for batch in run.lab.statistics_loader(&shard).in_order(1) {
        let batch = batch.unwrap();
        let pixels = run.lab.pixels(&batch).unwrap();
        let query = run.lab.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let query = query.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let class = batch.labels()[0] as usize;
        counts[class] += 1;
        let mut at = class * wanted.len() / 2;
        for block in ["00", "01"] {
            for slot in &slots.slots()[..2] {
                let part = |part: &str| values(&slot.parameters, &format!("prompt.{block}.{part}"));
                for (key, attention) in part("key").chunks(16).zip(part("attention").chunks(16)) {
                    let attended = query.iter().zip(attention).map(|(q, a)| f64::from(q * a));
                    let (mut product, mut lengths) = (0.0, [0.0; 2]);
                    for (q, k) in attended.zip(key) {
                        product += q * f64::from(*k);
                        lengths[0] += q * q;
                        lengths[1] += f64::from(k * k);
                    }
                    wanted[at] += product / (lengths[0] * lengths[1]).sqrt();
                    at += 1;
                }
            }
        }
    }
    assert_eq!(found.counts, counts);
    let each = wanted.len() / 2;
    assert_eq!(each, 2 * 2 * 3);
    for (at, (found, wanted)) in found.means.iter().zip(&wanted).enumerate() {
        let wanted = wanted / f64::from(counts[at / each]);
        assert!((f64::from(*found) - wanted).abs() < 1e-5, "{at}: {found} and not {wanted}");
    }
}

/// Answers hold until somebody trains or a period begins; until then those about other slots come beside them.
#[test]
fn answers_are_kept_as_long_as_they_are_true() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    let (shape, blocks) = (Powder::new(small(), &facts()).shape, small().n_blocks as usize);
    let mut slots = table(&run);
    assert_eq!(slots.known(0), [0, 1]);
    assert_eq!(SlotTable::load(&slots.save()).unwrap(), slots);
    let key = SlotKey { task: TaskId(1), client: ClientId(0) };
    let new = slots.begin(key, 2..4, &shape, StreamKey::new(1, Domain::Init));
    let numbers =
        |slots: &SlotTable, of: usize| slots.looks(&shape, Lend::Begun, slots.known(of)).0;
    assert_eq!((numbers(&slots, 0), numbers(&slots, new)), (vec![2], vec![0, 1, 2]));

    let before = slots.slots()[0].attention.clone().unwrap();
    let width = before.means.len() / 2;
    let found = Attention { over: vec![2], means: vec![0.5; width], counts: before.counts.clone() };
    slots.take(0, found.clone(), blocks);
    let both = slots.slots()[0].attention.clone().unwrap();
    assert_eq!((&both.over[..], both.without(&[2], blocks)), (&[0, 1, 2][..], before));
    assert!(numbers(&slots, 0).is_empty());
    let likeness = Likeness { blocks, components: 3, exponent: 30 };
    let mut begun = slots.clone();
    begun.compare(&likeness, Lend::Begun, &[0, 1]);
    assert_eq!(begun.known(0), [0u32; 0]);

    let own = slots.slots()[new].parameters.clone();
    slots.learn(new, own);
    assert_eq!((numbers(&slots, 0), slots.slots()[new].rounds), (vec![0, 1, 2], 1));
    slots.take(0, found.clone(), blocks);
    assert_eq!(slots.slots()[0].attention, Some(found));
}

/// The server that looks itself finds what clients would tell it, and nothing of it travels.
#[test]
fn a_server_that_sees_images_finds_what_clients_tell() {
    let method = powder_with(|c| c.similarity = Similarity::Server);
    let mut run = engine(method, 3);
    task(&mut run, 0, 1, 2);
    assert!(run.exchanges.iter().all(|exchange| exchange.phase == "train"));
    let left = answered(&run, table(&run), 0);
    assert_eq!(left.over, [0]);
    run.server.begin_period(&Period::of(run.view(1), 3), &run.lab).unwrap();
    let context = context(&run, 1, 2);
    let seats = run.method.seats(&context, &[ClientId(0)]);
    run.server.broadcast(&context, &seats, &run.lab).unwrap();
    let slots = table(&run);
    // The slot that was left is scored again on what it has become, the new one on both.
    assert_eq!(slots.slots()[0].attention, Some(left));
    let new = answered(&run, slots.clone(), 1);
    assert_eq!((&new.over[..], slots.slots()[1].attention.as_ref()), (&[0, 1][..], Some(&new)));
    let weights = slots.weights(1);
    assert!((weights[0] + weights[1] - 1.0).abs() < 1e-9 && weights[0] > 0.0, "{weights:?}");
    assert_eq!(slots.slots()[1].row, weights);
}

/// Slots that were not trained before a period lend nothing in it where that is asked: in the first one, and where
/// nothing is transferred, a slot learns from itself alone.
#[test]
fn slots_that_lend_once_trained_lend_nothing_in_the_first_task_and_something_later() {
    let runs = [true, false].map(|transfer| {
        let method = powder_with(|c| (c.transfer, c.lend) = (transfer, Lend::Trained));
        let mut run = engine(method, 3);
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
    let prompting = Arc::new(SlotPrompts { blocks: 0..2, trains: true, form: SlotForm::Tokens });
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

/// What arrives teaches in every round but the run's first, also a new slot that nobody has trained.
#[test]
fn a_slot_is_distilled_in_every_round_but_the_first_of_the_run() {
    let runs = [1.0, 0.0].map(|weight| {
        // Three classes a task: two of them can be wrong.
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 1);
        task(&mut run, 1, 1, 1);
        let taught = downs(&run, "train").map(|down| SlotDown::read(&down).unwrap().teaches);
        assert_eq!(taught.collect::<Vec<_>>(), [false, true]);
        uploads(&run)
    });
    assert_eq!(runs[0][0], runs[1][0]);
    assert_ne!(runs[0][1], runs[1][1]);
    let runs = [1.0, 0.0, 1e-9].map(|weight| {
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 2);
        uploads(&run)
    });
    assert_eq!(runs[0][0], runs[1][0]);
    assert_ne!(runs[0][1], runs[1][1]);
    // Little of it is little.
    let [whole, none, little] = runs.map(|run| values(&run[1], "prompt.00.key").to_vec());
    assert!(far(&little, &none) < 0.01 * far(&whole, &none));
}

/// Samples of classes with relatives are distilled more, where anything teaches at all.
#[test]
fn shares_of_classes_weigh_their_own_samples() {
    let mut run = engine(powder_with(|_| ()), 2);
    task(&mut run, 0, 1, 1);
    let down = downs(&run, "train").next().unwrap();
    let shape = Powder::new(small(), &facts()).shape;
    let (view, phase) = (run.view(0), 1);
    let seats = run.method.seats(&context(&run, 0, phase), &[ClientId(0)]);
    // Of the slot's three classes the client has two.
    let by_class = run.lab.dataset.train.by_class();
    let two = view.classes[..2].iter().flat_map(|class| &by_class[*class as usize][..4]);
    let shard: Shard = two.copied().collect();
    let learnt = |teaches: bool, class_shares: [f32; 3]| {
        let down = SlotDown::read(&down).unwrap();
        let down = SlotDown { teaches, class_shares: class_shares.into(), ..down };
        let mut member = Member {
            phase,
            down: Arc::new(down.write(&shape).unwrap()),
            state: Default::default(),
            shard: shard.clone(),
            key: seats[0].key(5, Round(9)),
            missed: Vec::new(),
            seat: seats[0].clone(),
        };
        let members = std::slice::from_mut(&mut member);
        run.method.train(members, &run.lab).remove(0).unwrap().up.body().digest()
    };
    let even = learnt(true, [1.0; 3]);
    let (first, second) = (learnt(true, [0.3, 1.0, 1.0]), learnt(true, [1.0, 0.3, 1.0]));
    assert!(even != first && even != second && first != second);
    assert_eq!(learnt(true, [1.0, 1.0, 0.3]), even);
    assert_eq!(learnt(false, [0.3, 1.0, 1.0]), learnt(false, [1.0; 3]));
}

/// A slot of Fed-CODAP, even one that is alone, has components of its own, in as many blocks and each of as many tokens
/// as the method says.
#[test]
fn slots_of_coda_prompt_have_its_sizes() {
    let numbers = |prompt_len: u32, slot_components: u32, blocks: (u32, u32)| {
        let (first_block, n_blocks) = blocks;
        let sizes = CodaPrompt { prompt_len, slot_components, ..CodaPrompt::default() };
        let method = CodaPrompt { first_block, n_blocks, ..sizes };
        let mut run = engine(Arc::new(method.side_by_side(&facts())), 3);
        task(&mut run, 0, 1, 1);
        uploads(&run)[0].iter().map(|(_, parameter)| parameter.values.len()).sum::<usize>()
    };
    let width = 16;
    let few = numbers(4, 3, (0, 2));
    assert_eq!(numbers(6, 3, (0, 2)) - few, 2 * 3 * 2 * width);
    // A component has a key and an attention beside its tokens.
    assert_eq!(numbers(4, 5, (0, 2)) - few, 2 * 2 * (4 + 2) * width);
    assert_eq!(few - numbers(4, 3, (1, 1)), 3 * (4 + 2) * width);
}

/// Fed-CODAP as Powder's benchmark has it: slots stand side by side, each with its owner, and nobody looks at anything.
#[test]
fn slots_side_by_side_are_owned_and_nothing_is_averaged() {
    // Places for six slots of two classes.
    let wide = ModelFacts { classes: 12, ..facts() };
    let config = PowderConfig { kd_weight: 0.0, ..small() };
    let mut run = engine(Arc::new(Powder::side_by_side(config, &wide)), 3);
    task(&mut run, 0, 2, 2);
    task(&mut run, 1, 2, 1);
    assert!(run.exchanges.iter().all(|exchange| exchange.phase == "train"));
    let (slots, sent) = (table(&run), uploads(&run));
    let kept: Vec<&ParameterSet> = slots.slots().iter().map(|slot| &slot.parameters).collect();
    assert_eq!(kept, [&sent[2], &sent[3], &sent[4], &sent[5]]);
    // An even share of everyone who has begun; places of the others are empty.
    let shares = downs(&run, "train").map(|down| SlotDown::read(&down).unwrap().table.unwrap());
    let shares: Vec<Vec<f64>> = shares.map(|table| table.weights).collect();
    assert_eq!(shares[0], [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(shares[5], [0.25, 0.25, 0.25, 0.25, 0.0, 0.0]);
    // It is a prefix, no tokens: what a slot answers depends on the others.
    let scores = |run: &Engine| {
        let loader = run.lab.statistics_loader(&(0..12).collect());
        let batch = loader.in_order(12).next().unwrap().unwrap();
        let predictor = run.server.predictor(&run.lab).unwrap();
        let scope = fedcast::policy::Scope::Task(2..4);
        let found = predictor.batch_scores(&batch, &run.lab.device, &scope).unwrap();
        found.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let before = scores(&run);
    let mut others = slots.clone();
    let first = others.slot_mut(0);
    let key = first.parameters.get("prompt.00.key").unwrap().clone();
    let turned = key.values.iter().map(|value| -value).collect();
    let turned = fedcast::model::Parameter { values: turned, ..key };
    first.parameters.insert("prompt.00.key", turned);
    run.server.load(&others.save()).unwrap();
    assert_ne!(before, scores(&run));
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
    let model = ModelFacts {
        backbone: vit.into(),
        classes: 25 * classes,
        tasks: 5,
        clients: 5,
        form,
        auxiliary: None,
    };
    let rows = classes..2 * classes;
    let ids = rows.clone().map(|row| row as u32).collect();
    let view = Arc::new(TaskView { task: TaskId(0), rows, classes: ids });
    let counts = ClassCounts::new();
    let facts = SketchFacts {
        model: &model,
        view: &view,
        period: view.task,
        phase,
        round_in_phase: 0,
        role: Default::default(),
        counts: &counts,
    };
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
    // All of that is of a kind of its own, for the release sends nothing for it.
    let kinds = |body: &BodySketch| body.sections.iter().map(|of| of.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&looks.down), [Kind::Similarity]);
    assert_eq!(kinds(&looks.up.body()), [Kind::Similarity]);
    assert!(!kinds(&of(20, 2).down).contains(&Kind::Similarity));
    // A server that sees images needs no such phase.
    let rounds = |similarity, task: u16| {
        let config = PowderConfig { similarity, ..PowderConfig::default() };
        let view = Arc::new(TaskView { task: TaskId(task), rows: 0..2, classes: vec![0, 1] });
        let phases = Powder::new(config, &facts()).phases(&Period::of(view, 5), 3);
        phases.iter().map(|phase| phase.rounds).collect::<Vec<_>>()
    };
    assert_eq!(rounds(Similarity::Clients, 0), [1, 0, 3, 1]);
    assert_eq!(rounds(Similarity::Clients, 4), [1, 0, 3, 0]);
    assert_eq!(rounds(Similarity::Server, 0), [0, 0, 3, 0]);
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
        let facts = SketchFacts {
            model: &model,
            view: &view,
            period: view.task,
            phase,
            round_in_phase: 0,
            role: Default::default(),
            counts: &counts,
        };
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
