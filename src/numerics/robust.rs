//! Robust means, which a few wrong numbers cannot move far: the median and the trimmed mean.
//!
//! Both sort first, so their bits do not depend on the order of the numbers.
//!
//! ```
//! use fedcast::numerics::robust::{Weighted, median, trimmed_mean};
//! let of = |values: &[f64]| values.iter().map(|value| Weighted { value: *value, weight: 1.0 }).collect();
//! let mut numbers: Vec<Weighted> = of(&[3.0, -900.0, 1.0, 2.0, 900.0]);
//! assert_eq!(median(&mut numbers), 2.0);
//! assert_eq!(trimmed_mean(&mut numbers, 1), 2.0);
//! assert_eq!(median(&mut of(&[1.0, 2.0])), 1.5);
//! ```

/// Number with its weight in a mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// Value of the number.
    pub value: f64,
    /// Weight in a mean, at least 0.
    pub weight: f64,
}

/// Returns the middle number, or the mean of the two middle numbers; weights do not count.
///
/// It sorts the numbers. The result is zero if there are none.
pub fn median(numbers: &mut [Weighted]) -> f64 {
    sort(numbers);
    let middle = numbers.len() / 2;
    match (numbers.len(), numbers.len() % 2) {
        (0, _) => 0.0,
        (_, 1) => numbers[middle].value,
        _ => 0.5 * numbers[middle - 1].value + 0.5 * numbers[middle].value,
    }
}

/// Returns the weighted mean without the `cut` smallest and the `cut` largest numbers.
///
/// It sorts the numbers. The result is zero if no weight is left.
pub fn trimmed_mean(numbers: &mut [Weighted], cut: usize) -> f64 {
    sort(numbers);
    let kept = numbers.get(cut..numbers.len().saturating_sub(cut)).unwrap_or_default();
    let (sum, weight) = kept.iter().fold((0.0, 0.0), |(sum, weight), number| {
        (sum + number.weight * number.value, weight + number.weight)
    });
    if weight > 0.0 { sum / weight } else { 0.0 }
}

fn sort(numbers: &mut [Weighted]) {
    numbers.sort_unstable_by(|a, b| {
        a.value.total_cmp(&b.value).then_with(|| a.weight.total_cmp(&b.weight))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers() -> impl Strategy<Value = Vec<Weighted>> {
        let number = (-5f64..5.0, 1u32..100)
            .prop_map(|(value, weight)| Weighted { value, weight: f64::from(weight) });
        prop::collection::vec(number, 1..12)
    }

    #[test]
    fn the_middle_lies_between_two_and_that_of_nothing_is_zero() {
        let of = |values: &[f64]| -> Vec<Weighted> {
            values.iter().map(|value| Weighted { value: *value, weight: 2.0 }).collect()
        };
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut of(&[7.0, 1.0, 100.0, 4.0])), 5.5);
        assert_eq!(trimmed_mean(&mut [], 0), 0.0);
        assert_eq!(trimmed_mean(&mut of(&[7.0, 1.0, 100.0, 4.0]), 1), 5.5);
        assert_eq!(trimmed_mean(&mut of(&[7.0, 1.0]), 1), 0.0);
    }

    proptest! {
        #[test]
        fn the_order_of_numbers_changes_no_bit(numbers in numbers(), cut in 0usize..4) {
            let mut reversed: Vec<_> = numbers.iter().copied().rev().collect();
            let mut numbers = numbers;
            prop_assert_eq!(median(&mut numbers).to_bits(), median(&mut reversed).to_bits());
            let trimmed = trimmed_mean(&mut numbers, cut);
            prop_assert_eq!(trimmed.to_bits(), trimmed_mean(&mut reversed, cut).to_bits());
        }

        /// Fewer than half the numbers, however wrong, leave the median among the right ones.
        #[test]
        fn liars_in_the_minority_do_not_move_the_median_out_of_the_honest(
            honest in numbers(),
            lie in prop::sample::select(vec![-1e30, -7.0, 0.0, 7.0, 1e30]),
        ) {
            let (low, high) = honest.iter().fold((f64::MAX, f64::MIN), |(low, high), number| {
                (low.min(number.value), high.max(number.value))
            });
            let lies = (honest.len() - 1) / 2;
            let mut all = honest;
            all.extend(vec![Weighted { value: lie, weight: 1e9 }; lies]);
            let median = median(&mut all);
            prop_assert!(low <= median && median <= high, "{low} {median} {high}");
            let trimmed = trimmed_mean(&mut all, lies);
            // Lies as small as honest values cannot be distinguished, and do no harm.
            let (low, high) = match lie.abs() > 5.0 {
                true => (low, high),
                false => (low.min(lie), high.max(lie)),
            };
            prop_assert!(low - 1e-9 <= trimmed && trimmed <= high + 1e-9);
        }
    }
}
