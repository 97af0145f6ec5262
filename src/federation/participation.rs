//! Cohort of a round, drawn from its own stream and nothing else.
//!
//! Only clients that own data are ever drawn, so idle clients change no cohort; any round can be
//! drawn without the rounds before it.

use std::collections::BTreeSet;

use super::availability::{Availability, Cohort};
use super::error::FederationError;
use super::permutation::Permutation;
use super::rules::{DrawInterval, ParticipationSection, Population};
use crate::numerics::distributions::choose;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, Round, TaskId, VirtualTime};

/// Returns the sampled cohort of a round, sorted by client.
pub fn cohort(
    rules: &ParticipationSection,
    clients: u32,
    seed: u64,
    task: TaskId,
    round: Round,
) -> Vec<ClientId> {
    let count = rules.sampled_count(clients);
    let key = StreamKey::new(seed, Domain::Cohort);
    let mut drawn: Vec<u64> = match rules.population {
        Population::Fixed => {
            let key = key.task(u32::from(task.0));
            let key =
                if rules.draw_every == DrawInterval::Round { key.round(round.0) } else { key };
            choose(&mut key.rng(), u64::from(clients), u64::from(count))
        }
        Population::Fresh => {
            let turn = u64::from(if rules.draw_every == DrawInterval::Round {
                round.0
            } else {
                u32::from(task.0)
            });
            // A cohort never mixes two orders: when no whole cohort is left, the population starts again in another
            // order.
            let turns = u64::from(clients / count.max(1)).max(1);
            let permutation = Permutation::new(u64::from(clients), key.step(turn / turns));
            let first = (turn % turns) * u64::from(count);
            (first..first + u64::from(count)).map(|i| permutation.at(i)).collect()
        }
    };
    drawn.sort_unstable();
    drawn.into_iter().map(|client| ClientId(client as u32)).collect()
}

/// Returns the error for a method that asks every client with data in an unlimited population.
pub fn endless() -> FederationError {
    FederationError::Impossible(
        "this method needs every client that holds data, and a fresh population is unlimited\n  help: \
         set participation.population = \"fixed\""
            .into(),
    )
}

/// Returns the sampled cohort among those that can be reached at this time.
///
/// Clients are sampled in an order drawn for the round until there are enough. A cohort drawn once per task, or of
/// fresh clients, is fixed: its reachable clients take part. Clients that are `busy` for an asynchronous server take
/// part already and are not sampled again.
pub fn present(
    rules: &ParticipationSection,
    clients: u32,
    seed: u64,
    (task, round): (TaskId, Round),
    (availability, at): (&Availability, VirtualTime),
    busy: &BTreeSet<ClientId>,
) -> Cohort {
    if availability.is_always() && busy.is_empty() {
        return Cohort::Now(cohort(rules, clients, seed, task, round));
    }
    let count = (rules.sampled_count(clients) as usize).saturating_sub(busy.len());
    if count == 0 {
        return Cohort::Now(Vec::new());
    }
    let idle = |client: &ClientId| !busy.contains(client);
    if rules.population == Population::Fresh || rules.draw_every == DrawInterval::Task {
        let drawn = cohort(rules, clients, seed, task, round);
        return availability.present(drawn.into_iter().filter(idle), count, at);
    }
    let key = StreamKey::new(seed, Domain::Cohort).task(u32::from(task.0)).round(round.0);
    let order = Permutation::new(u64::from(clients), key.step(1));
    let candidates = (0..u64::from(clients)).map(|place| ClientId(order.at(place) as u32));
    availability.present(candidates.filter(idle), count, at)
}

#[cfg(test)]
mod tests {
    use super::super::rules::CohortSize;
    use super::*;

    fn rules(
        participants: CohortSize,
        draw_every: DrawInterval,
        population: Population,
    ) -> ParticipationSection {
        ParticipationSection {
            participants,
            draw_every,
            population,
            ..ParticipationSection::default()
        }
    }

    #[test]
    fn fractions_are_floored_and_never_empty() {
        let count = |fraction, clients| {
            rules(CohortSize::Fraction { fraction }, DrawInterval::Round, Population::Fixed)
                .count(clients)
        };
        assert_eq!(
            [count(0.1, 100), count(0.29, 100), count(0.05, 10), count(1.0, 7)],
            [10, 29, 1, 7]
        );
    }

    #[test]
    fn a_cohort_is_sorted_distinct_and_redrawn_per_unit() {
        let by_round =
            rules(CohortSize::Count { count: 10 }, DrawInterval::Round, Population::Fixed);
        let draw = |rules: &ParticipationSection, task, round| {
            cohort(rules, 100, 5, TaskId(task), Round(round))
        };
        let first = draw(&by_round, 0, 0);
        assert_eq!(first.len(), 10);
        assert!(first.windows(2).all(|pair| pair[0] < pair[1]));
        assert_ne!(first, draw(&by_round, 0, 1));
        let by_task = rules(CohortSize::Count { count: 10 }, DrawInterval::Task, Population::Fixed);
        assert_eq!(draw(&by_task, 0, 0), draw(&by_task, 0, 1));
        assert_ne!(draw(&by_task, 0, 0), draw(&by_task, 1, 2));
    }

    #[test]
    fn fresh_clients_do_not_come_back_until_all_were_asked() {
        let fresh = rules(CohortSize::Count { count: 7 }, DrawInterval::Round, Population::Fresh);
        let mut met = BTreeSet::new();
        for round in 0..14 {
            for client in cohort(&fresh, 100, 5, TaskId(0), Round(round)) {
                assert!(met.insert(client), "{client} came back in round {round}");
            }
        }
        assert_eq!(met.len(), 98);
        let next = cohort(&fresh, 100, 5, TaskId(0), Round(14));
        assert_eq!(next.iter().collect::<BTreeSet<_>>().len(), 7);
    }
}
