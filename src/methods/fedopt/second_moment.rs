//! Second moments of mean differences, by which adaptive optimizers divide their steps.

use clap::ValueEnum;

use crate::scenario::reader::{Choice, Keys, TableReader};

/// Adaptive optimizer of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOptimizer {
    /// FedAdagrad: a sum of squared differences.
    Adagrad,
    /// FedAdam: a decaying mean of squared differences.
    Adam,
    /// FedYogi: a second moment that changes by `(1 - beta_2) d^2`, up or down.
    Yogi,
}

impl ServerOptimizer {
    /// Reads the keys of the optimizer's second moment.
    pub(super) fn read_second(self, table: &mut TableReader<'_>) -> SecondMoment {
        match self {
            ServerOptimizer::Adagrad => SecondMoment::Sum,
            ServerOptimizer::Adam => SecondMoment::Mean(MomentDecay::read(table)),
            ServerOptimizer::Yogi => SecondMoment::Signed(MomentDecay::read(table)),
        }
    }
}

/// Rule of the second moment `v`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SecondMoment {
    /// Sum: `v + d^2`.
    Sum,
    /// Decaying mean: `beta_2 v + (1 - beta_2) d^2`.
    Mean(MomentDecay),
    /// Yogi's additive rule: `v - (1 - beta_2) d^2 sign(v - d^2)`.
    Signed(MomentDecay),
}

/// Decay of a second moment.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct MomentDecay {
    /// Decay rate of the second moment.
    #[key(
        default = 0.99,
        at_least = 0.0,
        below = 1.0,
        source = "Reddi et al.; the flags of the release have 0.999"
    )]
    pub beta_2: f64,
    /// Bias correction of the rate, by `sqrt(1 - beta_2^t) / (1 - beta_1^t)`.
    #[key(default = true, source = "the release; algorithm 2 has none, nor has FedYogi of Flower")]
    pub bias_correction: bool,
}

/// Second moment before the first round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum InitialMoment {
    /// Zero.
    Zero,
    /// Square of `tau`, the smallest value that algorithm 2 allows.
    TauSquared,
}

impl InitialMoment {
    /// Returns the initial value of each element of `v`.
    pub(super) fn value(self, tau: f64) -> f64 {
        match self {
            InitialMoment::Zero => 0.0,
            InitialMoment::TauSquared => tau * tau,
        }
    }
}

impl SecondMoment {
    /// Returns the second moment of an element after one more difference.
    pub(super) fn after(self, moment: f64, difference: f64) -> f64 {
        let square = difference * difference;
        match self {
            SecondMoment::Sum => moment + square,
            SecondMoment::Mean(MomentDecay { beta_2, .. }) => {
                beta_2 * moment + (1.0 - beta_2) * square
            }
            SecondMoment::Signed(MomentDecay { beta_2, .. }) => {
                moment - (1.0 - beta_2) * square * sign(moment - square)
            }
        }
    }

    /// Returns the bias correction of the rate in round `rounds` of the optimizer, from 1.
    ///
    /// The release counts rounds from 2: its optimizer has already made a step along zeros, which creates its
    /// variables.
    pub(super) fn correction(self, beta_1: f64, rounds: u64) -> f64 {
        match self {
            SecondMoment::Mean(MomentDecay { beta_2, bias_correction: true })
            | SecondMoment::Signed(MomentDecay { beta_2, bias_correction: true }) => {
                let lacking = |beta| 1.0 - libm::pow(beta, (rounds + 1) as f64);
                lacking(beta_2).sqrt() / lacking(beta_1)
            }
            _ => 1.0,
        }
    }

    /// Returns the operations per element, in multiplications, with a root and a division.
    pub(super) fn multiplications(self) -> usize {
        match self {
            SecondMoment::Sum => 6,
            SecondMoment::Signed(_) => 7,
            SecondMoment::Mean(_) => 8,
        }
    }
}

/// Returns the sign of a number, and 0 for zero.
fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECAY: MomentDecay = MomentDecay { beta_2: 0.75, bias_correction: true };

    /// Inputs have few binary digits, so that all results are exact.
    #[test]
    fn second_moments_follow_algorithm_2() {
        for (rule, moment, difference, after) in [
            (SecondMoment::Sum, 0.5, -2.0, 4.5),
            (SecondMoment::Mean(DECAY), 0.5, -2.0, 0.375 + 1.0),
            (SecondMoment::Mean(DECAY), 8.0, 2.0, 6.0 + 1.0),
            // Yogi changes the moment by the squared difference alone, up or down.
            (SecondMoment::Signed(DECAY), 0.5, -2.0, 0.5 + 1.0),
            (SecondMoment::Signed(DECAY), 8.0, 2.0, 8.0 - 1.0),
            (SecondMoment::Signed(DECAY), 4.0, 2.0, 4.0),
            (SecondMoment::Signed(DECAY), 0.0, 0.0, 0.0),
        ] {
            assert_eq!(rule.after(moment, difference), after, "{rule:?} {moment}");
        }
    }

    #[test]
    fn rates_are_corrected_from_the_second_power_on() {
        let expected = (1.0f64 - 0.75 * 0.75).sqrt() / (1.0 - 0.25);
        for rule in [SecondMoment::Mean(DECAY), SecondMoment::Signed(DECAY)] {
            assert!((rule.correction(0.5, 1) - expected).abs() < 1e-15, "{rule:?}");
            assert!((rule.correction(0.5, 900) - 1.0).abs() < 1e-15, "{rule:?}");
        }
        let plain = MomentDecay { bias_correction: false, ..DECAY };
        for rule in [SecondMoment::Sum, SecondMoment::Mean(plain), SecondMoment::Signed(plain)] {
            assert_eq!(rule.correction(0.5, 1), 1.0, "{rule:?}");
        }
    }

    #[test]
    fn moments_start_at_zero_or_at_the_square_of_tau() {
        assert_eq!(InitialMoment::Zero.value(0.5), 0.0);
        assert_eq!(InitialMoment::TauSquared.value(0.5), 0.25);
    }
}
