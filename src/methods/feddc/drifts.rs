//! How drifts and variates of clients are renewed, by clients or by a server that keeps those of all.

use super::{CONTROL, DRIFT, FedDc, OWN, Rates};
use crate::data::TaskView;
use crate::methods::averaged::{
    Averaged, Beside, Client, Closing, Direction, Keeper, RATES, SAMPLES, Sums, Trained, Vectors,
    fitted, zeros_like,
};
use crate::model::ParameterSet;
use crate::policy::{Kept, Lab, ModelFacts, PolicyError, vectors_of};
use crate::wire::Kind;

/// What is known of a client.
pub(super) struct Known {
    pub drift: ParameterSet,
    pub control: ParameterSet,
}

/// `g/omega_m - g_m`.
pub(super) fn slope(control: &ParameterSet, known: &Known, size: f64) -> ParameterSet {
    let step = |all: f32, own: f32| (f64::from(all) / size - f64::from(own)) as f32;
    control.zipped(&known.control, step)
}

impl FedDc {
    /// `omega_m`; 1 for a client without a sample, which does not train.
    pub(super) fn size(
        &self,
        model: &ModelFacts,
        view: &TaskView,
        samples: usize,
        lab: &Lab,
    ) -> f64 {
        match samples {
            0 => 1.0,
            _ => samples as f64 / mean_samples(model, view, lab),
        }
    }

    /// What is known of a member, and `g`.
    pub(super) fn known(
        &self,
        model: &ModelFacts,
        member: &Client<'_, Vectors>,
    ) -> Result<(Known, ParameterSet), PolicyError> {
        let down = Beside::of(self, model, &member.seat.view, Direction::Down);
        let told = |name| Ok::<_, PolicyError>(down.padded(&vectors_of(&member.down.extra, name)?));
        let control = told(CONTROL)?;
        let known = match self.variates {
            Keeper::Server => Known { drift: told(DRIFT)?, control: told(OWN)? },
            Keeper::Client => Known {
                drift: fitted(member.state.get(DRIFT), &control),
                control: fitted(member.state.get(CONTROL), &control),
            },
        };
        Ok((known, control))
    }

    /// What is known of a client that went from one model to another; and what it tells the server.
    fn renewed(
        &self,
        model: &ModelFacts,
        view: &TaskView,
        (from, to): (&ParameterSet, &ParameterSet),
        (old, control): (Known, &ParameterSet),
        (samples, rates, lab): (usize, f64, &Lab),
    ) -> (Known, ParameterSet) {
        if samples == 0 {
            let nothing = zeros_like(&old.control);
            return (old, nothing);
        }
        let size = self.size(model, view, samples, lab);
        let rates = match self.rates {
            Rates::Used => rates,
            Rates::First => {
                let steps = lab.training.steps_of(mean_samples(model, view, lab).ceil() as usize);
                steps as f64 * lab.training.first_rate()
            }
        };
        let (rows, slope) = (self.trained_rows(model, view), slope(control, &old, size));
        let up = Beside::of(self, model, view, Direction::Up);
        let further = |[old, from, to]: [f64; 3]| old + (to - from);
        let drift = up.renewed(&old.drift, &rows, [&old.drift, from, to], |_| further);
        let control = up.renewed(&old.control, &rows, [from, to, &slope], |name| {
            let rates = rates * self.rate_factor(name);
            let pace = if rates > 0.0 { 1.0 / rates } else { 0.0 };
            move |[from, to, slope]: [f64; 3]| (from - to) * pace - slope
        });
        let change = |new: f32, old: f32| (size * (f64::from(new) - f64::from(old))) as f32;
        let change = control.zipped(&old.control, change);
        (Known { drift, control }, change)
    }

    /// `h_m`, `g_m+` and `dg` of a member that has trained.
    pub(super) fn renew(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Vectors>,
        trained: &mut Trained,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        let view = &member.seat.view;
        let (old, control) = self.known(model, member)?;
        let way = (&member.received, &trained.parameters);
        let walked = (member.shard.len(), trained.rates, lab);
        let (new, change) = self.renewed(model, view, way, (old, &control), walked);
        trained.beside = Beside::of(self, model, view, Direction::Up).take(&change)?;
        member.state.set(DRIFT, new.drift);
        member.state.set(CONTROL, new.control);
        Ok(())
    }

    /// The same for clients of which the server keeps both; the sum of the changes.
    pub(super) fn renew_clients(
        &self,
        memory: &mut Vectors,
        control: &ParameterSet,
        closing: &Closing<'_>,
    ) -> Result<Sums, PolicyError> {
        let (model, mut changes) = (closing.model, Sums::default());
        for Kept { meta, sent, update } in &closing.folded.kept {
            let view = &meta.seat.view;
            let down = Beside::of(self, model, view, Direction::Down);
            let up = Beside::of(self, model, view, Direction::Up);
            let from = down.padded(&sent.parameters);
            let to = up.put(&from, &update.parameters)?;
            let said = |name: &str| -> Result<f64, PolicyError> {
                Ok(update.tensor(Kind::Statistics, name)?.numbers().iter().sum())
            };
            let [drift, own] =
                [DRIFT, CONTROL].map(|name| Vectors::of_client(name, meta.seat.client));
            let like = |name: &str| fitted(memory.get(name), control);
            let old = Known { drift: like(&drift), control: like(&own) };
            let walked = (said(SAMPLES)? as usize, said(RATES)?, closing.lab);
            let (new, change) = self.renewed(model, view, (&from, &to), (old, control), walked);
            changes.add(&up.take(&change)?);
            memory.set(drift, new.drift);
            memory.set(own, new.control);
        }
        Ok(changes)
    }
}

/// `mean n`: the training samples of a task by all clients.
fn mean_samples(model: &ModelFacts, view: &TaskView, lab: &Lab) -> f64 {
    let sizes = lab.dataset.class_sizes();
    let of_task = view.classes.iter().map(|class| sizes.get(*class as usize).copied().unwrap_or(0));
    of_task.sum::<usize>().max(1) as f64 / model.clients.max(1) as f64
}
