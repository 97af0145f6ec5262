//! **DER++** (Buzzega et al., NeurIPS 2020) over FedAvg: replay of samples with their labels and stored logits.
//!
//! A client remembers samples with the logits they had when they were stored, and trains its model to match both.
//!
//! ```text
//! client   a step: L = CE(batch) + alpha mean over B1 of |z(x) - z_stored|^2 / K + beta CE(B2)
//!          B1, B2: independent draws from the reservoir of `buffer_size` samples, each without replacement
//! server   as FedAvg
//! ```
//! The compared outputs are chosen by `columns`: all outputs (the original; future rows of the head are then held near
//! their initial values), those of the classes seen by now (fed-mammoth), or those of the classes seen when a sample
//! was stored. With `old_logits = "keep"` all of these outputs compete for new samples as well; masked, only the
//! classes of the task do.
//!
//! With `logits = "stream"` logits are those of the augmented image in training mode at the step of storing, by the
//! local model of that step, not by a global model. With `"end"` they are those of the client's model after its last
//! round of the task, in evaluation mode; until then a sample has none, and only its label counts. Samples are offered
//! at every step, as in both releases: an image may be in the memory several times, each with the logits of its step.
//! With `offered = "once"` most logits are of a model that has hardly trained on the task. A training step takes three
//! passes where FedAvg takes one.

use std::ops::Range;

use clap::ValueEnum;

use super::averaging::{OldLogits, PackClient, PackResult, train_sequentially};
use super::entry::MethodEntry;
use super::er::remembering;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, LocalTraining, LocalUpdate, Parts, TrainedRows,
    Workload,
};
use super::replay::{Buffer, Replay, ReplayMemory, ReplayTerms, learn, note_again};
use crate::data::TaskView;
use crate::policy::PolicyError;
use crate::scenario::reader::{Choice, Keys};

/// Outputs of remembered samples that are compared with stored logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ComparedColumns {
    /// Outputs of all classes in messages.
    All,
    /// Outputs of classes seen by now.
    Seen,
    /// Outputs of classes that were seen when a sample was stored.
    Stored,
}

/// Time at which logits are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum LogitTiming {
    /// At the step in which a sample is stored.
    Stream,
    /// After a client's last round of a task, in evaluation mode.
    End,
}

/// Keys of the `[method]` table of DER++.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Der {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Samples that a client remembers.
    #[key(flatten)]
    pub buffer: Buffer,
    /// Weight of the loss on stored logits.
    #[key(default = 0.5, at_least = 0.0, at_most = 1e6, source = "fed-mammoth")]
    pub alpha: f64,
    /// Weight of the loss on labels of remembered samples.
    #[key(default = 0.5, at_least = 0.0, at_most = 1e6, source = "fed-mammoth")]
    pub beta: f64,
    /// Outputs of remembered samples that are compared with stored logits.
    #[key(default = ComparedColumns::Seen, source = "fed-mammoth; all in Buzzega et al.")]
    pub columns: ComparedColumns,
    /// Time at which the logits of a sample are stored.
    #[key(default = LogitTiming::Stream, source = "Buzzega et al.; fed-mammoth")]
    pub logits: LogitTiming,
}

impl Der {
    fn terms(&self, rows: Range<usize>, view: &TaskView) -> ReplayTerms {
        let old = match self.columns {
            ComparedColumns::All => rows,
            ComparedColumns::Seen | ComparedColumns::Stored => 0..view.seen(),
        };
        let new = match self.fedavg.old_logits {
            OldLogits::Mask => view.rows.clone(),
            OldLogits::Keep => old.clone(),
        };
        let (alpha, beta, compared) = (self.alpha, self.beta, old.end);
        ReplayTerms { new, old, joint: false, alpha, compared, beta }
    }
}

impl AveragingMethod for Der {
    type State = ReplayMemory;
    type Memory = ();

    /// Returns FedAvg's parts, which train all head rows whose logits are stored.
    fn parts(&self) -> Parts<'_, ReplayMemory, ()> {
        let trains = match self.columns {
            ComparedColumns::Stored => TrainedRows::Seen,
            ComparedColumns::All | ComparedColumns::Seen => TrainedRows::Carried,
        };
        Parts { trains, local: self, ..self.fedavg.base() }
    }
}

impl LocalUpdate<ReplayMemory> for Der {
    fn client_update(
        &self,
        training: &LocalTraining<'_, ReplayMemory>,
        pack: &mut [PackClient<'_, ReplayMemory>],
    ) -> Result<PackResult, PolicyError> {
        let ClientContext { model, shared, ctx } = training.context;
        Ok(train_sequentially(pack, |member| {
            let view = &member.participant.view;
            let rows = shared.trained_rows(model, view);
            let noted = rows.len();
            let notes = (self.logits == LogitTiming::Stream && self.alpha > 0.0).then_some(noted);
            let replay = Replay { buffer: self.buffer, terms: self.terms(rows, view), notes };
            let trained = learn(training, &replay, member)?;
            if self.logits == LogitTiming::End && self.alpha > 0.0 {
                let (rows, memory) = (view.rows.clone(), &mut member.state);
                note_again(memory, rows, (&trained.parameters, noted), ctx)?;
            }
            Ok(trained)
        }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Charges two draws per step, each at its full size, although the first ones are smaller.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let batch = load.plan.batch;
        let draw = self.buffer.drawn(batch, self.buffer.size as usize);
        let draws = [self.alpha, self.beta].iter().filter(|weight| **weight > 0.0).count();
        let more = (draws * draw) as f64 / batch.max(1) as f64;
        load.passes() * (1.0 + more)
    }

    fn demands(&self) -> Demands {
        Demands::requiring(remembering(self.buffer))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients remember samples with their logits at that time, and train on both these logits \
               and the labels.",
        source: "Buzzega et al., Dark Experience for General Continual Learning, NeurIPS 2020 (DER++)",
        state: "server: the parameters; client: a buffer of samples with logits",
        ..MethodEntry::averaging("der", Der::read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

    /// New samples compete among the classes of their task if masked, otherwise among all compared outputs.
    #[test]
    fn new_samples_compete_where_the_key_says() {
        let view = TaskView { task: TaskId(1), rows: 2..4, classes: vec![2, 3] };
        let of = |old_logits| {
            let fedavg = FedAvg { old_logits, ..FedAvg::default() };
            Der { fedavg, ..Der::default() }.terms(0..6, &view)
        };
        assert_eq!((of(OldLogits::Mask).new, of(OldLogits::Mask).old), (2..4, 0..4));
        assert_eq!((of(OldLogits::Keep).new, of(OldLogits::Keep).compared), (0..4, 4));
        assert_eq!(Der::default().columns, ComparedColumns::Seen);
    }
}
