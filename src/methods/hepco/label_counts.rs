//! Label counts: the samples that a client has of every class of the task, which the server's losses need.

use std::sync::Arc;

use super::consolidation::Local;
use crate::learning::with_head_rows;
use crate::methods::averaging::{LocalTrainingResult, PackClient};
use crate::methods::parts::{ClientContext, UploadExtras};
use crate::policy::{ExchangeFacts, KeptUpload, Message, PolicyError, TensorSpec};
use crate::wire::{Dtype, Kind, MetaWriter, NamedTensor, Section, WireError};

/// Name of the tensor of label counts in uploads.
const COUNTS: &str = "label_counts";

/// Number of samples of each class of the task that a client has; their sum is the upload's weight.
pub(super) struct LabelCounts;

impl<S> UploadExtras<S> for LabelCounts {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let classes = [facts.view.rows.len()];
        vec![TensorSpec::new(Kind::Statistics, COUNTS, &classes, Dtype::U32).kept()]
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, S>,
        _trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let counts = context.ctx.reported_label_counts(member.participant, member.shard);
        let of = |row: usize| counts.get(&(row as u32)).copied().unwrap_or(0);
        let counts: Vec<u32> = member.participant.view.rows.clone().map(of).collect();
        let counts = NamedTensor::u32(COUNTS, [counts.len()], counts)?;
        Ok(vec![Section::new(Kind::Statistics, vec![counts])])
    }

    fn weight_tensor(&self) -> &'static str {
        COUNTS
    }

    /// Returns the first head row of the upload and the first row that is counted (the first of the task).
    fn fields(&self, facts: &ExchangeFacts<'_>, first_row: usize, _usual: Vec<u8>) -> Vec<u8> {
        let mut fields = MetaWriter::new();
        fields.u64(first_row as u64).u64(facts.view.rows.start as u64);
        fields.finish()
    }

    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        Ok(reported(update, 0).map(drop)?)
    }
}

/// Returns the first head row of an upload, and its label counts of `rows` head rows.
fn reported(update: &Message, rows: usize) -> Result<(usize, Vec<u32>), WireError> {
    let mut control = update.fields();
    let (first_row, first_counted) = (control.u64()? as usize, control.u64()? as usize);
    control.finish()?;
    let mut counts = vec![0; rows];
    let own = counts.iter_mut().skip(first_counted);
    let reported = update.tensor(Kind::Statistics, COUNTS)?.as_u32()?;
    own.zip(reported.iter()).for_each(|(to, count)| *to = *count);
    Ok((first_row, counts))
}

/// Returns the model that a client trained, with its label counts.
pub(super) fn teacher(
    KeptUpload { sent, update, .. }: &KeptUpload,
    classes: usize,
) -> Result<Local, PolicyError> {
    let (first_row, counts) = reported(update, classes)?;
    let parameters = with_head_rows(&sent.parameters, &update.parameters, first_row)?;
    Ok(Local { parameters: Arc::new(parameters), counts })
}
