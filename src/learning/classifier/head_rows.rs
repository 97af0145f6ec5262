//! Rows of a head, one per class. A client holds those of its task.

use std::ops::Range;
use std::sync::Arc;

use crate::model::{HeadKind, ModelError, Parameter, ParameterSet};

/// Returns the parameters with a head of these rows only.
///
/// # Errors
/// Returns an error if there is no head or it has fewer rows.
pub fn head_rows(set: &ParameterSet, rows: Range<usize>) -> Result<ParameterSet, ModelError> {
    let mut cut = set.clone();
    for &name in HeadKind::of(set).by_row() {
        let missing = || ModelError::Input {
            reason: format!("`{name}` with rows {rows:?} is not among the parameters"),
        };
        let whole = set.get(name).ok_or_else(missing)?;
        let (count, others) = whole.shape.split_first().ok_or_else(missing)?;
        if rows.end > *count {
            return Err(missing());
        }
        if rows == (0..*count) {
            continue; // shared, not copied
        }
        let width: usize = others.iter().product();
        let mut shape = whole.shape.clone();
        shape[0] = rows.len();
        let values = whole.values[rows.start * width..rows.end * width].into();
        cut.insert(name, Parameter { shape, values });
    }
    Ok(cut)
}

/// Returns `set` with its head's rows from `first` on replaced by the head of `part`. All other parameters of `part`
/// replace those of `set`.
///
/// # Errors
/// Returns an error if the rows do not fit.
pub fn with_head_rows(
    set: &ParameterSet,
    part: &ParameterSet,
    first: usize,
) -> Result<ParameterSet, ModelError> {
    let mut result = set.clone();
    for (name, parameter) in part.iter() {
        let is_head = HeadKind::of(set).by_row().contains(&&**name);
        let parameter = match set.get(name).filter(|_| is_head) {
            None => parameter.clone(),
            Some(whole) => {
                let rows = first..first + parameter.shape.first().copied().unwrap_or(0);
                let fits = whole.shape.len() == parameter.shape.len()
                    && whole.shape[1..] == parameter.shape[1..]
                    && rows.end <= whole.shape[0];
                if !fits {
                    let reason = format!("rows {rows:?} of `{name}` do not fit the head");
                    return Err(ModelError::Input { reason });
                }
                match parameter.shape == whole.shape {
                    true => parameter.clone(), // shared, not copied
                    false => with_rows(whole, rows, &parameter.values),
                }
            }
        };
        result.insert(Arc::clone(name), parameter);
    }
    Ok(result)
}

pub(super) fn with_rows(whole: &Parameter, rows: Range<usize>, values: &[f32]) -> Parameter {
    let width: usize = whole.shape[1..].iter().product();
    let mut all: Arc<[f32]> = Arc::from(&whole.values[..]);
    let own = Arc::make_mut(&mut all);
    own[rows.start * width..rows.end * width].copy_from_slice(values);
    Parameter { shape: whole.shape.clone(), values: all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinearHead;

    fn head(rows: usize, width: usize, values: &[f32]) -> ParameterSet {
        let (weight, bias) = values.split_at(rows * width);
        let weight = Parameter { shape: vec![rows, width], values: weight.into() };
        let bias = Parameter { shape: vec![rows], values: bias.into() };
        [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
    }

    #[test]
    fn rows_are_cut_and_put_back_where_they_were() {
        let whole = head(3, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.1, 0.2, 0.3]);
        let middle = head_rows(&whole, 1..2).unwrap();
        assert_eq!(middle, head(1, 2, &[3.0, 4.0, 0.2]));
        let trained = head(1, 2, &[7.0, 8.0, 0.9]);
        let expected = head(3, 2, &[1.0, 2.0, 7.0, 8.0, 5.0, 6.0, 0.1, 0.9, 0.3]);
        assert_eq!(with_head_rows(&whole, &trained, 1).unwrap(), expected);
        assert!(head_rows(&whole, 2..4).is_err());
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let whole = head(3, 2, &[0.0; 9]);
        let misfits = [
            (head(1, 3, &[0.0; 4]), 0),
            (head(2, 2, &[0.0; 6]), 2),
            (
                [(LinearHead::WEIGHT, Parameter { shape: vec![2], values: [0.0; 2].into() })]
                    .into_iter()
                    .collect(),
                0,
            ),
        ];
        for (part, first) in misfits {
            let error = with_head_rows(&whole, &part, first).unwrap_err().to_string();
            assert!(error.contains("do not fit the head"), "{error}");
        }
    }
}
