//! Durations of cells, fitted to finished ones: seconds to start, and seconds per sample pass.

use std::collections::BTreeMap;

/// Linear model of a run's wall seconds over its sample passes, by method.
///
/// The time per pass depends on the method, the backbone and the machine. The time before the first pass (reading data
/// and weights, features) matters for short runs. A study estimates both from its own finished cells; nothing is known
/// before one has run. Other measurements are added with [`learn`](Self::learn), too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    by_method: BTreeMap<String, Runs>,
}

/// Sums over runs for the least squares fit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Runs {
    count: f64,
    passes: f64,
    seconds: f64,
    squares: f64,
    products: f64,
}

impl Runs {
    fn of(passes: f64, seconds: f64) -> Runs {
        Runs { count: 1.0, passes, seconds, squares: passes * passes, products: passes * seconds }
    }

    fn and(self, other: Runs) -> Runs {
        Runs {
            count: self.count + other.count,
            passes: self.passes + other.passes,
            seconds: self.seconds + other.seconds,
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }

    /// Returns the seconds of a number of passes on the least squares line.
    ///
    /// They are proportional to the passes if all runs have about the same number of passes, or if the line has a
    /// negative slope or intercept.
    fn seconds(&self, passes: f64) -> f64 {
        let spread = self.count * self.squares - self.passes * self.passes;
        let slope = self.count * self.products - self.passes * self.seconds;
        let proportional = passes * self.seconds / self.passes;
        // Passes that differ by less than about a tenth of their mean determine no line.
        if spread <= 0.01 * self.passes * self.passes || slope <= 0.0 {
            return proportional;
        }
        let rate = slope / spread;
        let begin = (self.seconds - rate * self.passes) / self.count;
        if begin < 0.0 { proportional } else { begin + rate * passes }
    }
}

impl Pace {
    /// Adds a run with its passes and wall seconds.
    pub fn learn(&mut self, method: &str, passes: f64, seconds: f64) {
        if passes > 0.0 && seconds > 0.0 {
            let runs = self.by_method.entry(method.to_owned()).or_default();
            *runs = runs.and(Runs::of(passes, seconds));
        }
    }

    /// Estimates the seconds of a number of passes.
    ///
    /// For a method that has not run yet, the estimate is over all methods that have. `None` before any has run.
    pub fn seconds(&self, method: &str, passes: f64) -> Option<f64> {
        let all = || self.by_method.values().copied().reduce(Runs::and);
        let runs = self.by_method.get(method).copied().or_else(all)?;
        Some(runs.seconds(passes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_judged_by_its_own_runs_and_others_by_all() {
        let mut pace = Pace::default();
        assert_eq!(pace.seconds("hgp", 10.0), None);
        pace.learn("hgp", 100.0, 10.0);
        pace.learn("hgp", 100.0, 30.0);
        pace.learn("stsa", 104.0, 18.0);
        pace.learn("broken", 0.0, 9.0);
        assert_eq!(pace.seconds("hgp", 10.0), Some(2.0));
        assert_eq!(pace.seconds("stsa", 52.0), Some(9.0));
        // 304 passes in 58 seconds; too much alike for more than a share.
        assert_eq!(pace.seconds("fedavg", 152.0), Some(29.0));
    }

    #[test]
    fn what_a_run_takes_before_it_trains_is_not_taken_for_passes() {
        let mut pace = Pace::default();
        for passes in [10.0, 20.0, 60.0] {
            pace.learn("ccvr", passes, 5.0 + 0.5 * passes);
        }
        let seconds = pace.seconds("ccvr", 1000.0).unwrap();
        assert!((seconds - 505.0).abs() < 1e-9, "{seconds}");
        assert!((pace.seconds("hgp", 4.0).unwrap() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn a_line_that_cannot_be_gives_way_to_a_share() {
        for (short, long) in [(9.0, 3.0), (1.0, 30.0)] {
            let mut pace = Pace::default();
            pace.learn("er", 10.0, short);
            pace.learn("er", 30.0, long);
            assert_eq!(pace.seconds("er", 20.0), Some(20.0 * (short + long) / 40.0));
        }
    }
}
