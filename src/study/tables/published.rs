//! Published numbers of a study's points, in the base units of its tables.

use crate::results::Metric;
use crate::scenario::ExpectedMetric;
use crate::study::collect::Outcomes;
use crate::study::{Point, Study};

/// Published number of a point, as a fraction like those of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedValue {
    /// Number.
    pub value: f64,
    /// Standard deviation over runs, if it is published.
    pub deviation: Option<f64>,
}

impl PublishedValue {
    /// Formats the number with its deviation, such as `76.54 ± 1.14`; `sign` stands between them.
    pub fn show(self, metric: &Metric, sign: &str) -> String {
        let deviation = self.deviation.map(|sd| format!("{sign}{}", metric.show(sd)));
        format!("{}{}", metric.show(self.value), deviation.unwrap_or_default())
    }
}

/// Returns the metrics of a study's tables: those of `[compare]`, then others with a published number.
pub(super) fn metrics(study: &Study, outcomes: &Outcomes) -> Vec<Metric> {
    let mut metrics = study.compare.metrics.clone();
    for (word, of, _) in ExpectedMetric::KEYS {
        let mut cells = outcomes.all.iter().map(|outcome| &outcome.expected);
        let metric = Metric::parse(word).ok().filter(|metric| !metrics.contains(metric));
        metrics.extend(metric.filter(|_| cells.any(|cell| cell.numbers.contains_key(of))));
    }
    metrics
}

/// Returns the published number of a point.
pub(super) fn value(outcomes: &Outcomes, point: &Point, metric: &Metric) -> Option<PublishedValue> {
    let (.., of, _) = ExpectedMetric::KEYS.iter().find(|(word, ..)| *word == metric.name())?;
    // All seeds of a point have the same numbers.
    let expected = &outcomes.of(point).next()?.expected;
    let value = percent(*expected.numbers.get(of)?);
    Some(PublishedValue { value, deviation: expected.deviation.get(of).copied().map(percent) })
}

/// Returns the changes that the published numbers of a point do not include; none without numbers.
pub(super) fn changes(outcomes: &Outcomes, point: &Point) -> Vec<String> {
    let expected = outcomes.of(point).next().map(|outcome| &outcome.expected);
    expected.map(|expected| expected.overrides.clone()).unwrap_or_default()
}

/// Returns the source of the published numbers of a point.
pub(super) fn source<'a>(outcomes: &'a Outcomes, point: &'a Point) -> Option<&'a str> {
    let expected = &outcomes.of(point).next()?.expected;
    expected.source.as_deref().filter(|_| !expected.is_empty())
}

/// Returns a number in percent or points as a fraction, rounded once: 76.54 gives 0.7654.
fn percent(number: f64) -> f64 {
    format!("{number}e-2").parse().unwrap_or(number / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_has_the_digits_of_the_published_percentage() {
        for (published, fraction) in [(76.54, 0.7654), (1.14, 0.0114), (-0.5, -0.005), (90.0, 0.9)]
        {
            assert_eq!(percent(published), fraction);
        }
    }

    /// Otherwise its number would have no column.
    #[test]
    fn every_published_metric_is_one_of_runs() {
        for (word, ..) in ExpectedMetric::KEYS {
            let metric = Metric::parse(word).unwrap();
            assert_eq!((metric.name(), metric.unit().scale()), (*word, 100.0));
        }
    }

    #[test]
    fn a_deviation_follows_its_number() {
        let faa = Metric::parse("faa").unwrap();
        let value = PublishedValue { value: 0.7654, deviation: Some(0.0114) };
        assert_eq!(value.show(&faa, " ± "), "76.54 ± 1.14");
        assert_eq!(PublishedValue { deviation: None, ..value }.show(&faa, " ± "), "76.54");
    }
}
