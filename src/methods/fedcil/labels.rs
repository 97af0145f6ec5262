//! Classes in a client's upload: those of its task and those of earlier tasks.

use std::collections::BTreeSet;

use super::state::FedCilState;
use super::{FedCil, LastGenerator};
use crate::methods::averaging::{LocalTrainingResult, PackClient, sample_count};
use crate::methods::parts::{ClientContext, UploadExtras};
use crate::policy::{ExchangeFacts, Message, PolicyError, TensorSpec};
use crate::wire::{Dtype, Kind, NamedTensor, Section, TensorValues, WireError};

/// Name of the tensor of classes, with a byte for every head row.
const LABELS: &str = "classes";
/// Bit of a class of the current task; the next one is that of a class of an earlier task.
const CURRENT: u8 = 1;
const PAST: u8 = 2;

/// Head rows of a client's classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientClasses {
    /// Classes of the task.
    pub current: Vec<u32>,
    /// Classes of earlier tasks.
    pub past: Vec<u32>,
}

impl ClientClasses {
    fn bytes(current: &BTreeSet<u32>, past: &BTreeSet<u32>, rows: usize) -> Vec<u8> {
        let of = |row: u32| {
            let current = if current.contains(&row) { CURRENT } else { 0 };
            current | if past.contains(&row) { PAST } else { 0 }
        };
        (0..rows as u32).map(of).collect()
    }

    /// Reads the classes in an upload.
    ///
    /// # Errors
    /// When the upload has no valid tensor of classes.
    pub fn of(update: &Message) -> Result<ClientClasses, WireError> {
        let tensor = update.tensor(Kind::Statistics, LABELS)?;
        let TensorValues::U8(bytes) = tensor.values() else {
            return Err(WireError::Malformed(format!("`{LABELS}` has no bytes")));
        };
        if bytes.iter().any(|byte| *byte > CURRENT | PAST) {
            return Err(WireError::Malformed(format!("`{LABELS}` has a byte above 3")));
        }
        let rows = |bit: u8| {
            let of_bit = (0..).zip(bytes.iter()).filter(|(_, byte)| **byte & bit != 0);
            of_bit.map(|(row, _)| row).collect()
        };
        Ok(ClientClasses { current: rows(CURRENT), past: rows(PAST) })
    }
}

impl UploadExtras<FedCilState> for FedCil {
    /// Returns the sample count and, if the server trains, the classes: its generators need them.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let rows = [facts.model.classes];
        let labels = || TensorSpec::new(Kind::Statistics, LABELS, &rows, Dtype::U8).kept();
        std::iter::once(sample_count()).chain(self.fine_tunes().then(labels)).collect()
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, FedCilState>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut section = trained.sample_count()?;
        if self.fine_tunes() {
            let rows = context.model.classes;
            let seen: BTreeSet<u32> = match self.last_generator {
                LastGenerator::Own => member.state.past().clone(),
                LastGenerator::Server => (0..member.participant.view.rows.start as u32).collect(),
            };
            let bytes = ClientClasses::bytes(member.state.current(), &seen, rows);
            section.tensors.push(NamedTensor::new(LABELS, [rows], TensorValues::U8(bytes.into()))?);
        }
        Ok(vec![section])
    }

    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        if self.fine_tunes() {
            ClientClasses::of(update)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: Vec<u8>) -> Message {
        let count = [bytes.len()];
        let tensor = NamedTensor::new(LABELS, count, TensorValues::U8(bytes.into())).unwrap();
        let extra = vec![Section::new(Kind::Statistics, vec![tensor])];
        Message { extra, ..Message::default() }
    }

    #[test]
    fn classes_are_read_as_they_were_written() {
        let bytes = ClientClasses::bytes(&[1, 4].into(), &[0, 4].into(), 6);
        assert_eq!(bytes, [2, 1, 0, 0, 3, 0]);
        let classes = ClientClasses::of(&message(bytes)).unwrap();
        assert_eq!((classes.current, classes.past), (vec![1, 4], vec![0, 4]));
        assert!(ClientClasses::of(&message(vec![4])).is_err());
        assert!(ClientClasses::of(&Message::default()).is_err());
    }
}
