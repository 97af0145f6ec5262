//! Selection of the best values of a metric, the same for every table.

use super::{Metric, Spread};

/// Marks the best values of a metric, unless another lies within a standard deviation.
///
/// Values that are displayed equally are marked together, if none of them has a deviation. A value may be missing. For
/// costs of reaching an accuracy, a missing value of a complete run (`tried`) is worse than any other, because the run
/// never reached it. If no value is worse, none is marked.
pub fn best(metric: &Metric, figures: &[(Option<Spread>, bool)]) -> Vec<bool> {
    let means = figures.iter().map(|(spread, tried)| (spread.map(|spread| spread.mean), *tried));
    let marks = best_means(metric, &means.collect::<Vec<_>>());
    let all =
        figures.iter().zip(&marks).filter_map(|((spread, _), mark)| Some(((*spread)?, *mark)));
    let all: Vec<(Spread, bool)> = all.collect();
    let deviation = |spread: &Spread| spread.deviation.unwrap_or(0.0);
    let best = || all.iter().filter(|(_, mark)| *mark).map(|(spread, _)| spread);
    let near = |one: &Spread, other: &Spread| {
        let reach = deviation(one).max(deviation(other));
        reach > 0.0 && (one.mean - other.mean).abs() <= reach
    };
    let others = || all.iter().filter(|(_, mark)| !*mark).map(|(spread, _)| spread);
    let tied = best().any(|one| others().any(|other| near(one, other)))
        || best().count() > 1 && best().any(|one| deviation(one) > 0.0);
    marks.into_iter().map(|mark| mark && !tied).collect()
}

/// Marks the best means, including those that are displayed equally.
fn best_means(metric: &Metric, figures: &[(Option<f64>, bool)]) -> Vec<bool> {
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
        best_means(&Metric::parse(metric).unwrap(), &figures)
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
        assert_eq!(best_means(&metric, &[(Some(3.0), true), (None, false)]), [false, false]);
    }

    /// Marks of accuracies with their deviations.
    fn marks(figures: &[(f64, Option<f64>)]) -> Vec<bool> {
        let spread = |(mean, deviation): &(f64, Option<f64>)| {
            (Some(Spread { n: 3, mean: *mean, deviation: *deviation }), true)
        };
        let figures: Vec<_> = figures.iter().map(spread).collect();
        best(&Metric::parse("faa").unwrap(), &figures)
    }

    #[test]
    fn a_lead_within_a_deviation_is_none() {
        let clear = [(0.75, Some(0.125)), (0.5, Some(0.0625)), (0.25, None)];
        assert_eq!(marks(&clear), [true, false, false]);
        // The deviation of either counts, and a lead of just one deviation is none.
        assert_eq!(marks(&[(0.75, Some(0.25)), (0.5, Some(0.0))]), [false, false]);
        assert_eq!(marks(&[(0.75, Some(0.0)), (0.5, Some(0.25))]), [false, false]);
        assert_eq!(marks(&[(0.75, None), (0.5, None)]), [true, false]);
        // Equal values: only without deviations.
        assert_eq!(marks(&[(0.75, None), (0.75, None), (0.5, None)]), [true, true, false]);
        let equal = [(0.75, Some(0.01)), (0.75, Some(0.01)), (0.5, Some(0.01))];
        assert_eq!(marks(&equal), [false, false, false]);
        // A third that is far behind changes nothing.
        assert_eq!(marks(&[(0.75, Some(0.1)), (0.7, Some(0.1)), (0.1, Some(0.9))]), [false; 3]);
    }
}
