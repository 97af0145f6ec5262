//! When a round closes: one rule with three parameters. It closes when enough updates are there, or at
//! its deadline if at least the least number are, and in any case when nothing more can come.
//!
//! Waiting for all, deadlines, quorums and k of n are settings of it. What arrives after a round has
//! closed is late: charged, and thrown away, or [aggregated](Late::Aggregate) into a later round with the weight that
//! its staleness leaves.
//!
//! With [`ClosingGoal::Buffer`] nobody waits for a cohort: rounds close when so many updates are there, of
//! whichever round, and new clients are asked for those that came back (FedBuff: Nguyen et al.,
//! "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022). As the model does
//! not change between aggregations, who comes back within a buffer is replaced when it is full.
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

/// What becomes of an update whose round has closed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LatePolicy {
    /// It is thrown away.
    #[default]
    Drop,
    /// It goes into the open round of its phase.
    Fold(Staleness),
}

/// What an update is worth that many aggregations after its download was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Staleness {
    /// The weight is `(1 + staleness)^-power`.
    pub power: f64,
    /// Beyond so many aggregations it is thrown away.
    pub most: u32,
}

impl Staleness {
    /// What is left of the weight of an update so many aggregations old; none if it is too old.
    pub fn weight(&self, staleness: u32) -> Option<f64> {
        (staleness <= self.most).then(|| libm::pow(1.0 + f64::from(staleness), -self.power))
    }
}

/// How many updates are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ClosingGoal {
    /// Those of all participants.
    #[default]
    All,
    /// So many, of whichever round.
    Buffer(u32),
    /// Those of this share of participants, rounded up.
    Share(f64),
    /// As many as would have been asked without over-selection.
    Target,
}

/// When rounds close.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClosingRules {
    /// When so many updates are there.
    pub enough: ClosingGoal,
    /// Or so long after the round was opened.
    pub deadline: Option<VirtualTime>,
    /// But not before the updates of this share of participants are there.
    pub least: f64,
    /// Whether participants of which it is certain that they come too late are computed all the same.
    pub train_stragglers: bool,
    /// What becomes of what comes later.
    pub late: LatePolicy,
}

/// When the rounds of a scenario close, whose cohorts are over-selected by a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosingPolicy {
    /// The rule.
    pub rules: ClosingRules,
    /// How many times more clients are sampled than wanted.
    pub over_selection: f64,
}

impl Default for ClosingPolicy {
    fn default() -> ClosingPolicy {
        ClosingPolicy { rules: ClosingRules::default(), over_selection: 1.0 }
    }
}

impl ClosingPolicy {
    /// For a round of so many participants.
    pub fn of(&self, participants: usize) -> RoundClosing {
        self.rules.of(participants, self.over_selection)
    }
}

/// The rule of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundClosing {
    /// It closes when so many updates are there; more than there can be where it waits for every participant.
    pub enough: usize,
    /// After its deadline, so many will do.
    pub least: usize,
    /// How long after the opening that is.
    pub deadline: Option<VirtualTime>,
    /// Whether updates that earlier rounds asked for are among them.
    pub any: bool,
    skip: bool,
    overdue: bool,
}

impl ClosingRules {
    /// The same for a cohort that must be heard as a whole.
    pub fn for_everybody(mut self) -> ClosingRules {
        if self.is_asynchronous() {
            self.enough = ClosingGoal::All;
        }
        self
    }

    /// Whether clients that are still at work are not asked again.
    pub fn is_asynchronous(&self) -> bool {
        matches!(self.enough, ClosingGoal::Buffer(_))
    }

    /// For a round of so many participants that work, over-selected by this factor.
    pub fn of(&self, participants: usize, over_selection: f64) -> RoundClosing {
        let part = |share: f64| least_share_of(participants, share).min(participants);
        let enough = match self.enough {
            ClosingGoal::All => usize::MAX,
            ClosingGoal::Buffer(size) => (size as usize).max(1),
            ClosingGoal::Share(share) => part(share),
            // The whole number whose product was rounded up to get these participants.
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
    /// The deadline is over.
    pub fn expire(&mut self) {
        self.overdue = true;
    }

    /// Whether a round closes with so many updates there and so many participants still out.
    pub fn is_over(&self, here: usize, out: usize) -> bool {
        out == 0 || here >= self.enough || self.overdue && here >= self.least
    }

    /// Since its opening, when the round is over whatever happens, and who comes later need not be
    /// computed.
    pub fn certain(&self) -> Option<VirtualTime> {
        self.deadline.filter(|_| self.skip && self.least == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a round closes whose four updates arrive at these times.
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
    fn a_buffer_takes_updates_of_any_round_and_the_old_count_less() {
        let late = LatePolicy::Fold(Staleness { power: 0.5, most: 8 });
        let enough = ClosingGoal::Buffer(3);
        let rules = ClosingRules { enough, late, least: 0.5, ..ClosingRules::default() };
        let mut closing = rules.of(2, 1.0);
        assert_eq!((closing.enough, closing.least), (3, 2));
        assert!(!closing.is_over(2, 1) && closing.is_over(3, 1));
        closing.expire();
        assert!(closing.is_over(2, 1) && !closing.is_over(1, 1));
        assert!(!rules.for_everybody().of(2, 1.0).is_over(2, 1));
        let staleness = Staleness { power: 0.5, most: 8 };
        assert_eq!([0, 3, 8].map(|s| staleness.weight(s)), [Some(1.0), Some(0.5), Some(1.0 / 3.0)]);
        assert_eq!(staleness.weight(9), None);
    }
}
