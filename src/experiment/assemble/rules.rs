//! The scenario's sections as the federation's rules.

use std::sync::Arc;

use crate::data::TaskSequence;
use crate::federation::arrivals::ArrivalRules;
use crate::federation::availability::AvailabilityRules;
use crate::federation::privacy::{FixedPoint, Noise, NoiseTarget, PrivacyRules, SecureAggregation};
use crate::federation::{
    ClosingGoal, ClosingPolicy, ClosingRules, ComputeRules, Fault, FaultRules, LatePolicy,
    LinkRules, Rules, Staleness,
};
use crate::quantity::{ClientId, Round, TaskId, VirtualTime};
use crate::scenario::{
    ArrivalChoice, AvailabilitySection, Close, FaultSection, OptionalMetric, PrivacySection,
    RoundSection, SavedModels, Scenario, Stragglers,
};

/// Returns all rules of a run over these tasks.
pub fn rules(scenario: &Scenario, task_sequence: &TaskSequence) -> Rules {
    Rules {
        seed: scenario.seed.run,
        clients: scenario.federation.clients,
        idle: scenario.federation.idle_clients,
        load: scenario.federation.load_clients,
        dummy_clients: scenario.federation.dummy_clients.clone(),
        rounds: scenario.federation.rounds,
        participation: scenario.participation.clone(),
        closing: closing(&scenario.round),
        aggregation: scenario.federation.aggregation,
        arrivals: match &task_sequence.client_tasks {
            Some(client_tasks) => ArrivalRules::ClientTasks(Arc::clone(client_tasks)),
            None => arrivals(&scenario.tasks.arrival),
        },
        availability: availability(&scenario.availability),
        compute: ComputeRules::from(&scenario.time),
        links: LinkRules::from(&scenario.links),
        faults: FaultRules {
            lose_down: scenario.links.loss_rate,
            lose_up: scenario.links.loss_rate,
            entries: faults(scenario),
        },
        on_bad_update: scenario.federation.on_bad_update,
        cache: scenario.wire.asset_cache,
        curve: scenario.record.evaluate,
        task_identity: scenario.record.client_tasks,
        evaluation_batch: scenario.devices.evaluation_batch as usize,
        bias: (scenario.record.metrics.contains(&OptionalMetric::FederatedBias))
            .then_some(scenario.record.bias),
        // Set by the caller, once the devices are known.
        pack: 1,
        privacy: privacy(&scenario.privacy),
        snapshots: scenario.record.checkpoint.every,
        answers: scenario.record.confusion || scenario.record.predictions,
        models: scenario.record.models != SavedModels::None,
    }
}

fn privacy(section: &PrivacySection) -> PrivacyRules {
    let numbers = FixedPoint { modulus: section.modulus, bits: section.bits };
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

fn faults(scenario: &Scenario) -> Vec<Fault> {
    let of = |(place, section): (usize, &FaultSection)| {
        let chosen =
            |share| Fault::chosen(share, scenario.federation.clients, scenario.seed.run, place);
        let named = || section.clients.iter().copied().map(ClientId).collect();
        let clients = section.fraction.map_or_else(named, chosen);
        Fault { clients, ..fault(section) }
    };
    scenario.faults.iter().enumerate().map(of).collect()
}

/// Returns one fault, for all clients.
fn fault(section: &FaultSection) -> Fault {
    let rounds = section.rounds.iter().map(|round| Round(round - 1)).collect();
    Fault { rate: section.rate, rounds, ..Fault::of(section.kind) }
}

/// Returns the rule that closes the rounds of a scenario.
pub fn round_closing(scenario: &Scenario) -> ClosingPolicy {
    let over_selection = scenario.participation.over_selection();
    ClosingPolicy { rules: closing(&scenario.round), over_selection }
}

fn closing(section: &RoundSection) -> ClosingRules {
    ClosingRules {
        enough: match section.close {
            Close::All | Close::Deadline => ClosingGoal::All,
            Close::Quorum => ClosingGoal::Share(section.quorum.unwrap_or(1.0)),
            Close::First => ClosingGoal::Target,
            Close::Buffer => ClosingGoal::Buffer(section.buffer_size.unwrap_or(1)),
        },
        deadline: section.deadline_s.map(VirtualTime::from_seconds),
        least: section.min_fraction.unwrap_or(0.0),
        late: section.staleness_exponent.map_or(LatePolicy::Drop, |power| {
            LatePolicy::Aggregate(Staleness {
                power,
                most: section.max_staleness.unwrap_or(u32::MAX),
            })
        }),
        train_stragglers: section.stragglers == Some(Stragglers::Train),
    }
}

fn arrivals(choice: &ArrivalChoice) -> ArrivalRules {
    match choice {
        // Client tasks are rules of their own.
        ArrivalChoice::Global | ArrivalChoice::ClientTasks { .. } => ArrivalRules::Global,
        ArrivalChoice::Lag { lag_s } => ArrivalRules::Lag(lag_s.distribution()),
        ArrivalChoice::File { lines, .. } => {
            let of = |(client, task, at): &(u32, u16, f64)| {
                ((TaskId(task - 1), ClientId(*client)), VirtualTime::from_seconds(*at))
            };
            ArrivalRules::Trace(Arc::new(lines.iter().map(of).collect()))
        }
        ArrivalChoice::Paced { early_fraction: ahead, lead_fraction: lead } => {
            ArrivalRules::Paced { ahead: *ahead, lead: *lead }
        }
    }
}

fn availability(section: &AvailabilitySection) -> AvailabilityRules {
    let pattern = section.pattern.clone();
    AvailabilityRules {
        pattern,
        join: section.join_s.distribution(),
        stay: section.stay_s.distribution(),
    }
}
