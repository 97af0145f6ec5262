//! Trained values as parameters again: by member, at the places of the received ones.

use std::ops::Range;
use std::sync::Arc;

use super::Classifier;
use super::head_rows::with_rows;
use crate::learning::prompting::is_prompt;
use crate::model::{ModelError, Parameter, ParameterSet, is_lora};

impl Classifier {
    /// Returns the flat range of a variable's values among those of the whole parameter.
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
            // The last of several pairs.
            _ if is_lora(name) => whole.rows() - 1..whole.rows(),
            _ => self.rows.clone(),
        }
    }

    /// Returns everything received, with the trained values as they are now; of a pack, the first member's.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        Ok(self.pack_parameters()?.swap_remove(0))
    }

    /// Returns everything that each member received, with the trained values as they are now.
    ///
    /// # Errors
    /// What the device reports.
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
