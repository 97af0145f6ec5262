//! Selection of the best values of a metric, the same for every table.

use super::Metric;

/// Marks the best values of a metric, including those that are displayed equally.
///
/// A value may be missing. For costs of reaching an accuracy, a missing value of a complete run (`tried`) is worse than
/// any other, because the run never reached it. If no value is worse, none is marked.
pub fn best(metric: &Metric, figures: &[(Option<f64>, bool)]) -> Vec<bool> {
    let means = figures.iter().filter_map(|(mean, _)| *mean);
    let best = means.reduce(|best, mean| if metric.prefers(mean, best) { mean } else { best });
    let Some(best) = best else { return vec![false; figures.len()] };
    let shown = metric.show(best);
    let is_best = |mean: f64| metric.show(mean) == shown;
    let is_worse = |(mean, tried): &(Option<f64>, bool)| match mean {
        Some(mean) => metric.prefers(best, *mean) && !is_best(*mean),
        None => *tried && metric.is_until(),
    };
    let any = figures.iter().any(is_worse);
    figures.iter().map(|(mean, _)| any && mean.is_some_and(is_best)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metric: &str, figures: &[Option<f64>]) -> Vec<bool> {
        let figures: Vec<_> = figures.iter().map(|figure| (*figure, true)).collect();
        best(&Metric::parse(metric).unwrap(), &figures)
    }

    #[test]
    fn what_looks_the_same_is_as_good_and_nothing_is_best_of_equals() {
        let shares = [Some(0.500_01), Some(0.4), None, Some(0.500_04)];
        assert_eq!(of("faa", &shares), [true, false, false, true]);
        assert_eq!(of("forgetting", &shares), [false, true, false, false]);
        assert_eq!(of("faa", &[Some(0.500_01), Some(0.500_04)]), [false, false]);
        assert_eq!(of("faa", &[Some(0.5), None]), [false, false]);
        assert_eq!(of("participants", &[Some(1.0), Some(2.0)]), [false, false]);
    }

    #[test]
    fn who_never_reached_an_accuracy_is_worse_than_who_did() {
        assert_eq!(of("rounds_to:0.5", &[Some(3.0), None]), [true, false]);
        let metric = Metric::parse("rounds_to:0.5").unwrap();
        assert_eq!(best(&metric, &[(Some(3.0), true), (None, false)]), [false, false]);
    }
}
