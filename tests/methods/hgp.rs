//! The invariants of HGP.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::methods::class_statistics::{CovarianceForm, Rebalance};
use fedcast::methods::fedavg::Train;
use fedcast::methods::hgp::{Hgp, Learns};
use fedcast::policy::{ClassCounts, Message};
use fedcast::wire::{Body, Kind};

use crate::toys::watched::{Engine, tally};
use crate::toys::{CLASSES, deal, facts, first_exchange, run_context};
use crate::{engine, far, fedavg_of, head, hgp_with, values};

/// Invariant 3: without rebalancing and prompt, HGP is FedAvg on a linear probe.
#[test]
fn hgp_without_prompt_and_rebalancing_is_a_linear_probe() {
    let bare = |c: &mut Hgp| (c.train, c.rebalancing.over) = (Learns::Head, Rebalance::None);
    let hgp = engine(hgp_with(bare), 3).run(3, 2);
    let probe = engine(fedavg_of(Train::Head), 3).run(3, 2);
    assert_eq!(head(&hgp.server.save(), 0..CLASSES), head(&probe.server.save(), 0..CLASSES));
    assert_eq!(hgp.tally(CLASSES), probe.tally(CLASSES));
    // With the prompt it is FedAvg on prompt and head.
    let hgp = engine(hgp_with(|c| c.rebalancing.over = Rebalance::None), 3).run(3, 1);
    let prompted = engine(fedavg_of(Train::Prompt), 3).run(3, 1);
    assert_eq!(head(&hgp.server.save(), 0..CLASSES), head(&prompted.server.save(), 0..CLASSES));
}

/// Invariant 3: with one client the mean is what that client sent.
#[test]
fn the_mean_of_one_client_is_its_upload() {
    let run = engine(hgp_with(|c| c.rebalancing.over = Rebalance::None), 2).run(1, 1);
    let upload = run.last().up.as_ref().unwrap();
    assert!(far(&values(upload), &values(&run.server.save())) < 1e-7);
}

/// Invariant 6: each kind of rebalancing moves its own rows and nothing else.
#[test]
fn rebalancing_moves_its_own_rows_only() {
    let mut trained = engine(hgp_with(|_| ()), 3);
    let shards = deal(&trained.ctx, &trained.view(0), 3);
    trained.task(0, &shards, 2);
    let second = |mode: Rebalance| {
        let mut run = engine(hgp_with(|c| c.rebalancing.over = mode), 3);
        run.server.load(&trained.server.save()).unwrap();
        run.round = trained.round;
        let shards = deal(&run.ctx, &run.view(1), 3);
        run.task(1, &shards, 1);
        run.server.save()
    };
    let plain = second(Rebalance::None);
    let bits = |body: &Body, kind| -> Vec<u32> {
        body.of_kind(kind).flat_map(|t| t.as_f32().unwrap().iter().map(|v| v.to_bits())).collect()
    };
    for (mode, moved) in
        [(Rebalance::Old, 0..2), (Rebalance::Current, 2..4), (Rebalance::Both, 0..4)]
    {
        let saved = second(mode);
        assert_eq!(bits(&saved, Kind::Prompt), bits(&plain, Kind::Prompt), "{mode:?}: prompt");
        for row in 0..CLASSES {
            let same = head(&saved, row..row + 1) == head(&plain, row..row + 1);
            assert_eq!(same, !moved.contains(&row), "{mode:?}: row {row}");
        }
    }
    // In the first task there is nothing old.
    let first = |mode| engine(hgp_with(|c| c.rebalancing.over = mode), 3);
    let shards = deal(&trained.ctx, &trained.view(0), 3);
    let [mut old, mut none] = [Rebalance::Old, Rebalance::None].map(first);
    old.task(0, &shards, 1);
    none.task(0, &shards, 1);
    let (old, none) = (old.server.save(), none.server.save());
    assert_eq!(bits(&old, Kind::Prompt), bits(&none, Kind::Prompt));
    assert_eq!(bits(&old, Kind::Head), bits(&none, Kind::Head));
}

/// Invariant 7: a class with a single sample is never described.
#[test]
fn a_single_sample_gives_no_gaussian() {
    let mut run = engine(hgp_with(|_| ()), 3);
    let by_class = run.ctx.dataset.train.by_class();
    let mut one_of_class_1: Vec<u32> = by_class[0][..5].to_vec();
    one_of_class_1.push(by_class[1][0]);
    one_of_class_1.sort_unstable();
    let shards: [Shard; 2] = [one_of_class_1.into(), by_class[0][5..7].into()];
    run.task(0, &shards, 1);
    let counts: Vec<Vec<u32>> = run
        .exchanges
        .iter()
        .map(|e| e.up.as_ref().unwrap().tensor(Kind::Prototypes, "counts").unwrap())
        .map(|counts| counts.as_u32().unwrap().to_vec())
        .collect();
    assert_eq!(counts, [[5], [2]], "class 1 has one sample");
    // No client described class 1, so its row was not drawn; the server still goes on.
    assert!(run.server.save().is_finite());
    // A client without two samples of any class sends no Gaussian at all.
    let mut run = engine(hgp_with(|_| ()), 3);
    let pair: [Shard; 1] = [[0, 1].into()];
    run.task(0, &pair, 1);
    assert_eq!(run.last().up.as_ref().unwrap().of_kind(Kind::Prototypes).count(), 0);
}

/// Rebalancing does what it is for: skewed clients forget less.
#[test]
fn rebalancing_helps_when_tasks_arrive() {
    let accuracy = |mode: Rebalance| {
        engine(hgp_with(|c| c.rebalancing.over = mode), 3).run(2, 3).accuracy(CLASSES)
    };
    let (none, both) = (accuracy(Rebalance::None), accuracy(Rebalance::Both));
    assert!(both > none + 0.1, "none {none}, both {both}");
}

#[test]
fn a_loaded_server_goes_on_as_if_it_had_never_stopped() {
    for method in
        [hgp_with(|_| ()), hgp_with(|c| c.covariance = CovarianceForm::Full), fedavg_of(Train::All)]
    {
        let whole =
            Engine::new(Arc::clone(&method), facts(), run_context(2, ClassPermutation::Native))
                .run(2, 1);
        let mut trained =
            Engine::new(Arc::clone(&method), facts(), run_context(2, ClassPermutation::Native));
        let shards = deal(&trained.ctx, &trained.view(0), 2);
        trained.task(0, &shards, 1);
        let mut resumed = Engine::new(method, facts(), run_context(2, ClassPermutation::Native));
        resumed.server.load(&trained.server.save()).unwrap();
        resumed.round = trained.round;
        let shards = deal(&resumed.ctx, &resumed.view(1), 2);
        resumed.task(1, &shards, 1);
        assert_eq!(resumed.server.save().digest(), whole.server.save().digest());
    }
}

/// The client's own model before synchronisation is the one it sent.
#[test]
fn a_client_predicts_with_what_it_sent() {
    let method = hgp_with(|c| c.rebalancing.over = Rebalance::None);
    let run = engine(Arc::clone(&method), 2).run(1, 1);
    let last = run.last();
    let (view, counts) = (run.view(last.task), ClassCounts::new());
    let model = &run.facts;
    let facts = first_exchange(model, &view, &counts);
    let sent = Message::from_body(&last.down, &last.assets).unwrap();
    let upload = Message::from_body(last.up.as_ref().unwrap(), &[]).unwrap();
    let inspection = method.inspection().unwrap();
    let own = inspection.local_model(&facts, &sent, &upload, &run.ctx).unwrap().unwrap();
    // One client, no rebalancing: the server's model is the client's.
    assert_eq!(tally(&*own, &run.ctx, CLASSES), run.tally(CLASSES));
}
