//! Quadratic penalty that keeps a model near an earlier one, with a weight for every parameter value.

use candle_core::{Result, Tensor, bail};

use super::closed_form;

/// Returns `strength * sum importance (w - anchor)^2` as a scalar. Its gradient is `2 strength importance (w -
/// anchor)`.
///
/// # Errors
/// Returns an error if the anchor or importance has another length.
pub fn anchored(w: &Tensor, anchor: &[f32], importance: &[f32], strength: f64) -> Result<Tensor> {
    if anchor.len() != w.elem_count() || importance.len() != w.elem_count() {
        let (anchor, importance) = (anchor.len(), importance.len());
        bail!("penalty: {anchor} values and {importance} of importance for {:?}", w.shape());
    }
    closed_form(w, |w| {
        let mut total = 0.0;
        let pull = w.iter().zip(anchor).zip(importance).map(|((w, a), f)| {
            let gap = f64::from(*w) - f64::from(*a);
            let pull = strength * f64::from(*f) * gap;
            total += pull * gap;
            (2.0 * pull) as f32
        });
        let gradient = pull.collect();
        (total, gradient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::model::ops;
    use candle_core::{Device, Var};

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|value| value as f32).collect()
    }

    fn flat(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// EWC card, invariant 2: nothing at the anchor and nothing without importance; elsewhere back to it.
    #[test]
    fn a_penalty_points_back_by_importance() {
        let w = Var::new(&[1f32, 3.0, 5.0], &Device::Cpu).unwrap();
        let loss = anchored(&w, &[1.0, 1.0, 1.0], &[9.0, 0.5, 0.0], 3.0).unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), 3.0 * 0.5 * 4.0);
        let gradients = loss.backward().unwrap();
        assert_eq!(flat(gradients.get(&w).unwrap()), [0.0, 2.0 * 3.0 * 0.5 * 2.0, 0.0]);
        for (anchor, importance) in [(&[1.0f32; 1][..], &[1.0f32; 3][..]), (&[1.0; 3], &[1.0])] {
            let error = anchored(&w, anchor, importance, 1.0).unwrap_err().to_string();
            assert!(error.starts_with("penalty: "), "{error}");
        }
    }

    #[test]
    fn golden_ewc_penalty_and_path() {
        let Some(golden) = Golden::open("ewc") else { return };
        let read = |name: &str| narrow(golden.f64(name));
        let var = |name: &str, shape: &[usize]| Var::from_slice(&read(name), shape, &Device::Cpu);
        let theta = || [var("theta.W", &[6, 5]).unwrap(), var("theta.b", &[6]).unwrap()];
        let names = ["W", "b"];
        let penalty = |theta: &[Var; 2], strength: f64| {
            let each = theta.iter().zip(names).map(|(w, name)| {
                let (anchor, fisher) = (format!("theta1.{name}"), format!("after1.truth.{name}"));
                anchored(w, &read(&anchor), &read(&fisher), strength).unwrap()
            });
            each.reduce(|a, b| (a + b).unwrap()).unwrap()
        };
        let at = theta();
        let value = penalty(&at, 1.0);
        golden.assert_close_f32("penalty", &[value.to_scalar::<f32>().unwrap()]);
        let gradients = value.backward().unwrap();
        for (w, name) in at.iter().zip(names) {
            golden.assert_close_f32(
                &format!("penalty.grad_{name}"),
                &flat(gradients.get(w).unwrap()),
            );
        }
        let half = penalty(&at, 0.5 * 1000.0).to_scalar::<f32>().unwrap();
        golden.assert_close_f32("penalty_half", &[half]);

        let h = read("h2");
        let h = Tensor::from_vec(h, (15, 5), &Device::Cpu).unwrap();
        let (labels, lambda) = (golden.labels("y2"), golden.f64("lambda")[0]);
        let both = |theta: &[Var; 2]| {
            let logits = ops::linear(&h, &theta[0], Some(&theta[1])).unwrap();
            let ce = ops::cross_entropy(&logits, &labels, 4..6).unwrap();
            let all = (&ce + penalty(theta, lambda)).unwrap();
            (ce, all)
        };
        let (ce, loss) = both(&at);
        golden.assert_close_f32("loss.ce", &[ce.to_scalar::<f32>().unwrap()]);
        golden.assert_close_f32("loss", &[loss.to_scalar::<f32>().unwrap()]);
        let gradients = loss.backward().unwrap();
        for (w, name) in at.iter().zip(names) {
            golden.assert_close_f32(&format!("loss.grad_{name}"), &flat(gradients.get(w).unwrap()));
        }
        let mut path = at.each_ref().map(|w| flat(w));
        for _ in 0..5 {
            let gradients = both(&at).1.backward().unwrap();
            for (w, path) in at.iter().zip(&mut path) {
                let moved = (w.as_tensor() - (gradients.get(w).unwrap() * 0.5).unwrap()).unwrap();
                w.set(&moved).unwrap();
                path.extend(flat(w));
            }
        }
        for (path, name) in path.iter().zip(names) {
            golden.assert_close_f32(&format!("path.{name}"), path);
        }
    }
}
