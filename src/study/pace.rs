//! How long cells take here, learned from those that are finished: seconds to begin, and seconds per sample pass.

use std::collections::BTreeMap;

/// Wall seconds of a run as a line over its sample passes, by method.
///
/// What a pass takes depends on the method, the backbone and the machine, and what a run takes before its first pass
/// (reading data and weights, features) matters where there are few. So a study learns both from its own finished
/// cells; nothing is known before one has run. A measure from elsewhere enters by [`learn`](Self::learn), too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    by_method: BTreeMap<String, Runs>,
}

/// Sums over runs.
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

    /// Seconds of so many passes on the line of least squares; in proportion to them where runs have about as many
    /// passes, or where by the line longer runs would be sooner done or time would begin before a run.
    fn seconds(&self, passes: f64) -> f64 {
        let spread = self.count * self.squares - self.passes * self.passes;
        let slope = self.count * self.products - self.passes * self.seconds;
        let proportional = passes * self.seconds / self.passes;
        // A tenth of the mean, squared.
        if spread <= 0.01 * self.passes * self.passes || slope <= 0.0 {
            return proportional;
        }
        let rate = slope / spread;
        let begin = (self.seconds - rate * self.passes) / self.count;
        if begin < 0.0 { proportional } else { begin + rate * passes }
    }
}

impl Pace {
    /// Takes in a run of so many passes in so many seconds.
    pub fn learn(&mut self, method: &str, passes: f64, seconds: f64) {
        if passes > 0.0 && seconds > 0.0 {
            let runs = self.by_method.entry(method.to_owned()).or_default();
            *runs = runs.and(Runs::of(passes, seconds));
        }
    }

    /// Seconds that so many passes will take; of a method that has not run yet as of all that have. `None` before
    /// any has.
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
