//! An averaging method as the engine sees it.

use std::sync::Arc;

use super::previous::previous_sketch;
use super::row_selection::RowSelection;
use super::server::AveragingServer;
use super::{PackClient, Parameters, RowPurpose};
use crate::data::TaskView;
use crate::methods::HeadForm;
use crate::methods::parts::{AveragingMethod, Parts, RowQuery, Workload};
use crate::model::{LinearHead, Parameter, ParameterSet, PrototypeHead, is_buffer};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    AssetSpec, ClientResult, ClientState, CohortRule, Disclosures, ExchangeFacts, Failure,
    GeneratedImages, ImageRequest, Member, Message, MessageKind, MessageSpec, Method,
    MethodProfile, ModelFacts, Participant, Phase, PolicyError, Predictor, Role, RoundContext,
    RoundWork, RunContext, SampleCost, Server, Stage, TensorSpec, kind_of,
};
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, BodyShape, Kind, MetaWriter, NamedTensor, Saved, Section, WireError};

/// Bytes of the digest by which a download names an asset.
const DIGEST_BYTES: usize = 8;

/// A method that averages, for a model of certain dimensions.
#[derive(Clone, Debug)]
pub struct Averager<C> {
    /// Its configuration.
    pub method: C,
    /// The model's dimensions.
    pub model: Arc<ModelFacts>,
    /// Parameters that the method trains for a model of these dimensions.
    pub(super) parameters: Arc<Parameters>,
}

impl<C: AveragingMethod> Averager<C> {
    /// Returns the method for a model of these dimensions.
    pub fn new(method: C, model: &ModelFacts) -> Averager<C> {
        let parameters = Arc::new(method.parts().adaptation.parameters(model));
        Averager { method, model: Arc::new(model.clone()), parameters }
    }

    /// Returns the parts of the method.
    pub(in crate::methods) fn parts(&self) -> Parts<'_, C::State, C::Memory> {
        self.method.parts()
    }

    /// Returns the rows that travel between the server and a client with this view.
    pub(super) fn cut(&self, view: &TaskView, direction: RowPurpose) -> RowSelection {
        self.parts().shared().cut(&self.model, view, direction)
    }

    /// Returns a view of a task whose rows are all there are.
    fn whole_view(&self, task: usize) -> TaskView {
        let classes = (0..self.model.classes as u32).collect();
        TaskView { task: TaskId(task as u16), rows: 0..self.model.classes, classes }
    }

    /// Returns the rows that predictors use after a task.
    pub(super) fn inference_cut(&self, task: usize) -> RowSelection {
        self.cut(&self.whole_view(task), RowPurpose::Inference)
    }

    /// Returns the places of the parameters that a message of the first round holds.
    fn places(
        &self,
        cut: &RowSelection,
        view: &TaskView,
        direction: RowPurpose,
    ) -> Vec<TensorSpec> {
        let shared = self.parts().shared();
        let query = shared.query(&self.model, view, direction);
        let takes_part = |name: &str| shared.adaptation.takes_part(&query, name);
        cut.places(&self.parameters, view, takes_part, |place, _, _| place)
    }

    /// Returns the places of the parameters that an upload of a round holds, and what becomes of them.
    fn averaged_places(&self, cut: &RowSelection, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let (parts, view, round) = (self.parts(), facts.view, facts.round_in_phase);
        let shared = parts.shared();
        let query = RowQuery { round, ..shared.query(&self.model, view, RowPurpose::Up) };
        let takes_part = |name: &str| shared.adaptation.takes_part(&query, name);
        cut.places(&self.parameters, view, takes_part, |place, group, name| {
            let place = place.averaged(group, parts.weight_of(name));
            if parts.keeps_uploads { place.kept() } else { place }
        })
    }

    /// Returns the assets that the downloads of an exchange name.
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
        let previous = self.parts().previous_model;
        previous.filter(|previous| previous.is_sent_to(role))?;
        let before = view.task.0.checked_sub(1)?;
        let mut cut = self.cut(view, RowPurpose::Down);
        if self.parts().averaging.head == HeadForm::Growing {
            cut.head = 0..view.rows.start;
        }
        let places = self.places(&cut, view, RowPurpose::Down);
        let shapes: Vec<_> =
            places.into_iter().map(|place| (place.name.to_string(), place.shape)).collect();
        Some(previous_sketch(TaskId(before), &shapes))
    }

    /// Returns the shape of what the first task leaves below the head.
    fn features(&self) -> BodyShape {
        let view = self.whole_view(0);
        let cut = self.cut(&view, RowPurpose::Inference);
        let mut places = self.places(&cut, &view, RowPurpose::Inference);
        places.retain(|place| kind_of(&place.name) != Kind::Head);
        MessageSpec::of(places).body()
    }

    /// Returns the layout of a download of training.
    fn download(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (mut layout, extras) = (self.model_download(facts), self.parts().download);
        layout.control.extend(extras.field_template(facts));
        let (extra, at_most) = (extras.tensor_specs(facts), extras.is_upper_bound(facts));
        MessageSpec { extra, is_upper_bound: at_most, ..layout }
    }

    /// Returns the layout of a download of parameters and assets alone.
    fn model_download(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let cut = self.cut(facts.view, RowPurpose::Down);
        let parameters = self.places(&cut, facts.view, RowPurpose::Down);
        let assets = self.assets(facts);
        let control = vec![0; DIGEST_BYTES * assets.len()];
        MessageSpec { control, assets, ..MessageSpec::of(parameters) }
    }

    /// Returns the layout of an upload of training.
    fn upload_of_training(&self, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (parts, cut) = (self.parts(), self.cut(facts.view, RowPurpose::Up));
        let parameters = self.averaged_places(&cut, facts);
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

    /// Returns the control fields of an upload whose head begins at this row: by FedAvg the task whose rows it holds,
    /// where rows have owners, and the row.
    fn upload_fields(&self, facts: &ExchangeFacts<'_>, first_row: usize) -> Vec<u8> {
        let mut usual = MetaWriter::new();
        if self.parameters.is_by_owner() {
            usual.u64(u64::from(facts.view.task.0));
        }
        usual.u64(first_row as u64);
        self.parts().upload.fields(facts, first_row, usual.finish())
    }

    /// Returns the upload of a client with this result of training.
    pub(super) fn upload(
        &self,
        member: &PackClient<'_, C::State>,
        trained: super::LocalTrainingResult,
        ctx: &RunContext,
    ) -> Result<ClientResult, PolicyError> {
        let (parts, model, view) = (self.parts(), &*self.model, &member.participant.view);
        let (context, cut) = (parts.context(model, ctx), self.cut(view, RowPurpose::Up));
        let round = parts.download.round(member.download);
        let query = RowQuery { round, ..context.shared.query(model, view, RowPurpose::Up) };
        let travels = |name: &str| parts.adaptation.takes_part(&query, name);
        let parameters = cut.take(&self.parameters, &trained.parameters, travels)?;
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
            let weights =
                cut.take(&self.parameters, &all, |name| travels(name) && !is_buffer(name))?;
            let weights = weight_tensors(prefix, &self.parameters, &weights)?;
            match extra.last_mut() {
                Some(said) if said.kind == Kind::Statistics => said.tensors.extend(weights),
                _ => extra.push(Section::new(Kind::Statistics, weights)),
            }
        }
        let upload = Message { control, parameters, extra, assets: Vec::new() };
        Ok(ClientResult { upload, metrics: trained.metrics })
    }

    /// Returns a message of a client after the training of a task.
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
            let cut = self.cut(&member.participant.view, RowPurpose::Down);
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
                let learnt = parts.local.client_update(&training, &mut pack)?;
                let trained = pack.iter().zip(learnt);
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

/// Returns true if a phase is the exchange after training.
pub(in crate::methods) fn is_closing(phase: usize) -> bool {
    phase > 0
}

/// Returns the weights of numbers, in the order of the parameters that they are of.
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
            features: self.features(),
            uses_network: parts.uses_network,
            stateless: parts.stateless,
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
        Ok(C::State::of(state)?.kept_bytes())
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

    /// A client that received nothing but what it trains cannot answer by itself.
    fn local_model(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.client_model((facts.view, facts.phase), sent, own, ctx)
    }

    /// True for means of classes, and for parameters of a classifier.
    fn discloses(&self) -> bool {
        let is_head = |name: &str| [LinearHead::WEIGHT, PrototypeHead::PROTOTYPES].contains(&name);
        self.parts().upload.has_class_means()
            || self.parameters.iter().any(|one| is_head(&one.name))
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
