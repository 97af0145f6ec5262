//! Division of a cohort into clients that learn in a round, and clients that review.

use clap::ValueEnum;

use crate::methods::parts::Roles;
use crate::numerics::distributions::{choose, shuffle};
use crate::numerics::share::{ceil, floor};
use crate::numerics::streams::Domain;
use crate::policy::{Participant, Role, RoundContext, one_participant_per_client};
use crate::quantity::{ClientId, ParticipantId};
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Source of most defaults.
pub(super) const RELEASE: &str = "the release";

/// Role of a reviewer; learners have the role 0.
pub const REVIEWER: Role = Role(1);

/// Rounding of a fraction of the clients to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Rounding {
    /// Down: of two clients none reviews.
    Down,
    /// Up.
    Up,
}

impl Rounding {
    /// Returns the number of clients that make up `share` of `clients`, rounded by this rule.
    pub fn of(self, share: f64, clients: usize) -> usize {
        let exact = share * clients as f64;
        let count = if self == Rounding::Down { floor(exact) } else { ceil(exact) };
        count.min(clients)
    }
}

/// Draw of reviewers: independent of learners, or apart from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum RoleAssignment {
    /// Independent of learners: a client may do both, and then counts twice.
    Independently,
    /// From the clients that do not learn.
    Apart,
}

/// Division of a cohort into learners and reviewers, from the second task on.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct CohortDivision {
    /// Fraction of a round's clients that learn.
    #[key(default = 0.6, at_least = 0.0, at_most = 1.0, source = RELEASE)]
    pub learners: f64,
    /// Fraction of a round's clients that review.
    #[key(default = 0.4, at_least = 0.0, at_most = 1.0, source = RELEASE)]
    pub reviewers: f64,
    /// Draw of reviewers, independent of learners or apart from them.
    #[key(default = RoleAssignment::Independently, source = RELEASE)]
    pub drawn: RoleAssignment,
    /// Rounding of these fractions to numbers of clients.
    #[key(default = Rounding::Down, source = RELEASE)]
    pub rounding: Rounding,
}

impl Roles for CohortDivision {
    fn roles(&self) -> Vec<(Role, &'static str)> {
        vec![(Role::default(), "learner"), (REVIEWER, "reviewer")]
    }

    /// Returns the participants of a round: learners, then reviewers.
    ///
    /// In the first task all clients learn. At least one client always has a role.
    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        let all = one_participant_per_client(&round.stage, cohort);
        if round.stage.task.0 == 0 {
            return all;
        }
        let count = |share| self.rounding.of(share, all.len());
        let (learners, reviewers) = (count(self.learners), count(self.reviewers));
        let (first, second) = self.places(round, all.len(), (learners, reviewers));
        let learn = first.into_iter().map(|place| all[place].clone());
        let review =
            second.into_iter().map(|place| Participant { role: REVIEWER, ..all[place].clone() });
        let mut participants: Vec<Participant> = learn.chain(review).collect();
        if participants.is_empty() {
            participants.extend(all.into_iter().take(1));
        }
        let numbered = (0..).zip(participants);
        numbered
            .map(|(place, participant)| Participant { id: ParticipantId(place), ..participant })
            .collect()
    }
}

impl CohortDivision {
    fn check(&self, table: &mut TableReader<'_>) {
        if self.drawn == RoleAssignment::Apart && self.learners + self.reviewers > 1.0 + 1e-9 {
            let message = "`learners` and `reviewers` sum to more than 1";
            let help = "set both to a sum of at most 1, or set `drawn = \"independently\"`";
            table.reject("reviewers", message, "too many", help);
        }
    }

    /// Returns the indices of learners and of reviewers in the cohort, ascending.
    fn places(
        &self,
        round: &RoundContext,
        clients: usize,
        (learners, reviewers): (usize, usize),
    ) -> (Vec<usize>, Vec<usize>) {
        let key = round.key(Domain::Method);
        match self.drawn {
            RoleAssignment::Independently => {
                let draw = |step, count: usize| {
                    let drawn = choose(&mut key.step(step).rng(), clients as u64, count as u64);
                    drawn.into_iter().map(|place| place as usize).collect()
                };
                (draw(0, learners), draw(1, reviewers))
            }
            RoleAssignment::Apart => {
                let mut order: Vec<usize> = (0..clients).collect();
                shuffle(&mut key.step(2).rng(), &mut order);
                let mut second = order.split_off(learners);
                second.truncate(reviewers);
                order.sort_unstable();
                second.sort_unstable();
                (order, second)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::TaskView;
    use crate::golden::Golden;
    use crate::policy::Stage;
    use crate::quantity::{Round, TaskId};

    #[test]
    fn golden_cfed_roles() {
        let Some(golden) = Golden::open("cfed") else { return };
        let of = |share| {
            let counts = golden.i64("roles.m").into_iter();
            counts.map(|m| Rounding::Down.of(share, m as usize) as i64).collect::<Vec<i64>>()
        };
        assert_eq!(of(0.6), golden.i64("roles.learners"));
        assert_eq!(of(0.4), golden.i64("roles.reviewers"));
        assert_eq!((Rounding::Up.of(0.4, 2), Rounding::Up.of(0.4, 5)), (1, 2));
    }

    fn context(task: u16, round: u32) -> RoundContext {
        let view = Arc::new(TaskView { task: TaskId(task), rows: 0..2, classes: vec![0, 1] });
        RoundContext {
            round: Round(round),
            stage: Stage::of(view, 3),
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 9,
            run_seed: 7,
        }
    }

    /// CFed card, invariant 4: every round has a fixed number of each role, and each client reviews in four of ten
    /// rounds. With `drawn = "apart"` no client has both roles.
    #[test]
    fn roles_are_dealt_evenly() {
        let cohort: Vec<ClientId> = (10..20).map(ClientId).collect();
        for drawn in [RoleAssignment::Independently, RoleAssignment::Apart] {
            let (learners, reviewers, rounding) = (0.6, 0.4, Rounding::Down);
            let division = CohortDivision { learners, reviewers, rounding, drawn };
            let (mut reviews, mut twice) = ([0; 10], 0);
            for round in 0..2_000 {
                let participants = division.participants(&context(1, round), &cohort);
                let (review, learn): (Vec<&Participant>, Vec<&Participant>) =
                    participants.iter().partition(|participant| participant.role == REVIEWER);
                assert_eq!((learn.len(), review.len()), (6, 4));
                assert!(
                    participants
                        .iter()
                        .enumerate()
                        .all(|(at, participant)| participant.id.index() == at)
                );
                for participant in review {
                    reviews[participant.client.0 as usize - 10] += 1;
                    twice +=
                        learn.iter().filter(|other| other.client == participant.client).count();
                }
            }
            // 800 of 2,000 each; five deviations of a binomial are 110.
            assert!(reviews.iter().all(|count| (690..910).contains(count)), "{reviews:?}");
            let both = twice as f64 / 2_000.0;
            match drawn {
                RoleAssignment::Independently => assert!((both - 2.4).abs() < 0.15, "{both}"),
                RoleAssignment::Apart => assert_eq!(twice, 0),
            }
            assert_eq!(division.participants(&context(0, 3), &cohort).len(), 10);
            assert_eq!(division.participants(&context(1, 3), &cohort[..1]).len(), 1);
        }
    }
}
