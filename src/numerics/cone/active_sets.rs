//! Non-negative least squares by active sets (Lawson and Hanson), one row per client.

use super::{Program, SLACK};

/// Value added to a diagonal of ones, so that rows may be dependent.
const RIDGE: f64 = 1e-13;

impl Program {
    /// Returns the multipliers, found by adding and removing rows one at a time.
    ///
    /// The row with the largest shortfall is added first; a row is removed if its multiplier would become negative.
    pub fn by_active_sets(&self) -> Option<Vec<f64>> {
        let count = self.lacks.len();
        let mut multipliers = vec![0.0; count];
        let mut active: Vec<usize> = Vec::new();
        // Every set of rows occurs at most once; usually a few rounds per row suffice.
        for _ in 0..10 * (count + 1) {
            let lacking = self.lacking(&multipliers);
            let idle = (0..count).filter(|i| !active.contains(i));
            let worst = idle.max_by(|a, b| lacking[*a].total_cmp(&lacking[*b]));
            let Some(worst) = worst.filter(|i| lacking[*i] > SLACK * 1e-3) else {
                return self.is_met(&multipliers).then(|| self.scaled(&multipliers));
            };
            active.push(worst);
            active.sort_unstable();
            self.settle(&mut active, &mut multipliers)?;
        }
        self.is_met(&multipliers).then(|| self.scaled(&multipliers))
    }

    /// Moves to the multipliers of this active set, and drops rows from it if necessary.
    fn settle(&self, active: &mut Vec<usize>, multipliers: &mut [f64]) -> Option<()> {
        loop {
            let wanted = self.at_limits(active, RIDGE)?;
            let pairs = || active.iter().zip(&wanted);
            // Fraction of the way at which a multiplier becomes zero.
            let reach = |(i, wanted): (&usize, &f64)| multipliers[*i] / (multipliers[*i] - wanted);
            let falling = pairs().filter(|(_, wanted)| **wanted <= 0.0);
            let share = falling.map(reach).fold(1.0, f64::min);
            let whole = pairs().all(|(_, wanted)| *wanted > 0.0);
            for (i, wanted) in active.iter().zip(&wanted) {
                let now = multipliers[*i];
                multipliers[*i] = if whole { *wanted } else { now + share * (wanted - now) };
            }
            if whole {
                return Some(());
            }
            let before = active.len();
            let zero = |i: &usize| multipliers[*i] <= 1e-14;
            let out: Vec<usize> = active.iter().copied().filter(zero).collect();
            out.iter().for_each(|i| multipliers[*i] = 0.0);
            active.retain(|i| !out.contains(i));
            if active.len() == before {
                return None;
            }
        }
    }
}
