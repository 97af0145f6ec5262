//! The solution against the package's own vectors.

use super::*;
use crate::golden::Golden;
use crate::numerics::symmetric::Gram;

#[test]
fn golden_own_ridge_is_a_regularised_least_squares() {
    let golden = Golden::own("statistics");
    let (rows, labels) = (golden.f64("ridge.rows"), golden.labels("ridge.labels"));
    let mut gram = Gram::new(5);
    gram.add(&rows);
    let mut correlation = vec![0.0; 3 * 5];
    for (row, label) in rows.chunks(5).zip(labels) {
        let sums = &mut correlation[5 * label as usize..][..5];
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    let gram = gram.finish();
    for (name, penalty) in
        [("ridge.absolute", Penalty::Absolute(0.5)), ("ridge.relative", Penalty::Relative(0.2))]
    {
        golden.assert_close(name, &ridge(&gram, &correlation, penalty, 0).unwrap().weights);
    }
}
