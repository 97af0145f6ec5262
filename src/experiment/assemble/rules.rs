//! The scenario's sections as the federation's rules.

use crate::federation::{
    AssetCache, ComputeRules, Curve, FaultRules, LinkRules, OnBadUpdate, Participation, Population,
    Rules, Share, Unit,
};
use crate::scenario::{
    self, Cache, Evaluate, LinksPreset, LinksSection, Metric, Participants, ParticipationSection,
    Scenario, TimePreset, TimeSection,
};

/// All rules of a run.
pub fn rules(scenario: &Scenario) -> Rules {
    Rules {
        seed: scenario.seed.run,
        clients: scenario.federation.clients,
        idle: scenario.federation.idle_clients,
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
    match time.preset {
        TimePreset::Ideal | TimePreset::Mobile => ComputeRules {
            setup_ms: time.setup_ms,
            sample_ms: time.ms_per_sample,
            speed_sigma: time.speed_sigma,
            jitter_sigma: time.jitter_sigma,
        },
    }
}

fn links(links: &LinksSection) -> LinkRules {
    // The reader fills a preset's numbers in, so the preset itself says nothing more here; a
    // bandwidth of zero stands for "no limit".
    let bandwidth = |mb_per_s: f64| (mb_per_s > 0.0).then_some(mb_per_s * 1e6);
    match links.preset {
        LinksPreset::Ideal | LinksPreset::Mobile => LinkRules {
            down: bandwidth(links.down_mb_per_s),
            down_sigma: links.down_sigma,
            up: bandwidth(links.up_mb_per_s),
            up_sigma: links.up_sigma,
            correlation: links.correlation,
            round_trip_ms: links.rtt_ms,
            round_trip_tail_ms: links.rtt_extra_ms,
            round_trip_cap_ms: links.rtt_cap_ms,
            jitter_sigma: links.jitter_sigma,
        },
    }
}
