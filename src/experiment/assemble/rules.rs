//! The scenario's sections as the federation's rules.

use crate::federation::privacy::{
    FixedPoint, Modulus, Noise, NoiseTarget, PrivacyRules, SecureAggregation,
};
use crate::federation::{
    AssetCache, ComputeRules, Curve, FaultRules, LinkRules, OnBadUpdate, Participation, Population,
    Rules, Share, Unit, UnitRules,
};
use crate::scenario::{
    self, Cache, Evaluate, LinksSection, Metric, Participants, ParticipationSection,
    PrivacySection, RingSize, Scenario, TimeSection,
};

/// All rules of a run.
pub fn rules(scenario: &Scenario) -> Rules {
    Rules {
        seed: scenario.seed.run,
        clients: scenario.federation.clients,
        idle: scenario.federation.idle_clients,
        load: scenario.federation.load,
        units: UnitRules {
            count: scenario.federation.units.count,
            phases: scenario.federation.units.phases.clone(),
        },
        rounds: scenario.federation.rounds,
        participation: participation(&scenario.participation),
        compute: compute(&scenario.time),
        links: links(&scenario.links),
        faults: FaultRules {
            crash: scenario.faults.crash,
            lose_down: scenario.links.loss,
            lose_up: scenario.links.loss,
        },
        on_bad_update: match scenario.federation.on_bad_update {
            scenario::OnBadUpdate::Drop => OnBadUpdate::Drop,
            scenario::OnBadUpdate::Abort => OnBadUpdate::Abort,
        },
        cache: match scenario.wire.cache {
            Cache::None => AssetCache::None,
            Cache::Task => AssetCache::Task,
            Cache::Run => AssetCache::Run,
        },
        curve: match scenario.record.evaluate {
            Evaluate::Round => Curve::Round,
            Evaluate::Task => Curve::Task,
        },
        evaluation_batch: scenario.devices.evaluation_batch as usize,
        bias: scenario.record.metrics.contains(&Metric::FederatedBias),
        // Until it is known what computes.
        pack: 1,
        privacy: privacy(&scenario.privacy),
    }
}

fn privacy(section: &PrivacySection) -> PrivacyRules {
    let modulus = match section.modulus {
        RingSize::Bits32 => Modulus::Bits32,
        RingSize::Bits64 => Modulus::Bits64,
    };
    let numbers = FixedPoint { modulus, bits: section.bits };
    let threshold = section.threshold;
    PrivacyRules {
        secure: section.secure_aggregation.then_some(SecureAggregation { numbers, threshold }),
        noise: section.noise.as_ref().map(|noise| Noise {
            scale: noise.scale,
            q: noise.q,
            targets: noise.on.iter().map(|word| NoiseTarget::new(word)).collect(),
        }),
    }
}

fn participation(section: &ParticipationSection) -> Participation {
    Participation {
        share: match section.participants {
            Participants::All => Share::All,
            Participants::Fraction { fraction } => Share::Fraction(fraction),
            Participants::Count { count } => Share::Count(count),
        },
        unit: match section.unit {
            scenario::Unit::Round => Unit::Round,
            scenario::Unit::Task => Unit::Task,
        },
        population: match section.population {
            scenario::Population::Fixed => Population::Fixed,
            scenario::Population::Fresh => Population::Fresh,
        },
    }
}

fn compute(time: &TimeSection) -> ComputeRules {
    ComputeRules {
        setup_ms: time.setup_ms.law(),
        sample_ms: time.ms_per_sample,
        slowness: time.slowness.law(),
        jitter: time.jitter.law(),
    }
}

/// Bytes in a megabyte, as bandwidths count.
const MEGA: f64 = 1e6;

fn links(links: &LinksSection) -> LinkRules {
    LinkRules {
        down: links.down_mb_per_s.law().times(MEGA),
        up: links.up_mb_per_s.law().times(MEGA),
        correlation: links.correlation,
        round_trip_ms: links.rtt_ms.law(),
        jitter: links.jitter.law(),
        server_down: links.server_down_mb_per_s * MEGA,
        server_up: links.server_up_mb_per_s * MEGA,
    }
}
