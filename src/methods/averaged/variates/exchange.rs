//! What methods with control variates have in common as averaging methods: what travels, and who keeps it.

use super::gradient::received_gradient;
use super::renewal::{renew, renew_clients, sent_names};
use super::{CONTROL, ControlVariates, Variates};
use crate::learning::{Classifier, TrainingPlan};
use crate::methods::averaged::{
    Averaged, Beside, Client, Closing, Direction, Keeper, Learnt, Needs, Objective, Reset, Trained,
    Vectors, train, zeros_like,
};
use crate::methods::fedavg::FedAvg;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Holdings, Lab, ModelFacts, Place, PolicyError, Seat, SketchFacts, vector_tensors,
};
use crate::wire::{Kind, Section};

impl<M: ControlVariates> Averaged for M {
    type State = Vectors;
    type Memory = Vectors;

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(self.base())
    }

    fn stateless(&self) -> bool {
        self.keeping().1 == Keeper::Server
    }

    fn needs(&self) -> Vec<Needs> {
        [self.base().needs(), self.further_needs()].concat()
    }

    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let down = Beside::of(self, facts.model, facts.view, Direction::Down);
        sent_names(self).iter().flat_map(|name| down.places(name)).collect()
    }

    fn personal(&self) -> bool {
        self.keeping().1 == Keeper::Server
    }

    fn tell_seat(
        &self,
        model: &ModelFacts,
        memory: &Vectors,
        seat: &Seat,
    ) -> Result<Vec<Section>, PolicyError> {
        let down = Beside::of(self, model, &seat.view, Direction::Down);
        let control = memory.get(CONTROL).cloned().unwrap_or_default();
        let sets = match self.keeping().1 {
            Keeper::Client => vec![control],
            Keeper::Server => self.sent(&control, &memory.all_of_client(M::VECTORS, seat.client)),
        };
        let mut tensors = Vec::new();
        for (name, set) in sent_names(self).iter().zip(&sets) {
            tensors.extend(vector_tensors(name, &down.take(set)?));
        }
        Ok(vec![Section::new(Kind::Statistics, tensors)])
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        self.keeping().1.says(self, facts, CONTROL)
    }

    fn keeps(&self) -> bool {
        self.keeping().1 == Keeper::Server
    }

    fn learn(
        &self,
        model: &ModelFacts,
        pack: &mut [Client<'_, Vectors>],
        lab: &Lab,
    ) -> Result<Learnt, PolicyError> {
        let (reset, keeper) = self.keeping();
        pack.iter_mut().for_each(|member| member.state.begin(member.seat.view.task, reset));
        let mut learnt = train(self, model, pack, lab)?;
        for (member, trained) in pack.iter_mut().zip(&mut learnt) {
            if let (Keeper::Client, Ok(trained)) = (keeper, trained) {
                let reads = self.reads_gradient() && !member.shard.is_empty();
                let gradient = reads.then(|| received_gradient(self, model, member, lab));
                renew(self, model, member, (trained, gradient.transpose()?), lab)?;
            }
        }
        Ok(learnt)
    }

    fn objective(
        &self,
        model: &ModelFacts,
        pack: &[Client<'_, Vectors>],
        network: &Classifier,
        lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let known = pack.iter().map(|member| Variates::of_member(self, model, member, lab));
        self.corrected(&known.collect::<Result<Vec<_>, _>>()?, network)
    }

    fn describe(
        &self,
        _member: &Client<'_, Vectors>,
        trained: &Trained,
        _lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        Ok(vec![self.keeping().1.describe(trained, CONTROL)?])
    }

    /// Training, and one pass more where gradients are read.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        let further = if self.reads_gradient() { samples as f64 } else { 0.0 };
        self.base().work(samples, plan) + further
    }

    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        let vectors = M::VECTORS.len() as u64;
        Some(self.keeping().1.holdings(self, model, (vectors, vectors)))
    }

    fn begin_task(
        &self,
        _model: &ModelFacts,
        memory: &mut Vectors,
        _task: usize,
        theta: ParameterSet,
        _init: StreamKey,
    ) -> ParameterSet {
        if self.keeping().0 == Reset::Task || memory.get(CONTROL).is_none() {
            memory.clear();
            M::VECTORS.iter().for_each(|name| memory.set(*name, zeros_like(&theta)));
        }
        theta
    }

    /// The method's own step, and `c <- c + (1 / N) sum dc`.
    fn after_mean(
        &self,
        memory: &mut Vectors,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let up = closing.beside(self);
        let mut control = memory.take_like(CONTROL, closing.before);
        let changes = match self.keeping().1 {
            Keeper::Client => up.sums(CONTROL, &closing.folded)?,
            Keeper::Server => renew_clients(self, memory, &control, &closing)?,
        };
        let mut figures = self.server_step(memory, &closing, theta);
        up.add(&mut control, &changes, closing.share());
        figures.push(("control_norm", control.norm()));
        memory.set(CONTROL, control);
        Ok(figures)
    }
}
