//! FedAvg's uploads as a mean of parameters.

use std::sync::Arc;

use super::{Down, FedAvg, Up};
use crate::model::{Parameter, ParameterSet};
use crate::policy::{Averaged, ParameterAverage, PolicyError};

impl Averaged<FedAvg> for FedAvg {
    fn average<'a>(&self, part: &'a mut ParameterAverage) -> &'a mut ParameterAverage {
        part
    }

    fn changed(
        &self,
        down: &Down,
        up: &Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Up, PolicyError> {
        changed(down, up, change)
    }
}

/// An upload with every learnt number replaced by `change(before, after)`.
pub(in crate::methods) fn changed(
    down: &Down,
    up: &Up,
    change: &mut dyn FnMut(f32, f32) -> f32,
) -> Result<Up, PolicyError> {
    let base = up.base(down)?;
    let mut parameters = ParameterSet::new();
    for (name, learnt) in up.parameters.iter() {
        let before = base.get(name).filter(|before| before.shape == learnt.shape);
        let before = before.ok_or_else(|| {
            PolicyError::Unsupported(format!("an upload holds `{name}`, which nobody was sent"))
        })?;
        let pairs = before.values.iter().zip(learnt.values.iter());
        let values = pairs.map(|(before, after)| change(*before, *after)).collect();
        parameters.insert(Arc::clone(name), Parameter { shape: learnt.shape.clone(), values });
    }
    Ok(Up { parameters, ..up.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinearHead;

    #[test]
    fn a_changed_upload_knows_where_its_rows_began() {
        let head = |rows: usize, first: f32| -> ParameterSet {
            let of = |shape: Vec<usize>| {
                let count = shape.iter().product::<usize>();
                let values = (0..count).map(|at| first + at as f32).collect();
                Parameter { shape, values }
            };
            let (weight, bias) = (of(vec![rows, 2]), of(vec![rows]));
            [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
        };
        let down = Down::from(head(3, 0.0));
        let up = Up::cut(&head(3, 1.0), 1..3, 5).unwrap();
        let flipped = changed(&down, &up, &mut |before, after| before - (after - before)).unwrap();
        let whole = flipped.whole(&down).unwrap();
        let weight = &whole.get(LinearHead::WEIGHT).unwrap().values;
        assert_eq!(weight[..], [0.0, 1.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((flipped.first_row, flipped.samples), (1, 5));
    }
}
