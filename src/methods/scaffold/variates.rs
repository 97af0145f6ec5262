//! How control variates are renewed, by clients or by a server that keeps those of all.

use std::ops::Range;

use super::{CONTROL, CORRECTION, Renewal, Scaffold};
use crate::data::TaskView;
use crate::learning::{Classifier, whole_gradient};
use crate::methods::averaged::{
    Averaged, Beside, Client, Closing, Direction, Keeper, RATES, Sums, Trained, Vectors, fitted,
};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::Domain;
use crate::policy::{Kept, Lab, ModelFacts, PolicyError, vectors_of};
use crate::wire::Kind;

/// `c - c_m`.
pub(super) fn correction(control: ParameterSet, own: Option<&ParameterSet>) -> ParameterSet {
    match own {
        Some(own) => control.zipped(&fitted(Some(own), &control), |c, own| c - own),
        None => control,
    }
}

/// A client's way through a round: from where, to where, what was added to every gradient, and the sum of its rates.
pub(super) struct Way<'a> {
    pub from: &'a ParameterSet,
    pub to: &'a ParameterSet,
    pub correction: &'a ParameterSet,
    pub rates: f64,
}

impl Scaffold {
    /// What a member adds to every gradient.
    pub(super) fn correction_of(
        &self,
        model: &ModelFacts,
        member: &Client<'_, Vectors>,
    ) -> Result<ParameterSet, PolicyError> {
        let down = Beside::of(self, model, &member.seat.view, Direction::Down);
        let told = |name| Ok::<_, PolicyError>(down.padded(&vectors_of(&member.down.extra, name)?));
        match self.variates {
            Keeper::Client => Ok(correction(told(CONTROL)?, member.state.get(CONTROL))),
            Keeper::Server => told(CORRECTION),
        }
    }

    /// `c_m+` and `dc` of a member that has trained.
    pub(super) fn renew(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Vectors>,
        trained: &mut Trained,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        let view = &member.seat.view;
        let correction = self.correction_of(model, member)?;
        let old = fitted(member.state.get(CONTROL), &correction);
        let (from, to, rates) = (&member.received, &trained.parameters, trained.rates);
        let new = match self.option {
            Renewal::Way => {
                let way = Way { from, to, correction: &correction, rates };
                self.along(model, view, &way, &old)
            }
            Renewal::Gradient if member.shard.is_empty() => old.clone(),
            Renewal::Gradient => {
                let gradient = self.gradient(model, member, lab)?;
                let up = Beside::of(self, model, view, Direction::Up);
                let rows = self.trained_rows(model, view);
                up.renewed(&old, &rows, [&gradient], |_| |[gradient]: [f64; 1]| gradient)
            }
        };
        self.commit(model, member, trained, new)
    }

    /// Keeps `c_m+`, and puts the change beside what is sent.
    pub(super) fn commit(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Vectors>,
        trained: &mut Trained,
        new: ParameterSet,
    ) -> Result<(), PolicyError> {
        let up = Beside::of(self, model, &member.seat.view, Direction::Up);
        let old = fitted(member.state.get(CONTROL), &new);
        trained.beside = up.take(&new.zipped(&old, |new, old| new - old))?;
        member.state.set(CONTROL, new);
        Ok(())
    }

    /// Option II, `c_m - c + (x - y) / sum of eta`; the old one where no step was taken.
    pub(super) fn along(
        &self,
        model: &ModelFacts,
        view: &TaskView,
        way: &Way<'_>,
        old: &ParameterSet,
    ) -> ParameterSet {
        if way.rates <= 0.0 {
            return old.clone();
        }
        let Way { from, to, correction, rates } = *way;
        let rows = self.trained_rows(model, view);
        let up = Beside::of(self, model, view, Direction::Up);
        up.renewed(old, &rows, [from, to, correction], |name| {
            let rates = rates * self.rate_factor(name);
            let pace = if rates > 0.0 { 1.0 / rates } else { 0.0 };
            move |[from, to, correction]: [f64; 3]| (from - to) * pace - correction
        })
    }

    /// Option I.
    fn gradient(
        &self,
        model: &ModelFacts,
        member: &Client<'_, Vectors>,
        lab: &Lab,
    ) -> Result<ParameterSet, PolicyError> {
        let (view, received) = (&member.seat.view, vec![member.received.clone()]);
        let (rows, norms) = (self.trained_rows(model, view), self.norms(view));
        let network = Classifier::pack_normed(&lab.backbone, received, rows.clone(), None, norms)?;
        let loader = lab.frozen(lab.train_loader(member.shard), network.frozen_part())?;
        let (batch, key) = (lab.training.batch, member.key.domain(Domain::Augment));
        let gradient = whole_gradient(&network, &loader, batch, key, &lab.device)?;
        let each = network.variables().iter().zip(gradient);
        let placed = each.map(|((name, _), gradient)| {
            Ok((name.clone(), placed(member.received.get(name), &gradient, &rows)?))
        });
        placed.collect()
    }

    /// Renews what the server keeps of the clients that answered; the sum of the changes.
    pub(super) fn renew_clients(
        &self,
        memory: &mut Vectors,
        closing: &Closing<'_>,
    ) -> Result<Sums, PolicyError> {
        let (model, mut changes) = (closing.model, Sums::default());
        for Kept { meta, sent, update } in &closing.folded.kept {
            let view = &meta.seat.view;
            let down = Beside::of(self, model, view, Direction::Down);
            let up = Beside::of(self, model, view, Direction::Up);
            let correction = down.padded(&vectors_of(&sent.extra, CORRECTION)?);
            let from = down.padded(&sent.parameters);
            let to = up.put(&from, &update.parameters)?;
            let rates = update.tensor(Kind::Statistics, RATES)?.numbers().iter().sum();
            let name = Vectors::of_client(CONTROL, meta.seat.client);
            let old = fitted(memory.get(&name), &correction);
            let way = Way { from: &from, to: &to, correction: &correction, rates };
            let new = self.along(model, view, &way, &old);
            changes.add(&up.take(&new.zipped(&old, |new, old| new - old))?);
            memory.set(name, new);
        }
        Ok(changes)
    }
}

/// A gradient in the shape of its parameter, of whose rows some have one.
fn placed(
    whole: Option<&Parameter>,
    gradient: &[f64],
    rows: &Range<usize>,
) -> Result<Parameter, PolicyError> {
    let missing = || PolicyError::Unsupported("a gradient of nothing that was received".to_owned());
    let whole = whole.ok_or_else(missing)?;
    let values: Vec<f32> = gradient.iter().map(|value| *value as f32).collect();
    if values.len() == whole.values.len() {
        return Ok(Parameter { shape: whole.shape.clone(), values: values.into() });
    }
    let mut shape = whole.shape.clone();
    shape[0] = rows.len();
    let zeros = vec![0.0; whole.values.len()].into();
    let zeros = Parameter { shape: whole.shape.clone(), values: zeros };
    Ok(zeros.with_rows(&Parameter { shape, values: values.into() }, rows.start)?)
}
