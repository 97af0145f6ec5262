//! Correction of p values for their number, by the method of Holm (1979).

/// Returns p values corrected for the number of tests, in their order; missing values are no tests.
///
/// The k-th smallest of n is multiplied by `n - k + 1`, and none is smaller than one before it or larger than 1. The
/// probability that any true hypothesis is rejected then stays below the level of the tests.
///
/// ```
/// assert_eq!(fedcast::results::holm(&[Some(0.25), None, Some(0.125)]), [Some(0.25), None, Some(0.25)]);
/// ```
pub fn holm(values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        values.iter().enumerate().filter_map(|(at, p)| Some((at, (*p)?))).collect();
    order.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut adjusted = vec![None; values.len()];
    let mut least = 0.0f64;
    for (rank, (at, p)) in order.iter().enumerate() {
        least = least.max((order.len() - rank) as f64 * p).min(1.0);
        adjusted[*at] = Some(least);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorted 0.005, 0.01, 0.03, 0.04: times 4, 3, 2, 1 are 0.02, 0.03, 0.06, 0.04, and the last may not be below 0.06.
    #[test]
    fn four_values_by_hand() {
        let adjusted = holm(&[Some(0.01), Some(0.04), Some(0.03), Some(0.005)]);
        for (found, wanted) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?} is not {wanted}");
        }
    }

    #[test]
    fn missing_values_do_not_count_and_none_exceeds_one() {
        assert_eq!(holm(&[None, Some(0.03)]), [None, Some(0.03)]);
        assert_eq!(holm(&[Some(0.75), Some(0.75)]), [Some(1.0), Some(1.0)]);
        assert_eq!(holm(&[]), []);
    }
}
