//! Availability of clients: patterns of being on and off, and joining and leaving permanently.
//!
//! Every answer is computed for a client and a time, and depends on no earlier question: there is no cursor that moves,
//! and client 17 is on at the same times however many other clients there are.
//!
//! ```
//! use fedcast::federation::availability::{Availability, AvailabilityPattern, AvailabilityRules};
//! use fedcast::quantity::{ClientId, VirtualTime};
//! let half = AvailabilityPattern::Markov { on_s: 60.0, off_s: 60.0 };
//! let rules = AvailabilityRules { pattern: half, ..AvailabilityRules::default() };
//! let availability = Availability::new(rules, 7, Vec::new());
//! let (client, now) = (ClientId(3), VirtualTime::from_seconds(1e6));
//! let on = availability.next_on(client, now).expect("it comes back");
//! assert!(availability.is_on(client, on) && on >= now);
//! ```

mod markov;
mod steps;
mod trace;

use crate::numerics::scalar_distribution::ScalarDistribution;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, VirtualTime};

use trace::AvailabilityTrace;

pub use crate::scenario::AvailabilityPattern;

/// Rule for the availability of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailabilityRules {
    /// Pattern of temporary absence.
    pub pattern: AvailabilityPattern,
    /// Seconds until a client joins; drawn once per client.
    pub join: ScalarDistribution,
    /// Seconds from then until it leaves for good; drawn once per client.
    pub stay: ScalarDistribution,
}

impl Default for AvailabilityRules {
    fn default() -> AvailabilityRules {
        let (join, stay) =
            (ScalarDistribution::constant(0.0), ScalarDistribution::constant(f64::INFINITY));
        AvailabilityRules { pattern: AvailabilityPattern::Always, join, stay }
    }
}

impl AvailabilityRules {
    /// Returns true if every client can be reached at any time.
    pub fn is_always(&self) -> bool {
        self.pattern == AvailabilityPattern::Always && self.all_clients_stay()
    }

    /// Returns true if clients may be away for good from some time on.
    pub fn may_end(&self) -> bool {
        let is_recorded = matches!(self.pattern, AvailabilityPattern::Trace { .. });
        is_recorded || !self.stay.is_always(f64::INFINITY)
    }

    /// Returns true if no client joins later or leaves permanently.
    pub fn all_clients_stay(&self) -> bool {
        self.join.is_always(0.0) && self.stay.is_always(f64::INFINITY)
    }
}

/// Clients that the server can reach now, or else the time from which it can reach one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cohort {
    /// Reachable now: these clients.
    Now(Vec<ClientId>),
    /// No client before this time.
    Later(VirtualTime),
    /// No client from now on.
    Never,
}

/// The availability of a run.
#[derive(Clone, Debug)]
pub struct Availability {
    rules: AvailabilityRules,
    seed: u64,
    /// Samples of each client, relative to the largest number; empty unless the pattern needs them.
    shares: Vec<f64>,
    /// Transitions of the pattern, where they were recorded.
    trace: AvailabilityTrace,
}

impl Availability {
    /// Creates the availability of a run's clients.
    ///
    /// `samples` of each client over all tasks are needed for [`AvailabilityPattern::ByData`] only.
    pub fn new(rules: AvailabilityRules, seed: u64, samples: Vec<u64>) -> Availability {
        let most = samples.iter().copied().max().unwrap_or(0).max(1) as f64;
        let shares = samples.into_iter().map(|samples| samples as f64 / most).collect();
        let trace = match &rules.pattern {
            AvailabilityPattern::Trace { repeat_s, transitions, .. } => {
                AvailabilityTrace::new(transitions, *repeat_s)
            }
            _ => AvailabilityTrace::default(),
        };
        Availability { rules, seed, shares, trace }
    }

    /// Returns true if every client can be reached at any time.
    pub fn is_always(&self) -> bool {
        self.rules.is_always()
    }

    /// Returns true if a client can be reached.
    pub fn is_on(&self, client: ClientId, at: VirtualTime) -> bool {
        let (join, leave) = self.membership(client);
        join <= at && at < leave && self.pattern_next(client, at, true) == Some(at)
    }

    /// Returns the first time from `at` on when a client can be reached.
    pub fn next_on(&self, client: ClientId, at: VirtualTime) -> Option<VirtualTime> {
        let (join, leave) = self.membership(client);
        self.pattern_next(client, at.max(join), true).filter(|on| *on < leave)
    }

    /// Returns the first time from `at` on when a client cannot be reached; `None` if it stays forever.
    pub fn next_off(&self, client: ClientId, at: VirtualTime) -> Option<VirtualTime> {
        let (join, leave) = self.membership(client);
        if at < join {
            return Some(at);
        }
        let leave = (leave < VirtualTime(u64::MAX)).then_some(leave.max(at));
        leave.into_iter().chain(self.pattern_next(client, at, false)).min()
    }

    /// Returns the times at which a client joins and at which it leaves permanently; `u64::MAX` is never.
    pub fn membership(&self, client: ClientId) -> (VirtualTime, VirtualTime) {
        if self.rules.all_clients_stay() {
            return (VirtualTime::ZERO, VirtualTime(u64::MAX));
        }
        let draw = |distribution: &ScalarDistribution, step| {
            distribution.draw(&mut self.key(client).unit(1).step(step).rng())
        };
        let join = draw(&self.rules.join, 0);
        (
            VirtualTime::from_seconds(join),
            VirtualTime::from_seconds(join + draw(&self.rules.stay, 1)),
        )
    }

    /// Returns the `candidates` that can be reached, at most `count`, in their order.
    pub fn present(
        &self,
        candidates: impl Iterator<Item = ClientId> + Clone,
        count: usize,
        at: VirtualTime,
    ) -> Cohort {
        let present = candidates.clone().filter(|client| self.is_on(*client, at)).take(count);
        let mut present: Vec<ClientId> = present.collect();
        present.sort_unstable();
        if !present.is_empty() || candidates.clone().next().is_none() {
            return Cohort::Now(present);
        }
        let soonest = candidates.filter_map(|client| self.next_on(client, at)).min();
        soonest.map_or(Cohort::Never, Cohort::Later)
    }

    /// Returns the first time from `at` on when the pattern is on, or off if `on` is false.
    fn pattern_next(&self, client: ClientId, at: VirtualTime, on: bool) -> Option<VirtualTime> {
        let key = self.key(client);
        match &self.rules.pattern {
            AvailabilityPattern::Always => on.then_some(at),
            AvailabilityPattern::Markov { on_s, off_s } => {
                Some(markov::next(key, *on_s, *off_s, at, on))
            }
            // On in every time step with probability `mean + depth sin(2 pi (time / period + phase))`.
            AvailabilityPattern::Diurnal { period_s, mean, depth, step_s, spread } => {
                let day = steps::Day { period: *period_s, mean: *mean, depth: *depth };
                let phase = spread * crate::numerics::distributions::unit(&mut key.rng());
                steps::next(key, *step_s, |middle| day.share(middle, phase), at, on)
            }
            // On in every time step with probability `least + (1 - least) share^power`.
            AvailabilityPattern::ByData { min_fraction: least, exponent: power, step_s } => {
                let share = self.shares.get(client.index()).copied().unwrap_or(0.0);
                let chance = least + (1.0 - least) * libm::pow(share, *power);
                steps::next(key, *step_s, |_| chance, at, on)
            }
            AvailabilityPattern::Trace { .. } => self.trace.next(client, at, on),
        }
    }

    fn key(&self, client: ClientId) -> StreamKey {
        StreamKey::new(self.seed, Domain::Availability).client(client.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::scalar_distribution::DistributionKind;

    fn all() -> Vec<AvailabilityRules> {
        let pattern = |pattern| AvailabilityRules { pattern, ..AvailabilityRules::default() };
        let day = AvailabilityPattern::Diurnal {
            period_s: 100.0,
            mean: 0.5,
            depth: 0.4,
            step_s: 5.0,
            spread: 1.0,
        };
        let trace = |repeat_s| AvailabilityPattern::Trace {
            file: "trace.csv".into(),
            repeat_s,
            transitions: [(1, 0.0, true), (1, 7.0, false), (1, 9.5, true)].into(),
        };
        let uniform = |low, high| ScalarDistribution::new(DistributionKind::Uniform { low, high });
        vec![
            pattern(AvailabilityPattern::Always),
            pattern(AvailabilityPattern::Markov { on_s: 4.0, off_s: 9.0 }),
            pattern(day.clone()),
            pattern(AvailabilityPattern::ByData { min_fraction: 0.1, exponent: 1.0, step_s: 3.0 }),
            pattern(trace(0.0)),
            pattern(trace(12.0)),
            AvailabilityRules {
                pattern: day,
                join: uniform(0.0, 50.0),
                stay: uniform(10.0, 200.0),
            },
        ]
    }

    /// Walking from change to change sees what looking at any time sees.
    #[test]
    fn every_time_can_be_looked_up_alone() {
        for rules in all() {
            let availability = Availability::new(rules.clone(), 5, vec![10, 40, 100]);
            for client in (0..3).map(ClientId) {
                let mut at = VirtualTime::ZERO;
                for _ in 0..40 {
                    let Some(on) = availability.next_on(client, at) else { break };
                    let Some(off) = availability.next_off(client, on) else { break };
                    assert!(at <= on && on < off, "{rules:?}: {at} {on} {off}");
                    let inside = VirtualTime(on.0 + (off.0 - on.0) / 2);
                    let last = VirtualTime(off.0 - 1);
                    for time in [on, inside, last] {
                        assert!(availability.is_on(client, time), "{rules:?}: off at {time}");
                        assert_eq!(availability.next_off(client, time), Some(off), "{rules:?}");
                    }
                    assert!(!availability.is_on(client, off), "{rules:?}: on at {off}");
                    if on > at {
                        let before = VirtualTime(on.0 - 1);
                        assert!(!availability.is_on(client, before));
                        assert_eq!(availability.next_on(client, before), Some(on));
                    }
                    at = off;
                }
            }
        }
    }

    fn share_on(rules: AvailabilityRules, client: u32, seconds: u32) -> f64 {
        let availability = Availability::new(rules, 9, vec![10, 50, 100]);
        let at = |s: u32| VirtualTime::from_seconds(f64::from(s) + 0.5);
        let on = (0..seconds).filter(|s| availability.is_on(ClientId(client), at(*s))).count();
        on as f64 / f64::from(seconds)
    }

    #[test]
    fn shares_of_time_are_those_of_the_patterns() {
        let rules = all();
        let near = |got: f64, want: f64| assert!((got - want).abs() < 0.03, "{got} is not {want}");
        near(share_on(rules[1].clone(), 0, 20_000), 4.0 / 13.0);
        near(share_on(rules[2].clone(), 1, 20_000), 0.5);
        near(share_on(rules[3].clone(), 1, 20_000), 0.1 + 0.9 * 0.5);
        near(share_on(rules[3].clone(), 2, 2_000), 1.0);
        // Off from 7 s to 9.5 s of every 12 s: at two of twelve half seconds.
        near(share_on(rules[5].clone(), 1, 12_000), 10.0 / 12.0);
    }

    #[test]
    fn a_markov_client_stays_on_for_its_mean_time() {
        let availability = Availability::new(all()[1].clone(), 3, Vec::new());
        let (mut at, mut sum) = (VirtualTime::ZERO, 0.0);
        for _ in 0..4_000 {
            let on = availability.next_on(ClientId(0), at).expect("comes back");
            at = availability.next_off(ClientId(0), on).expect("goes away");
            sum += at.as_seconds() - on.as_seconds();
        }
        assert!((sum / 4_000.0 - 4.0).abs() < 0.25, "{}", sum / 4_000.0);
    }

    #[test]
    fn who_is_asked_can_be_reached_or_is_waited_for() {
        let availability = Availability::new(all()[4].clone(), 3, Vec::new());
        let one = || [ClientId(1)].into_iter();
        let at = |seconds| VirtualTime::from_seconds(seconds);
        assert_eq!(availability.present(one(), 5, at(1.0)), Cohort::Now(vec![ClientId(1)]));
        assert_eq!(availability.present(one(), 5, at(8.0)), Cohort::Later(at(9.5)));
        assert_eq!(availability.present([].into_iter(), 5, at(8.0)), Cohort::Now(vec![]));
        let gone = AvailabilityRules {
            stay: ScalarDistribution::constant(3.0),
            ..AvailabilityRules::default()
        };
        let gone = Availability::new(gone, 3, Vec::new());
        assert_eq!(gone.present(one(), 5, at(2.9)), Cohort::Now(vec![ClientId(1)]));
        assert_eq!(gone.present(one(), 5, at(3.0)), Cohort::Never);
    }
}
