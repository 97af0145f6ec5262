//! The client: trains the prompts of its task and the head.

use std::sync::Arc;

use super::{Down, PromptKind, Prompted, Up};
use crate::data::Loader;
use crate::learning::{Classifier, Course, TrainingReport, train_pack};
use crate::model::ParameterSet;
use crate::policy::{
    ClientPolicy, Failure, Lab, Learnt, Member, Outcome, PolicyError, Predictor, WireForm, together,
};

/// Serves every client: it keeps nothing.
pub struct PromptedClient<K> {
    pub(super) method: Arc<Prompted<K>>,
}

impl<K: PromptKind> PromptedClient<K> {
    fn learn(
        &self,
        members: &mut [Member<'_, Prompted<K>>],
        lab: &Lab,
    ) -> Result<Learnt<Up>, PolicyError> {
        let (method, kind) = (&*self.method, &self.method.kind);
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let (view, task) = (Arc::clone(&first.seat.view), first.seat.view.task.index());
        let received: Vec<ParameterSet> =
            members.iter().map(|member| method.received(&member.down, &member.seat.view)).collect();
        let extra = kind.extra_loss(task, &received, lab)?;
        let prompting = Some(kind.training(task));
        let model = Classifier::pack_with(&lab.backbone, received, view.rows.clone(), prompting)?;
        let loader = |member: &Member<'_, Prompted<K>>| {
            let loader = lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?;
            lab.queried(loader, method.config.query)
        };
        let loaders = members.iter().map(loader).collect::<Result<Vec<_>, _>>()?;
        let courses: Vec<_> = loaders
            .iter()
            .zip(&*members)
            .map(|(loader, member)| Course { loader, key: member.key })
            .collect();
        let rule = lab.training.optimiser.clone();
        let mut optimiser = rule.over_pack(model.vars(), model.members());
        let plan = &lab.training;
        let reports = train_pack(plan, &mut optimiser, model.variables(), &courses, |step| {
            let outputs = model.pack_outputs(step, &lab.device, None)?;
            match &extra {
                None => Ok(outputs.losses),
                Some(extra) => Ok((&outputs.losses + extra.losses(&model, step, &outputs)?)?),
            }
        })?;
        let trained = model.pack_parameters()?.into_iter().zip(reports).zip(&loaders);
        let outcome =
            |(member, ((learnt, report), loader))| self.outcome(member, &learnt, report?, loader);
        Ok(members.iter().zip(trained).map(outcome).collect())
    }

    fn outcome(
        &self,
        member: &Member<'_, Prompted<K>>,
        learnt: &ParameterSet,
        report: TrainingReport,
        loader: &Loader,
    ) -> Result<Outcome<Up>, PolicyError> {
        let (view, kind) = (&member.seat.view, &self.method.kind);
        let cut = self.method.up_cut(view);
        let sent = match self.method.form {
            WireForm::Full => learnt.clone(),
            WireForm::Lean => {
                learnt.filter(|name| !name.starts_with("prompt.") || kind.changes(name))
            }
        };
        let up = Up {
            parameters: cut.of(&sent, |name| kind.has_rows(name))?,
            task: view.task.0,
            first_row: cut.head.start as u32,
            samples: member.shard.len() as u32,
        };
        let mut metrics = report.metrics();
        // A client that was sent its own rows alone has nothing to compare them with.
        let compares = !loader.is_empty() && !kind.down_is_lean(self.method.form);
        if let Some(queries) = loader.queries().filter(|_| compares) {
            let figures = kind.figures(view.task.index(), learnt, &**queries, loader.shard());
            metrics.extend(figures?);
        }
        Ok(Outcome { up, metrics })
    }
}

impl<K: PromptKind> ClientPolicy<Prompted<K>> for PromptedClient<K> {
    fn train(
        &self,
        members: &mut [Member<'_, Prompted<K>>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        together(members, |members| self.learn(members, lab))
    }

    fn largest_pack(&self, _phase: usize) -> usize {
        usize::MAX
    }

    /// A client that received nothing but what it trains cannot answer by itself.
    fn predictor(
        &self,
        down: &Down,
        up: &Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let Prompted { kind, form, .. } = &*self.method;
        if kind.down_is_lean(*form) {
            return Ok(None);
        }
        let learnt = self.method.learnt(&down.parameters, up)?;
        let prompting = Some(kind.inference(usize::from(up.task)));
        Ok(Some(Arc::new(Classifier::frozen_with(&lab.backbone, &learnt, prompting)?)))
    }
}
