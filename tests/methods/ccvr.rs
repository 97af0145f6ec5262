//! The invariants of CCVR that are seen from outside.

use std::sync::Arc;

use fedcast::data::ClassPermutation;
use fedcast::methods::ccvr::{Calibrated, Ccvr, ClassModel};
use fedcast::methods::class_statistics::{
    ClassGaussian, ClassStatistics, Prototypes, Rebalance, Rebalancing,
};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::model::ParameterSet;
use fedcast::policy::{Method, parameters_of};
use fedcast::quantity::ClientId;
use fedcast::wire::Kind;

use crate::gaussians::{cells, evenly, kept, rebalanced, said, samples, uneven};
use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, run_context};
use crate::{built, engine, far, fedavg_of, head, hgp_with};

/// A small CCVR over all classes seen.
fn small(train: Train, change: impl Fn(&mut Ccvr)) -> Arc<dyn Method> {
    let mut method = Ccvr::default();
    method.fedavg = FedAvg { train, prompt_len: 6, ..FedAvg::default() };
    method.calibration = Rebalancing {
        over: Rebalance::Both,
        samples_per_class: 64,
        batch: 32,
        ..method.calibration.clone()
    };
    change(&mut method);
    built(method, &facts())
}

/// CCVR as it is, on this.
pub fn calibrating(train: Train) -> Arc<dyn Method> {
    small(train, |_| ())
}

fn parameters(run: &Engine) -> ParameterSet {
    parameters_of(&run.server.save()).unwrap()
}

/// Invariant 6: without calibration it is FedAvg in every round; with it, it is not.
#[test]
fn without_calibration_ccvr_is_fedavg() {
    for train in [Train::Head, Train::All] {
        let of = |method| parameters(&engine(method, 3).run(2, 2)).digest();
        let none = of(small(train, |c| c.calibration.over = Rebalance::None));
        assert_eq!(none, of(fedavg_of(train)), "{train:?}");
        assert_ne!(none, of(calibrating(train)), "{train:?}");
    }
}

/// Invariant 4: calibration leaves everything below the head alone; over the classes of the current task it leaves all
/// other rows alone, too, over all seen only those to come.
#[test]
fn calibration_moves_its_own_rows_only() {
    let mut first = engine(calibrating(Train::All), 3);
    let shards = [0, 1].map(|task| deal(&first.ctx, &first.view(task), 2));
    first.task(0, &shards[0], 1);
    let second = |over: Rebalance| {
        let mut run = engine(small(Train::All, |c| c.calibration.over = over), 3);
        run.round = first.round;
        run.server.load(&first.server.save()).unwrap();
        run.task(1, &shards[1], 1);
        run
    };
    let plain = second(Rebalance::None);
    for (over, rows) in [(Rebalance::Current, 2..4), (Rebalance::Both, 0..4)] {
        let run = second(over);
        for ((name, plain), (_, own)) in parameters(&plain).iter().zip(parameters(&run).iter()) {
            let moved = plain.values != own.values;
            assert_eq!(moved, name.starts_with("head."), "{over:?}: {name}");
        }
        for row in 0..CLASSES {
            let of = |run: &Engine| head(&run.server.save(), row..row + 1);
            assert_eq!(of(&plain) != of(&run), rows.contains(&row), "{over:?}: row {row}");
        }
    }
}

/// Returns what the server has of each class, by class and client.
type Cells = Vec<(ClientId, Arc<ClassStatistics>)>;

/// One Gaussian per class.
fn merged(cells: &Cells) -> Cells {
    let mut all = Prototypes::default();
    for (client, cell) in cells {
        all.update(&[(*client, vec![Arc::clone(cell)])], false);
    }
    all.merged().iter().map(|(client, cell)| (client, Arc::clone(cell))).collect()
}

/// Section 6: features are drawn from one Gaussian per class, the merge of its clients', or from all of them, with the
/// covariance as it is.
#[test]
fn features_are_drawn_from_the_class_model() {
    for class_model in [ClassModel::Merged, ClassModel::Mixture] {
        let mut run = engine(small(Train::Prompt, |c| c.class_model = class_model), 3);
        let shards = uneven(&run.ctx);
        run.task(0, &shards, 1);
        let (found, all) = (kept(&run), cells(&run, 2));
        let gap = |cells: &Cells, scale| far(&found, &rebalanced(&run, 2, cells, evenly, scale));
        let (one, each) = (gap(&merged(&all), 1.0), gap(&all, 1.0));
        let (right, wrong) = match class_model {
            ClassModel::Merged => (one, each),
            ClassModel::Mixture => (each, one),
        };
        assert!(right < 1e-4 && wrong > 1e-3, "{class_model:?}: {right} {wrong}");
        assert!(gap(&merged(&all), 3.0) > 1e-3, "covariances matter");
    }
}

/// Section 9: `scope = "seen"`, a prompt, the mixture and three times the covariance are HGP, bit for bit.
#[test]
fn with_a_prompt_over_all_classes_it_is_hgp() {
    let ccvr = |scale| {
        let method = small(Train::Prompt, |c| {
            (c.class_model, c.cov_scale) = (ClassModel::Mixture, scale);
        });
        parameters(&engine(method, 3).run(2, 2)).digest()
    };
    let hgp = parameters(&engine(hgp_with(|_| ()), 3).run(2, 2)).digest();
    assert_eq!(ccvr(3.0), hgp);
    assert_ne!(ccvr(1.0), hgp);
}

/// Section 9: a client with one sample of a class says nothing of it, or, as the paper's formula has it, its mean.
#[test]
fn a_single_sample_has_a_mean_alone() {
    for (least, classes) in [(2, vec![(0, 12)]), (1, vec![(0, 12), (1, 1)])] {
        let change = |c: &mut Ccvr| (c.min_samples, c.class_model) = (least, ClassModel::Merged);
        let mut run = engine(small(Train::Head, change), 3);
        let mut taken = [0; CLASSES];
        let shards = [[(0, 12), (1, 1)], [(0, 4), (1, 2)]];
        let shards = shards.map(|own| samples(&run.ctx, &mut taken, &own));
        run.task(0, &shards, 1);
        let first = said(&run.exchanges[0]);
        let found: Vec<_> =
            first.iter().map(|class| (class.row, class.gaussian.count() as u32)).collect();
        assert_eq!(found, classes);
        if let Some(single) = first.get(1) {
            let ClassGaussian::Diagonal(single) = &single.gaussian else { panic!("diagonal") };
            assert_eq!(single.variance, [0.0; 16]);
            assert!(single.mean.iter().any(|v| *v != 0.0));
        }
        // The server draws from the merged reports.
        let gap = far(&kept(&run), &rebalanced(&run, 2, &merged(&cells(&run, 2)), evenly, 1.0));
        assert!(gap < 1e-4, "{least}: {gap}");
    }
}

/// The original calibrates once; until then rounds are FedAvg's.
#[test]
fn the_last_round_may_be_the_only_one_that_calibrates() {
    let last = small(Train::Head, |c| c.calibrated = Calibrated::LastRound);
    let run = engine(last, 3).run(2, 3);
    let calibrated: Vec<bool> =
        run.metrics.iter().map(|metrics| metrics.contains_key("calibration_loss")).collect();
    assert_eq!(calibrated, [[false, false, true]; 3].concat());
    let until = |method, rounds| {
        let mut run = engine(method, 3);
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, rounds);
        let down = parameters_of(&run.last().down).unwrap();
        (down.digest(), parameters(&run).digest())
    };
    let method = || small(Train::Head, |c| c.calibrated = Calibrated::LastRound);
    let (own, plain) = (until(method(), 3), until(fedavg_of(Train::Head), 3));
    assert_eq!(own.0, plain.0);
    assert_ne!(own.1, plain.1);
}

/// Section 3: over the current task's classes the server keeps nothing of earlier ones; over all seen it does. Either
/// way it goes on from what it saved.
#[test]
fn the_server_keeps_what_it_draws_from() {
    for (over, classes) in [(Rebalance::Current, 2), (Rebalance::Both, 6)] {
        let run = engine(small(Train::Head, |c| c.calibration.over = over), 3).run(2, 2);
        let saved = run.server.save();
        let counts = saved.tensor(Kind::Prototypes, "counts").unwrap();
        assert_eq!(counts.elements(), 2 * classes, "{over:?}");
        let mut again =
            Engine::new(Arc::clone(&run.method), facts(), run_context(3, ClassPermutation::Native));
        again.server.load(&saved).unwrap();
        assert_eq!(again.server.save().digest(), saved.digest());
        assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
    }
}
