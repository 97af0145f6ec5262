//! Learning-rate schedules, stepped once per epoch (or per round) from 0.

use std::f64::consts::PI;

/// Schedule of the learning rate from epoch to epoch.
///
/// ```
/// use fedcast::learning::Schedule;
/// let rate = |epoch| Schedule::Cosine.rate(0.01, epoch, 5);
/// assert_eq!(rate(0), 0.01);
/// assert!((rate(4) - 0.000_954_915).abs() < 1e-9); // HGP's last epoch
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Schedule {
    /// Constant rate.
    #[default]
    Constant,
    /// Cosine `base/2 (1 + cos(pi e / epochs))` (Loshchilov and Hutter 2017).
    ///
    /// `e = 0` gives the base rate, and the last epoch is not yet zero.
    Cosine,
    /// First 99 % of a quarter cosine, `base cos(99 pi e / (200 (epochs - 1)))` (HePCo's code).
    QuarterCosine,
    /// Steps `base * factor^k`, with `k` the number of `milestones` reached.
    MultiStep {
        /// Epochs at which the rate falls, ascending.
        milestones: Vec<u32>,
        /// Factor of the learning rate at each milestone.
        factor: f64,
    },
    /// Another schedule, delayed by some epochs in which the rate is its first.
    Delayed {
        /// Schedule that follows.
        schedule: Box<Schedule>,
        /// Number of epochs of delay.
        lag: u32,
    },
    /// Another schedule for the part of the rate above a lowest rate.
    ///
    /// In the releases of LANDER and STSA it is a cosine to 1e-3.
    Above {
        /// Schedule of the part above the lowest rate.
        schedule: Box<Schedule>,
        /// Lowest rate.
        end: f64,
    },
    /// The beginning of another schedule, which takes a fixed number of epochs.
    ///
    /// Powder's code runs ten epochs of a quarter cosine over fifty. After the schedule's last epoch the rate is
    /// constant.
    Stretched {
        /// Schedule whose beginning is used.
        schedule: Box<Schedule>,
        /// Number of epochs of the complete schedule.
        over: u32,
    },
}

impl Schedule {
    /// Returns the learning rate of epoch `epoch` out of `epochs`, for the base rate `base`.
    pub fn rate(&self, base: f64, epoch: u32, epochs: u32) -> f64 {
        match self {
            Schedule::Constant => base,
            Schedule::Cosine => {
                let share = f64::from(epoch) / f64::from(epochs.max(1));
                base * (1.0 + libm::cos(PI * share)) / 2.0
            }
            Schedule::QuarterCosine => {
                let share = f64::from(epoch) / f64::from(epochs.saturating_sub(1).max(1));
                base * libm::cos(99.0 * PI * share / 200.0)
            }
            Schedule::MultiStep { milestones, factor } => {
                let passed = milestones.iter().filter(|&&m| epoch >= m).count();
                base * libm::pow(*factor, passed as f64)
            }
            Schedule::Delayed { schedule, lag } => {
                schedule.rate(base, epoch.saturating_sub(*lag), epochs)
            }
            Schedule::Above { schedule, end } => end + schedule.rate(base - end, epoch, epochs),
            Schedule::Stretched { schedule, over } => {
                schedule.rate(base, epoch.min(over.saturating_sub(1)), *over)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LANDER's release: 0.04 at first, in the middle the mean of both, and nearly 1e-3 in the last of 100 rounds.
    #[test]
    fn a_cosine_may_end_above_zero() {
        let above = Schedule::Above { schedule: Box::new(Schedule::Cosine), end: 1e-3 };
        let rate = |round| above.rate(0.04, round, 100);
        assert_eq!(rate(0), 0.04);
        assert!((rate(50) - 0.0205).abs() < 1e-12);
        assert!((rate(99) - 1e-3 - 0.039 * 2.467e-4).abs() < 1e-8, "{}", rate(99));
    }

    /// PILoRA's release sets the rate after a round: the first two are whole, and the last of 30 is that of the 29th.
    #[test]
    fn a_delayed_cosine_has_two_whole_rates() {
        let delayed = Schedule::Delayed { schedule: Box::new(Schedule::Cosine), lag: 1 };
        let rate = |round| delayed.rate(1e-5, round, 30);
        assert_eq!([rate(0), rate(1)], [1e-5; 2]);
        assert_eq!(rate(29), Schedule::Cosine.rate(1e-5, 28, 30));
        assert!((rate(29) / 1e-5 - 0.0109).abs() < 1e-4, "{}", rate(29));
    }
}
