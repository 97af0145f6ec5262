//! Combinations that no method allows. Both scenario files and runs built in a program are checked by these rules.

/// Properties of a run that may contradict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// Uploads are summed in secret.
    pub secure: bool,
    /// The server is lost during a round.
    pub restarts: bool,
    /// Late uploads are aggregated in a later round.
    pub late: bool,
    /// Tasks reach clients at different times.
    pub mixed: bool,
    /// The server aggregates by another mean than the method's.
    pub robust: bool,
    /// Clients never come back.
    pub fresh: bool,
}

/// Two properties that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Secure aggregation and a server that restarts.
    SecureRestart,
    /// Secure aggregation and late uploads.
    SecureLate,
    /// Secure aggregation and different tasks in a round.
    SecureMixed,
    /// Secure aggregation and a robust mean.
    SecureRobust,
    /// Clients that never come back and different tasks in a round.
    FreshMixed,
}

impl Together {
    /// Returns all contradictions.
    pub fn contradictions(self) -> impl Iterator<Item = Contradiction> {
        [
            (self.secure && self.restarts, Contradiction::SecureRestart),
            (self.secure && self.late, Contradiction::SecureLate),
            (self.secure && self.mixed, Contradiction::SecureMixed),
            (self.secure && self.robust, Contradiction::SecureRobust),
            (self.fresh && self.mixed, Contradiction::FreshMixed),
        ]
        .into_iter()
        .filter_map(|(found, contradiction)| found.then_some(contradiction))
    }
}

impl Contradiction {
    /// Returns the reason of the contradiction.
    pub fn why(self) -> &'static str {
        match self {
            Contradiction::SecureRestart => {
                "secure aggregation with a restart of the server is not simulated: the server would lose the state \
                 of the protocol"
            }
            Contradiction::SecureLate => {
                "secure aggregation masks the uploads of a round with each other, so late uploads cannot be \
                 aggregated in a later round"
            }
            Contradiction::SecureMixed => {
                "secure aggregation needs uploads of the same shape, but those of different tasks differ"
            }
            Contradiction::SecureRobust => {
                "secure aggregation only shows the server the sum of uploads, which gives a mean but no robust \
                 aggregate"
            }
            Contradiction::FreshMixed => {
                "fresh clients never come back, so none of them can be at an earlier task"
            }
        }
    }

    /// Returns the keys that may cause it, the label at the one that is written, and help.
    pub(super) fn place(self) -> (&'static [&'static str], &'static str, &'static str) {
        const SECURE: &str = "privacy.secure_aggregation";
        match self {
            Contradiction::SecureRestart => (
                &["faults", SECURE],
                "the round's secrets would be lost",
                "remove the fault `server-restart`, or set `privacy.secure_aggregation = false`",
            ),
            Contradiction::SecureLate => (
                &["round.late", "round.close", SECURE],
                "late uploads cannot be unmasked",
                "set `round.late = \"drop\"`, or `privacy.secure_aggregation = false`",
            ),
            Contradiction::SecureMixed => (
                &["tasks.arrival"],
                "mixes tasks in a round",
                "set `arrival = \"global\"`, or `privacy.secure_aggregation = false`",
            ),
            Contradiction::SecureRobust => (
                &["federation.aggregation"],
                "needs to see every upload",
                "set `aggregation = \"mean\"`, or `privacy.secure_aggregation = false`",
            ),
            Contradiction::FreshMixed => (
                &["tasks.arrival"],
                "not for a fresh population",
                "set `arrival = \"global\"`, or `participation.population = \"fixed\"`",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_things_are_needed() {
        let all = Together {
            secure: true,
            restarts: true,
            late: true,
            mixed: true,
            robust: true,
            fresh: true,
        };
        assert_eq!(all.contradictions().count(), 5);
        let open = Together { secure: false, fresh: false, ..all };
        assert_eq!(open.contradictions().count(), 0);
        let fresh = Together { fresh: true, mixed: true, ..Together::default() };
        assert_eq!(fresh.contradictions().collect::<Vec<_>>(), [Contradiction::FreshMixed]);
    }
}
