//! Sink that is given to a simulation and read afterwards.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

use crate::federation::{Entry, EventSink, ProfileSink, SinkError, Span};

/// Sink with several owners.
pub struct Shared<S>(Arc<Mutex<S>>);

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<S> Shared<S> {
    /// Wraps a sink.
    pub fn new(sink: S) -> Self {
        Shared(Arc::new(Mutex::new(sink)))
    }

    /// Locks the sink.
    // Sinks are whole after every entry, so a panic elsewhere does not spoil them.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.0.lock()
    }
}

impl<S: EventSink> EventSink for Shared<S> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.lock().record(entry)
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        self.lock().settle()
    }
}

impl<S: ProfileSink> ProfileSink for Shared<S> {
    fn record(&mut self, span: &Span) {
        self.lock().record(span);
    }
}

/// Sink that passes spans to two others.
pub struct Both<A, B>(pub A, pub B);

impl<A: ProfileSink, B: ProfileSink> ProfileSink for Both<A, B> {
    fn record(&mut self, span: &Span) {
        self.0.record(span);
        self.1.record(span);
    }
}
