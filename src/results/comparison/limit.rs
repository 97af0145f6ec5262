//! Tolerances of a comparison, beyond which a group counts as regressed.

use super::{Comparison, MetricRow};
use crate::results::{Better, Metric};

/// Tolerance for how much worse than the first a group may be in a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricLimit {
    /// Metric that is compared; one of its directions is better.
    pub metric: Metric,
    tolerance: f64,
    /// True for a fraction of the first group's mean, false for the unit of `summary.json`.
    relative: bool,
}

impl MetricLimit {
    /// Parses `METRIC=TOLERANCE`.
    ///
    /// The tolerance is a number in the unit of `summary.json` (accuracies are fractions: `faa=0.01` is one point), or
    /// a percentage of the first group's mean (`bytes_up=5%`).
    ///
    /// # Errors
    /// Fails if the text has another form, the metric does not exist, or no direction of it is better.
    pub fn parse(text: &str) -> Result<MetricLimit, String> {
        let how = "write METRIC=TOLERANCE, such as faa=0.01 (one point) or bytes_up=5%";
        let (name, tolerance) = text.rsplit_once('=').ok_or(format!("`{text}`: {how}"))?;
        let metric = Metric::parse(name).map_err(|error| error.to_string())?;
        if metric.better() == Better::Neither {
            return Err(format!(
                "a larger `{name}` is neither better nor worse; choose another metric"
            ));
        }
        let relative = tolerance.ends_with('%');
        let number: Option<f64> = tolerance.trim_end_matches('%').parse().ok();
        let number = number.filter(|number| *number >= 0.0 && number.is_finite());
        let number =
            number.ok_or(format!("`{text}`: the tolerance must be a number from 0; {how}"))?;
        let tolerance = if relative { number / 100.0 } else { number };
        Ok(MetricLimit { metric, tolerance, relative })
    }

    /// Describes every group that is worse than tolerated or lacks the metric.
    pub fn broken(&self, comparison: &Comparison) -> Vec<String> {
        let groups = &comparison.groups;
        let row = MetricRow::of(self.metric.clone(), groups);
        let name = self.metric.name();
        let mut broken = Vec::new();
        for (group, against) in groups.iter().skip(1).zip(&row.against) {
            let (Some(against), Some(first)) = (against, &row.spread[0]) else {
                broken.push(format!("{}: {name} is missing, so it cannot be compared", group.name));
                continue;
            };
            if against.missing > 0 {
                let (missing, all) = (against.missing, against.pairs_of_either());
                broken.push(format!(
                    "{}: {name} is missing in {missing} of {all} pairs of runs, but not in A",
                    group.name
                ));
                continue;
            }
            let least = if self.relative { first.mean.abs() } else { 1.0 };
            let allowed = self.tolerance * least;
            let sign = if self.metric.better() == Better::Higher { -1.0 } else { 1.0 };
            let worse = sign * against.difference;
            // Decimal tolerances are not exact in binary, so a relative excess of 1e-7 is ignored.
            if worse > allowed + 1e-7 * allowed {
                let show = |value: f64| {
                    let symbol = self.metric.unit().of_differences();
                    format!("{} {symbol}", self.metric.show(value)).trim_end().to_owned()
                };
                broken.push(format!(
                    "{}: {name} is worse by {}, tolerated are {}",
                    group.name,
                    show(worse),
                    show(allowed)
                ));
            }
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_numbers_or_parts_and_metrics_must_judge() {
        let limit = MetricLimit::parse("faa=0.01").unwrap();
        assert_eq!((limit.tolerance, limit.relative), (0.01, false));
        let limit = MetricLimit::parse("bytes_up=5%").unwrap();
        assert_eq!((limit.tolerance, limit.relative), (0.05, true));
        let limit = MetricLimit::parse("rounds_to:0.8=2").unwrap();
        assert_eq!(limit.metric.name(), "rounds_to:0.8");
        for (wrong, hint) in [
            ("faa", "write METRIC=TOLERANCE"),
            ("fa=1", "did you mean `faa`?"),
            ("faa=-1", "must be a number from 0"),
            ("faa=x", "must be a number from 0"),
            ("participants=1", "neither better nor worse"),
        ] {
            let error = MetricLimit::parse(wrong).unwrap_err();
            assert!(error.contains(hint), "{wrong}: {error}");
        }
    }
}
