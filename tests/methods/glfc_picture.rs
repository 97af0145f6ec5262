//! The picture of the guide: digits that clients hid by moving them, and what a proxy server finds in their gradients.

use std::fmt::Write;

use fedcast::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
use fedcast::learning::{Classifier, Herding, OptimizerConfig};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::glfc::{Glfc, OldModel, RateSchedule};
use fedcast::model::{Backbone, embedded_vit};
use fedcast::policy::{ModelFacts, RunContext, parameters_of};
use fedcast::wire::Kind;

use crate::built;
use crate::toys::plan;
use crate::toys::watched::Engine;

/// Pixels of a pixel.
const SIDE: usize = 7;
/// Classes that are shown.
const SHOWN: usize = 3;

fn engine(perturbation: u32, calls: u32) -> Engine {
    let task_sequence =
        TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
    let backbone = Backbone::from(embedded_vit().unwrap());
    let ctx = RunContext {
        training: plan(OptimizerConfig::sgd(0.5)),
        ..RunContext::new(backbone, digits::embedded().unwrap(), task_sequence)
    };
    let facts: ModelFacts = ctx.facts(1);
    let fedavg = FedAvg { train: Train::Head, ..FedAvg::default() };
    let mut method = Glfc { fedavg, old_model: OldModel::Proxy, ..Glfc::default() };
    method.lr_schedule = RateSchedule::Client;
    method.proxy.perturbation = perturbation;
    (method.proxy.calls, method.proxy.images) = (calls, 1);
    let mut engine = Engine::new(built(method, &facts), facts, ctx);
    let shard = (0..200u32).filter(|sample| {
        let label = engine.ctx.dataset.train.labels()[*sample as usize];
        (label as usize) < SHOWN
    });
    let shard = shard.collect();
    engine.first_phase(0, &[shard], 1);
    engine
}

/// The samples whose gradients were sent, as bytes.
fn originals(engine: &Engine) -> Vec<Vec<u8>> {
    let exchange = engine.last();
    let trained = parameters_of(exchange.up.as_ref().unwrap()).unwrap();
    let model = Classifier::frozen(&engine.ctx.backbone, &trained).unwrap();
    let train = &engine.ctx.dataset.train;
    let of = |class: u32| {
        let own: Vec<u32> = (0..200u32).filter(|s| train.labels()[*s as usize] == class).collect();
        let loader = engine.ctx.statistics_loader(&own.clone().into());
        let mut features = Vec::new();
        for batch in loader.in_order(64) {
            let found = model.batch_features(&batch.unwrap(), &engine.ctx.device).unwrap();
            features.extend(found.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        }
        let nearest = Herding::GreedyUnit.order(&features, features.len() / own.len(), 1)[0];
        train.image(own[nearest] as usize).unwrap().pixels.to_vec()
    };
    (0..SHOWN as u32).map(of).collect()
}

fn found(engine: &Engine) -> Vec<Vec<u8>> {
    let saved = engine.server.save();
    let labels = saved.tensor(Kind::SyntheticData, "labels").unwrap().as_u32().unwrap().to_vec();
    assert_eq!(labels, (0..SHOWN as u32).collect::<Vec<_>>());
    let images = saved.tensor(Kind::SyntheticData, "images").unwrap().numbers();
    images.chunks(64).map(|image| image.iter().map(|byte| *byte as u8).collect()).collect()
}

/// Mean distance of pixels from 0 to 1.
fn distance(a: &[u8], b: &[u8]) -> f64 {
    let gaps = a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(*b)) / 255.0);
    gaps.sum::<f64>() / a.len() as f64
}

fn draw(svg: &mut String, (left, top): (usize, usize), image: &[u8]) {
    for (at, byte) in image.iter().enumerate() {
        let (x, y) = (left + at % 8 * SIDE, top + at / 8 * SIDE);
        let gray = format!("{byte:02x}").repeat(3);
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#{gray}\"/>"
        )
        .expect("a string takes all");
    }
}

/// A sample that is not moved is found again, to the eye.
#[test]
fn what_is_not_moved_is_seen() {
    let engine = engine(0, 40);
    for (original, found) in originals(&engine).iter().zip(found(&engine)) {
        assert!(distance(original, &found) < 0.1, "{}", distance(original, &found));
    }
}

/// Writes `src/guide/proxy.svg`.
#[test]
#[ignore = "writes a file of the guide"]
fn the_picture() {
    let (wide, high) = (8 * SIDE, 8 * SIDE);
    let (mut svg, gap) = (String::new(), 12);
    let (width, height) = (3 * SHOWN * (wide + gap) + 2 * gap, 2 * high + 3 * gap + 30);
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\" shape-rendering=\"crispEdges\">"
    )
    .expect("a string takes all");
    for (group, steps) in [0, 50, 500].into_iter().enumerate() {
        let engine = engine(steps, 100);
        let left = gap + group * (SHOWN * (wide + gap) + gap / 2);
        let text = |svg: &mut String, x: usize, y: usize, text: &str| {
            writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{text}</text>").expect("a string takes all");
        };
        text(&mut svg, left, 14, &format!("moved by {steps} steps"));
        for (place, (original, found)) in originals(&engine).iter().zip(found(&engine)).enumerate()
        {
            let left = left + place * (wide + gap);
            draw(&mut svg, (left, 20), original);
            draw(&mut svg, (left, 20 + high + gap), &found);
            let far = format!("{:.3}", distance(original, &found));
            text(&mut svg, left, 20 + 2 * high + gap + 14, &far);
        }
    }
    svg.push_str("</svg>\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/proxy.svg");
    std::fs::write(path, svg).expect("the guide is writable");
}
