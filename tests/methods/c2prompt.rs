//! The invariants of C2Prompt. (Moments, affinities and the alignment loss are tested with their code.)

mod mixing;

use std::collections::BTreeSet;
use std::sync::Arc;

use fedcast::data::Shard;
use fedcast::methods::c2prompt::{C2Prompt, C2PromptConfig, PooledMoments};
use fedcast::methods::powder::Powder;
use fedcast::model::FrozenPart;
use fedcast::policy::{
    Capability, ClassCounts, ExchangeFacts, Member, Message, MessageKind, Method, ModelFacts,
    Stage, UploadSize, check_capability, parameters_of,
};
use fedcast::quantity::{ClientId, Round};
use fedcast::wire::Kind;

use crate::powder::messages::{on_imagenet_r, payload};
use crate::powder::packs::{Sent, pack_and_alone};
use crate::powder::{context, small, table};
use crate::toys::watched::Engine;
use crate::toys::{deal, facts, first_exchange};
use crate::{engine, max_pack_size};

fn c2prompt_with(change: impl Fn(&mut C2PromptConfig)) -> Arc<dyn Method> {
    let mut config = C2PromptConfig { powder: small(), ..C2PromptConfig::default() };
    config.powder.first_block = 1;
    change(&mut config);
    Arc::new(C2Prompt::new(config, &facts()))
}

fn run_of(method: Arc<dyn Method>) -> Engine {
    engine(method, 3).run(2, 2)
}

/// Card, invariant 5: without compensation prompts and mixing it is Powder.
#[test]
fn with_probability_zero_and_no_mixing_it_is_powder_bit_for_bit() {
    let mut config = small();
    config.first_block = 1;
    let powder = run_of(Arc::new(Powder::new(config, &facts())));
    let c2prompt = run_of(c2prompt_with(|c| (c.probability, c.cpa) = (0.0, false)));
    assert_eq!(table(&powder), table(&c2prompt));
    assert_eq!(powder.round, c2prompt.round);
    assert_eq!(powder.tally(6), c2prompt.tally(6));
    for (ours, theirs) in c2prompt.exchanges.iter().zip(&powder.exchanges) {
        let set = |body: &fedcast::wire::Body| parameters_of(body).unwrap();
        assert_eq!(set(&ours.down), set(&theirs.down));
        assert_eq!(set(ours.up.as_ref().unwrap()), set(theirs.up.as_ref().unwrap()));
    }
    // Each of the two parts alone changes something.
    let mixed = run_of(c2prompt_with(|c| (c.probability, c.cpa_transfer) = (0.0, true)));
    let compensated = run_of(c2prompt_with(|c| c.cpa = false));
    assert_ne!(table(&powder), table(&mixed));
    assert_ne!(table(&powder), table(&compensated));
}

/// Card, invariant 7.
#[test]
fn histograms_do_not_change_training() {
    let uploads = [true, false].map(|cpa| {
        // With the same mixing of client tasks.
        let mut run = engine(c2prompt_with(|c| (c.cpa, c.cpa_transfer) = (cpa, true)), 3);
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 1);
        let trained = run.exchanges.into_iter().filter(|exchange| exchange.phase == "train");
        trained.map(|exchange| exchange.up.unwrap()).collect::<Vec<_>>()
    });
    for (with, without) in uploads[0].iter().zip(&uploads[1]) {
        assert_eq!(parameters_of(with).unwrap(), parameters_of(without).unwrap());
        let histogram = with.tensor(Kind::Statistics, "histogram").unwrap();
        assert_eq!(histogram.shape(), [3, 2]);
        let scores = histogram.as_f32().unwrap();
        assert!(scores.iter().all(|v| (0.0..=1.0).contains(v)) && scores.iter().any(|v| *v > 0.0));
        assert!(without.tensor(Kind::Statistics, "histogram").is_err());
    }
}

/// Card, invariants 2 and 6; the state lives as long as the client task.
#[test]
fn compensation_prompts_are_trained_and_stay_at_home() {
    let method = c2prompt_with(|c| c.compensation_epochs = 20);
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 2);
    let phases: Vec<&str> = run.exchanges.iter().map(|exchange| exchange.phase).collect();
    let expected = ["statistics", "compensate", "train", "train"];
    assert_eq!(phases.chunks(2).map(|pair| pair[0]).collect::<Vec<_>>(), expected);
    let figure = |exchange: &crate::toys::watched::Exchange, name: &str| {
        exchange.metrics.iter().find(|(other, _)| *other == name).unwrap().1
    };
    for exchange in &run.exchanges {
        let upload = exchange.up.as_ref().unwrap();
        // Two classes, three tokens, width 16.
        assert!(
            upload.tensors().all(|(_, tensor)| tensor.shape() != [2, 3, 16]),
            "{}",
            exchange.phase
        );
        let kept =
            run.states[&exchange.participant.client].tensor(Kind::Prompt, "compensation").unwrap();
        let kept: BTreeSet<u32> = kept.as_f32().unwrap().iter().map(|v| v.to_bits()).collect();
        let numbers = upload.tensors().filter_map(|(_, tensor)| tensor.as_f32().ok());
        let sent = numbers.flat_map(|values| values.iter().copied());
        let leaked = sent.filter(|v| *v != 0.0 && kept.contains(&v.to_bits())).count();
        assert!(kept.len() > 90 && leaked < 3, "{}: {leaked} of {}", exchange.phase, kept.len());
        if exchange.phase == "compensate" {
            assert_eq!(upload.tensors().count(), 0);
            assert!(figure(exchange, "alignment_last") < figure(exchange, "alignment_first"));
        }
    }
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    let steps: Vec<(f64, f64)> =
        trained.map(|e| (figure(e, "compensated_steps"), figure(e, "steps"))).collect();
    assert!(steps.iter().all(|(with, all)| with < all));
    assert!(steps.iter().any(|(with, _)| *with > 0.0));
    let state = &run.states[&ClientId(0)];
    assert!(!method.profile().stateless);
    assert_eq!(method.state_bytes(state).unwrap(), 4 * 2 * 3 * 16);
    let first = state.digest();
    // A client task that goes on keeps them, one that begins has others.
    let asked = run.exchanges.iter().find(|exchange| exchange.phase == "compensate").unwrap();
    let mut member = Member {
        phase: 2,
        download: Arc::new(Message::from_body(&asked.down, &asked.assets).unwrap()),
        state: run.states[&ClientId(0)].clone(),
        shard: Arc::clone(&shards[0]),
        key: asked.participant.key(5, Round(9)),
        missed: Vec::new(),
        participant: asked.participant.clone(),
    };
    let found = method.train(std::slice::from_mut(&mut member), &run.ctx).remove(0).unwrap();
    assert!(found.metrics.is_empty());
    assert_eq!(member.state.digest(), first);
    let shards = deal(&run.ctx, &run.view(1), 2);
    run.task(1, &shards, 1);
    assert_ne!(run.states[&ClientId(0)].digest(), first);
}

/// Components begin as normal numbers of standard deviation 0.02.
#[test]
fn compensation_prompts_begin_small() {
    let run = run_of(c2prompt_with(|c| c.compensation_epochs = 0));
    let kept = run.states[&ClientId(0)].tensor(Kind::Prompt, "compensation").unwrap();
    let values = kept.as_f32().unwrap();
    let square: f32 = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
    assert!((0.015..0.026).contains(&square.sqrt()), "{}", square.sqrt());
}

/// Card, invariant 6: what is answered does not depend on compensation prompts, whatever they are.
#[test]
fn answers_do_not_depend_on_compensation_prompts() {
    let runs = [1, 9].map(|epochs| {
        // Trained, and as good as never used.
        run_of(c2prompt_with(|c| (c.compensation_epochs, c.probability) = (epochs, 1e-12)))
    });
    let prompts = |run: &Engine| run.states[&ClientId(0)].digest();
    assert_ne!(prompts(&runs[0]), prompts(&runs[1]));
    assert_eq!(table(&runs[0]), table(&runs[1]));
    assert_eq!(runs[0].tally(6), runs[1].tally(6));
}

/// A client that was not there in round 0 learns without compensation prompts.
#[test]
fn who_missed_round_0_takes_part() {
    let method = c2prompt_with(|c| c.probability = 1.0);
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 1);
    let view = run.view(0);
    // Clients 2 and 3 are new.
    let [together, alone] = pack_and_alone(&method, &mut run, 3, &view);
    assert_eq!(together, alone);
    assert!(max_pack_size(&*method, &view, 3) > 4); // every step has them: no coin is tossed
    let compensated =
        |sent: &Sent| sent.1.iter().find(|(name, _)| *name == "compensated_steps").unwrap().1;
    assert!(compensated(&together[0]) > 0.0);
    assert_eq!(compensated(&together[3]), 0.0);
}

/// Clients that toss coins are not one network, and learn the same one by one.
#[test]
fn a_pack_learns_what_its_members_learn_alone() {
    for (lcdc, largest) in [(true, 1), (false, usize::MAX)] {
        let method = c2prompt_with(|c| (c.lcdc, c.cpa_transfer) = (lcdc, true));
        let mut run = engine(Arc::clone(&method), 2);
        for task in 0..2 {
            let shards = deal(&run.ctx, &run.view(task), 4);
            run.task(task, &shards, 1);
            let view = run.view(task);
            let [together, alone] = pack_and_alone(&method, &mut run, 3 + task, &view);
            assert_eq!(together, alone);
            assert_eq!(max_pack_size(&*method, &view, 3 + task), largest);
            assert_eq!(max_pack_size(&*method, &view, 1), 1);
        }
    }
}

/// Card, section 5: the coin is tossed for every batch of a client.
#[test]
fn coins_fall_apart_for_clients_rounds_and_batches() {
    let compensated = |run: &Engine, client: u32| -> Vec<u64> {
        let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
        let own = trained.filter(|exchange| exchange.participant.client == ClientId(client));
        own.map(|e| {
            e.metrics.iter().find(|(name, _)| *name == "compensated_steps").unwrap().1 as u64
        })
        .collect()
    };
    let task = |rounds: u32, epochs: usize, batch: usize| {
        let mut run = engine(c2prompt_with(|c| c.cpa = false), 3);
        let shards = deal(&run.ctx, &run.view(0), 2);
        (run.ctx.training.epochs, run.ctx.training.batch) = (epochs as _, batch);
        run.task(0, &shards, rounds);
        run
    };
    // A batch a round: with compensation prompts or without.
    let single = task(10, 1, 64);
    let [mine, theirs] = [0, 1].map(|client| compensated(&single, client));
    assert_eq!((mine.len(), theirs.len()), (10, 10));
    for schedules in [&mine, &theirs] {
        assert_eq!(schedules.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([0, 1]));
    }
    assert_ne!(mine, theirs);
    // Sixty batches in a round.
    let many = task(1, 20, 8);
    for client in 0..2 {
        let steps = compensated(&many, client)[0];
        assert!((15..=45).contains(&steps), "{steps}");
    }
}

/// Steps with compensation prompts are recognized; without distillation the cross-entropy is the loss.
#[test]
fn cross_entropies_are_reported_by_the_coin() {
    let mut run = engine(c2prompt_with(|c| (c.cpa, c.powder.kd_weight) = (false, 0.0)), 3);
    let shards = deal(&run.ctx, &run.view(0), 2);
    // A batch a round.
    (run.ctx.training.epochs, run.ctx.training.batch) = (1, 64);
    run.task(0, &shards, 8);
    let mut kinds = BTreeSet::new();
    for exchange in run.exchanges.iter().filter(|exchange| exchange.phase == "train") {
        let figure = |name: &str| {
            exchange.metrics.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
        };
        let reported = (figure("ce_compensated"), figure("ce_plain"));
        let loss = figure("loss_first");
        match figure("compensated_steps") {
            Some(1.0) => assert_eq!(reported, (loss, None)),
            _ => assert_eq!(reported, (None, loss)),
        }
        kinds.insert(reported.0.is_some());
    }
    assert_eq!(kinds.len(), 2);
}

/// Card, invariant 1: Gaussians are those of the features that clients held, in f64, of all stages or of the last.
#[test]
fn gaussians_cover_all_clients_that_ever_held_the_class() {
    for moments in [PooledMoments::All, PooledMoments::Stage] {
        let mut run = engine(c2prompt_with(|c| c.moments = moments), 3);
        let shards = deal(&run.ctx, &run.view(1), 3);
        // Unequal shares; then client 0 is there alone, with a client task that it has reported before.
        let joined: Shard = shards[1].iter().chain(shards[2].iter()).copied().collect();
        run.task(1, &[Arc::clone(&shards[0]), Arc::clone(&joined)], 1);
        run.task(1, &shards[..1], 1);
        let all_holders: Shard = shards[0].iter().chain(joined.iter()).copied().collect();
        let download =
            run.exchanges.iter().rfind(|exchange| exchange.phase == "compensate").unwrap();
        let received = |name: &str| {
            download.down.tensor(Kind::Prototypes, name).unwrap().as_f32().unwrap().to_vec()
        };
        let (own, all) = (features(&run, &shards[0]), features(&run, &all_holders));
        let (expected, other) = match moments {
            PooledMoments::All => (all, own),
            PooledMoments::Stage => (own, all),
        };
        let far = |expected: &[f64], received: &[f32]| {
            let pairs = expected.iter().zip(received);
            pairs.map(|(a, b)| (a - f64::from(*b)).abs()).fold(0.0, f64::max)
        };
        for (part, name) in ["means", "variances"].into_iter().enumerate() {
            assert_eq!(received(name).len(), 2 * 16);
            assert!(far(&expected[part], &received(name)) < 1e-5, "{moments:?}: {name}");
            assert!(far(&other[part], &received(name)) > 1e-3, "{moments:?}: {name}");
        }
        let shares = run.metrics.iter().filter_map(|f| f.get("lcdc_second_holders").copied());
        let expected = if moments == PooledMoments::All { [1.0, 1.0] } else { [1.0, 0.0] };
        assert_eq!(shares.collect::<Vec<_>>(), expected);
        // A client with the class has its own samples.
        let others = run.metrics.iter().filter_map(|f| f.get("lcdc_other_samples").copied());
        assert_eq!(others.collect::<Vec<_>>(), expected);
    }
}

/// Means and variances of the frozen network's features of some samples, class by class of the second task.
fn features(run: &Engine, shard: &Shard) -> [Vec<f64>; 2] {
    let (mut means, mut variances) = (Vec::new(), Vec::new());
    for class in &run.view(1).classes {
        let labels = run.ctx.dataset.train.labels();
        let of_class: Shard =
            shard.iter().copied().filter(|sample| labels[*sample as usize] == *class).collect();
        let loader = run.ctx.statistics_loader(&of_class);
        let batch = loader.in_order(of_class.len()).next().unwrap().unwrap();
        let pixels = run.ctx.pixels(&batch).unwrap();
        let rows = run.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let rows = rows.to_vec2::<f32>().unwrap();
        for at in 0..16 {
            let values = rows.iter().map(|row| f64::from(row[at]));
            let mean = values.clone().sum::<f64>() / rows.len() as f64;
            means.push(mean);
            variances.push(values.map(|v| (v - mean).powi(2)).sum::<f64>() / rows.len() as f64);
        }
    }
    [means, variances]
}

/// Card, section 4.
#[test]
fn c2prompt_sends_the_bytes_of_its_card() {
    let method = |facts: &ModelFacts| C2Prompt::new(C2PromptConfig::default(), facts);
    let of = |phase| on_imagenet_r(20, phase, method);
    assert_eq!(payload(&of(1).up.body()), 122_960);
    assert_eq!((payload(&of(1).down), payload(&of(2).up.body())), (0, 0));
    assert_eq!(payload(&of(2).down), 122_880);
    assert_eq!(payload(&of(3).up.body()), 946_256 + 640);
    assert_eq!(of(4).up.size, UploadSize::Static);
    let plain = |facts: &ModelFacts| {
        let config = C2PromptConfig { cpa: false, ..C2PromptConfig::default() };
        C2Prompt::new(config, facts)
    };
    assert_eq!(payload(&on_imagenet_r(20, 3, plain).up.body()), 946_256);
}

/// Uploads are aggregated without the byte that gives their kind; an upload of another phase is rejected.
#[test]
fn an_upload_answers_what_was_asked() {
    let method = c2prompt_with(|c| c.cpa_transfer = true);
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 1);
    let (model, counts, view) = (facts(), ClassCounts::new(), run.view(0));
    let named = method.phases(&Stage::of(run.view(0), 3), 1);
    let phases: Vec<usize> = (0..named.len()).filter(|phase| named[*phase].rounds > 0).collect();
    let is = |phase: usize, name: &str| named[phase].name == name;
    let uploads: Vec<Message> = run
        .exchanges
        .chunks(2)
        .map(|pair| Message::from_body(pair[0].up.as_ref().unwrap(), &[]).unwrap())
        .collect();
    assert_eq!(uploads.len(), phases.len());
    for phase in phases.iter().copied() {
        for (sent, upload) in phases.iter().copied().zip(&uploads) {
            let facts = ExchangeFacts { phase, ..first_exchange(&model, &view, &counts) };
            let transformed = method.transform_upload(&facts, &Message::default(), upload.clone());
            // A check of the layout takes a client task for one.
            let look_for_client_task = is(phase, "train") && is(sent, "look");
            let alike = is(phase, named[sent].name);
            assert_eq!(transformed.is_ok(), alike || look_for_client_task, "{sent} for {phase}");
            if phase == sent {
                let aggregate = method.message_spec(MessageKind::Contribution, &facts);
                assert_eq!(upload.control[1..], transformed.unwrap().control);
                assert_eq!(
                    method.message_spec(MessageKind::Upload, &facts).control.len(),
                    aggregate.control.len() + 1
                );
            }
        }
    }
}

#[test]
fn tasks_may_be_mixed_as_in_powder() {
    let method = c2prompt_with(|_| ());
    let refused = |service| check_capability(&*method, &facts(), service).is_some();
    assert_eq!(
        Capability::ALL.map(refused),
        [true, false, true, true, true],
        "late, mixed, robust, secure, lies"
    );
}

/// A copy of a frame is charged as one; the sharing of downloads is part of the result of a run.
#[test]
fn the_question_of_round_0_is_one_down_for_all() {
    let mut run = engine(c2prompt_with(|_| ()), 3);
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 1);
    let shared = [1, 2, 3, 5].map(|phase| {
        let round = context(&run, 0, phase);
        let participants = run.method.participants(&round, &[ClientId(0), ClientId(1)]);
        let downloads = run.server.broadcast(&round, &participants, &run.ctx).unwrap();
        Arc::ptr_eq(&downloads[0], &downloads[1])
    });
    assert_eq!(shared, [true, false, false, false]);
}
