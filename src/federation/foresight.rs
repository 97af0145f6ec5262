//! Reasons to end a run that are known before it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::dry_run::{PlannedParticipant, dry_run_of};
use super::error::{FederationError, SinkError};
use super::event::Entry;
use super::setup::Setup;
use super::sink::EventSink;
use crate::policy::UploadSize;

/// Sink that keeps nothing.
struct NoEntries;

impl EventSink for NoEntries {
    fn record(&mut self, _: &Entry) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Checks that some client is available whenever a round of the run opens.
///
/// The check is made only if clients may leave for good. The times of rounds are those of a dry run with the faults of
/// the run; if sizes of messages depend on learned values, these times are uncertain, and nothing is refused.
///
/// # Errors
/// Returns an error if from the opening of a round on no client that can be sampled is ever available.
pub fn check_availability(setup: &Setup) -> Result<(), FederationError> {
    if !setup.rules.availability.may_end() {
        return Ok(());
    }
    let uncertain = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&uncertain);
    let look = move |participant: PlannedParticipant<'_>| {
        if participant.down_at_most || participant.upload_size == UploadSize::FromValues {
            seen.store(true, Ordering::Relaxed);
        }
    };
    let (terms, data) = setup.terms_and_data();
    match dry_run_of(terms, data, look, Box::new(NoEntries)) {
        Err(error @ FederationError::NeverAvailable { .. })
            if !uncertain.load(Ordering::Relaxed) =>
        {
            Err(error)
        }
        // Other errors are reported by the run itself.
        _ => Ok(()),
    }
}
