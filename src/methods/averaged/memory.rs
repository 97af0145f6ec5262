//! What a server of an averaging method keeps beside the parameters.

use crate::model::ParameterSet;
use crate::policy::parameters_of;
use crate::wire::{Body, MetaReader, MetaWriter, WireError};

/// Something that is saved with the parameters. The format is the method's own: its digest is in the journal. Of a method
/// whose clients are sent the previous model it may not be in the meta, nor among weights, prompts and heads.
pub trait Memory: Default + Send + 'static {
    /// Puts it into a body that holds the parameters.
    fn save_into(&self, body: &mut Body) {
        let _ = body;
    }

    /// The inverse, with the parameters of the server.
    ///
    /// # Errors
    /// Where it was not written by it.
    fn load_from(saved: &Body) -> Result<(Self, ParameterSet), WireError> {
        Ok((Self::default(), parameters_of(saved)?))
    }

    /// A task is at hand; whether the server prepares anything for it now.
    fn begins(&mut self, task: usize) -> bool {
        let _ = task;
        true
    }

    /// The task at hand, from 0, where answers depend on it.
    fn task(&self) -> usize {
        0
    }
}

impl Memory for () {}

/// The last task that was begun, for methods whose server prepares rows as a task starts: a server that was loaded within
/// a task has begun it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun(Option<usize>);

impl Memory for Begun {
    fn save_into(&self, body: &mut Body) {
        let mut meta = MetaWriter::new();
        meta.u64(self.0.map_or(0, |task| task as u64 + 1));
        body.meta = meta.finish();
    }

    fn load_from(saved: &Body) -> Result<(Begun, ParameterSet), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let begun = meta.u64()?;
        meta.finish()?;
        Ok((Begun(begun.checked_sub(1).map(|task| task as usize)), parameters_of(saved)?))
    }

    fn begins(&mut self, task: usize) -> bool {
        self.0.replace(task) != Some(task)
    }

    fn task(&self) -> usize {
        self.0.unwrap_or(0)
    }
}
