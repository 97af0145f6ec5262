//! How long cells take here: seconds per sample pass, learnt from those that are finished.

use std::collections::BTreeMap;

/// Wall seconds per sample pass, by method.
///
/// What a pass takes depends on the method, the backbone and the machine, so a study learns it from its own finished
/// cells; nothing is known before one has run. A measure from elsewhere enters by [`learn`](Self::learn), too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    by_method: BTreeMap<String, (f64, f64)>,
}

impl Pace {
    /// Takes in a run of so many passes in so many seconds.
    pub fn learn(&mut self, method: &str, passes: f64, seconds: f64) {
        if passes > 0.0 && seconds > 0.0 {
            let (all_passes, all_seconds) = self.by_method.entry(method.to_owned()).or_default();
            *all_passes += passes;
            *all_seconds += seconds;
        }
    }

    /// Seconds that so many passes will take; of a method that has not run yet as of all that have. `None` before
    /// any has.
    pub fn seconds(&self, method: &str, passes: f64) -> Option<f64> {
        let sum = |one: (f64, f64), other: &(f64, f64)| (one.0 + other.0, one.1 + other.1);
        let all = || self.by_method.values().fold((0.0, 0.0), sum);
        let (known, seconds) = self.by_method.get(method).copied().unwrap_or_else(all);
        (known > 0.0).then(|| passes * seconds / known)
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
        pace.learn("stsa", 200.0, 4.0);
        pace.learn("broken", 0.0, 9.0);
        assert_eq!(pace.seconds("hgp", 10.0), Some(2.0));
        assert_eq!(pace.seconds("stsa", 50.0), Some(1.0));
        assert_eq!(pace.seconds("fedavg", 100.0), Some(11.0));
    }
}
