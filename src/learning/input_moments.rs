//! Second moments of the inputs of linear layers: `sum X^T X` over all tokens of all samples, or its diagonal.
//!
//! A batch's moments are computed in f32, as activations are, and summed in f64. Only the sums are kept.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use candle_core::{DType, Result, Tensor};

use super::LearningError;
use crate::model::{InputHook, LinearLayer, ops};
use crate::numerics::regression_mean::SecondMoments;
use crate::numerics::symmetric::Symmetric;

/// Form of the moments of a layer's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentForm {
    /// Squares of the inputs: one number per input.
    Diagonal,
    /// Products of all pairs of inputs: a symmetric matrix.
    Full,
}

/// Running sums by the name of a layer's weight. As an [`InputHook`] it sees the layers of a transformer's blocks.
#[derive(Debug)]
pub struct InputMoments {
    form: MomentForm,
    sums: Mutex<BTreeMap<String, Tensor>>,
}

impl InputMoments {
    /// Returns empty sums.
    pub fn new(form: MomentForm) -> InputMoments {
        InputMoments { form, sums: Mutex::default() }
    }

    /// Adds inputs `(.., in)` of the layer with this weight.
    ///
    /// # Errors
    /// Returns an error if the inputs have another width than before.
    pub fn add(&self, weight: String, x: &Tensor) -> Result<()> {
        let inputs = x.dim(candle_core::D::Minus1)?;
        let rows = x.detach().reshape(((), inputs))?.to_dtype(DType::F32)?;
        let own = match self.form {
            MomentForm::Diagonal => ops::sum(&rows.to_dtype(DType::F64)?.sqr()?, 0)?,
            MomentForm::Full => {
                let columns = rows.t()?.contiguous()?;
                ops::linear(&columns, &columns, None)?.to_dtype(DType::F64)?
            }
        };
        let mut sums = self.sums.lock();
        let sum = match sums.get(&weight) {
            Some(sum) => (sum + own)?,
            None => own,
        };
        sums.insert(weight, sum);
        Ok(())
    }

    /// Returns the sums by weight name.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn finish(&self) -> std::result::Result<BTreeMap<String, SecondMoments>, LearningError> {
        let sums = self.sums.lock();
        let of = |(name, sum): (&String, &Tensor)| {
            let values = sum.flatten_all()?.to_vec1::<f64>()?;
            let moments = match self.form {
                MomentForm::Diagonal => SecondMoments::Diagonal(values),
                MomentForm::Full => {
                    let matrix = Symmetric::from_full(sum.dim(0)?, &values);
                    SecondMoments::Full(matrix.expect("a square matrix"))
                }
            };
            Ok((name.clone(), moments))
        };
        sums.iter().map(of).collect()
    }
}

impl InputHook for InputMoments {
    fn input(&self, block: usize, layer: LinearLayer, x: &Tensor) -> Result<()> {
        self.add(layer.weight(block), x)
    }
}

#[cfg(test)]
mod golden;
