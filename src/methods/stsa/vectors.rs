//! Estimates, exact sums and heads of two tasks, against the released code on the same features.

use std::sync::Arc;

use super::head::Scorer;
use super::*;
use crate::data::dummy_clients::{self, DummyClientSplit};
use crate::golden::Golden;
use crate::numerics::projection::Projection;
use crate::numerics::ridge::{Penalty, ridge};
use crate::numerics::symmetric::{Gram, Symmetric};
use crate::quantity::{ClientId, TaskId};

const WIDTH: usize = 6;
const CLASSES: usize = 4;
const CLIENTS: u32 = 3;
/// Parts that each client cuts.
const PARTS: usize = 3;
const TOTAL: Estimation = Estimation {
    unit_count: UnitCount::Total,
    one_unit: OneUnit::Mean,
    diagnostics: false,
    head_error: false,
};

fn head(gram: &Symmetric, sums: &ClassSums) -> Vec<f64> {
    ridge(gram, &sums.values, Penalty::Absolute(0.5), 0).unwrap().weights
}

/// The release's `replace_fc_ours3` and `replace_fc1`: a client with fewer samples than parts has one unit, the last; a
/// class with fewer samples than all parts has no term of its sum.
#[test]
fn golden_released_estimates_and_heads() {
    let golden = Golden::own("released_stsa");
    let layer = Arc::new(Projection::from_weights(5, WIDTH, golden.f64("layer")).unwrap());
    let (mut estimated, mut exact) = (Symmetric::zeros(WIDTH), Symmetric::zeros(WIDTH));
    let mut sums = ClassSums::zeros(CLASSES, WIDTH);
    let mut weights = Vec::new();
    for task in 0..2u16 {
        let name = |what: &str| format!("task{task}.{what}");
        let (labels, clients) = (golden.labels(&name("labels")), golden.labels(&name("clients")));
        let counts = golden.i64(&name("unit_counts"));
        let unit_sums = golden.f64(&name("unit_sums"));
        let units: Vec<UnitStatistics> = counts
            .chunks(CLASSES)
            .zip(unit_sums.chunks(CLASSES * WIDTH))
            .map(|(counts, sums)| UnitStatistics {
                counts: counts.iter().map(|count| *count as f64).collect(),
                sums: ClassSums { width: WIDTH, values: sums.to_vec() },
            })
            .collect();
        // Its units are as large as ours; who is in which was drawn.
        for client in 0..CLIENTS {
            let samples = clients.iter().filter(|owner| **owner == client).count();
            let key = dummy_clients::key(1, TaskId(task), ClientId(client));
            let ours =
                dummy_clients::cut(samples, PARTS as u32, DummyClientSplit::RemainderLast, key);
            let theirs = &units[client as usize * PARTS..][..PARTS];
            let sizes = |unit: &UnitStatistics| unit.counts.iter().sum::<f64>() as usize;
            assert_eq!(
                ours.iter().map(Vec::len).collect::<Vec<_>>(),
                theirs.iter().map(sizes).collect::<Vec<_>>(),
                "client {client}"
            );
        }
        assert!(task > 0 || units[6..8].iter().all(|unit| unit.counts == [0.0; CLASSES]));

        let rows = layer.apply(&golden.f64(&name("x")));
        let mut whole = UnitStatistics::empty(CLASSES, WIDTH);
        for (row, label) in rows.chunks(WIDTH).zip(&labels) {
            whole.add(row, *label as usize);
        }
        sums.add(&whole.sums);
        golden.assert_close(&name("sums"), &sums.values);
        estimated.add(&estimate(&units, units.len(), WIDTH, &TOTAL));
        golden.assert_close(&name("estimated.gram"), &estimated.full());
        weights = head(&estimated, &sums);
        golden.assert_close(&name("estimated.weights"), &weights);
        let mut gram = Gram::new(WIDTH);
        gram.add(&rows);
        exact.add(&gram.finish());
        golden.assert_close(&name("exact.gram"), &exact.full());
        golden.assert_close(&name("exact.weights"), &head(&exact, &sums));
    }
    // The release keeps weights in f32.
    let scorer = Scorer::new(layer, HeadMode::Cosine, weights);
    golden.assert_within("scores", &scorer.score(&golden.f64("asked"), 0..CLASSES), 1e-6);
}
