//! Reads a past from the entries of a journal.

use std::sync::Arc;

use super::{Frame, RecordedParticipant, RecordedRound, RecordedRun, RecordedTraining};
use crate::federation::aggregation::RejectedUpload;
use crate::federation::bias::BiasMeasurement;
use crate::federation::event::{
    ClassScore, Direction, Entry, EvaluationPoint, Event, FrameOutcome, Numbers,
};
use crate::federation::metric_value::Digest;
use crate::learning::Tally;
use crate::quantity::{ParticipantId, Round};

/// State of the reader.
#[derive(Default)]
pub(super) struct Reading {
    /// Upload that arrived with the last entry, if any.
    arrived: Option<(Round, ParticipantId)>,
    /// Uploads refused since the last round closed.
    rejected: Vec<RejectedUpload>,
    /// True if frames are charged in the recorded run.
    charged: bool,
}

impl RecordedRun {
    /// Takes the next entry.
    ///
    /// # Errors
    /// Returns a description of numbers that no run can have written.
    pub fn read(&mut self, entry: &Entry) -> Result<(), String> {
        let arrived = self.reading.arrived.take();
        let numbers = entry.numbers.clone().unwrap_or_default();
        match &entry.event {
            Event::FrameCharged { .. } => self.charged(&entry.event),
            Event::ClientTrained { round, participant, samples, state_bytes, .. } => {
                let digest = digest(&numbers);
                let (samples, state_bytes, metrics) = (*samples, *state_bytes, numbers.metrics);
                let training = RecordedTraining { samples, digest, metrics, state_bytes };
                self.participant(*round, *participant).trained = Some(training);
            }
            Event::UpdatePoisoned { round, participant, attack: how, .. } => {
                self.participant(*round, *participant).forged = Some(how.clone());
            }
            Event::ClientFailed { round, participant, reason, detail, .. } => {
                self.participant(*round, *participant).failed =
                    Some((reason.clone(), detail.clone()));
            }
            Event::UpdateRejected { round, participant, client, reason: why, .. } => {
                let (round, participant, client, why) =
                    (*round, *participant, *client, why.clone());
                let on_arrival = arrived == Some((round, participant)) || !self.reading.charged;
                self.participant(round, participant).rejected = Some((why.clone(), on_arrival));
                self.reading.rejected.push(RejectedUpload { round, participant, client, why });
            }
            Event::FederatedBiasMeasured { round, clients, .. } => {
                let (clients, metrics, responses) = (*clients, numbers.metrics, numbers.responses);
                self.round(*round).bias = Some(BiasMeasurement { clients, metrics, responses });
            }
            Event::RoundClosed { round, .. } => {
                let rejected = std::mem::take(&mut self.reading.rejected);
                let bias = self.round(*round).bias.take();
                let (digest, metrics) = (digest(&numbers), numbers.metrics);
                let recorded = RecordedRound { digest, metrics, rejected, bias };
                self.rounds.insert(*round, recorded);
            }
            Event::Evaluated { round, task, point } => {
                let tally =
                    tally(&numbers).map_err(|why| format!("the evaluation after {round} {why}"))?;
                match point {
                    EvaluationPoint::Round => self.tested_rounds.insert(*round, tally),
                    EvaluationPoint::Task => self.tested_tasks.insert(*task, tally),
                };
            }
            Event::TaskEnded { task } => {
                self.tasks.insert(*task, Digest(digest(&numbers)));
            }
            // All other events follow from the scenario and its seeds.
            _ => {}
        }
        Ok(())
    }

    fn charged(&mut self, event: &Event) {
        let Event::FrameCharged {
            round, participant, direction, outcome, bytes, copy, asset, ..
        } = event
        else {
            return;
        };
        self.reading.charged = true;
        // Frames of secure aggregation follow from the scenario.
        if *outcome == FrameOutcome::Duplicate || bytes.is_protocol() {
            return;
        }
        let frame = Frame { bytes: Arc::clone(bytes), copy: *copy };
        let recorded = self.participant(*round, *participant);
        match (direction, asset) {
            (Direction::Down, Some(label)) => recorded.assets.push((label.clone(), frame)),
            (Direction::Down, None) => recorded.download = Some(frame),
            (Direction::Up, _) => {
                recorded.upload = Some(frame.bytes);
                self.reading.arrived = Some((*round, *participant));
            }
        }
    }

    fn participant(
        &mut self,
        round: Round,
        participant: ParticipantId,
    ) -> &mut RecordedParticipant {
        self.participants.entry((round, participant)).or_default()
    }

    fn round(&mut self, round: Round) -> &mut RecordedRound {
        self.rounds.entry(round).or_default()
    }
}

fn digest(numbers: &Numbers) -> u64 {
    numbers.digest.map_or(0, |digest| digest.0)
}

/// Returns the counts behind the numbers of an evaluation.
fn tally(numbers: &Numbers) -> Result<Tally, String> {
    let mut tally = Tally::new(numbers.classes.len());
    for (row, ClassScore(class, correct, total)) in numbers.classes.iter().enumerate() {
        if *class as usize != row {
            return Err(format!("has class {class} at place {row} of its counts"));
        }
        (tally.correct[row], tally.total[row]) = (*correct, *total);
    }
    tally.within = numbers.client_tasks.iter().map(|score| (score.row, score.within)).collect();
    Ok(tally)
}
