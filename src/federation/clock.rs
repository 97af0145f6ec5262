//! Duration of local work on the simulated clock: a model, never a measurement.
//!
//! `setup + passes * ms * slowness * jitter`: setup and slowness are drawn once per client, jitter per
//! client and round, all from [`Domain::Compute`]; rounded once to whole nanoseconds. A server draws nothing.

use super::rules::ComputeRules;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, Round, VirtualTime};

/// The cost model of a run.
#[derive(Clone, Debug)]
pub struct Clock {
    rules: ComputeRules,
    seed: u64,
}

impl Clock {
    /// Creates the clock of these rules under a run's seed.
    pub fn new(rules: ComputeRules, seed: u64) -> Clock {
        Clock { rules, seed }
    }

    /// Returns a client's slowness: the factor on its times at slowness 1.
    pub fn slowness(&self, client: ClientId) -> f64 {
        self.rules.slowness.draw(&mut self.key(client).rng())
    }

    /// Returns the time a client needs before its first sample.
    pub fn setup(&self, client: ClientId) -> VirtualTime {
        VirtualTime::from_seconds(self.setup_ms(client) / 1e3)
    }

    fn setup_ms(&self, client: ClientId) -> f64 {
        self.rules.setup_ms.draw(&mut self.key(client).step(2).rng())
    }

    fn key(&self, client: ClientId) -> StreamKey {
        StreamKey::new(self.seed, Domain::Compute).client(client.0)
    }

    /// Returns the time of `passes` sample passes by a client in a round.
    ///
    /// `unit` separates the client's participants.
    pub fn work(&self, client: ClientId, round: Round, unit: u32, passes: f64) -> VirtualTime {
        if self.rules.is_ideal() {
            return VirtualTime::ZERO;
        }
        let key = self.key(client).round(round.0).unit(unit).step(1);
        let jitter = self.rules.jitter.draw(&mut key.rng());
        let work = passes * self.rules.sample_ms * self.slowness(client) * jitter;
        VirtualTime::from_seconds((self.setup_ms(client) + work) / 1e3)
    }

    /// Returns the time of `passes` sample passes by the server.
    pub fn server(&self, passes: f64) -> VirtualTime {
        VirtualTime::from_seconds(passes * self.rules.sample_ms * self.rules.server_slowness / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::testing::mobile_compute;

    #[test]
    fn a_server_takes_its_passes_at_its_own_slowness() {
        assert_eq!(Clock::new(ComputeRules::IDEAL, 1).server(1e6), VirtualTime::ZERO);
        let rules = ComputeRules { server_slowness: 0.25, ..mobile_compute() };
        assert_eq!(Clock::new(rules, 1).server(10.0), VirtualTime::from_seconds(0.034));
    }

    #[test]
    fn ideal_work_is_free_and_mobile_work_scales_with_passes() {
        let ideal = Clock::new(ComputeRules::IDEAL, 1);
        assert_eq!(ideal.work(ClientId(3), Round(2), 0, 1e6), VirtualTime::ZERO);
        let mobile = Clock::new(mobile_compute(), 1);
        let once = mobile.work(ClientId(3), Round(2), 0, 100.0).0;
        let twice = mobile.work(ClientId(3), Round(2), 0, 200.0).0;
        assert!(twice.abs_diff(2 * once) <= 2, "{once} {twice}");
        assert_ne!(once, mobile.work(ClientId(4), Round(2), 0, 100.0).0);
        assert_ne!(once, mobile.work(ClientId(3), Round(3), 0, 100.0).0);
    }

    #[test]
    fn slowness_has_the_median_and_spread_of_its_law() {
        let clock = Clock::new(mobile_compute(), 9);
        let mut logs: Vec<f64> =
            (0..4001).map(|c| libm::log(clock.slowness(ClientId(c)))).collect();
        let mean_square = logs.iter().map(|l| l * l).sum::<f64>() / 4001.0;
        assert!((mean_square.sqrt() - 0.6).abs() < 0.03, "{mean_square}");
        logs.sort_by(f64::total_cmp);
        assert!(logs[2000].abs() < 0.04, "{}", logs[2000]);
    }
}
