//! Training of a GLFC client in a round.

use std::sync::Arc;

use super::choosing::Choosing;
use super::config::{Glfc, OldModel};
use super::objective::GlfcObjective;
use super::outputs::{Outputs, Own};
use super::proxy::{GRADIENTS, OLD, gradients, old_in, with_rows};
use super::signal::Signal;
use super::state::GlfcClientState;
use crate::data::{Shard, TaskView};
use crate::learning::{Classifier, Teacher};
use crate::methods::averaging::{LocalTrainingResult, PackClient, previous, take_single};
use crate::methods::parts::{ClientContext, LocalTraining};
use crate::model::ParameterSet;
use crate::policy::{Message, PolicyError, RunContext};

impl Glfc {
    pub(super) fn has_proxy(&self) -> bool {
        self.old_model == OldModel::Proxy
    }

    /// Returns true if clients report the spread of their features, as in the first task of LGA.
    pub(super) fn traces(&self, view: &TaskView) -> bool {
        let augment = self.proxy.augment.filter(|_| self.has_proxy() && view.task.0 == 0);
        augment.is_some_and(|augment| augment.from_clients)
    }

    /// Returns the old model, which a download names or the client keeps, and the number of its head rows.
    fn old_of(
        &self,
        download: &Message,
        state: &GlfcClientState,
        before: usize,
    ) -> Result<Option<(ParameterSet, usize)>, PolicyError> {
        match self.old_model {
            OldModel::TaskEnd => Ok(previous::of(download)?.map(|previous| (previous, before))),
            OldModel::Received => Ok(state.old.clone().map(|old| (old, before))),
            OldModel::Proxy => Ok(download.asset(OLD).map(|asset| old_in(asset)).transpose()?),
        }
    }

    /// Trains a client in a round.
    ///
    /// # Errors
    /// When the network fails, or a sample cannot be read.
    pub(super) fn train(
        &self,
        training: &LocalTraining<'_, GlfcClientState>,
        member: &mut PackClient<'_, GlfcClientState>,
    ) -> Result<LocalTrainingResult, PolicyError> {
        let ClientContext { model, ctx, .. } = training.context;
        let view = Arc::clone(&member.participant.view);
        let mut state = std::mem::take(&mut member.state);
        for missed in member.missed {
            state.meet(missed.task, &missed.shard);
        }
        state.meet(view.task, member.shard);
        let received = Classifier::frozen(&ctx.backbone, &member.received)?;
        let signaled = self.is_signaled(&mut state, member, &received, ctx)?;
        if signaled {
            let (budget, repeats) = (self.memory_size as usize, self.repeats);
            let choosing = Choosing { budget, repeats, by: self.exemplars };
            state.learn(view.task, &received, (choosing, member.key), ctx)?;
            // A client that has learned nothing has nothing to distill.
            let keeps = self.old_model == OldModel::Received && !state.rows.is_empty();
            let old = keeps.then(|| with_rows(&member.received, view.rows.start));
            state.old = old.transpose()?;
        }
        let old = state.by_class.below(view.rows.start as u32);
        let mut all = [member.shard, old.as_slice()].concat();
        all.sort_unstable();
        let (all, learned): (Shard, _) = (all.into(), state.of_tasks(&ctx.task_sequence));
        let old_model = self.old_of(member.download, &state, view.rows.start)?;
        let teacher = old_model.map(|(old, rows)| Teacher::new(&ctx.backbone, &old, 0..rows, None));
        let (terms, task, teacher) = (self.terms, view.task.index(), teacher.transpose()?);
        let own = (self.outputs == Outputs::Own)
            .then(|| Own::new(&learned, view.rows.clone(), model.classes));
        let ctx = RunContext { training: self.lr_schedule.plan(&ctx.training), ..ctx.clone() };
        let training = training.in_context(&ctx);
        let trained = training.train_with_objective(&[member.with_shard(&all)], |_| {
            Ok(Box::new(GlfcObjective { terms, learned, task, own, old: teacher }))
        })?;
        let mut trained = take_single(trained)?;
        trained.samples = member.shard.len();
        if signaled && self.has_proxy() && !member.shard.is_empty() {
            let sent_model = (&trained.parameters, view.seen());
            let sent = gradients(&self.proxy, model, sent_model, member.shard, &ctx)?;
            trained.vectors.insert(GRADIENTS, sent);
        }
        trained.metrics.push(("signal", f64::from(u8::from(signaled))));
        if self.task_detection == Signal::Entropy {
            trained.metrics.push(("entropy", state.entropy));
        }
        trained.metrics.push(("learned_classes", state.rows.len() as f64));
        trained.metrics.push(("exemplars", old.len() as f64));
        member.state = state;
        Ok(trained)
    }
}
