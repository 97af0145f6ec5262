//! Conversion of trained variables back to parameters, for each member of a pack.

use std::ops::Range;
use std::sync::Arc;

use super::Classifier;
use super::head_rows::with_rows;
use crate::learning::prompting::is_prompt;
use crate::model::{ModelError, Parameter, ParameterSet, is_lora};

impl Classifier {
    /// Returns the flat range that a variable's values take within the complete parameter.
    pub fn place_of(&self, name: &str) -> Option<Range<usize>> {
        let whole = self.received[0].get(name)?;
        let (_, variable) = self.variables.iter().find(|(own, _)| &**own == name)?;
        let own = variable.elem_count() / self.members();
        let first = match own == whole.values.len() {
            true => 0,
            false => self.trained_rows(name, whole).start * whole.width(),
        };
        Some(first..first + own)
    }

    /// Returns the rows of a parameter that train, if any of its rows do.
    fn trained_rows(&self, name: &str, whole: &Parameter) -> Range<usize> {
        match &self.pool {
            Some(pool) if is_prompt(name) => pool.prompting().trained(name, whole.shape[0]),
            // Only the last of several LoRA pairs trains.
            _ if is_lora(name) => whole.rows() - 1..whole.rows(),
            _ => self.rows.clone(),
        }
    }

    /// Returns all received parameters with the current trained values. In a pack, they are the first member's.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        Ok(self.pack_parameters()?.swap_remove(0))
    }

    /// Returns each member's received parameters with the current trained values.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn pack_parameters(&self) -> Result<Vec<ParameterSet>, ModelError> {
        let mut results = self.received.clone();
        for (name, variable) in &self.variables {
            let now = Parameter::of(variable)?;
            let alone = results.len() == 1;
            let each = now.values.chunks(now.values.len().div_ceil(results.len()).max(1));
            for (result, values) in results.iter_mut().zip(each) {
                let whole = result.get(name).expect("variables are made from what was received");
                let shape = whole.shape.clone();
                let parameter = match whole.values.len() == values.len() {
                    true if alone => Parameter { shape, values: Arc::clone(&now.values) },
                    true => Parameter { shape, values: values.into() },
                    false => with_rows(whole, self.trained_rows(name, whole), values),
                };
                result.insert(Arc::clone(name), parameter);
            }
        }
        // A backbone that trains is in a pack of one.
        if self.backbone.is_in(&self.received[0]) && !self.variables.is_empty() {
            for (name, buffer) in self.backbone.buffers()?.iter() {
                results[0].insert(Arc::clone(name), buffer.clone());
            }
        }
        if let Some(own) = &self.adjustment {
            for (name, buffer) in own.buffers()?.iter() {
                results[0].insert(Arc::clone(name), buffer.clone());
            }
        }
        Ok(results)
    }
}
