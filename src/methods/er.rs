//! **ER**, experience replay, over FedAvg: every step also trains on samples that the client remembers.
//!
//! ```text
//! client   a step: L = mean CE over batch and draw, or CE(batch) + CE(draw);  the draw is from a reservoir of
//!          `buffer_size` samples, without replacement; the batch of every step is offered to it     (offered)
//! server   as FedAvg
//! ```
//! With `old_logits = "keep"` all classes seen compete for all samples (the original); masked, the classes of the task
//! compete for new samples and all classes seen for remembered ones (as in fed-mammoth). Samples are never sent, but a
//! report on privacy or a comparison with methods without a memory has to mention it. With `joint`, remembered samples
//! are in one batch with the new ones and take part in the moments of batch norms.

use super::averaging::{PackClient, PackResult, Requirement, train_sequentially};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, Demands, LocalTraining, LocalUpdate, Parts, TrainedRows, Workload,
};
use super::replay::{Buffer, Replay, ReplayMemory, ReplayTerms, learn};
use crate::policy::PolicyError;
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of ER.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Er {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Samples that a client remembers.
    #[key(flatten)]
    pub buffer: Buffer,
    /// One joint mean over new and remembered samples in place of a term for each.
    #[key(default = true)]
    pub joint: bool,
}

/// Requires that clients with a memory return.
pub(super) fn remembering(buffer: Buffer) -> Vec<Requirement> {
    let why = "clients replay remembered samples, but fresh clients have none";
    let returning = || Requirement::returning_clients(why, Some("`method.buffer_size = 0`"));
    (buffer.size > 0).then(returning).into_iter().collect()
}

impl AveragingMethod for Er {
    type State = ReplayMemory;
    type Memory = ();

    /// Returns FedAvg's parts, which train the rows of all classes seen: remembered samples need them.
    fn parts(&self) -> Parts<'_, ReplayMemory, ()> {
        Parts { trains: TrainedRows::Seen, local: self, ..self.fedavg.base() }
    }
}

impl LocalUpdate<ReplayMemory> for Er {
    fn client_update(
        &self,
        training: &LocalTraining<'_, ReplayMemory>,
        pack: &mut [PackClient<'_, ReplayMemory>],
    ) -> Result<PackResult, PolicyError> {
        Ok(train_sequentially(pack, |member| {
            let view = &member.participant.view;
            let (new, old) = (self.fedavg.old_logits.rows(view), 0..view.seen());
            let terms =
                ReplayTerms { new, old, joint: self.joint, alpha: 0.0, compared: 0, beta: 1.0 };
            learn(training, &Replay { buffer: self.buffer, terms, notes: None }, member)
        }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Charges a draw per step at its full size, although the first ones are smaller.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let batch = load.plan.batch;
        let draw = self.buffer.drawn(batch, self.buffer.size as usize);
        load.passes() * (1.0 + draw as f64 / batch.max(1) as f64)
    }

    fn demands(&self) -> Demands {
        Demands::requiring(remembering(self.buffer))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients remember a uniform sample of their data and replay it in every step.",
        source: "experience replay; Buzzega et al., Dark Experience for General Continual Learning, \
                 NeurIPS 2020",
        state: "server: the parameters; client: a buffer of samples",
        ..MethodEntry::averaging("er", Er::read)
    }
}
