//! Checks of settings for rounds that do not exist, and of robust means over too few uploads.
//!
//! Over very few uploads a robust mean equals the plain one.

use super::Uses;
use crate::numerics::share::share_of;
use crate::policy::CohortRule;
use crate::scenario::{
    AggregationRule, Cadence, Close, EpochSchedule, Ignored, RoundSchedule, Scenario,
};

impl Uses {
    /// Returns the keys of a scenario without effect in its rounds, or with too few uploads for it.
    pub(super) fn unreached(&self, scenario: &Scenario) -> Vec<Ignored> {
        let mut ignored = Vec::new();
        ignored.extend(self.plain_mean(scenario));
        ignored.extend(self.schedules(scenario));
        ignored.extend(self.late_faults(scenario));
        if let Cadence::Rounds(every) = scenario.record.checkpoint.every
            && u64::from(every) > self.all_rounds()
        {
            let key = "record.checkpoint.every";
            let rounds = self.all_rounds();
            ignored.push(Ignored::new(
                key,
                format!("{key} = {every} is never reached: the run has {rounds} rounds"),
            ));
        }
        ignored
    }

    /// Returns the number of rounds of the whole run.
    fn all_rounds(&self) -> u64 {
        self.phases.iter().map(|phase| u64::from(phase.rounds)).sum()
    }

    /// Returns the number of rounds of the longest phase of a task in which clients train.
    fn longest(&self) -> u32 {
        let trained = self.phases.iter().filter(|phase| phase.trains);
        trained.map(|phase| phase.rounds).max().unwrap_or(0)
    }

    /// Returns the maximum number of uploads that a round aggregates.
    fn most_uploads(&self, scenario: &Scenario) -> usize {
        let clients = scenario.federation.clients;
        if let (Close::Buffer, Some(buffer)) = (scenario.round.close, scenario.round.buffer_size) {
            return buffer as usize;
        }
        let sampled = self.phases.iter().all(|phase| phase.cohort == CohortRule::Sampled);
        let asked = if sampled { scenario.participation.participants.of(clients) } else { clients };
        let over = scenario.participation.over_selection();
        let asked = (f64::from(asked) * over).ceil().min(f64::from(clients)) as usize;
        asked * scenario.federation.dummy_clients.count as usize
    }

    /// Returns the aggregation rule if too few uploads make it the plain mean, or nearly.
    fn plain_mean(&self, scenario: &Scenario) -> Option<Ignored> {
        // Late uploads join those of a round, and their number is not known.
        if scenario.round.aggregates_late() && scenario.round.close != Close::Buffer {
            return None;
        }
        let most = self.most_uploads(scenario);
        let uploads = if most == 1 { "1 upload".to_owned() } else { format!("{most} uploads") };
        let message = match scenario.federation.aggregation {
            AggregationRule::TrimmedMean { trim_fraction: trim } if trim <= 0.0 => {
                "federation.trim_fraction = 0 has no effect: nothing is left out of the mean"
                    .to_owned()
            }
            AggregationRule::TrimmedMean { trim_fraction: trim }
                if AggregationRule::cut(trim, most) == 0 =>
            {
                let enough = least_trimmed(trim);
                format!(
                    "federation.trim_fraction = {trim} has no effect: of at most {uploads} per round it leaves out none; from \
                     {enough} on it leaves out one at each end"
                )
            }
            AggregationRule::Median if most <= 2 => format!(
                "federation.aggregation = \"median\" has no effect against outliers: the median of at most {uploads} per \
                 round is their unweighted mean"
            ),
            _ => return None,
        };
        // The aggregation rule is always written, `trim_fraction` may be a default.
        Some(Ignored::new("federation.aggregation", message))
    }

    /// Returns the schedules of the learning rate that never change it.
    fn schedules(&self, scenario: &Scenario) -> Vec<Ignored> {
        let (client, longest) = (&scenario.client, self.longest());
        let mut ignored = Vec::new();
        if longest == 0 {
            return ignored;
        }
        let rounds = if longest == 1 { "1 round".to_owned() } else { format!("{longest} rounds") };
        let key = "client.round_schedule";
        match &client.round_schedule {
            RoundSchedule::Cosine { .. } if longest == 1 => ignored.push(Ignored::new(
                key,
                format!("{key} has no effect: a task has 1 round, whose rate is the first"),
            )),
            RoundSchedule::MultiStep { factor, .. } if *factor >= 1.0 => ignored
                .push(Ignored::new(key, format!("{key} has no effect: its factor is {factor}"))),
            RoundSchedule::MultiStep { milestones, .. } => {
                let late: Vec<String> = milestones
                    .iter()
                    .filter(|milestone| **milestone >= longest)
                    .map(u32::to_string)
                    .collect();
                if !late.is_empty() {
                    let all = late.len() == milestones.len();
                    let whole = if all { "has no effect" } else { "only applies partly" };
                    let message = format!(
                        "{key} {whole}: a task has {rounds}, counted from 0, and milestones {} are never reached",
                        late.join(", ")
                    );
                    ignored.push(Ignored::new(key, message).partly(!all));
                }
            }
            RoundSchedule::Constant | RoundSchedule::Cosine { .. } => {}
        }
        if client.epoch_schedule != EpochSchedule::Constant
            && client.epochs == 1
            && self.counting().is_none()
        {
            let key = "client.epoch_schedule";
            let message =
                format!("{key} has no effect: a round has 1 epoch, whose rate is the first");
            ignored.push(Ignored::new(key, message));
        }
        ignored
    }

    /// Returns the faults that refer to rounds after the last one.
    fn late_faults(&self, scenario: &Scenario) -> Option<Ignored> {
        let all = self.all_rounds();
        let late = scenario.faults.iter().flat_map(|fault| &fault.rounds);
        let late: Vec<String> =
            late.filter(|round| u64::from(**round) > all).map(u32::to_string).collect();
        let message = format!(
            "faults.rounds: the run has {all} rounds, and nothing happens in rounds {}",
            late.join(", ")
        );
        let key = scenario
            .fault_key("rounds", |fault| fault.rounds.iter().any(|round| u64::from(*round) > all));
        key.map(|key| Ignored::new(key, message))
    }
}

/// Returns the smallest number of uploads of which a trimmed mean leaves out any.
fn least_trimmed(trim: f64) -> usize {
    let about = (1.0 / trim).floor().min(1e9) as usize;
    let mut from = about.saturating_sub(1)..=about.saturating_add(2);
    from.find(|updates| share_of(*updates, trim) > 0 && *updates > 2).unwrap_or(about.max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_trimmed_is_the_smallest_count_that_is_trimmed() {
        for trim in [0.1, 0.2, 0.25, 0.3, 0.34, 0.4, 0.49, 0.05, 0.01] {
            let least = least_trimmed(trim);
            assert!(AggregationRule::cut(trim, least) > 0, "{trim}: {least}");
            assert_eq!(AggregationRule::cut(trim, least - 1), 0, "{trim}: {least}");
        }
        assert_eq!((least_trimmed(0.1), least_trimmed(0.34), least_trimmed(0.49)), (10, 3, 3));
    }
}
