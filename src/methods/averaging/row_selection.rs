//! Rows of the parameters that a message carries.

use std::ops::Range;
use std::sync::Arc;

use super::{Parameters, Rows};
use crate::data::TaskView;
use crate::model::{ModelError, ParameterSet};
use crate::policy::{AveragingGroup, TensorSpec};

/// Purpose for which rows are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPurpose {
    /// Rows sent to a client.
    Down,
    /// Rows sent to the server.
    Up,
    /// Rows for predictions after a task.
    Inference,
    /// Rows that a client trains.
    Training,
}

/// Selected rows of parameters by class and by task; shared parameters are always whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSelection {
    /// Rows of parameters by class: head rows.
    pub head: Range<usize>,
    /// Rows of parameters by task.
    pub pool: Range<usize>,
    /// True if only the rows that the receiver trains are sent. The receiver then cannot predict by itself.
    pub only_trained: bool,
}

impl RowSelection {
    /// Creates a selection of head rows and of rows by task.
    pub fn new(head: Range<usize>, pool: Range<usize>) -> RowSelection {
        RowSelection { head, pool, only_trained: false }
    }

    fn rows(&self, rows: Rows) -> Option<Range<usize>> {
        match rows {
            Rows::Shared => None,
            Rows::Task => Some(self.pool.clone()),
            Rows::Class => Some(self.head.clone()),
        }
    }

    /// Returns the tensor specifications of the parameters that take part, with their selected rows.
    ///
    /// `averaged` adds the aggregation to a specification, given the averaging group and the parameter's name.
    pub fn places(
        &self,
        all: &Parameters,
        view: &TaskView,
        takes_part: &dyn Fn(&str) -> bool,
        averaged: &dyn Fn(TensorSpec, AveragingGroup, &str) -> TensorSpec,
    ) -> Vec<TensorSpec> {
        let by_owner = all.is_by_owner();
        let sent = all.iter().filter(|one| takes_part(&one.name));
        sent.map(|parameter| {
            let mut place = TensorSpec::parameter(parameter.name.as_str(), &parameter.shape);
            if let Some(rows) = self.rows(parameter.rows) {
                place.shape[0] = rows.len();
                place.first_row = rows.start;
            }
            let group = match parameter.rows {
                Rows::Task if by_owner => AveragingGroup::Task(view.task.0),
                Rows::Class if by_owner => AveragingGroup::Head(view.rows.start as u32),
                _ => AveragingGroup::All,
            };
            averaged(place, group, &parameter.name)
        })
        .collect()
    }

    /// Returns the selected rows of whole parameters.
    ///
    /// # Errors
    /// When a parameter is missing or has fewer rows.
    pub fn take(
        &self,
        all: &Parameters,
        whole: &ParameterSet,
        is_transmitted: &dyn Fn(&str) -> bool,
    ) -> Result<ParameterSet, ModelError> {
        let mut cut = ParameterSet::new();
        for parameter in all.iter().filter(|parameter| is_transmitted(&parameter.name)) {
            let found = whole.get(&parameter.name).ok_or_else(|| ModelError::Input {
                reason: format!("`{}` is not among the parameters", parameter.name),
            })?;
            let rows = match self.rows(parameter.rows) {
                Some(rows) => found.cut(rows)?,
                None => found.clone(),
            };
            cut.insert(parameter.name.as_str(), rows);
        }
        Ok(cut)
    }

    /// Returns received parameters with rows at their indices in whole parameters: zeros before the first.
    pub fn padded(&self, all: &Parameters, cut: &ParameterSet) -> ParameterSet {
        let mut padded = cut.clone();
        for parameter in all.iter() {
            let first = self.rows(parameter.rows).map_or(0, |rows| rows.start);
            if let (true, Some(part)) = (first > 0, cut.get(&parameter.name)) {
                padded.insert(parameter.name.as_str(), part.behind_zeros(first));
            }
        }
        padded
    }

    /// Returns `whole` with the selected rows replaced by those of `part`.
    ///
    /// # Errors
    /// When the rows do not fit.
    pub fn put(
        &self,
        all: &Parameters,
        whole: &ParameterSet,
        part: &ParameterSet,
    ) -> Result<ParameterSet, ModelError> {
        let mut result = whole.clone();
        for (name, rows) in part.iter() {
            let owner = all.iter().find(|parameter| *parameter.name == **name);
            let first =
                owner.and_then(|parameter| self.rows(parameter.rows)).map(|rows| rows.start);
            let placed = match (first, whole.get(name)) {
                (Some(first), Some(under)) => under.with_rows(rows, first)?,
                _ => rows.clone(),
            };
            result.insert(Arc::clone(name), placed);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{HeadKind, LinearHead, Parameter};

    #[test]
    fn what_is_cut_can_be_put_back() -> Result<(), ModelError> {
        let of = |shape: &[usize], first: f32| Parameter {
            shape: shape.to_vec(),
            values: (0..shape.iter().product()).map(|i: usize| first + i as f32).collect(),
        };
        let whole: ParameterSet = [
            (LinearHead::WEIGHT, of(&[4, 2], 0.0)),
            (LinearHead::BIAS, of(&[4], 10.0)),
            ("prompt.keys", of(&[5, 3], 20.0)),
            ("prompt.shared", of(&[2, 2], 50.0)),
        ]
        .into_iter()
        .collect();
        let all = Parameters::shared([("prompt.shared".to_owned(), vec![2, 2])])
            .by_task([("prompt.keys".to_owned(), vec![5, 3])])
            .head(HeadKind::Linear, 4, 2);
        let cut = RowSelection::new(1..3, 2..4);
        let part = cut.take(&all, &whole, &|_| true)?;
        let values = |set: &ParameterSet, name: &str| set.get(name).unwrap().values.to_vec();
        assert_eq!(values(&part, LinearHead::BIAS), [11.0, 12.0]);
        assert_eq!(values(&part, "prompt.keys"), [26.0, 27.0, 28.0, 29.0, 30.0, 31.0]);
        assert_eq!(cut.put(&all, &whole, &part)?, whole);
        let padded = cut.padded(&all, &part);
        assert_eq!(values(&padded, LinearHead::BIAS), [0.0, 11.0, 12.0]);
        assert_eq!(padded.get("prompt.keys").unwrap().shape, [4, 3]);
        assert_eq!(values(&padded, "prompt.keys")[..7], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 26.0]);
        assert_eq!(cut.take(&all, &padded, &|_| true)?, part);
        assert!(RowSelection::new(0..4, 3..6).take(&all, &whole, &|_| true).is_err());
        Ok(())
    }
}
