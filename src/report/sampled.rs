//! Clients sampled in the rounds of every phase.
//!
//! Methods may differ in this, so reports show it next to their results.

use serde::Serialize;

use super::tables::Phases;
use crate::document::Document;
use crate::federation::Event;

/// Number of clients sampled per round, over all phases of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Document)]
pub struct Sampled {
    /// Name of the phases.
    pub phase: String,
    /// Rounds of these phases, over all tasks.
    pub rounds: u64,
    /// Clients sampled in the round with the fewest.
    pub fewest: usize,
    /// Clients sampled in the round with the most.
    pub most: usize,
}

/// Counts sampled clients, event by event.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampling {
    phases: Phases,
    all: Vec<Sampled>,
}

impl Sampling {
    /// Adds a round if the event opens one.
    pub fn take(&mut self, event: &Event) {
        self.phases.take(event);
        let Event::RoundOpened { task, phase, cohort, .. } = event else { return };
        let (name, clients) = (self.phases.name(*task, *phase), cohort.len());
        match self.all.iter_mut().find(|sampled| sampled.phase == name) {
            Some(sampled) => {
                sampled.rounds += 1;
                sampled.fewest = sampled.fewest.min(clients);
                sampled.most = sampled.most.max(clients);
            }
            None => {
                let (fewest, most) = (clients, clients);
                self.all.push(Sampled { phase: name, rounds: 1, fewest, most });
            }
        }
    }

    /// Returns the phases in the order of their first round.
    pub fn all(&self) -> &[Sampled] {
        &self.all
    }
}

/// Returns the line of the final table, for a run with `clients` clients.
pub(super) fn sampled_line(all: &[Sampled], clients: u32) -> String {
    let count = |of: &Sampled| match of.fewest == of.most {
        true => of.most.to_string(),
        false => format!("{} to {}", of.fewest, of.most),
    };
    match all {
        [] => String::new(),
        [one] => format!("sampled     {} of {clients} clients in a round\n", count(one)),
        more => {
            let each: Vec<String> =
                more.iter().map(|of| format!("{} for {}", count(of), of.phase)).collect();
            format!("sampled     of {clients} clients in a round: {}\n", each.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::{ClientId, Round, TaskId};

    fn opened(task: u16, phase: u32, clients: u32) -> Event {
        let cohort = (0..clients).map(ClientId).collect();
        let (round, task, behind) = (Round(0), TaskId(task), vec![]);
        Event::RoundOpened { round, task, phase, cohort, participants: 9, behind }
    }

    fn phase(task: u16, phase: u32, name: &str) -> Event {
        Event::PhaseStarted { task: TaskId(task), phase, name: name.to_owned(), rounds: 1 }
    }

    #[test]
    fn phases_of_one_name_are_counted_together_over_tasks() {
        let mut sampling = Sampling::default();
        for event in [
            phase(0, 0, "train"),
            opened(0, 0, 3),
            opened(0, 0, 3),
            phase(0, 1, "statistics"),
            opened(0, 1, 7),
            phase(1, 0, "statistics"),
            opened(1, 0, 5),
        ] {
            sampling.take(&event);
        }
        let line = sampled_line(sampling.all(), 9);
        assert_eq!(
            line,
            "sampled     of 9 clients in a round: 3 for train, 5 to 7 for statistics\n"
        );
        assert_eq!(sampling.all()[0].rounds, 2);
        assert_eq!(
            sampled_line(&sampling.all()[..1], 9),
            "sampled     3 of 9 clients in a round\n"
        );
    }
}
