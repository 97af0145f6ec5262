//! Which rows of a model a message carries.

use std::ops::Range;
use std::sync::Arc;

use crate::learning::{head_rows, with_head_rows};
use crate::model::{LinearHead, ModelError, Parameter, ParameterSet};

/// Rows of the head, and of the parameters that have rows by task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Of the head.
    pub head: Range<usize>,
    /// Of the prompts.
    pub pool: Range<usize>,
}

impl Cut {
    /// The rows of whole parameters; `has_rows` says which prompts are cut.
    ///
    /// # Errors
    /// When there are fewer rows.
    pub fn of(
        &self,
        whole: &ParameterSet,
        has_rows: impl Fn(&str) -> bool,
    ) -> Result<ParameterSet, ModelError> {
        let mut cut = head_rows(whole, self.head.clone())?;
        for (name, parameter) in whole.iter().filter(|(name, _)| has_rows(name)) {
            cut.insert(Arc::clone(name), rows_of(name, parameter, self.pool.clone())?);
        }
        Ok(cut)
    }

    /// Parameters in the places they have among whole ones: zeros before the first row.
    pub fn padded(&self, cut: &ParameterSet, has_rows: impl Fn(&str) -> bool) -> ParameterSet {
        let padded = |(name, parameter): (&Arc<str>, &Parameter)| {
            let before = match &**name {
                LinearHead::WEIGHT | LinearHead::BIAS => self.head.start,
                name if has_rows(name) => self.pool.start,
                _ => 0,
            };
            (Arc::clone(name), behind_zeros(parameter, before))
        };
        cut.iter().map(padded).collect()
    }

    /// `whole` with these rows replaced by those of `cut`.
    ///
    /// # Errors
    /// When they do not fit.
    pub fn put_into(
        &self,
        whole: &ParameterSet,
        cut: &ParameterSet,
        has_rows: impl Fn(&str) -> bool,
    ) -> Result<ParameterSet, ModelError> {
        let mut result = with_head_rows(whole, cut, self.head.start)?;
        for (name, part) in cut.iter().filter(|(name, _)| has_rows(name)) {
            let under = whole.get(name).ok_or_else(|| misfit(name, &self.pool))?;
            result.insert(Arc::clone(name), with_rows(name, under, part, self.pool.clone())?);
        }
        Ok(result)
    }
}

fn misfit(name: &str, rows: &Range<usize>) -> ModelError {
    ModelError::Input { reason: format!("rows {rows:?} of `{name}` do not fit") }
}

/// Values of a row.
fn width(parameter: &Parameter) -> usize {
    parameter.shape.get(1..).unwrap_or_default().iter().product()
}

/// Some rows of a parameter.
///
/// # Errors
/// When it has fewer.
pub(in crate::methods) fn rows_of(
    name: &str,
    parameter: &Parameter,
    rows: Range<usize>,
) -> Result<Parameter, ModelError> {
    let mut shape = parameter.shape.clone();
    let count = shape.first_mut().ok_or_else(|| misfit(name, &rows))?;
    if rows.end > *count {
        return Err(misfit(name, &rows));
    }
    if rows == (0..*count) {
        return Ok(parameter.clone()); // shared, not copied
    }
    *count = rows.len();
    let width = width(parameter);
    Ok(Parameter { shape, values: parameter.values[rows.start * width..rows.end * width].into() })
}

/// `whole` with some rows replaced.
///
/// # Errors
/// When they do not fit.
pub(in crate::methods) fn with_rows(
    name: &str,
    whole: &Parameter,
    part: &Parameter,
    rows: Range<usize>,
) -> Result<Parameter, ModelError> {
    let (inside, width) = (rows.start * width(whole)..rows.end * width(whole), width(whole));
    if inside.end > whole.values.len() || part.values.len() != rows.len() * width {
        return Err(misfit(name, &rows));
    }
    let mut values = whole.values.to_vec();
    values[inside].copy_from_slice(&part.values);
    Ok(Parameter { shape: whole.shape.clone(), values: values.into() })
}

fn behind_zeros(parameter: &Parameter, before: usize) -> Parameter {
    if before == 0 {
        return parameter.clone();
    }
    let mut shape = parameter.shape.clone();
    shape[0] += before;
    let zeros = std::iter::repeat_n(0.0, before * width(parameter));
    Parameter { shape, values: zeros.chain(parameter.values.iter().copied()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let has_rows = |name: &str| name == "prompt.keys";
        let cut = Cut { head: 1..3, pool: 2..4 };
        let part = cut.of(&whole, has_rows)?;
        let values = |set: &ParameterSet, name: &str| set.get(name).unwrap().values.to_vec();
        assert_eq!(values(&part, LinearHead::BIAS), [11.0, 12.0]);
        assert_eq!(values(&part, "prompt.keys"), [26.0, 27.0, 28.0, 29.0, 30.0, 31.0]);
        assert_eq!(cut.put_into(&whole, &part, has_rows)?, whole);
        let padded = cut.padded(&part, has_rows);
        assert_eq!(values(&padded, LinearHead::BIAS), [0.0, 11.0, 12.0]);
        assert_eq!(padded.get("prompt.keys").unwrap().shape, [4, 3]);
        assert_eq!(values(&padded, "prompt.keys")[..7], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 26.0]);
        assert_eq!(cut.of(&padded, has_rows)?, part);
        assert!(Cut { head: 0..4, pool: 3..6 }.of(&whole, has_rows).is_err());
        Ok(())
    }
}
