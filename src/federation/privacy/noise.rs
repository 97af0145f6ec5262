//! Gaussian noise on uploads: `X + q * eps`, `eps` normal with standard deviation `scale`, drawn on the client before
//! the upload is coded or masked.
//!
//! A target is a tensor of the upload by name (`gram`, `counts`) or all tensors of a [`Kind`]
//! (`statistics`). Tensors that a method calls [symmetric](crate::policy::Method::symmetric) get
//! symmetric noise: the lower triangle is drawn, row by row, and mirrored, so a
//! matrix and its packed half get the same. Noise on integers is
//! rounded, and unsigned ones do not fall below zero.
//!
//! This is the noise of the STSA paper's privacy study; no privacy budget is accounted for.

use crate::numerics::distributions::standard_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::wire::{Body, Kind, NamedTensor, Section, TensorValues, WireError};

/// Tensors that noise is added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoiseTarget {
    /// Tensors of this name.
    Tensor(String),
    /// All tensors of this kind.
    Kind(Kind),
}

impl NoiseTarget {
    /// Returns a kind if the word is one, else a tensor's name.
    pub fn new(word: &str) -> NoiseTarget {
        match Kind::from_name(word) {
            Some(kind) => NoiseTarget::Kind(kind),
            None => NoiseTarget::Tensor(word.to_owned()),
        }
    }

    /// Returns true if noise is added to this tensor.
    pub fn covers(&self, kind: Kind, name: &str) -> bool {
        match self {
            NoiseTarget::Tensor(tensor) => tensor == name,
            NoiseTarget::Kind(of) => *of == kind,
        }
    }
}

/// The noise of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of eps.
    pub scale: f64,
    /// Factor on eps.
    pub q: f64,
    /// Tensors that it is added to.
    pub targets: Vec<NoiseTarget>,
}

impl Noise {
    /// Returns the body with noise, drawn from the participant's stream key of the round.
    ///
    /// # Errors
    /// Returns an error if a tensor that must be symmetric is no square matrix.
    pub fn apply(
        &self,
        body: &Body,
        symmetric: &[&str],
        key: StreamKey,
    ) -> Result<Body, WireError> {
        let key = key.domain(Domain::PrivacyNoise);
        let mut step = 0;
        let mut sections = Vec::with_capacity(body.sections.len());
        for Section { kind, tensors } in &body.sections {
            let mut noisy = Vec::with_capacity(tensors.len());
            for tensor in tensors {
                let covered = self.targets.iter().any(|target| target.covers(*kind, tensor.name()));
                noisy.push(match covered {
                    true => {
                        let mirrored = symmetric.contains(&&**tensor.name());
                        let eps = self.draw(tensor, mirrored, key.step(step))?;
                        let values = plus(tensor.values(), &eps);
                        NamedTensor::new(tensor.name().clone(), tensor.shape(), values)?
                    }
                    false => tensor.clone(),
                });
                step += 1;
            }
            sections.push(Section::new(*kind, noisy));
        }
        Ok(Body::new(body.meta.clone(), sections))
    }

    /// Draws `q * eps` for every element.
    fn draw(
        &self,
        tensor: &NamedTensor,
        mirrored: bool,
        key: StreamKey,
    ) -> Result<Vec<f64>, WireError> {
        let mut rng = key.rng();
        let mut next = || self.q * self.scale * standard_normal(&mut rng);
        let square = match tensor.shape() {
            [rows, columns] if rows == columns => Some(*rows),
            _ => None,
        };
        match (mirrored, square) {
            (false, _) => Ok((0..tensor.elements()).map(|_| next()).collect()),
            // A packed triangle: unfolding it mirrors its noise, too.
            (true, None) if tensor.shape().len() == 1 => {
                Ok((0..tensor.elements()).map(|_| next()).collect())
            }
            (true, None) => Err(WireError::Malformed(format!(
                "`{}` of shape {:?} is no symmetric matrix",
                tensor.name(),
                tensor.shape()
            ))),
            (true, Some(size)) => {
                let mut eps = vec![0.0; size * size];
                for row in 0..size {
                    for column in 0..=row {
                        let value = next();
                        eps[row * size + column] = value;
                        eps[column * size + row] = value;
                    }
                }
                Ok(eps)
            }
        }
    }
}

/// Returns the sums of values and noise, in the type of the values.
///
/// Bits and bytes have no room for noise and stay as they are.
fn plus(values: &TensorValues, eps: &[f64]) -> TensorValues {
    fn each<T: Copy>(values: &[T], eps: &[f64], add: impl Fn(T, f64) -> T) -> std::sync::Arc<[T]> {
        values.iter().zip(eps).map(|(value, eps)| add(*value, *eps)).collect()
    }
    match values {
        TensorValues::F32(v) => TensorValues::F32(each(v, eps, |x, e| (f64::from(x) + e) as f32)),
        TensorValues::F64(v) => TensorValues::F64(each(v, eps, |x, e| x + e)),
        // Casts from floats saturate, so that a negative sum becomes zero.
        TensorValues::U32(v) => {
            TensorValues::U32(each(v, eps, |x, e| (f64::from(x) + e).round() as u32))
        }
        TensorValues::U64(v) => {
            TensorValues::U64(each(v, eps, |x, e| (x as f64 + e).round() as u64))
        }
        TensorValues::I64(v) => {
            TensorValues::I64(each(v, eps, |x, e| (x as f64 + e).round() as i64))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(client: u32) -> StreamKey {
        StreamKey::new(7, Domain::Method).client(client)
    }

    fn noise(scale: f64, q: f64, targets: &[&str]) -> Noise {
        Noise { scale, q, targets: targets.iter().map(|word| NoiseTarget::new(word)).collect() }
    }

    fn body() -> Body {
        let gram = NamedTensor::f64("gram", [30, 30], vec![0.0; 900]).unwrap();
        let sums = NamedTensor::f32("sums", [3000], vec![5.0; 3000]).unwrap();
        let counts = NamedTensor::u32("counts", [4], vec![0, 1, 50, 1000]).unwrap();
        let head = NamedTensor::f32("head.bias", [2], vec![1.0; 2]).unwrap();
        Body::new(
            vec![1],
            vec![
                Section::new(Kind::Statistics, vec![gram, sums, counts]),
                Section::new(Kind::Head, vec![head]),
            ],
        )
    }

    #[test]
    fn only_the_targets_change_and_by_the_stated_deviation() {
        let body = body();
        let noisy = noise(2.0, 0.25, &["sums"]).apply(&body, &[], key(1)).unwrap();
        assert_eq!(noisy.shape(), body.shape());
        for ((_, old), (_, new)) in body.tensors().zip(noisy.tensors()) {
            assert_eq!(old.values().same_bits(new.values()), &**old.name() != "sums");
        }
        let sums = noisy.tensor(Kind::Statistics, "sums").unwrap().as_f32().unwrap().clone();
        let mean = sums.iter().map(|x| f64::from(*x) - 5.0).sum::<f64>() / 3000.0;
        let square = sums.iter().map(|x| (f64::from(*x) - 5.0).powi(2)).sum::<f64>() / 3000.0;
        assert!(mean.abs() < 0.04, "{mean}");
        assert!((square.sqrt() - 0.5).abs() < 0.03, "{}", square.sqrt());
        // Participants draw for themselves; the same participant draws the same again.
        let of = |client| noise(2.0, 0.25, &["sums"]).apply(&body, &[], key(client)).unwrap();
        assert_eq!(of(1).digest(), noisy.digest());
        assert_ne!(of(2).digest(), noisy.digest());
    }

    #[test]
    fn a_kind_means_all_its_tensors_and_other_noise_moves_no_draw() {
        let body = body();
        let one = noise(1.0, 1.0, &["sums"]).apply(&body, &["gram"], key(1)).unwrap();
        let all = noise(1.0, 1.0, &["statistics"]).apply(&body, &["gram"], key(1)).unwrap();
        let of = |body: &Body, name| body.tensor(Kind::Statistics, name).unwrap().values().clone();
        assert!(of(&one, "sums").same_bits(&of(&all, "sums")));
        for name in ["gram", "counts"] {
            assert!(!of(&one, name).same_bits(&of(&all, name)), "{name}");
        }
        let counts = all.tensor(Kind::Statistics, "counts").unwrap().as_u32().unwrap().clone();
        assert!(counts[3].abs_diff(1000) < 6, "{counts:?}");
    }

    #[test]
    fn noise_on_a_gram_is_symmetric_and_that_of_its_half() {
        let noise = noise(1.0, 1.0, &["gram"]);
        let noisy = noise.apply(&body(), &["gram"], key(1)).unwrap();
        let gram = noisy.tensor(Kind::Statistics, "gram").unwrap().as_f64().unwrap().clone();
        let mut lower = Vec::new();
        for row in 0..30 {
            for column in 0..30 {
                assert_eq!(gram[row * 30 + column], gram[column * 30 + row]);
                if column <= row {
                    lower.push(gram[row * 30 + column]);
                }
            }
        }
        let half = NamedTensor::f64("gram", [465], vec![0.0; 465]).unwrap();
        let half = Body::new(vec![], vec![Section::new(Kind::Statistics, vec![half])]);
        let half = noise.apply(&half, &["gram"], key(1)).unwrap();
        let half = half.tensor(Kind::Statistics, "gram").unwrap().as_f64().unwrap().clone();
        assert_eq!(lower, half.to_vec());
        let flat = NamedTensor::f64("gram", [2, 3], vec![0.0; 6]).unwrap();
        let flat = Body::new(vec![], vec![Section::new(Kind::Statistics, vec![flat])]);
        assert!(noise.apply(&flat, &["gram"], key(1)).is_err());
    }
}
