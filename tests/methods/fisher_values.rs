//! Fisher information by values: of which model, images, rows and labels it is, and what EWC's penalty makes of it. On a
//! linear head it has a closed form: `p_y (1[y = c] - p_c)^2 h_j^2` for the weight of class `c` and entry `j`.

use std::ops::Range;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes};
use fedcast::learning::fisher::FisherForm;
use fedcast::learning::{Classifier, OptimizerConfig, TrainingPlan};
use fedcast::methods::TaskLabels;
use fedcast::methods::averaging::OldLogits;
use fedcast::methods::ewc::FisherKeeper;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fisheravg::FisherAvg;
use fedcast::model::{LinearHead, ParameterSet};
use fedcast::policy::{RunContext, parameters_of};
use fedcast::wire::{Body, Kind};

use crate::fishers::{ewc, fisheravg};
use crate::gaussians::{DESCRIBED, TRAINED, apart};
use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, plan, run_context};
use crate::{built, far};

const DIM: usize = 16;

/// Images of a shard, normalized by this mean and deviation, with the row that each sample trains.
struct Described<'a> {
    ctx: &'a RunContext,
    shard: &'a Shard,
    pixels: [f32; 2],
    row: &'a dyn Fn(usize) -> usize,
}

impl Described<'_> {
    fn feature(&self, network: &Classifier, sample: u32) -> Vec<f32> {
        let image = self.ctx.dataset.train.image(sample as usize).unwrap();
        let [mean, deviation] = self.pixels;
        let pixels = image.pixels.iter().map(|v| (f32::from(*v) / 255.0 - mean) / deviation);
        let pixels: Vec<f32> = pixels.collect();
        let pixels = candle_core::Tensor::from_vec(pixels, (1, 1, 8, 8), &self.ctx.device).unwrap();
        network.features(&pixels).unwrap().to_vec2::<f32>().unwrap().remove(0)
    }

    /// The Fisher of the head's weight at these parameters, a sum over samples, while `rows` compete.
    fn fisher(&self, parameters: &ParameterSet, rows: Range<usize>) -> Vec<f32> {
        let network = Classifier::frozen(&self.ctx.backbone, parameters).unwrap();
        let [weight, bias] = [LinearHead::WEIGHT, LinearHead::BIAS]
            .map(|name| parameters.get(name).unwrap().values.to_vec());
        let mut sums = vec![0.0; CLASSES * DIM];
        for sample in self.shard.iter() {
            let h: Vec<f64> = self.feature(&network, *sample).into_iter().map(f64::from).collect();
            let logit = |row: usize| {
                let products = h.iter().zip(&weight[row * DIM..]).map(|(h, w)| h * f64::from(*w));
                f64::from(bias[row]) + products.sum::<f64>()
            };
            let powers: Vec<f64> = rows.clone().map(|row| logit(row).exp()).collect();
            let total: f64 = powers.iter().sum();
            let label = self.ctx.dataset.train.labels()[*sample as usize] as usize;
            let own = (self.row)(label) - rows.start;
            for (at, power) in powers.iter().enumerate() {
                let slope = f64::from(u8::from(at == own)) - power / total;
                let sums = &mut sums[(rows.start + at) * DIM..][..DIM];
                let squares = h.iter().map(|h| powers[own] / total * (slope * h).powi(2));
                sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
            }
        }
        sums.into_iter().map(|sum| sum as f32).collect()
    }
}

/// Distance of two Fishers, as a fraction of the larger one's largest number.
fn gap(found: &[f32], wanted: &[f32]) -> f32 {
    let largest = found.iter().chain(wanted).fold(0.0, |a: f32, b| a.max(*b));
    assert!(largest > 1e-4, "{largest}");
    far(found, wanted) / largest
}

fn sent_fisher(upload: &Body) -> Vec<f32> {
    upload.tensor(Kind::Statistics, "fisher/head.weight").unwrap().as_f32().unwrap().to_vec()
}

fn weight(body: &Body) -> Vec<f32> {
    parameters_of(body).unwrap().get(LinearHead::WEIGHT).unwrap().values.to_vec()
}

fn sgd() -> TrainingPlan {
    plan(OptimizerConfig::sgd(0.1))
}

/// Tasks of three, two and one class.
fn shrinking(ctx: RunContext) -> RunContext {
    let sizes = TaskSizes::Explicit(vec![3, 2, 1]);
    let tasks = TaskSequence::new(CLASSES, &ClassPermutation::Native, &sizes).unwrap();
    RunContext { task_sequence: Arc::new(tasks), ..ctx }
}

/// FisherAVG's Fisher is of the model as it was just trained, on images of the statistics transform, over the rows that
/// train: in the second task old rows have none.
#[test]
fn fisheravg_weighs_by_the_trained_model_on_statistics_images() {
    let mut run = Engine::new(fisheravg(Train::Head, FisherForm::Truth), facts(), apart());
    run.ctx.training = sgd();
    for task in 0..2 {
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 1);
        let rows = run.view(task).rows.clone();
        for (exchange, shard) in run.exchanges[2 * task..].iter().zip(&shards) {
            let upload = exchange.up.as_ref().unwrap();
            let found = sent_fisher(upload);
            let described = |pixels| Described { ctx: &run.ctx, shard, pixels, row: &|row| row };
            let trained = parameters_of(upload).unwrap();
            let received = parameters_of(&exchange.down).unwrap();
            let right = described(DESCRIBED).fisher(&trained, rows.clone());
            assert!(gap(&found, &right) < 1e-3, "task {task}: {}", gap(&found, &right));
            let mut wrong = vec![
                ("as received", described(DESCRIBED).fisher(&received, rows.clone())),
                ("on training images", described(TRAINED).fisher(&trained, rows.clone())),
            ];
            if task > 0 {
                assert!(found[..rows.start * DIM].iter().all(|f| *f == 0.0), "old rows");
                wrong.push(("all rows seen", described(DESCRIBED).fisher(&trained, 0..rows.end)));
            }
            for (how, wrong) in wrong {
                assert!(gap(&found, &wrong) > 1e-2, "task {task}, {how}: {}", gap(&found, &wrong));
            }
        }
    }
}

/// EWC's Fisher is of the global model as a task ends, on images of the statistics transform, over the rows that train.
#[test]
fn ewc_reports_the_fisher_of_the_rows_that_train() {
    let mask = ewc(|c| c.fedavg.old_logits = OldLogits::Mask);
    let mut run = Engine::new(mask, facts(), apart());
    run.ctx.training = sgd();
    for task in 0..2 {
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 1);
        let rows = run.view(task).rows.clone();
        let closing = run.exchanges.iter().filter(|e| e.phase == "fisher" && e.task == task);
        let closing: Vec<_> = closing.collect();
        assert_eq!(closing.len(), 2);
        for exchange in closing {
            let shard = &shards[exchange.participant.client.index()];
            let found = sent_fisher(exchange.up.as_ref().unwrap());
            let described = |pixels| Described { ctx: &run.ctx, shard, pixels, row: &|row| row };
            let global = parameters_of(&exchange.down).unwrap();
            let right = described(DESCRIBED).fisher(&global, rows.clone());
            assert!(gap(&found, &right) < 1e-3, "task {task}: {}", gap(&found, &right));
            assert!(found[..rows.start * DIM].iter().all(|f| *f == 0.0), "old rows");
            let wrong = described(TRAINED).fisher(&global, rows.clone());
            assert!(gap(&found, &wrong) > 1e-2, "{}", gap(&found, &wrong));
        }
    }
}

/// fed-mammoth's `labels % classes of the task`: of tasks of three, two and one class, the second one's two labels change
/// places in the Fisher, the others are right. FisherAVG trains on the right ones.
#[test]
fn modulo_labels_change_places_in_a_shorter_task() {
    let run = |labels| {
        let fedavg = FedAvg { train: Train::Head, ..FedAvg::default() };
        let method = built(FisherAvg { fedavg, labels, ..FisherAvg::default() }, &facts());
        let mut run = Engine::new(method, facts(), shrinking(apart()));
        run.ctx.training = sgd();
        run.tasks(3, 1, 1)
    };
    let (own, modulo) = (run(TaskLabels::Own), run(TaskLabels::Modulo));
    let rows: [&dyn Fn(usize) -> usize; 3] = [&|row| row, &|row| 7 - row, &|row| row];
    for (task, modulo_row) in rows.into_iter().enumerate() {
        let of = |run: &Engine, row: &dyn Fn(usize) -> usize| {
            let upload = run.exchanges[task].up.as_ref().unwrap();
            let shard = &deal(&run.ctx, &run.view(task), 1)[0];
            let described = Described { ctx: &run.ctx, shard, pixels: DESCRIBED, row };
            let trained = parameters_of(upload).unwrap();
            let wanted = described.fisher(&trained, run.view(task).rows.clone());
            far(&sent_fisher(upload), &wanted) / wanted.iter().fold(1e-3, |a: f32, b| a.max(*b))
        };
        assert!(of(&own, &|row| row) < 1e-3, "task {task}");
        assert!(of(&modulo, modulo_row) < 1e-3, "task {task}");
        assert_eq!(of(&modulo, &|row| row) > 1e-2, task == 1, "task {task}");
    }
    let trained = |run: &Engine| weight(run.exchanges[1].up.as_ref().unwrap());
    assert_eq!(trained(&own), trained(&modulo), "one client: training has the right labels");
}

/// EWC trains on these labels, too: a shorter task is learned wrongly. Tasks of one size are the same to the bit.
#[test]
fn ewc_learns_a_shorter_task_wrongly_by_modulo_labels() {
    let run = |labels, ctx: RunContext| {
        let mut engine = Engine::new(ewc(|c| c.labels = labels), facts(), ctx);
        engine.ctx.training = TrainingPlan { epochs: 6, ..plan(OptimizerConfig::sgd(0.3)) };
        engine.tasks(2, 2, 2)
    };
    let second = |labels| {
        let run = run(labels, shrinking(run_context(3, ClassPermutation::Native)));
        run.tally(5).accuracy(3..5).unwrap()
    };
    let (own, modulo) = (second(TaskLabels::Own), second(TaskLabels::Modulo));
    assert!(own > 0.8 && modulo < 0.2, "{own} {modulo}");
    let even =
        |labels| run(labels, run_context(3, ClassPermutation::Native)).server.save().digest();
    assert_eq!(even(TaskLabels::Own), even(TaskLabels::Modulo));
}

/// One step a round by plain gradients: in the first round of the second task nothing pulls, in the second each number is
/// pulled to where the task began, by `2 lambda F (theta - theta*)`, and one without a Fisher moves as FedAvg's.
#[test]
fn the_penalty_pulls_to_the_start_of_the_task_by_the_fisher() {
    let (rate, lambda) = (0.1, 50.0);
    let of = |lambda: f64| {
        let mut run = crate::engine(ewc(|c| c.lambda = lambda), 2);
        let sgd = plan(OptimizerConfig::sgd(rate));
        run.ctx.training = TrainingPlan { epochs: 1, batch: 1_000, clip: None, ..sgd };
        run.tasks(2, 1, 2)
    };
    let (held, plain) = (of(lambda), of(0.0));
    let rounds = |run: &Engine| -> Vec<[Vec<f32>; 2]> {
        let train = run.exchanges.iter().filter(|e| e.task == 1 && e.phase == "train");
        train.map(|e| [weight(&e.down), weight(e.up.as_ref().unwrap())]).collect()
    };
    let [held_rounds, plain_rounds] = [&held, &plain].map(rounds);
    assert_eq!((held_rounds.len(), plain_rounds.len()), (2, 2));
    assert!(far(&held_rounds[0][1], &plain_rounds[0][1]) < 1e-6, "nothing pulls at the anchor");
    let exchange = held.exchanges.iter().find(|e| e.task == 1).unwrap();
    let fisher = exchange.assets.iter().find(|asset| &*asset.name == "fisher").unwrap();
    let fisher = fisher.body.tensor(Kind::Statistics, "head.weight").unwrap();
    let fisher = fisher.as_f32().unwrap();
    assert!(fisher[held.view(0).seen() * DIM..].iter().all(|f| *f == 0.0));
    let start = &held_rounds[0][0];
    let found: Vec<f32> =
        held_rounds[1][1].iter().zip(&plain_rounds[1][1]).map(|(a, b)| a - b).collect();
    let moved = held_rounds[1][0].iter().zip(start).map(|(now, start)| now - start);
    let factor = -2.0 * (rate * lambda) as f32;
    let wanted: Vec<f32> = moved.zip(fisher.iter()).map(|(gap, f)| factor * f * gap).collect();
    let largest = wanted.iter().fold(0.0, |a: f32, b| a.max(b.abs()));
    assert!(largest > 1e-4, "{largest}");
    assert!(far(&found, &wanted) < 1e-2 * largest + 2e-6, "{} {largest}", far(&found, &wanted));
}

/// `site = "client"`: a client's anchor is its own trained model, its Fisher is taken there, over all classes seen, and
/// blended with the one before where that covered a row.
#[test]
fn an_own_anchor_is_the_trained_model_with_the_fisher_there() {
    let own = ewc(|c| c.site = FisherKeeper::Client);
    let mut run = Engine::new(own, facts(), apart());
    run.ctx.training = sgd();
    let mut before = vec![0.0; CLASSES * DIM];
    for task in 0..2 {
        let shards = deal(&run.ctx, &run.view(task), 1);
        run.task(task, &shards, 1);
        let upload = run.last().up.as_ref().unwrap();
        let state = parameters_of(&run.states[&run.last().participant.client]).unwrap();
        assert_eq!(state.get(LinearHead::WEIGHT).unwrap().values[..], weight(upload)[..]);
        let view = run.view(task);
        let (ctx, shard) = (&run.ctx, &shards[0]);
        let described = Described { ctx, shard, pixels: DESCRIBED, row: &|row| row };
        let of = |body: &Body, rows| {
            let sums = described.fisher(&parameters_of(body).unwrap(), rows);
            let blended = sums.iter().zip(&before).enumerate().map(|(at, (sum, old))| {
                let new = sum / shard.len() as f32;
                if at / DIM < view.rows.start { 0.5 * old + 0.5 * new } else { new }
            });
            blended.collect::<Vec<f32>>()
        };
        let found = state.get("fisher/head.weight").unwrap().values.to_vec();
        let right = of(upload, 0..view.seen());
        assert!(gap(&found, &right) < 1e-3, "task {task}: {}", gap(&found, &right));
        assert!(gap(&found, &of(&run.last().down, 0..view.seen())) > 1e-2, "as received");
        if task > 0 {
            assert!(gap(&found, &of(upload, view.rows.clone())) > 1e-2, "rows of the task");
        }
        before = found;
    }
}
