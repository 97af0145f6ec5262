//! Terms of the loss of a step with replay.
//!
//! ```text
//! joint      mean CE over batch and draw together
//! separate   CE(batch) + beta CE(draw) + alpha mean (z - stored logits)^2 over another draw
//! ```

use std::ops::Range;

use candle_core::{Result, Tensor};

use crate::learning::losses::stored_logits;
use crate::model::ops::cross_entropy;

/// Logits `(b, rows)` of a batch and the samples' head rows.
#[derive(Clone, Copy)]
pub(in crate::methods) struct LabeledLogits<'a> {
    pub logits: &'a Tensor,
    pub labels: &'a [u32],
}

/// Logits `(b, rows)` of drawn samples, and the logits that were stored with each.
#[derive(Clone, Copy)]
pub(in crate::methods) struct StoredLogits<'a> {
    pub logits: &'a Tensor,
    pub noted: &'a [Vec<f32>],
}

/// Weights of the terms of the loss, and the outputs that compete for each kind of sample.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::methods) struct ReplayTerms {
    /// Outputs that compete for new samples.
    pub new: Range<usize>,
    /// Outputs that compete for remembered samples.
    pub old: Range<usize>,
    /// True if new and remembered samples share one mean.
    pub joint: bool,
    /// Weight of the distance from stored logits, and the largest number of columns that are compared.
    pub alpha: f64,
    pub compared: usize,
    /// Weight of the cross-entropy of a draw.
    pub beta: f64,
}

impl ReplayTerms {
    /// Returns true if the cross-entropy of remembered samples has weight.
    pub fn replays(&self) -> bool {
        self.beta > 0.0
    }

    /// Returns true if the distance from stored logits has weight.
    pub fn remembers(&self) -> bool {
        self.alpha > 0.0
    }

    /// Returns the loss of a step, a scalar; a draw that is `None` adds nothing.
    pub fn loss(
        &self,
        batch: LabeledLogits<'_>,
        draw: Option<LabeledLogits<'_>>,
        noted: Option<StoredLogits<'_>>,
    ) -> Result<Tensor> {
        let mut loss = cross_entropy(batch.logits, batch.labels, self.new.clone())?;
        if let Some(draw) = draw {
            let old = cross_entropy(draw.logits, draw.labels, self.old.clone())?;
            let samples = (batch.labels.len() + draw.labels.len()) as f64;
            loss = match self.joint {
                true => {
                    let new = (loss * (batch.labels.len() as f64 / samples))?;
                    (new + (old * (draw.labels.len() as f64 / samples))?)?
                }
                false => (loss + (old * self.beta)?)?,
            };
        }
        if let Some(StoredLogits { logits, noted }) = noted {
            let noted: Vec<&[f32]> = noted.iter().map(Vec::as_slice).collect();
            loss = (loss + (stored_logits(logits, &noted, self.compared)? * self.alpha)?)?;
        }
        Ok(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    struct GoldenTerms {
        golden: Golden,
        labels: [Vec<u32>; 2],
    }

    fn read(golden: &Golden, name: &str) -> Var {
        let values: Vec<f32> = golden.f64(name).into_iter().map(|value| value as f32).collect();
        Var::from_tensor(&Tensor::from_vec(values, golden.shape(name), &Device::Cpu).unwrap())
            .unwrap()
    }

    impl GoldenTerms {
        /// Value and gradients of a loss of the stored batches; `width` columns were noted.
        fn check(&self, terms: &ReplayTerms, width: usize, names: [&str; 4]) {
            let golden = &self.golden;
            let [z, z1, z2] = ["z", "z1", "z2"].map(|name| read(golden, name));
            let noted: Vec<Vec<f32>> = golden
                .f64("s1")
                .chunks(12)
                .map(|row| row[..width].iter().map(|v| *v as f32).collect())
                .collect();
            let batch = LabeledLogits { logits: &z, labels: &self.labels[0] };
            let draw = LabeledLogits { logits: &z2, labels: &self.labels[1] };
            let noted = StoredLogits { logits: &z1, noted: &noted };
            let noted = terms.remembers().then_some(noted);
            let loss = terms.loss(batch, Some(draw), noted).unwrap();
            golden.assert_close_f32(names[0], &[loss.to_scalar::<f32>().unwrap()]);
            let gradients = loss.backward().unwrap();
            for (variable, name) in [&z, &z1, &z2].into_iter().zip(&names[1..]) {
                if !name.is_empty() {
                    let gradient = gradients.get(variable).unwrap().flatten_all().unwrap();
                    golden.assert_close_f32(name, &gradient.to_vec1::<f32>().unwrap());
                }
            }
        }
    }

    fn er(new: Range<usize>, joint: bool) -> ReplayTerms {
        ReplayTerms { new, old: 0..9, joint, alpha: 0.0, compared: 0, beta: 1.0 }
    }

    fn vectors() -> Option<GoldenTerms> {
        let golden = Golden::open("rehearsal")?;
        let labels = ["labels", "labels2"].map(|name| golden.labels(name));
        Some(GoldenTerms { golden, labels })
    }

    #[test]
    fn golden_rehearsal_of_er() {
        let Some(vectors) = vectors() else { return };
        for (name, terms) in [
            ("er.joint", er(0..9, true)),
            ("er.separate", er(0..9, false)),
            ("er.current", er(6..9, false)),
        ] {
            let of = |what: &str| format!("{name}.{what}");
            vectors.check(&terms, 12, [name, &of("grad_z"), "", &of("grad_z2")]);
        }
    }

    #[test]
    fn golden_rehearsal_of_der() {
        let Some(vectors) = vectors() else { return };
        let terms = |new, old: Range<usize>, compared| ReplayTerms {
            new,
            old,
            joint: false,
            alpha: 0.5,
            compared,
            beta: 0.5,
        };
        for (name, terms, width) in [
            ("original", terms(0..12, 0..12, 12), 12),
            ("current", terms(6..9, 0..9, 9), 12),
            ("narrow", terms(6..9, 0..9, 9), 6),
        ] {
            let of = |what: &str| format!("{name}.{what}");
            let names = ["total", "grad_z", "grad_z1", "grad_z2"].map(of);
            vectors.check(&terms, width, names.each_ref().map(String::as_str));
            let parts = vectors.golden.f64(&format!("{name}.parts"));
            let [z, z1, z2] = ["z", "z1", "z2"].map(|name| read(&vectors.golden, name));
            let ce = cross_entropy(&z, &vectors.labels[0], terms.new.clone()).unwrap();
            let replay = cross_entropy(&z2, &vectors.labels[1], terms.old.clone()).unwrap();
            let noted: Vec<f32> = vectors.golden.f64("s1").into_iter().map(|v| v as f32).collect();
            let noted: Vec<&[f32]> = noted.chunks(12).map(|row| &row[..width]).collect();
            let mse = stored_logits(&z1, &noted, terms.compared).unwrap();
            for (found, wanted) in [ce, mse, replay].iter().zip(parts) {
                let found = f64::from(found.to_scalar::<f32>().unwrap());
                assert!((found - wanted).abs() < 2e-5, "{name}: {found} {wanted}");
            }
        }
    }

    /// Rehearsal card, invariant 3: at what was noted there is no pull, elsewhere `2 (z - noted) / (K |B1|)`; and what
    /// nothing was noted of has none.
    #[test]
    fn noted_logits_pull_back() {
        let z = Var::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu).unwrap();
        let slope = |noted: [&[f32]; 2], columns| {
            let loss = stored_logits(&z, &noted, columns).unwrap();
            let gradients = loss.backward().unwrap();
            let flat = gradients.get(&z).unwrap().flatten_all().unwrap();
            (loss.to_scalar::<f32>().unwrap(), flat.to_vec1::<f32>().unwrap())
        };
        let (loss, none) = slope([&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]], 3);
        assert_eq!((loss, none), (0.0, vec![0.0; 6]));
        let (loss, pull) = slope([&[0.0, 2.0], &[]], 3);
        assert_eq!((loss, pull), (0.25, vec![0.5, 0.0, 0.0, 0.0, 0.0, 0.0]));
        let (_, narrow) = slope([&[1.0, 0.0, 0.0], &[4.0, 5.0, 0.0]], 2);
        assert_eq!(narrow, [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(
            stored_logits(&z, &[&[1.0]], 3).is_err() && stored_logits(&z, &[&[], &[]], 4).is_err()
        );
    }
}
