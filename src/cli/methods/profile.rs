//! Profile of a method, from its declarations: needs, ignored keys, client state and costs.

use std::sync::Arc;

use super::messages::{ReferenceClient, build};
use crate::learning::TrainingPlan;
use crate::methods::{Carried, MethodEntry, Registry, Uses};
use crate::policy::{
    CohortRule, Method, RoundContext, RoundWork, Stage, one_participant_per_client,
};
use crate::quantity::{ClientId, Round};

/// Rounds of a task and clients of a round for which costs are computed.
const ROUNDS: u32 = 5;
const CLIENTS: usize = 10;
/// Samples of each client for which costs are computed.
const SAMPLES: usize = 500;

/// Returns pairs of a topic and a statement; a topic may occur several times.
pub(super) fn of(registry: &Registry, entry: &MethodEntry) -> Vec<(&'static str, String)> {
    let reference = ReferenceClient::default();
    let Some(method) = build(registry, entry, &reference) else { return Vec::new() };
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    let needs = entry.requirements().into_iter().filter_map(|one| one.summary);
    lines.extend(needs.map(|words| ("needs", words)));
    if lines.is_empty() {
        lines.push(("needs", "any backbone".to_owned()));
    }
    lines.extend(phases(&*method, &reference).into_iter().map(|words| ("sampled", words)));
    let ignored = Uses::of(&*method, reference.facts.tasks, ROUNDS).sentences();
    lines.extend(ignored.into_iter().map(|sentence| ("ignores", sentence)));
    let kept = match method.profile().stateless {
        true => "nothing between rounds: every round may sample new clients",
        false => "state between rounds: memory grows with the clients that took part",
    };
    lines.push(("clients keep", kept.to_owned()));
    lines.push(("packs", packs(&*method, &reference)));
    let carried = Carried::of(&*method, &reference.facts).sentences();
    lines.extend(carried.into_iter().map(|sentence| ("codecs", sentence)));
    lines.extend(cost(registry, &*method, &reference).map(|words| ("cost", words)));
    lines
}

/// Describes the cohort of every phase of a task between the first and the last.
fn phases(method: &dyn Method, reference: &ReferenceClient) -> Vec<String> {
    let stage = reference.stage();
    let phases = method.phases(&stage, ROUNDS).into_iter().filter(|phase| phase.rounds > 0);
    let words = phases.map(|phase| {
        let who = match phase.cohort {
            CohortRule::Sampled => "clients sampled by [participation]",
            CohortRule::Participants => "clients that took part in the task before",
            CohortRule::Holders => "every client that holds data of the task",
        };
        format!("{}: {who}", phase.name)
    });
    let mut words: Vec<String> = words.collect();
    words.dedup();
    words
}

fn packs(method: &dyn Method, reference: &ReferenceClient) -> String {
    let stage = reference.stage();
    let phases = method.phases(&stage, ROUNDS);
    match phases.iter().map(|phase| phase.max_pack_size).max().unwrap_or(1) {
        1 => "no: clients are trained one after another on a device".to_owned(),
        usize::MAX => "yes: a GPU trains as many clients together as its memory holds".to_owned(),
        most => format!("yes: a GPU trains up to {most} clients together"),
    }
}

/// Compares the sample passes of a task with those of FedAvg.
fn cost(registry: &Registry, method: &dyn Method, reference: &ReferenceClient) -> Option<String> {
    let fedavg = build(registry, registry.find("fedavg").ok()?, reference)?;
    let (usual, _) = passes(&*fedavg, reference);
    let (clients, server) = passes(method, reference);
    Some(format!(
        "{:.2} at a client and {:.2} at the server, in units of a FedAvg client's computation in a task \
         ({CLIENTS} clients in {ROUNDS} rounds, {SAMPLES} samples each)",
        clients / usual,
        server / usual
    ))
}

/// Returns the sample passes of a client and of the server in a task.
fn passes(method: &dyn Method, reference: &ReferenceClient) -> (f64, f64) {
    let stage = reference.stage();
    let plan = TrainingPlan::default();
    let (mut client, mut server) = (0.0, 0.0);
    for (phase, listed) in method.phases(&stage, ROUNDS).iter().enumerate() {
        for round_in_phase in 0..listed.rounds {
            let round = RoundContext {
                round: Round(round_in_phase),
                phase_name: listed.name,
                round_in_phase,
                rounds_in_phase: listed.rounds,
                ..RoundContext::alone(&stage, phase)
            };
            let participants = one_participant_per_client(&stage, &[ClientId(0)]);
            let work =
                |participant| RoundWork::Participant { participant, samples: SAMPLES, plan: &plan };
            client += participants
                .iter()
                .map(|participant| method.cost(&round, &work(participant)))
                .sum::<f64>();
            server += method.cost(&round, &RoundWork::Server { updates: CLIENTS });
        }
    }
    (client, server)
}

impl ReferenceClient {
    /// Returns the stage of the second task.
    fn stage(&self) -> Stage {
        Stage::of(Arc::clone(&self.view), self.facts.tasks)
    }
}
