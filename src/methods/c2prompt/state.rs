//! State of a client while it works on a client task: a compensation prompt for each of its classes.

use std::sync::Arc;

use crate::policy::ClientState;
use crate::quantity::TaskId;
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError};

const PROMPTS: &str = "compensation";

/// Client state: the compensation prompts of its current client task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compensation {
    kept: Option<CompensationPrompts>,
}

#[derive(Clone, Debug, PartialEq)]
struct CompensationPrompts {
    task: TaskId,
    prompts: Prompts,
}

/// Compensation prompts of all classes of a client task.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompts {
    /// Shape, `(classes, tokens, d)`.
    pub shape: [usize; 3],
    /// Values, row-major.
    pub values: Arc<[f32]>,
}

impl Compensation {
    /// Enters a client task and drops the prompts of any other.
    pub fn enter(&mut self, task: TaskId) {
        self.kept.take_if(|kept| kept.task != task);
    }

    /// Returns the prompts of the client task, once they are trained.
    pub fn prompts(&self) -> Option<&Prompts> {
        self.kept.as_ref().map(|kept| &kept.prompts)
    }

    /// Keeps the prompts of a client task.
    pub fn keep(&mut self, task: TaskId, prompts: Prompts) {
        self.kept = Some(CompensationPrompts { task, prompts });
    }
}

impl ClientState for Compensation {}

impl Saved for Compensation {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        let Some(CompensationPrompts { task, prompts }) = &self.kept else {
            meta.bool(false);
            return Body::new(meta.finish(), Vec::new());
        };
        meta.bool(true).u64(u64::from(task.0));
        let tensor = NamedTensor::f32(PROMPTS, prompts.shape, Arc::clone(&prompts.values));
        let tensor = tensor.expect("prompts fill their shape");
        Body::new(meta.finish(), vec![Section::new(Kind::Prompt, vec![tensor])])
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        if !meta.bool()? {
            meta.finish()?;
            return Ok(Compensation::default());
        }
        let task = TaskId(meta.u64()? as u16);
        meta.finish()?;
        let tensor = saved.tensor(Kind::Prompt, PROMPTS)?;
        let shape = tensor.shape().try_into().map_err(|_| {
            WireError::Malformed("compensation prompts are no tokens of classes".to_owned())
        })?;
        let values = Arc::clone(tensor.as_f32()?);
        Ok(Compensation {
            kept: Some(CompensationPrompts { task, prompts: Prompts { shape, values } }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_kept_for_a_client_task_and_charged() -> Result<(), WireError> {
        let mut state = Compensation::default();
        assert_eq!(state.state_bytes(), 0);
        let prompts = Prompts { shape: [20, 3, 768], values: vec![0.5; 46_080].into() };
        state.keep(TaskId(2), prompts);
        assert_eq!(state.state_bytes(), 4 * 46_080); // the card's floats
        let mut again = Compensation::load(&state.save())?;
        assert_eq!(again, state);
        again.enter(TaskId(2));
        assert_eq!(again, state);
        again.enter(TaskId(3));
        assert_eq!(again, Compensation::load(&Compensation::default().save())?);
        Ok(())
    }
}
