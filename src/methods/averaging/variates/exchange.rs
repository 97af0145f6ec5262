//! Parts that all methods with control variates share: their messages, and who keeps the vectors.

use super::gradient::received_gradient;
use super::renewal::{renew, renew_clients, sent_names};
use super::{CONTROL, ControlVariates, Variates};
use crate::learning::Classifier;
use crate::methods::averaging::{
    ClosedRound, Keeper, LocalTrainingResult, Objective, PackClient, PackResult, ParameterVectors,
    Reset, RowPurpose, VectorKeeping, VectorStore, zeros_like,
};
use crate::methods::parts::{
    ClientContext, Demands, DownloadExtras, LocalTraining, LocalUpdate, Parts, ServerUpdate,
    SharedModel, TaskStart, UploadExtras, Workload,
};
use crate::model::ParameterSet;
use crate::policy::{
    ExchangeFacts, MemoryFootprint, Metrics, ModelFacts, Participant, PolicyError, TensorSpec,
    vector_tensors,
};
use crate::wire::{Kind, Section};

/// Returns the parts `base` with those that control variates replace.
pub(in crate::methods) fn with_variates<'m, M: ControlVariates>(
    method: &'m M,
    base: Parts<'m, VectorStore, VectorStore>,
) -> Parts<'m, VectorStore, VectorStore> {
    let at_server = method.keeping().keeper == Keeper::Server;
    Parts {
        local: method,
        upload: method,
        download: method,
        server: method,
        keeps_uploads: at_server,
        stateless: at_server,
        ..base
    }
}

fn shared<M: ControlVariates>(method: &M) -> SharedModel<'_> {
    method.parts().shared()
}

impl<M: ControlVariates> LocalUpdate<VectorStore> for M {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, VectorStore>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let known = pack.iter().map(|member| Variates::of_member(self, context, member));
        self.corrected(&known.collect::<Result<Vec<_>, _>>()?, network)
    }

    fn client_update(
        &self,
        training: &LocalTraining<'_, VectorStore>,
        pack: &mut [PackClient<'_, VectorStore>],
    ) -> Result<PackResult, PolicyError> {
        let VectorKeeping { reset, keeper } = self.keeping();
        let context = &training.context;
        pack.iter_mut().for_each(|member| member.state.begin(member.participant.view.task, reset));
        let mut results = training.train(pack)?;
        for (member, trained) in pack.iter_mut().zip(&mut results) {
            if let (Keeper::Client, Ok(trained)) = (keeper, trained) {
                let reads = self.reads_gradient() && !member.shard.is_empty();
                let gradient = reads.then(|| received_gradient(context, member)).transpose()?;
                renew(self, context, member, (trained, gradient))?;
            }
        }
        Ok(results)
    }

    /// Charges one more pass over the samples if variates are computed from the whole gradient.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let further = if self.reads_gradient() { load.samples as f64 } else { 0.0 };
        load.passes() + further
    }

    fn demands(&self) -> Demands {
        Demands::requiring(ControlVariates::requirements(self))
    }
}

impl<M: ControlVariates> UploadExtras<VectorStore> for M {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        self.keeping().keeper.places(&shared(self), facts, CONTROL)
    }

    fn sections(
        &self,
        _context: &ClientContext<'_>,
        _member: &PackClient<'_, VectorStore>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        Ok(vec![self.keeping().keeper.section(trained, CONTROL)?])
    }
}

impl<M: ControlVariates> DownloadExtras<VectorStore> for M {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let down = ParameterVectors::of(&shared(self), facts.model, facts.view, RowPurpose::Down);
        sent_names(self).iter().flat_map(|name| down.places(name)).collect()
    }

    fn is_personal(&self) -> bool {
        self.keeping().keeper == Keeper::Server
    }

    fn personal_sections(
        &self,
        model: &ModelFacts,
        memory: &VectorStore,
        participant: &Participant,
    ) -> Result<Vec<Section>, PolicyError> {
        let down = ParameterVectors::of(&shared(self), model, &participant.view, RowPurpose::Down);
        let control = memory.get(CONTROL).cloned().unwrap_or_default();
        let sets = match self.keeping().keeper {
            Keeper::Client => vec![control],
            Keeper::Server => {
                self.sent(&control, &memory.all_of_client(M::VECTORS, participant.client))
            }
        };
        let mut tensors = Vec::new();
        for (name, set) in sent_names(self).iter().zip(&sets) {
            tensors.extend(vector_tensors(name, &down.take(set)?));
        }
        Ok(vec![Section::new(Kind::Statistics, tensors)])
    }
}

impl<M: ControlVariates> ServerUpdate<VectorStore> for M {
    fn begin_task(&self, _: TaskStart<'_>, memory: &mut VectorStore, theta: &mut ParameterSet) {
        if self.keeping().reset == Reset::Task || memory.get(CONTROL).is_none() {
            memory.clear();
            M::VECTORS.iter().for_each(|name| memory.set(*name, zeros_like(theta)));
        }
    }

    /// Makes the method's own step, then `c <- c + (1 / N) sum dc`.
    fn server_update(
        &self,
        memory: &mut VectorStore,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let up = closing.sent_vectors();
        let mut control = memory.take_like(CONTROL, closing.before);
        let changes = match self.keeping().keeper {
            Keeper::Client => up.sums(CONTROL, &closing.aggregate)?,
            Keeper::Server => renew_clients(self, memory, &control, &closing)?,
        };
        closing.step_along(self.server_lr(), theta);
        let mut metrics = self.server_step(memory, &closing, theta);
        up.add(&mut control, &changes, closing.share());
        metrics.push(("control_norm", control.norm()));
        memory.set(CONTROL, control);
        Ok(metrics)
    }

    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let vectors = M::VECTORS.len() as u64;
        Some(self.keeping().keeper.memory_footprint(&shared(self), model, (vectors, vectors)))
    }
}
