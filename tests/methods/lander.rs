//! The invariants of LANDER that are seen from outside, on a small residual network.

use fedcast::learning::OptimizerConfig;
use fedcast::methods::lander::{Lander, ModelSelection};
use fedcast::model::{MappingPlace, ParameterSet};
use fedcast::policy::parameters_of;
use fedcast::wire::{Kind, TensorValues};

use crate::image_replay::*;
use crate::toys::watched::Engine;
use crate::toys::{deal, plan};
use crate::{far, own, values};

/// A small generator, with a few calls.
fn lander(change: impl Fn(&mut Lander)) -> Lander {
    let selection = ModelSelection::Last;
    let mut method =
        Lander { synthetic_batch: 8, embedding_width: 12, selection, ..Lander::default() };
    (method.synthesis_rounds, method.warmup, method.noise_block) = (2, 1, 3);
    let synthesis = &mut method.synthesis;
    (synthesis.batch, synthesis.steps) = (6, 2);
    (synthesis.width, synthesis.latent) = (4, 6);
    (synthesis.student_steps, synthesis.student_batch, synthesis.student_rate) = (2, 4, 1e-3);
    change(&mut method);
    method
}

fn engine(change: impl Fn(&mut Lander)) -> Engine {
    on_resnet(lander(change))
}

fn theta(run: &Engine) -> ParameterSet {
    parameters_of(&own(run)).unwrap()
}

/// LANDER card, invariants 4 and 7: the first task replays nothing, and a task has one old model and one set of images.
#[test]
fn a_task_has_one_old_model_and_its_images() {
    let best = |method: &mut Lander| method.selection = ModelSelection::Best;
    let run = with_one_old_model_per_task(engine(best), Kind::SyntheticData);
    let images = images(&run, 1);
    let tensor = &images[0].body.sections[0].tensors[0];
    // Three calls of six images, of which none is thrown away.
    assert_eq!(tensor.shape(), [18, 1, 8, 8]);
    assert!(matches!(tensor.values(), TensorValues::U8(bytes) if bytes.len() == 18 * 64));
    assert_server_is_saved(&run, engine(best));
}

/// LANDER card, invariant 5: of three rounds the server returns to the start of the one with the lowest losses.
#[test]
fn the_last_round_returns_to_the_best_model() {
    let of = |selection| {
        let mut run = engine(move |method| method.selection = selection);
        run.ctx.training = plan(OptimizerConfig::sgd(0.5));
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 3);
        run
    };
    let (best, last) = (of(ModelSelection::Best), of(ModelSelection::Last));
    let losses: Vec<f64> = best
        .exchanges
        .chunks(2)
        .map(|round| {
            let loss = |exchange: &crate::toys::watched::Exchange| {
                let up = exchange.up.as_ref().unwrap();
                up.tensor(Kind::Statistics, "first_epoch_losses").unwrap().as_f64().unwrap()[0]
            };
            round.iter().map(loss).sum::<f64>()
        })
        .collect();
    let chosen = (0..3).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap();
    let start = &best.exchanges[2 * chosen].down;
    let kept = theta(&best);
    for (name, sent) in parameters_of(start).unwrap().iter() {
        assert!(kept.get(name).unwrap().values.starts_with(&sent.values), "{name} of {chosen}");
    }
    assert_ne!(values(&own(&best)), values(&own(&last)));
    let up = last.exchanges[0].up.as_ref().unwrap();
    assert!(up.tensor(Kind::Statistics, "first_epoch_losses").is_err());
}

/// Weights and keys of clients change what they send; without replay nothing is generated.
#[test]
fn settings_of_clients_act() {
    let trained = |change: fn(&mut Lander)| {
        let run = engine(change).tasks(2, 2, 1);
        (values(&own(&run)), images(&run, 1).len())
    };
    let changes: [fn(&mut Lander); 10] = [
        |_| (),
        |method| method.radius = 1e6,
        |method| method.anchor_weight = 1.0,
        |method| method.bound_first_task = false,
        |method| method.cur_weight = 0.3,
        |method| method.pre_weight = 0.6,
        |method| method.pre_weight = 0.0,
        |method| method.embedding_norm = 5.0,
        |method| method.replayed_images = 3,
        |method| method.joint_batch = true,
    ];
    let all: Vec<_> = changes.map(trained).into();
    for (at, (one, count)) in all.iter().enumerate() {
        assert!(at == 0 || far(one, &all[0].0) > 1e-7, "change {at}");
        assert_eq!(*count, if at == 6 { 0 } else { 2 }, "change {at}");
    }
}

/// Old head rows learn from replayed images alone; without them they stay.
#[test]
fn old_rows_move_by_replay_alone() {
    let moved =
        |weight: f64| moves_old_rows(engine(move |method| method.pre_weight = weight), 0..2);
    assert!(moved(0.4) && !moved(0.0));
}

/// Below the head the map takes part in answers; as a branch the head is as wide as features.
#[test]
fn the_map_is_a_branch_or_below_the_head() {
    let widths = [(MappingPlace::Branch, 32, "anchor"), (MappingPlace::Below, 12, "mapping")];
    for (place, width, name) in widths {
        let run = engine(move |method| method.mapping = place).tasks(2, 2, 1);
        let theta = theta(&run);
        assert_eq!(theta.get("head.weight").unwrap().shape[1], width);
        assert_eq!(theta.get(&format!("{name}.weight")).unwrap().shape, [12, 32]);
        assert!(run.server.predictor(&run.ctx).is_ok());
    }
}

/// Clients with the same samples replay other images, and the same ones if repeated.
#[test]
fn clients_replay_images_of_their_own() {
    assert_clients_replay_their_own(|| engine(|_| ()));
}

/// Three calls of two steps each, as each of two tasks ends: a third would follow.
#[test]
fn steps_of_the_generator_are_counted() {
    let run = engine(|_| ()).tasks(2, 2, 1);
    assert_eq!(run.ctx.server_steps.taken(), 12);
    assert!(run.ctx.server_steps.now().is_none(), "the work has ended");
}
