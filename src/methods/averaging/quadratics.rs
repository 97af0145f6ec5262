//! Simulation of clients with quadratic losses, to test the algebra of averaging methods.
//!
//! A client's loss is `1/2 (w - a)^T H (w - a)` in six unknowns. Clients go through the objective, the messages, the
//! aggregation and the server of a method. The unknowns are a head of one row over features of width 5, and its bias.
//! The cross-entropy of a single class is zero and has no gradient, so only the quadratic, which is added here, and the
//! terms of the method move `w`.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::averager::Averager;
use super::{LocalTrainingResult, PackClient, RowPurpose, TrainingStep};
use crate::data::{
    Batch, ClassPermutation, Dataset, Shard, Split, TaskSequence, TaskSizes, TaskView,
};
use crate::learning::losses::Linear;
use crate::learning::optimizer::{clip_factor, global_norm};
use crate::learning::{Classifier, PackBatch};
use crate::methods::parts::AveragingMethod;
use crate::model::ops::SampleGroups;
use crate::model::{Backbone, Parameter, ParameterSet, PixelShape};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Aggregate, ClassCounts, ClientState, ExchangeFacts, Message, MessageKind, Method, ModelFacts,
    Participant, RoundContext, RunContext, Server, Stage, UploadMeta, one_participant_per_client,
    parameter_sections, parameters_of,
};
use crate::quantity::{ClientId, Round};
use crate::wire::{Body, Saved};

/// Number of unknowns.
pub const SIZE: usize = 6;

/// Quadratic loss of a client.
pub struct Quadratic {
    /// Matrix `H`, row-major.
    pub curvature: Vec<f64>,
    /// Minimum `a`.
    pub optimum: Vec<f64>,
    pub samples: usize,
}

impl Quadratic {
    /// Returns `H (w - a)`.
    pub fn gradient(&self, w: &[f64]) -> Vec<f64> {
        let gap: Vec<f64> = w.iter().zip(&self.optimum).map(|(w, a)| w - a).collect();
        let row = |row: &[f64]| row.iter().zip(&gap).map(|(h, gap)| h * gap).sum();
        self.curvature.chunks(SIZE).map(row).collect()
    }
}

/// SGD step of a client: learning rate and gradient noise.
#[derive(Clone)]
pub struct QuadraticStep {
    pub rate: f64,
    /// Noise that is added to the gradient.
    pub noise: Vec<f64>,
}

/// Result of a client's training in a round.
pub struct Walked {
    pub client: usize,
    pub end: Vec<f64>,
    /// Norm of the gradient in each step, before clipping.
    pub norms: Vec<f64>,
}

pub struct World<C: AveragingMethod> {
    pub base: Averager<C>,
    pub ctx: RunContext,
    pub clients: Vec<Quadratic>,
    pub states: Vec<Body>,
    server: Box<dyn Server>,
    round: u32,
}

/// Returns the values of a set, in the order of the parameters' names.
pub fn flat(set: &ParameterSet) -> Vec<f64> {
    set.iter().flat_map(|(_, one)| one.values.iter().map(|value| f64::from(*value))).collect()
}

impl<C: AveragingMethod> World<C> {
    pub fn new(method: C, clients: Vec<Quadratic>, start: &[f64]) -> World<C> {
        let samples: usize = clients.iter().map(|client| client.samples).sum();
        let split = |count: usize| {
            let split = Split::from_buffer(vec![0; 5 * count], [5, 1, 1], vec![0; count], 1);
            Arc::new(split.unwrap())
        };
        let dataset = Dataset {
            name: "quadratics".into(),
            class_names: vec!["only".into()],
            train: split(samples),
            test: split(1),
            notes: Vec::new(),
        };
        let backbone = Backbone::Pixels(PixelShape { channels: 5, image: 1 });
        let task_sequence =
            TaskSequence::new(1, &ClassPermutation::Native, &TaskSizes::Even(1)).unwrap();
        let ctx = RunContext::new(backbone, dataset, task_sequence);
        let base = Averager::new(method, &ctx.facts(clients.len() as u32));
        let mut server = base.server(&ctx, StreamKey::new(1, Domain::Init)).unwrap();
        let view = Arc::clone(&ctx.task_sequence.tasks[0]);
        server.begin_stage(&Stage::of(view, 1), &ctx).unwrap();
        // A server has no setter for its parameters: a saved state with other values moves it to `start`.
        let saved = server.save();
        let mut values = start.iter().map(|value| *value as f32);
        let moved = parameters_of(&saved).unwrap();
        let moved = moved.iter().map(|(name, one)| {
            let values = values.by_ref().take(one.values.len()).collect();
            (Arc::clone(name), Parameter { shape: one.shape.clone(), values })
        });
        let mut sections = parameter_sections(&moved.collect());
        sections.extend(saved.sections[sections.len()..].iter().cloned());
        server.load(&Body::new(saved.meta, sections)).unwrap();
        let states = vec![Body::default(); clients.len()];
        World { base, ctx, clients, states, server, round: 0 }
    }

    pub fn facts(&self) -> &ModelFacts {
        &self.base.model
    }

    pub fn view(&self) -> Arc<TaskView> {
        Arc::clone(&self.ctx.task_sequence.tasks[0])
    }

    /// Returns the parameters of the global model.
    pub fn model(&self) -> Vec<f64> {
        flat(&parameters_of(&self.server.save()).unwrap())
    }

    pub fn memory(&self) -> C::Memory {
        C::Memory::load(&self.server.save()).unwrap()
    }

    pub fn state(&self, client: usize) -> C::State {
        C::State::of(&self.states[client]).unwrap()
    }

    /// Runs a round with the clients `present`; `after` is called with each of them after its local steps.
    pub fn round(
        &mut self,
        present: &[usize],
        steps: impl Fn(usize) -> Vec<QuadraticStep>,
        after: impl Fn(&World<C>, &mut PackClient<'_, C::State>, &mut LocalTrainingResult),
    ) -> Vec<Walked> {
        let view = self.view();
        let context = RoundContext {
            round: Round(self.round),
            stage: Stage::of(Arc::clone(&view), 1),
            phase: 0,
            phase_name: "train",
            round_in_phase: self.round,
            rounds_in_phase: 100,
            run_seed: 3,
        };
        self.round += 1;
        let cohort: Vec<ClientId> = present.iter().map(|id| ClientId(*id as u32)).collect();
        let participants = one_participant_per_client(&context.stage, &cohort);
        let ctx = self.ctx.clone();
        let downloads = self.server.broadcast(&context, &participants, &ctx).unwrap();
        let (mut all, mut walked) = (None::<Aggregate>, Vec::new());
        for (participant, sent) in participants.iter().zip(downloads) {
            let (aggregate, one) =
                self.participant(participant, &sent, steps(participant.client.index()), &after);
            walked.push(one);
            all = Some(match all {
                Some(all) => all.merge(aggregate),
                None => aggregate,
            });
        }
        self.server.end_round(&context, all, &ctx).unwrap();
        walked
    }

    fn participant(
        &mut self,
        participant: &Participant,
        sent: &Arc<Message>,
        steps: Vec<QuadraticStep>,
        after: &impl Fn(&World<C>, &mut PackClient<'_, C::State>, &mut LocalTrainingResult),
    ) -> (Aggregate, Walked) {
        let id = participant.client.index();
        let shard: Shard = (0..self.clients[id].samples as u32).collect();
        let mut member = PackClient {
            participant,
            download: sent,
            received: self
                .base
                .messages()
                .cut(&participant.view, RowPurpose::Down)
                .padded(&self.base.parameters, &sent.parameters),
            state: self.state(id),
            shard: &shard,
            key: StreamKey::new(1, Domain::Method),
            missed: &[],
        };
        let (mut trained, walked) = self.walk(&member, id, &steps);
        after(self, &mut member, &mut trained);
        let upload = self.base.upload(&member, trained, &self.ctx).unwrap().upload;
        self.states[id] = member.state.save();
        let facts = ExchangeFacts {
            model: self.facts(),
            view: &participant.view,
            stage: participant.view.task,
            phase: 0,
            round_in_phase: 0,
            role: Default::default(),
            counts: &ClassCounts::new(),
        };
        let [download, layout] = [MessageKind::Download, MessageKind::Upload]
            .map(|kind| self.base.message_spec(kind, &facts));
        assert!(sent.body().fills(&download.body()) && upload.body().fills(&layout.body()));
        let meta = UploadMeta::timely(participant.clone(), Round(0));
        (Aggregate::of(&meta, (sent, &download), (upload, &layout)).unwrap(), walked)
    }

    fn walk(
        &self,
        member: &PackClient<'_, C::State>,
        id: usize,
        steps: &[QuadraticStep],
    ) -> (LocalTrainingResult, Walked) {
        let parts = self.base.parts();
        let context = parts.context(self.facts(), &self.ctx);
        let network = Classifier::trainable(&self.ctx.backbone, &member.received, 0..1).unwrap();
        let pack = std::slice::from_ref(member);
        let mut objective = parts.local.objective(&context, pack, &network).unwrap();
        let mut optimizer = self.ctx.training.optimizer.clone().over(network.vars());
        let batch = Batch::Features {
            values: vec![0.0; 5],
            shape: vec![1, 5],
            labels: vec![0],
            samples: vec![0],
        };
        let batch = PackBatch { groups: SampleGroups::one(1), batch, steps: vec![0] };
        let (mut rates, mut norms) = (0.0, Vec::new());
        for QuadraticStep { rate, noise } in steps {
            let w = flat(&network.parameters().unwrap());
            let mut slope = self.clients[id].gradient(&w);
            slope.iter_mut().zip(noise).for_each(|(slope, noise)| *slope += noise);
            let pass =
                TrainingStep { model: &network, step: &batch, device: &Device::Cpu, dropout: None };
            let mut loss = objective.losses(&pass).unwrap();
            for (_, variable) in network.variables() {
                let own: Vec<f64> = slope.drain(..variable.elem_count()).collect();
                let own = own.into_iter().map(|value| value as f32).collect();
                let term: Tensor = Linear::new(own, variable).unwrap().of(variable, 1).unwrap();
                loss = loss.broadcast_add(&term).unwrap();
            }
            let gradients = loss.backward().unwrap();
            let norm = global_norm(&gradients, &network.vars()).unwrap();
            let scale = self.ctx.training.clip.map_or(1.0, |limit| clip_factor(norm, limit));
            optimizer.step(&gradients, *rate, scale).unwrap();
            (rates, norms) = (rates + rate, [norms, vec![norm]].concat());
        }
        let parameters = network.parameters().unwrap();
        let end = flat(&parameters);
        let samples = member.shard.len();
        let trained =
            LocalTrainingResult { parameters, samples, rates, ..LocalTrainingResult::default() };
        (trained, Walked { client: id, end, norms })
    }
}

/// Returns three clients with different minima, and curvatures of up to 16 times those of another.
pub fn uneven() -> Vec<Quadratic> {
    let client = |client: usize| {
        let steep = [0.25, 1.0, 4.0][client];
        let entry = |at: usize| {
            let (row, column) = (at / SIZE, at % SIZE);
            let near = if row.abs_diff(column) == 1 { 0.2 } else { 0.0 };
            if row == column { steep * (1.0 + 0.1 * row as f64) } else { near * steep }
        };
        Quadratic {
            curvature: (0..SIZE * SIZE).map(entry).collect(),
            optimum: (0..SIZE).map(|at| ((3 * at + 5 * client) % 7) as f64 - 3.0).collect(),
            samples: 10,
        }
    };
    (0..3).map(client).collect()
}

/// Returns the norm of the clients' mean gradient, which is zero at the minimum of the mean loss.
pub fn slope_of_all(clients: &[Quadratic], w: &[f64]) -> f64 {
    let mut sum = [0.0; SIZE];
    for client in clients {
        sum.iter_mut().zip(client.gradient(w)).for_each(|(sum, own)| *sum += own);
    }
    sum.iter().map(|sum| sum * sum).sum::<f64>().sqrt() / clients.len() as f64
}

/// FedAvg with several local steps does not end where the gradients of the clients cancel.
#[test]
fn uneven_clients_pull_fedavg_away_from_the_optimum() {
    let fedavg = crate::methods::fedavg::FedAvg {
        train: crate::methods::fedavg::Train::Head,
        ..Default::default()
    };
    let mut simulation = World::new(fedavg, uneven(), &[0.0; SIZE]);
    simulation.ctx.training.optimizer = crate::learning::OptimizerConfig::sgd(0.1);
    let step = QuadraticStep { rate: 0.1, noise: vec![0.0; SIZE] };
    for _ in 0..400 {
        simulation.round(&[0, 1, 2], |_| vec![step.clone(); 5], |_, _, _| ());
    }
    assert!(slope_of_all(&simulation.clients, &simulation.model()) > 0.3);
}
