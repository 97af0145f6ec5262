//! The [`Method`] that an averaging method is for the engine: messages, training of packs, costs.

use std::sync::Arc;

use super::model_messages::ModelMessages;
use super::server::AveragingServer;
use super::{PackClient, Parameters, RowPurpose};
use crate::data::TaskView;
use crate::methods::parts::{AveragingMethod, Parts, Workload};
use crate::model::{LinearHead, Parameter, ParameterSet, PrototypeHead, is_buffer};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    AssetSpec, ClientResult, ClientState, CohortRule, Disclosures, ExchangeFacts, Failure,
    GeneratedImages, ImageRequest, Member, Message, MessageKind, MessageSpec, Method,
    MethodInspection, MethodProfile, ModelFacts, Participant, Phase, PolicyError, Predictor, Role,
    RoundContext, RoundWork, RunContext, SampleCost, Server, Stage, TensorSpec,
};
use crate::quantity::ClientId;
use crate::wire::{Body, Kind, MetaWriter, NamedTensor, Saved, Section, WireError};

/// Bytes of the digest by which a download names an asset.
const DIGEST_BYTES: usize = 8;

/// Averaging method for a model of certain dimensions; implements [`Method`].
#[derive(Clone, Debug)]
pub struct Averager<C> {
    /// Settings and parts of the averaging method.
    pub method: C,
    /// The model's dimensions.
    pub model: Arc<ModelFacts>,
    /// Parameters that the method trains for a model of these dimensions.
    pub(super) parameters: Arc<Parameters>,
}

impl<C: AveragingMethod> Averager<C> {
    /// Creates the method for a model of these dimensions.
    pub fn new(method: C, model: &ModelFacts) -> Averager<C> {
        let parameters = Arc::new(method.parts().adaptation.parameters(model));
        Averager { method, model: Arc::new(model.clone()), parameters }
    }

    /// Returns the parts of the method.
    pub(in crate::methods) fn parts(&self) -> Parts<'_, C::State, C::Memory> {
        self.method.parts()
    }

    /// Returns the method's parameters with the rules for their rows in messages.
    pub(super) fn messages(&self) -> ModelMessages<'_> {
        ModelMessages { shared: self.parts().shared(), model: &self.model, all: &self.parameters }
    }

    /// Returns true if uploads contain class means or the rows of a classifier.
    fn discloses(&self) -> bool {
        let is_head = |name: &str| [LinearHead::WEIGHT, PrototypeHead::PROTOTYPES].contains(&name);
        self.parts().class_means.is_some() || self.parameters.iter().any(|one| is_head(&one.name))
    }

    /// Returns the assets that the downloads of an exchange name: the previous model, then those of the method.
    fn assets(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let mut assets: Vec<AssetSpec> = match is_closing(facts.phase) {
            true if !self.parts().final_exchange_sends_assets() => return Vec::new(),
            true => Vec::new(),
            false => self.previous(facts.view, facts.role).into_iter().collect(),
        };
        assets.extend(self.parts().download.asset_specs(facts));
        assets
    }

    fn previous(&self, view: &TaskView, role: Role) -> Option<AssetSpec> {
        let sent = self.parts().previous_model.filter(|previous| previous.is_sent_to(role))?;
        self.messages().previous(view, sent.reinitializes)
    }

    /// Returns the specification of a download for training.
    fn download(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (mut layout, extras) = (self.model_download(facts), self.parts().download);
        layout.control.extend(extras.field_template(facts));
        let (extra, at_most) = (extras.tensor_specs(facts), extras.is_upper_bound(facts));
        MessageSpec { extra, is_upper_bound: at_most, ..layout }
    }

    /// Returns the specification of a download with parameters and assets only.
    fn model_download(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let parameters = self.messages().places(facts.view, RowPurpose::Down);
        let assets = self.assets(facts);
        let control = vec![0; DIGEST_BYTES * assets.len()];
        MessageSpec { control, assets, ..MessageSpec::of(parameters) }
    }

    /// Returns the specification of an upload of training.
    fn upload_of_training(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (parts, messages) = (self.parts(), self.messages());
        let cut = messages.cut(facts.view, RowPurpose::Up);
        let weight_of = |name: &str| parts.weight_of(name);
        let parameters = messages.averaged_places(&cut, facts, &weight_of, parts.keeps_uploads);
        let weights = parameters.iter().filter_map(TensorSpec::weights);
        let extra = parts.upload.tensor_specs(facts).into_iter().chain(weights).collect();
        MessageSpec {
            control: self.upload_fields(facts, cut.head.start),
            parameters,
            extra,
            size: parts.upload.size(),
            ..MessageSpec::default()
        }
    }

    /// Returns the control fields of an upload whose head rows begin at `first_row`.
    ///
    /// By default these are the task, if rows are averaged by owner, and `first_row`, as u64.
    fn upload_fields(&self, facts: &ExchangeFacts<'_>, first_row: usize) -> Vec<u8> {
        let mut usual = MetaWriter::new();
        if self.parameters.is_by_owner() {
            usual.u64(u64::from(facts.view.task.0));
        }
        usual.u64(first_row as u64);
        self.parts().upload.fields(facts, first_row, usual.finish())
    }

    /// Returns a client's upload and metrics for its result of training.
    pub(super) fn upload(
        &self,
        member: &PackClient<'_, C::State>,
        trained: super::LocalTrainingResult,
        ctx: &RunContext,
    ) -> Result<ClientResult, PolicyError> {
        let (parts, model, view) = (self.parts(), &*self.model, &member.participant.view);
        let (context, messages) = (parts.context(model, ctx), self.messages());
        let round = parts.download.round(member.download);
        let (cut, up) = (messages.cut(view, RowPurpose::Up), (&**view, RowPurpose::Up, round));
        let parameters = messages.take(&cut, up, &trained.parameters)?;
        let counts = ctx.shard_label_counts(member.shard);
        let facts = ExchangeFacts {
            model,
            view,
            stage: view.task,
            phase: 0,
            round_in_phase: round,
            role: member.participant.role,
            counts: &counts,
        };
        let control = self.upload_fields(&facts, cut.head.start);
        let mut extra = parts.upload.sections(&context, member, &trained)?;
        if let Some(prefix) = parts.upload.elementwise_weight_prefix() {
            let all = parts.upload.elementwise_weights(&context, member, &trained)?;
            let weighted = |name: &str| parameters.get(name).is_some() && !is_buffer(name);
            let weights = cut.take(&self.parameters, &all, &weighted)?;
            let weights = weight_tensors(prefix, &self.parameters, &weights)?;
            match extra.last_mut() {
                Some(statistics) if statistics.kind == Kind::Statistics => {
                    statistics.tensors.extend(weights)
                }
                _ => extra.push(Section::new(Kind::Statistics, weights)),
            }
        }
        let upload = Message { control, parameters, extra, assets: Vec::new() };
        Ok(ClientResult { upload, metrics: trained.metrics })
    }

    /// Returns a client's report in the final exchange of a task: no parameters, only the method's tensors.
    fn report(
        &self,
        member: &mut PackClient<'_, C::State>,
        ctx: &RunContext,
    ) -> Result<ClientResult, PolicyError> {
        let parts = self.parts();
        let context = parts.context(&self.model, ctx);
        let (extra, metrics) = match parts.final_exchange {
            Some(last) => last.report(&context, member)?,
            None => Default::default(),
        };
        Ok(ClientResult { upload: Message { extra, ..Message::default() }, metrics })
    }

    fn train_pack(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Result<Vec<Result<ClientResult, PolicyError>>, PolicyError> {
        let closes = members.first().is_some_and(|member| is_closing(member.phase));
        let mut pack = Vec::with_capacity(members.len());
        for member in &*members {
            let cut = self.messages().cut(&member.participant.view, RowPurpose::Down);
            pack.push(PackClient {
                participant: &member.participant,
                download: &member.download,
                received: cut.padded(&self.parameters, &member.download.parameters),
                state: C::State::of(&member.state)?,
                shard: &member.shard,
                key: member.key,
                missed: &member.missed,
            });
        }
        let parts = self.parts();
        let outcomes = match closes {
            true => pack.iter_mut().map(|member| self.report(member, ctx)).collect(),
            false => {
                let training = parts.training(&self.model, &pack, ctx);
                let results = parts.local.client_update(&training, &mut pack)?;
                let trained = pack.iter().zip(results);
                trained.map(|(member, trained)| self.upload(member, trained?, ctx)).collect()
            }
        };
        if !parts.stateless {
            let states: Vec<Body> = pack.iter().map(|member| member.state.save()).collect();
            members.iter_mut().zip(states).for_each(|(member, state)| member.state = state);
        }
        Ok(outcomes)
    }
}

/// Phase of training.
pub(in crate::methods) const TRAINING: usize = 0;
/// Phase of the final exchange, which leaves the parameters as they are.
pub(in crate::methods) const FINAL_EXCHANGE: usize = 1;

/// Returns true if a phase is the final exchange of a task.
pub(in crate::methods) fn is_closing(phase: usize) -> bool {
    phase > TRAINING
}

/// Returns elementwise weights as tensors named `prefix` + parameter, in the order of `all`.
fn weight_tensors(
    prefix: &str,
    all: &Parameters,
    weights: &ParameterSet,
) -> Result<Vec<NamedTensor>, WireError> {
    let found =
        all.iter().filter_map(|parameter| Some((&parameter.name, weights.get(&parameter.name)?)));
    let tensor = |(name, weight): (&String, &Parameter)| {
        let Parameter { shape, values } = weight.clone();
        NamedTensor::f32(format!("{prefix}{name}"), shape, values)
    };
    found.map(tensor).collect()
}

impl<C: AveragingMethod> Method for Averager<C> {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        for subject in self.parts().requirements().iter().filter_map(|one| one.in_blocks) {
            ctx.backbone.config().blocks_for(subject)?;
        }
        Ok(Box::new(AveragingServer::new(self.clone(), ctx, init)?))
    }

    fn profile(&self) -> MethodProfile {
        let parts = self.parts();
        MethodProfile {
            roles: parts.roles(),
            restrictions: parts.restrictions(),
            features: self.messages().features(),
            uses_network: parts.uses_network,
            stateless: parts.stateless,
            discloses: self.discloses(),
            memory_footprint: parts.server.memory_footprint(&self.model),
        }
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        let parts = self.parts();
        let train = Phase::train(parts.training_rounds(rounds));
        let closing = parts.final_exchange;
        let closing = closing.map(|last| Phase::new(last.name(), 1, CohortRule::Participants));
        std::iter::once(train.packed(parts.max_pack(&stage.view))).chain(closing).collect()
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        self.parts().participants(round, cohort)
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        match (message, is_closing(facts.phase)) {
            (MessageKind::Download, false) => self.download(facts),
            (MessageKind::Download, true) => self.model_download(facts),
            (MessageKind::Upload, false) => self.upload_of_training(facts),
            (MessageKind::Contribution, false) => {
                let upload = self.upload_of_training(facts);
                match self.parts().transform {
                    Some(transform) => transform.layout(facts, upload),
                    None => upload,
                }
            }
            (MessageKind::Upload | MessageKind::Contribution, true) => {
                let places = self.parts().final_exchange.map(|last| last.tensor_specs(facts));
                MessageSpec { extra: places.unwrap_or_default(), ..MessageSpec::default() }
            }
        }
    }

    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        if is_closing(facts.phase) {
            return Ok(update);
        }
        self.parts().upload.validate(&update)?;
        match self.parts().transform {
            Some(transform) => transform.transform(facts, sent, update),
            None => Ok(update),
        }
    }

    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        let (parts, model) = (self.parts(), &*self.model);
        match *work {
            RoundWork::Participant { participant, samples, .. } if is_closing(round.phase) => {
                parts.report_work(model, &participant.view, samples)
            }
            RoundWork::Participant { participant, samples, plan } => {
                parts.work(&Workload { model, participant, round, samples, plan })
            }
            RoundWork::Server { updates } => parts.server.work(model, round, updates),
        }
    }

    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, _phase: usize) -> SampleCost {
        self.parts().adaptation.sample_cost(model, view.task.index())
    }

    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        Ok(C::State::of(state)?.state_bytes())
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        match self.train_pack(members, ctx) {
            Ok(outcomes) => {
                outcomes.into_iter().map(|outcome| outcome.map_err(Failure::from)).collect()
            }
            Err(error) => Failure::of_all(members.len(), error),
        }
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl<C: AveragingMethod> MethodInspection for Averager<C> {
    /// Returns `None` for a client that received only what it trains: it cannot predict by itself.
    fn local_model(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.client_model((facts.view, facts.phase), sent, own, ctx)
    }

    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        self.disclosed(member, upload, ctx)
    }

    fn generated_images(
        &self,
        model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        self.parts().server.generated_images(model, saved, request)
    }
}
