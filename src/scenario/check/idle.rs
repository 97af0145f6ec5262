//! Settings without an effect whatever the method. They are no error, but `check` and `run` report them.

use crate::scenario::distribution::DistributionSection;
use crate::scenario::{
    ArrivalChoice, AvailabilityPattern, ClassOrder, CohortSize, Compared, DrawInterval,
    DummyClientSplit, FaultKind, Forgery, Ignored, Modulus, OptionalMetric, Population, Scenario,
    StatisticsTransform,
};

impl Scenario {
    /// Returns settings without an effect, in the order of the file.
    pub(in crate::scenario) fn idle(&self) -> Vec<Ignored> {
        let mut idle = Vec::new();
        self.idle_data(&mut idle);
        self.idle_participation(&mut idle);
        self.idle_round(&mut idle);
        self.idle_availability(&mut idle);
        self.idle_clock(&mut idle);
        self.idle_faults(&mut idle);
        self.idle_privacy(&mut idle);
        if self.record.bias != Compared::First
            && !self.record.metrics.contains(&OptionalMetric::FederatedBias)
        {
            say(&mut idle, "record.bias", "`federated-bias` is not among record.metrics");
        }
        idle
    }

    /// Notes seeds and transforms that are not used, and dummy clients that are whole shards.
    fn idle_data(&self, idle: &mut Vec<Ignored>) {
        let powder = matches!(self.tasks.arrival, ArrivalChoice::ClientTasks { .. });
        let seeds = &self.seed;
        // A seed that is not written has one of these values.
        let own = ![seeds.partition, seeds.run, 0].contains(&seeds.class_order);
        if own && self.tasks.order == ClassOrder::Native && !powder {
            say(idle, "seed.class_order", "tasks.order is \"native\"");
        }
        let data = &self.data;
        if !self.client.augment
            && data.train != data.test
            && data.statistics != StatisticsTransform::Train
        {
            say(idle, "data.train", "client.augment is false, so clients train on [data.test]");
        }
        let units = &self.federation.dummy_clients;
        if units.count == 1 {
            for (key, set) in [
                ("federation.dummy_clients.split", units.split != DummyClientSplit::Even),
                ("federation.dummy_clients.phases", units.phases != ["statistics"]),
            ] {
                if set {
                    say(idle, key, "federation.dummy_clients.count is 1");
                }
            }
        } else if units.phases.is_empty() {
            say(idle, "federation.dummy_clients.count", "federation.dummy_clients.phases is empty");
        }
    }

    /// Notes sampling that takes every client.
    fn idle_participation(&self, idle: &mut Vec<Ignored>) {
        let clients = self.federation.clients;
        let participation = &self.participation;
        let takes_all = participation.participants.of(clients) == clients
            && participation.population == Population::Fixed;
        if !takes_all || clients == 1 {
            return;
        }
        let written = match participation.participants {
            CohortSize::All => None,
            CohortSize::Count { count } => Some(("participation.count", f64::from(count))),
            CohortSize::Fraction { fraction } => Some(("participation.fraction", fraction)),
        };
        if let Some((key, value)) = written {
            let message =
                format!("{key} = {value} has no effect: it samples all of {clients} clients");
            idle.push(Ignored::new(key, message));
        }
        if participation.draw_every == DrawInterval::Task {
            say(idle, "participation.draw_every", "every client is sampled in every round");
        }
    }

    /// Notes deadlines that every client meets.
    fn idle_round(&self, idle: &mut Vec<Ignored>) {
        let lost = self.links.loss_rate > 0.0 || !self.faults.is_empty();
        let stays = self.availability.pattern == AvailabilityPattern::Always
            && is_constant(&self.availability.stay_s, f64::INFINITY);
        if self.round.deadline_s.is_some() && self.is_timeless() && stays && !lost {
            say(
                idle,
                "round.deadline_s",
                "nothing takes virtual time; set `preset`, [time] or [links]",
            );
        }
    }

    /// Returns true if neither work nor messages take time.
    fn is_timeless(&self) -> bool {
        let (time, links) = (&self.time, &self.links);
        time.ms_per_sample == 0.0
            && is_constant(&time.setup_ms, 0.0)
            && is_constant(&links.rtt_ms, 0.0)
            && self.is_unlimited()
    }

    /// Returns true if bytes take no time.
    fn is_unlimited(&self) -> bool {
        let links = &self.links;
        is_constant(&links.down_mb_per_s, f64::INFINITY)
            && is_constant(&links.up_mb_per_s, f64::INFINITY)
            && links.server_down_mb_per_s.is_infinite()
            && links.server_up_mb_per_s.is_infinite()
    }

    /// Notes patterns in which every client is always available.
    fn idle_availability(&self, idle: &mut Vec<Ignored>) {
        let always = match self.availability.pattern {
            AvailabilityPattern::Diurnal { mean, depth, .. } => mean - depth >= 1.0,
            AvailabilityPattern::ByData { min_fraction: least, .. } => least >= 1.0,
            _ => false,
        };
        if always {
            say(idle, "availability.kind", "with these numbers every client is always on");
        }
    }

    /// Notes factors of times that are 0.
    fn idle_clock(&self, idle: &mut Vec<Ignored>) {
        let (time, links) = (&self.time, &self.links);
        if time.ms_per_sample == 0.0 {
            let slow = [("time.slowness", &time.slowness), ("time.jitter", &time.jitter)];
            for (key, distribution) in slow {
                if !is_constant(distribution, 1.0) {
                    say(idle, key, "time.ms_per_sample is 0, so training takes no time");
                }
            }
            if time.server_slowness != 1.0 {
                say(idle, "time.server_slowness", "time.ms_per_sample is 0");
            }
        }
        if !is_constant(&links.jitter, 1.0) && self.is_unlimited() {
            say(idle, "links.jitter", "bandwidths are infinite, so bytes take no time");
        }
        let fixed = |distribution: &DistributionSection| distribution.is_fixed();
        if links.correlation != 0.0 && (fixed(&links.down_mb_per_s) || fixed(&links.up_mb_per_s)) {
            say(idle, "links.correlation", "one of the two bandwidths is the same for all clients");
        }
    }

    /// Notes malicious updates that equal honest ones.
    fn idle_faults(&self, idle: &mut Vec<Ignored>) {
        let honest = |kind: &FaultKind| matches!(kind, FaultKind::Malicious { how: Forgery::Scaled { factor } } if *factor == 1.0);
        if let Some(key) = self.fault_key("factor", |fault| honest(&fault.kind)) {
            let message = "faults has no effect: an update scaled by factor = 1 is unchanged";
            idle.push(Ignored::new(key, message));
        }
    }

    /// Notes settings of protections that are off.
    fn idle_privacy(&self, idle: &mut Vec<Ignored>) {
        let privacy = &self.privacy;
        if !privacy.secure_aggregation {
            let digits = match privacy.modulus {
                Modulus::Bits32 => 12,
                Modulus::Bits64 => 24,
            };
            for (key, set) in [
                ("privacy.modulus", privacy.modulus != Modulus::Bits64),
                ("privacy.bits", privacy.bits != digits),
                ("privacy.threshold", privacy.threshold != 0.6667),
            ] {
                if set {
                    say(idle, key, "privacy.secure_aggregation is false");
                }
            }
        }
        if privacy.noise.as_ref().is_some_and(|noise| noise.scale * noise.q == 0.0) {
            say(idle, "privacy.noise", "q times scale is 0, so no noise is added");
        }
    }
}

/// Returns true if a distribution is this constant.
fn is_constant(distribution: &DistributionSection, value: f64) -> bool {
    *distribution == DistributionSection::constant(value)
}

fn say(idle: &mut Vec<Ignored>, key: &'static str, why: &str) {
    idle.push(Ignored::new(key, format!("{key} has no effect: {why}")));
}
