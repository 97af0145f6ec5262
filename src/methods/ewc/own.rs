//! State of a client that keeps its own anchor (`site = "client"`).

use crate::data::TaskView;
use crate::model::{HeadKind, Parameter, ParameterSet};
use crate::policy::{ClientState, parameter_sections, parameters_of};
use crate::wire::{Body, MetaReader, MetaWriter, Saved, WireError};

/// Latest model of a client, with its Fisher information.
///
/// Empty before the client's first training, and if the server keeps both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnImportance {
    anchor: ParameterSet,
    fisher: ParameterSet,
    /// Number of head rows with Fisher information: those of all classes seen when it was computed.
    covered_rows: u64,
}

impl OwnImportance {
    /// Returns model and Fisher information, or `None` before the first training.
    pub(super) fn anchor(&self) -> Option<(ParameterSet, ParameterSet)> {
        (!self.anchor.is_empty()).then(|| (self.anchor.clone(), self.fisher.clone()))
    }

    /// Ends a round: `model` becomes the anchor, and `new` is blended with the Fisher information so far.
    ///
    /// The old information keeps a weight equal to the fraction of classes known before the task. Elements that it does
    /// not cover, such as rows of new classes, are those of `new`.
    pub(super) fn overwrite(&mut self, model: &ParameterSet, new: ParameterSet, view: &TaskView) {
        let share = view.rows.start as f64 / view.seen().max(1) as f64;
        let by_row = HeadKind::of(model).by_row();
        let blended = new.iter().map(|(name, new)| {
            let mut old = self.fisher.get(name).map(|old| &old.values[..]).unwrap_or_default();
            if by_row.contains(&&**name) {
                let width: usize = new.shape.iter().skip(1).product();
                old = &old[..old.len().min(self.covered_rows as usize * width)];
            }
            let blend = |(at, new): (usize, &f32)| {
                old.get(at).map_or(*new, |old| {
                    (share * f64::from(*old) + (1.0 - share) * f64::from(*new)) as f32
                })
            };
            let values = new.values.iter().enumerate().map(blend).collect();
            (name.clone(), Parameter { shape: new.shape.clone(), values })
        });
        self.fisher = blended.collect();
        self.covered_rows = view.seen() as u64;
        self.anchor = model.filter(|name| self.fisher.get(name).is_some());
    }
}

impl ClientState for OwnImportance {}

impl Saved for OwnImportance {
    fn save(&self) -> Body {
        let mut sections = parameter_sections(&self.anchor);
        let own = self.fisher.iter().map(|(name, f)| (format!("fisher/{name}"), f.clone()));
        sections.extend(parameter_sections(&own.collect()));
        let mut meta = MetaWriter::new();
        if !self.fisher.is_empty() {
            meta.u64(self.covered_rows);
        }
        Body::new(meta.finish(), sections)
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let all = parameters_of(saved)?;
        let fisher = all.iter().filter_map(|(name, fisher)| {
            Some((name.strip_prefix("fisher/")?.to_owned(), fisher.clone()))
        });
        let fisher: ParameterSet = fisher.collect();
        let mut meta = MetaReader::new(&saved.meta);
        let covered_rows = if fisher.is_empty() { 0 } else { meta.u64()? };
        meta.finish()?;
        let anchor = all.filter(|name| !name.starts_with("fisher/"));
        Ok(OwnImportance { anchor, fisher, covered_rows })
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

    /// EWC card, second reading: Fisher information is blended by the classes known and seen, anchors are replaced.
    #[test]
    fn a_client_blends_its_fisher_and_forgets_its_anchor() {
        let mut own = OwnImportance::default();
        assert_eq!(own.anchor(), None);
        own.overwrite(&set(&[1.0, 2.0]), set(&[8.0, 4.0]), &view(0));
        assert_eq!(own.anchor(), Some((set(&[1.0, 2.0]), set(&[8.0, 4.0]))));
        own.overwrite(&set(&[3.0, 5.0]), set(&[2.0, 0.0]), &view(2));
        // Four of six classes were known before.
        let (anchor, fisher) = own.anchor().unwrap();
        assert_eq!((anchor, fisher.get("head.bias").unwrap().values[0]), (set(&[3.0, 5.0]), 6.0));
        let read = OwnImportance::load(&own.save()).unwrap();
        assert_eq!(read, own);
        assert_eq!(own.state_bytes(), 16);
        assert_eq!(OwnImportance::load(&Body::default()).unwrap(), OwnImportance::default());
    }

    /// STSA's code, methods/ewc.py: rows that the old Fisher information covers are blended, rows of new classes are
    /// copied from the new one. This holds for growing and for fixed heads; from the next round on these rows are
    /// blended, too.
    #[test]
    fn rows_new_to_the_fisher_are_taken_whole() {
        for grown in [true, false] {
            let mut own = OwnImportance::default();
            let model = set(&[0.0; 6]);
            let first = [9.0, 9.0, 0.0, 0.0, 0.0, 0.0];
            own.overwrite(&model, set(if grown { &first[..2] } else { &first }), &view(0));
            // Two of four classes were known before, with two rows.
            let fisher = |own: &OwnImportance| own.fisher.get("head.bias").unwrap().values.to_vec();
            own.overwrite(&model, set(&[3.0, 3.0, 4.0, 2.0, 0.0, 0.0]), &view(1));
            assert_eq!(fisher(&own), [6.0, 6.0, 4.0, 2.0, 0.0, 0.0], "{grown}");
            own = OwnImportance::load(&own.save()).unwrap();
            own.overwrite(&model, set(&[2.0, 2.0, 6.0, 0.0, 0.0, 0.0]), &view(1));
            assert_eq!(fisher(&own), [4.0, 4.0, 5.0, 1.0, 0.0, 0.0], "{grown}");
        }
        // Without old Fisher information the new one is taken in any task.
        let mut late = OwnImportance::default();
        late.overwrite(&set(&[0.0; 6]), set(&[3.0; 6]), &view(2));
        assert_eq!(late.anchor().unwrap().1, set(&[3.0; 6]));
    }
}
