//! Memory of LANDER's server: the best global model of the task, and the images generated at the end of the last task.

use std::sync::Arc;

use crate::methods::averaging::ServerState;
use crate::methods::image_synthesis::{IMAGES_TASK, image_sections};
use crate::model::ParameterSet;
use crate::policy::{Asset, vector_section, vectors_of};
use crate::quantity::TaskId;
use crate::wire::{Body, Kind, NamedTensor, Saved, Section, WireError};

/// Tensors of a saved memory: the task whose models are compared, and the lowest loss.
const SELECTING: &str = "selection_task";
const LOWEST: &str = "selection_loss";
/// Name of the parameters with the lowest loss in a saved memory.
const BEST: &str = "best";

/// Images from the end of the first task on, and the best model since the task began.
#[derive(Clone, Debug, Default)]
pub struct LanderMemory {
    /// Asset with the images, which clients get once per task.
    pub(super) images: Option<Arc<Asset>>,
    /// Task whose models are compared.
    task: Option<TaskId>,
    /// Lowest loss in this task, and the parameters at the start of its round.
    best: Option<(f64, ParameterSet)>,
}

impl LanderMemory {
    /// Forgets the best model of the task before.
    pub(super) fn begin_task(&mut self) {
        self.best = None;
    }

    /// Keeps the parameters at the start of a round if its loss is the lowest of the task.
    ///
    /// Of equal losses the first stays.
    pub(super) fn compare(&mut self, loss: f64, before: &ParameterSet) {
        if self.best.as_ref().is_none_or(|(lowest, _)| loss < *lowest) {
            self.best = Some((loss, before.clone()));
        }
    }

    /// Returns the best parameters of the task.
    pub(super) fn best(&self) -> Option<&ParameterSet> {
        self.best.as_ref().map(|(_, best)| best)
    }
}

impl ServerState for LanderMemory {
    fn is_new_task(&mut self, task: usize) -> bool {
        let task = TaskId(task as u16);
        self.task.replace(task) != Some(task)
    }
}

impl Saved for LanderMemory {
    fn save(&self) -> Body {
        let mut sections = Vec::new();
        let single =
            |name, value: u32| NamedTensor::u32(name, [], vec![value]).expect("one number");
        let mut notes = Vec::new();
        notes.extend(self.task.map(|task| single(SELECTING, u32::from(task.0))));
        if let Some(asset) = &self.images {
            sections.extend(asset.body.sections.iter().cloned());
            notes.push(single(IMAGES_TASK, asset.version));
        }
        if let Some((loss, _)) = &self.best {
            notes.push(NamedTensor::f64(LOWEST, [], vec![*loss]).expect("one number"));
        }
        if !notes.is_empty() {
            sections.push(Section::new(Kind::Settings, notes));
        }
        sections.extend(self.best.as_ref().map(|(_, best)| vector_section(BEST, best)));
        Body::new(Vec::new(), sections)
    }

    fn load(saved: &Body) -> Result<LanderMemory, WireError> {
        let note = |name: &str| saved.of_kind(Kind::Settings).find(|note| &**note.name() == name);
        let cut = || WireError::Malformed("a saved server without its images' task".to_owned());
        let first = |note: &NamedTensor| note.as_u32()?.first().copied().ok_or_else(cut);
        let task = || note(IMAGES_TASK).ok_or_else(cut).and_then(first);
        let images = image_sections(saved, task)?;
        let task = note(SELECTING).map(first).transpose()?.map(|task| TaskId(task as u16));
        let lowest = note(LOWEST).map(|note| note.as_f64()).transpose()?;
        let lowest = lowest.and_then(|loss| loss.first().copied());
        let best = vectors_of(&saved.sections, BEST)?;
        Ok(LanderMemory { images, task, best: lowest.map(|loss| (loss, best)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::inversion::ImagePool;
    use crate::methods::image_synthesis::image_asset;
    use crate::model::Parameter;
    use crate::policy::{parameter_sections, parameters_of};

    fn theta(value: f32) -> ParameterSet {
        let parameter =
            |name: &str| (name.to_owned(), Parameter { shape: vec![1], values: [value].into() });
        ["head.bias", "conv1.weight"].map(parameter).into_iter().collect()
    }

    /// LANDER card, invariant 5.
    #[test]
    fn the_lowest_loss_selects_the_model() {
        let mut memory = LanderMemory::default();
        assert!(memory.best().is_none());
        for (round, loss) in [(0, 3.0), (1, 1.5), (2, 2.0), (3, 1.5)] {
            memory.compare(loss, &theta(round as f32));
        }
        assert_eq!(memory.best(), Some(&theta(1.0)));
        memory.compare(f64::NAN, &theta(9.0));
        assert_eq!(memory.best(), Some(&theta(1.0)));
        memory.begin_task();
        memory.compare(7.0, &theta(4.0));
        assert_eq!(memory.best(), Some(&theta(4.0)));
    }

    /// Apart from the server's own parameters, whose names the best ones share.
    #[test]
    fn a_memory_is_saved_and_loaded_whole() {
        let mut memory = LanderMemory::default();
        assert_eq!(memory.save().digest(), Body::default().digest());
        assert!(memory.is_new_task(2) && !memory.is_new_task(2));
        let pool = ImagePool::of([1, 2, 2], 3, (0..24).collect());
        let sent = image_asset(1, [1, 2, 2], &pool).unwrap();
        memory.images = Some(Arc::clone(&sent));
        memory.compare(0.25, &theta(5.0));
        let mut saved = Body::new(Vec::new(), parameter_sections(&theta(1.0)));
        saved.sections.extend(memory.save().sections);
        let mut loaded = LanderMemory::load(&saved).unwrap();
        assert_eq!(loaded.save().digest(), memory.save().digest());
        assert_eq!(loaded.images.as_ref().unwrap().digest(), sent.digest());
        assert_eq!(loaded.best(), Some(&theta(5.0)));
        assert!(!loaded.is_new_task(2) && loaded.is_new_task(3));
        assert_eq!(parameters_of(&saved).unwrap(), theta(1.0));
        loaded.compare(0.3, &theta(6.0));
        assert_eq!(loaded.best(), Some(&theta(5.0)), "the loss is kept, too");
    }
}
