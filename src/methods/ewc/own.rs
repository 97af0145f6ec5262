//! State of a client that is anchored to its own models.

use crate::data::TaskView;
use crate::model::{Parameter, ParameterSet};
use crate::policy::{ClientState, parameter_sections, parameters_of};
use crate::wire::{Body, Saved, WireError};

/// Last model of a client with its Fisher.
///
/// It is empty before the client's first training, and if the server keeps both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnImportance {
    anchor: ParameterSet,
    fisher: ParameterSet,
}

impl OwnImportance {
    /// Returns both, where there are any.
    pub(super) fn anchor(&self) -> Option<(ParameterSet, ParameterSet)> {
        (!self.anchor.is_empty()).then(|| (self.anchor.clone(), self.fisher.clone()))
    }

    /// Ends a round: the model is the anchor from now on, and of the Fisher so far as large a part stays as classes
    /// were known before the task.
    pub(super) fn overwrite(&mut self, model: &ParameterSet, new: ParameterSet, view: &TaskView) {
        let share = view.rows.start as f64 / view.seen().max(1) as f64;
        let blended = new.iter().map(|(name, new)| {
            let old = self.fisher.get(name).map(|old| &old.values[..]).unwrap_or_default();
            let blend = |(at, new): (usize, &f32)| {
                let old = old.get(at).map_or(0.0, |old| f64::from(*old));
                (share * old + (1.0 - share) * f64::from(*new)) as f32
            };
            let values = new.values.iter().enumerate().map(blend).collect();
            (name.clone(), Parameter { shape: new.shape.clone(), values })
        });
        self.fisher = blended.collect();
        self.anchor = model.filter(|name| self.fisher.get(name).is_some());
    }
}

impl ClientState for OwnImportance {}

impl Saved for OwnImportance {
    fn save(&self) -> Body {
        let mut sections = parameter_sections(&self.anchor);
        let own = self.fisher.iter().map(|(name, f)| (format!("fisher/{name}"), f.clone()));
        sections.extend(parameter_sections(&own.collect()));
        Body::new(Vec::new(), sections)
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let all = parameters_of(saved)?;
        let fisher = all.iter().filter_map(|(name, fisher)| {
            Some((name.strip_prefix("fisher/")?.to_owned(), fisher.clone()))
        });
        let fisher = fisher.collect();
        Ok(OwnImportance { fisher, anchor: all.filter(|name| !name.starts_with("fisher/")) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

    fn set(values: &[f32]) -> ParameterSet {
        let one = Parameter { shape: vec![values.len()], values: values.into() };
        [("head.bias", one)].into_iter().collect()
    }

    fn view(task: u16) -> TaskView {
        let rows = 2 * task as usize..2 * task as usize + 2;
        TaskView { task: TaskId(task), classes: rows.clone().map(|row| row as u32).collect(), rows }
    }

    /// EWC card, the second reading: blended by the classes known and seen, anchors overwritten.
    #[test]
    fn a_client_blends_its_fisher_and_forgets_its_anchor() {
        let mut own = OwnImportance::default();
        assert_eq!(own.anchor(), None);
        own.overwrite(&set(&[1.0, 2.0]), set(&[8.0, 4.0]), &view(0));
        assert_eq!(own.anchor(), Some((set(&[1.0, 2.0]), set(&[8.0, 4.0]))));
        own.overwrite(&set(&[3.0, 5.0]), set(&[2.0, 0.0]), &view(2));
        // Four of six classes were known.
        let (anchor, fisher) = own.anchor().unwrap();
        assert_eq!((anchor, fisher.get("head.bias").unwrap().values[0]), (set(&[3.0, 5.0]), 6.0));
        let read = OwnImportance::load(&own.save()).unwrap();
        assert_eq!(read, own);
        assert_eq!(own.kept_bytes(), 16);
    }
}
