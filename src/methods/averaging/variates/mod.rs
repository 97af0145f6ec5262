//! Methods with control variates: vectors as large as the parameters that correct the steps of clients.
//!
//! Every client has its own vectors, and the server has their means over all clients. Either the clients or the server
//! keep the vectors of clients.
//!
//! ```text
//! server   sends c with theta, or to each client what it needs of c and of its vectors
//! client   trains with a correction of its loss                                                    (corrected)
//!          renews its vectors from where it began, where it ended and its learning rates           (renewed)
//!          sends theta_m and the change dc of its variate; where the server keeps its vectors, the sum of its rates
//! server   theta <- mean, and a step of the method's own                                           (server_step)
//!          c <- c + (1 / N) sum dc,  N all clients; it renews the vectors it keeps by the same formula
//! ```
//! A method implements its formulas in [`ControlVariates`], which provides four of its parts.

mod exchange;
mod gradient;
mod renewal;

pub(in crate::methods) use exchange::with_variates;
pub(in crate::methods) use renewal::local_trajectory;
#[cfg(test)]
pub(in crate::methods) use renewal::renew;

use super::{
    ClosedRound, Keeper, Objective, PackClient, ParameterVectors, Requirement, RowPurpose,
    VectorKeeping, VectorStore, fitted,
};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::methods::parts::{AveragingMethod, ClientContext, SharedModel};
use crate::model::ParameterSet;
use crate::policy::{ModelFacts, PolicyError, RunContext};

/// Name of the control variate, of the server and of clients.
pub const CONTROL: &str = "control";

/// Averaging method with control variates, otherwise FedAvg.
///
/// `self` is its configuration, and four of its parts: `with_variates` names them.
pub trait ControlVariates: AveragingMethod<State = VectorStore, Memory = VectorStore> {
    /// Names of the vectors that every client has; the server has a mean of each.
    const VECTORS: &'static [&'static str];
    /// Names of the vectors in a download, if the server keeps the vectors of clients.
    const SENT: &'static [&'static str];

    /// Returns the keys for the lifetime and the keeper of vectors.
    fn keeping(&self) -> VectorKeeping;

    /// Returns the method's requirements on a scenario.
    fn requirements(&self) -> Vec<Requirement>;

    /// Returns the [vectors](ControlVariates::SENT) for a client, in the order of their names.
    ///
    /// They are computed from the server's variate and the client's own vectors.
    fn sent(&self, control: &ParameterSet, own: &VectorStore) -> Vec<ParameterSet>;

    /// Returns the client's own vectors among those that the server sent.
    fn own_among(&self, sent: &VectorStore) -> VectorStore {
        let _ = sent;
        VectorStore::default()
    }

    /// Returns the loss of the members of a pack, corrected by their variates.
    ///
    /// # Errors
    /// Returns an error if the variates do not fit the network.
    fn corrected(
        &self,
        pack: &[Variates<'_>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError>;

    /// Returns true if clients renew their variates by the gradient over all samples at the received model.
    fn reads_gradient(&self) -> bool {
        false
    }

    /// Returns a client's own vectors after a round, and the change of its variate for the server.
    fn renewed(
        &self,
        known: &Variates<'_>,
        way: &LocalTrajectory<'_>,
    ) -> (VectorStore, ParameterSet);

    /// Returns the server's step size `eta_g` along the mean change: `x <- x + eta_g mean (y - x)`.
    fn server_lr(&self) -> f64 {
        1.0
    }

    /// Changes the parameters after that step; returns metrics of the round.
    fn server_step(
        &self,
        memory: &mut VectorStore,
        closing: &ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Vec<(&'static str, f64)> {
        let _ = (memory, closing, theta);
        Vec::new()
    }
}

/// Variates of a client with its context, either at the client or at a server that keeps them.
pub struct Variates<'a> {
    /// The model's dimensions.
    pub model: &'a ModelFacts,
    /// Parameters that train.
    pub shared: SharedModel<'a>,
    /// The client's view of the task.
    pub view: &'a TaskView,
    /// Context of the run where the variates are used.
    pub ctx: &'a RunContext,
    /// Number of the client's samples.
    pub samples: usize,
    /// Model that the client received.
    pub from: ParameterSet,
    /// Control variate of the server.
    pub control: ParameterSet,
    /// All vectors that the client received.
    pub sent: VectorStore,
    /// The client's own vectors; missing ones are zero.
    pub own: VectorStore,
}

/// Local training of a client in a round: where it ended and by which learning rates.
pub struct LocalTrajectory<'a> {
    /// Parameters at the end.
    pub to: &'a ParameterSet,
    /// Sum of the learning rates of all steps, before factors of parameters.
    pub rates: f64,
    /// Gradient over all samples at the received model.
    ///
    /// Present if the method [reads it](ControlVariates::reads_gradient) and the client has samples.
    pub gradient: Option<ParameterSet>,
}

impl<'a> Variates<'a> {
    fn of_member<M: ControlVariates>(
        method: &M,
        &ClientContext { model, shared, ctx }: &ClientContext<'a>,
        member: &PackClient<'a, VectorStore>,
    ) -> Result<Variates<'a>, PolicyError> {
        let (view, from) = (&*member.participant.view, member.received.clone());
        let sent = renewal::sent_vectors(method, (&shared, model), view, member.download)?;
        let own = match method.keeping().keeper {
            Keeper::Client => member.state.clone(),
            Keeper::Server => method.own_among(&sent),
        };
        let control = sent.get(CONTROL).cloned().unwrap_or_default();
        let samples = member.shard.len();
        Ok(Variates { model, shared, view, ctx, samples, from, control, sent, own })
    }

    /// Returns the client's own vector, in the shapes of the server's variate.
    pub fn own(&self, name: &str) -> ParameterSet {
        fitted(self.own.get(name), &self.control)
    }

    /// Returns `mean n`, the training samples of the task divided by the number of all clients.
    pub fn mean_samples(&self) -> f64 {
        let sizes = self.ctx.dataset.class_sizes();
        let of = |class: &u32| sizes.get(*class as usize).copied().unwrap_or(0);
        let of_task: usize = self.view.classes.iter().map(of).sum();
        of_task.max(1) as f64 / self.model.clients.max(1) as f64
    }

    /// Returns `n_m / mean n`; 1 for a client without a sample, which does not train.
    pub fn relative_size(&self) -> f64 {
        if self.samples == 0 { 1.0 } else { self.samples as f64 / self.mean_samples() }
    }

    /// Returns vectors in which `step` computed every element that the client trains from those of `sets`.
    pub(in crate::methods) fn renewed<const N: usize, F: Fn([f64; N]) -> f64>(
        &self,
        old: &ParameterSet,
        sets: [&ParameterSet; N],
        step: impl Fn(&str) -> F,
    ) -> ParameterSet {
        let up = ParameterVectors::of(&self.shared, self.model, self.view, RowPurpose::Up);
        up.renewed(old, &self.shared.trained_rows(self.model, self.view), sets, step)
    }

    /// Returns the mean gradient of a local training, `(from - to) / rates`, minus `added`.
    ///
    /// `added` is what the method added to every gradient.
    pub(in crate::methods) fn mean_gradient(
        &self,
        old: &ParameterSet,
        (to, rates): (&ParameterSet, f64),
        added: &ParameterSet,
    ) -> ParameterSet {
        self.renewed(old, [&self.from, to, added], |name| {
            let rates = rates * self.shared.adaptation.rate_factor(name);
            let pace = if rates > 0.0 { 1.0 / rates } else { 0.0 };
            move |[from, to, added]: [f64; 3]| (from - to) * pace - added
        })
    }
}
