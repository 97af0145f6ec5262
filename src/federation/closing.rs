//! Rule for the closing of a round, with three parameters.
//!
//! A round closes when enough updates have arrived, or at its deadline if at least the least number have, and in any
//! case when no more can arrive.
//!
//! Waiting for all, deadlines, quorums and k of n are settings of it. An upload that arrives after its round has closed
//! is late: charged, and discarded, or [aggregated](LatePolicy::Aggregate) into a later round with the weight that its
//! staleness leaves.
//!
//! With [`ClosingGoal::Buffer`] rounds do not wait for a cohort: they close when a given number of updates have
//! arrived, of any round, and new clients replace those that came back (FedBuff: Nguyen et al., "Federated Learning
//! with Buffered Asynchronous Aggregation", AISTATS 2022). As the model does not change between aggregations, clients
//! that come back within a buffer are replaced when it is full.
//!
//! ```
//! use fedcast::federation::{ClosingRules, ClosingGoal};
//! let quorum = ClosingRules { enough: ClosingGoal::Share(0.8), ..ClosingRules::default() };
//! assert_eq!(quorum.of(10, 1.0).enough, 8);
//! let first = ClosingRules { enough: ClosingGoal::Target, ..ClosingRules::default() };
//! assert_eq!(first.of(13, 1.3).enough, 10); // thirteen were asked where ten were wanted
//! ```

use crate::numerics::share::{floor, least_share_of};
use crate::quantity::VirtualTime;

/// Rule for late uploads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LatePolicy {
    /// Discarded.
    #[default]
    Drop,
    /// Aggregated into the open round of its phase.
    Aggregate(Staleness),
}

/// Discount of an update by the number of aggregations since its download was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staleness {
    /// The weight is `(1 + staleness)^-power`.
    pub power: f64,
    /// Maximum staleness; an older update is discarded.
    pub most: u32,
}

impl Staleness {
    /// Returns the factor on the weight of an update of this staleness, or `None` if it is too old.
    pub fn weight(&self, staleness: u32) -> Option<f64> {
        (staleness <= self.most).then(|| libm::pow(1.0 + f64::from(staleness), -self.power))
    }
}

/// Number of updates that are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClosingGoal {
    /// The updates of all participants.
    #[default]
    All,
    /// This number of updates, of any round.
    Buffer(u32),
    /// The updates of this fraction of participants, rounded up.
    Share(f64),
    /// The number that would have been sampled without over-selection.
    Target,
}

/// Rule for the closing of rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClosingRules {
    /// Number of updates that closes a round.
    pub enough: ClosingGoal,
    /// Time after the opening at which the round closes even if updates are missing.
    pub deadline: Option<VirtualTime>,
    /// Fraction of participants whose updates have to arrive even after the deadline.
    pub least: f64,
    /// True if participants that are certain to be late are trained all the same.
    pub train_stragglers: bool,
    /// Rule for later uploads.
    pub late: LatePolicy,
}

/// Rule for the closing of a scenario's rounds, with the over-selection of their cohorts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosingPolicy {
    /// The rule.
    pub rules: ClosingRules,
    /// Ratio of sampled clients to wanted clients.
    pub over_selection: f64,
}

impl Default for ClosingPolicy {
    fn default() -> ClosingPolicy {
        ClosingPolicy { rules: ClosingRules::default(), over_selection: 1.0 }
    }
}

impl ClosingPolicy {
    /// Returns the rule for a round of `participants` participants.
    pub fn of(&self, participants: usize) -> RoundClosing {
        self.rules.of(participants, self.over_selection)
    }
}

/// The rule of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundClosing {
    /// Number of updates that closes the round; more than possible if it waits for every participant.
    pub enough: usize,
    /// Number of updates that suffices after the deadline.
    pub least: usize,
    /// Time of the deadline after the opening.
    pub deadline: Option<VirtualTime>,
    /// True if updates of earlier rounds count.
    pub any: bool,
    skip: bool,
    overdue: bool,
}

impl ClosingRules {
    /// Returns the rule for a cohort whose updates are all needed: a buffer becomes all participants.
    pub fn for_all_participants(mut self) -> ClosingRules {
        if self.is_asynchronous() {
            self.enough = ClosingGoal::All;
        }
        self
    }

    /// Returns true if rounds close with a buffer of updates; clients still at work are not sampled again.
    pub fn is_asynchronous(&self) -> bool {
        matches!(self.enough, ClosingGoal::Buffer(_))
    }

    /// Returns the rule for a round of `participants` participants that work, over-selected by a factor.
    pub fn of(&self, participants: usize, over_selection: f64) -> RoundClosing {
        let part = |share: f64| least_share_of(participants, share).min(participants);
        let enough = match self.enough {
            ClosingGoal::All => usize::MAX,
            ClosingGoal::Buffer(size) => (size as usize).max(1),
            ClosingGoal::Share(share) => part(share),
            // Inverts the over-selection, which multiplied this number and rounded up.
            ClosingGoal::Target => {
                floor(participants as f64 / over_selection.max(1.0)).max(1).min(participants)
            }
        };
        let least = match self.enough {
            ClosingGoal::Buffer(size) => least_share_of(size as usize, self.least),
            _ => part(self.least).min(enough),
        };
        let skip = !self.train_stragglers && self.late == LatePolicy::Drop;
        let any = self.is_asynchronous();
        RoundClosing { enough, least, deadline: self.deadline, any, skip, overdue: false }
    }
}

impl RoundClosing {
    /// Marks the deadline as over.
    pub fn expire(&mut self) {
        self.overdue = true;
    }

    /// Returns true if a round closes with `here` updates arrived and `out` participants missing.
    pub fn is_over(&self, here: usize, out: usize) -> bool {
        out == 0 || here >= self.enough || self.overdue && here >= self.least
    }

    /// Returns true if the round closes only when each of its `working` participants has sent or failed.
    pub fn waits_for_all(&self, working: usize) -> bool {
        self.deadline.is_none() && !self.any && self.enough >= working
    }

    /// Returns the time after opening at which the round closes in any case.
    ///
    /// Later participants are not trained.
    pub fn certain(&self) -> Option<VirtualTime> {
        self.deadline.filter(|_| self.skip && self.least == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the closing time of a round whose four updates arrive at these times.
    fn closes(mut closing: RoundClosing) -> u64 {
        let deadline = closing.deadline.map_or(u64::MAX, |at| at.0);
        let mut here = 0;
        for at in [2, 4, 9, 100] {
            if at > deadline {
                closing.expire();
                if closing.is_over(here, 4 - here) {
                    return deadline;
                }
            }
            here += 1;
            if closing.is_over(here, 4 - here) {
                return at;
            }
        }
        u64::MAX
    }

    #[test]
    fn a_round_takes_as_long_as_its_rule_says() {
        let rules = |enough, deadline, least| ClosingRules {
            enough,
            deadline,
            least,
            ..ClosingRules::default()
        };
        let takes = |rules: ClosingRules| closes(rules.of(4, 2.0));
        let at = |time| Some(VirtualTime(time));
        assert_eq!(takes(rules(ClosingGoal::All, None, 0.0)), 100);
        assert_eq!(takes(rules(ClosingGoal::All, at(50), 0.0)), 50);
        assert_eq!(takes(rules(ClosingGoal::All, at(3), 0.5)), 4);
        assert_eq!(takes(rules(ClosingGoal::Share(0.7), None, 0.0)), 9);
        assert_eq!(takes(rules(ClosingGoal::Share(0.7), at(5), 0.0)), 5);
        assert_eq!(takes(rules(ClosingGoal::Target, None, 0.0)), 4);
        let asked = |wanted: f64, over: f64| (wanted * over).ceil() as usize;
        for (wanted, over) in [(3, 1.6), (10, 1.3), (7, 1.0), (1, 9.5)] {
            let closing =
                rules(ClosingGoal::Target, None, 0.0).of(asked(wanted as f64, over), over);
            assert_eq!(closing.enough, wanted, "{wanted} x {over}");
        }
        assert!(ClosingRules::default().of(0, 1.0).is_over(0, 0));
    }

    #[test]
    fn a_round_is_over_when_its_rule_says_or_nothing_more_can_come() {
        let rules = ClosingRules {
            enough: ClosingGoal::Share(0.5),
            least: 0.25,
            ..ClosingRules::default()
        };
        let mut closing = rules.of(8, 1.0);
        let over = |closing: &RoundClosing| {
            [(1, 7), (2, 6), (4, 4), (0, 0)].map(|(h, o)| closing.is_over(h, o))
        };
        assert_eq!(over(&closing), [false, false, true, true]);
        closing.expire();
        assert_eq!(over(&closing), [false, true, true, true]);
    }

    #[test]
    fn only_rounds_that_leave_no_update_out_wait_for_all() {
        let rules = |enough| ClosingRules { enough, ..ClosingRules::default() };
        let waits = |rules: ClosingRules| rules.of(4, 2.0).waits_for_all(4);
        assert!(waits(rules(ClosingGoal::All)) && waits(rules(ClosingGoal::Share(1.0))));
        assert!(!waits(rules(ClosingGoal::Share(0.75))) && !waits(rules(ClosingGoal::Target)));
        assert!(!waits(rules(ClosingGoal::Buffer(9))));
        assert!(waits(rules(ClosingGoal::Buffer(9)).for_all_participants()));
        let deadline = Some(VirtualTime(50));
        assert!(!waits(ClosingRules { deadline, ..ClosingRules::default() }));
    }

    #[test]
    fn a_buffer_takes_updates_of_any_round_and_the_old_count_less() {
        let late = LatePolicy::Aggregate(Staleness { power: 0.5, most: 8 });
        let enough = ClosingGoal::Buffer(3);
        let rules = ClosingRules { enough, late, least: 0.5, ..ClosingRules::default() };
        let mut closing = rules.of(2, 1.0);
        assert_eq!((closing.enough, closing.least), (3, 2));
        assert!(!closing.is_over(2, 1) && closing.is_over(3, 1));
        closing.expire();
        assert!(closing.is_over(2, 1) && !closing.is_over(1, 1));
        assert!(!rules.for_all_participants().of(2, 1.0).is_over(2, 1));
        let staleness = Staleness { power: 0.5, most: 8 };
        assert_eq!([0, 3, 8].map(|s| staleness.weight(s)), [Some(1.0), Some(0.5), Some(1.0 / 3.0)]);
        assert_eq!(staleness.weight(9), None);
    }
}
