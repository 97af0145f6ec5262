//! Methods by [hooks](Averaged) as methods by parts: every part asks its hooks.

use std::sync::Arc;

use super::{
    Averaged, Client, Closing, Cut, Direction, Learnt, Needs, Objective, Parameters, Trained,
};
use crate::data::{Loader, TaskView};
use crate::learning::{Classifier, Prompting, TrainingPlan};
use crate::methods::parts::{
    Adaptation, Answer, AveragingMethod, ClientContext, DownloadExtras, FinalExchange,
    LocalTraining, LocalUpdate, Parts, PreviousModel, Roles, RowQuery, ServerUpdate, TaskStart,
    TrainedRows, TrainingSettings, TransformUpload, UploadExtras, Workload,
};
use crate::methods::trainable::Trainable;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSketch, Figures, Holdings, Lab, Layout, Message, ModelFacts, Period, Place,
    PolicyError, Predictor, Role, RoundContext, Seat, SketchFacts, UpSize, Veto, WireForm,
};
use crate::quantity::ClientId;
use crate::wire::Section;

/// A method by hooks as every part of itself.
#[derive(bytemuck::TransparentWrapper)]
#[repr(transparent)]
struct Hooks<A>(A);

impl<A: Averaged> AveragingMethod for A {
    type State = A::State;
    type Memory = A::Memory;

    fn parts(&self) -> Parts<'_, A::State, A::Memory> {
        let hooks: &Hooks<A> = bytemuck::TransparentWrapper::wrap_ref(self);
        let taught = |(role, _): (Role, _)| self.is_taught(role).then_some(role);
        let previous_model = || {
            let (all, taught): (Vec<_>, Vec<_>) =
                (self.roles(), self.roles().into_iter().filter_map(taught).collect());
            let role = taught.first().copied().filter(|_| taught.len() < all.len());
            PreviousModel { role, reinitializes: self.restarts() }
        };
        Parts {
            adaptation: hooks,
            averaging: self.averaging(),
            trains: TrainedRows::Usual,
            local: hooks,
            upload: Some(hooks),
            download: Some(hooks),
            previous_model: self.teaches().then(previous_model),
            server: Some(hooks),
            transform: Some(hooks),
            final_exchange: self.closes_with().map(|_| hooks as &dyn FinalExchange<_, _>),
            roles: Some(hooks),
            answer: Some(hooks),
            keeps_uploads: self.keeps(),
            stateless: self.stateless(),
            uses_network: self.charged(),
        }
    }
}

impl<A: Averaged> Adaptation for Hooks<A> {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        self.0.parameters(model)
    }

    fn initial(
        &self,
        model: &ModelFacts,
        lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        self.0.initial(model, lab, init)
    }

    fn rows(&self, query: &RowQuery<'_>) -> Cut {
        let RowQuery { model, view, direction, .. } = *query;
        let head = match (direction, model.form) {
            (Direction::Inference, _) => 0..model.classes,
            (Direction::Down, _) if self.0.down_is_lean(model) => view.rows.clone(),
            (Direction::Training, _) | (Direction::Up, WireForm::Lean) => {
                self.0.trained_rows(model, view)
            }
            _ => query.head.down_rows(view, model.classes),
        };
        let pool = self.0.task_rows(model, query.task(), direction);
        let only_trained = direction == Direction::Down && self.0.down_is_lean(model);
        Cut { only_trained, ..Cut::new(head, pool) }
    }

    fn takes_part(&self, query: &RowQuery<'_>, name: &str) -> bool {
        let uploads = || self.0.uploads(query.round, name);
        match query.direction {
            Direction::Training => uploads(),
            Direction::Up => self.0.travels(query.model, name, Direction::Up) && uploads(),
            direction => self.0.travels(query.model, name, direction),
        }
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        self.0.prompting(model, task, trains)
    }

    fn settings(&self, view: &TaskView) -> TrainingSettings {
        TrainingSettings {
            dropout: self.0.dropout(),
            norms: self.0.norms(view),
            has_batch_norms: self.0.fedavg().is_some_and(Trainable::has_batch_norms),
            query: self.0.query(),
            max_pack: self.0.largest_pack(),
        }
    }

    fn rate_factor(&self, name: &str) -> f64 {
        self.0.rate_factor(name)
    }

    fn metrics(
        &self,
        model: &ModelFacts,
        seat: &Seat,
        trained: &ParameterSet,
        loader: &Loader,
    ) -> Result<Figures, PolicyError> {
        self.0.figures(model, seat, trained, loader)
    }

    fn predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.0.predictor(model, task, theta, lab)
    }

    fn needs(&self) -> Vec<Needs> {
        self.0.needs()
    }

    fn vetoes(&self) -> Vec<Veto> {
        self.0.vetoes()
    }
}

impl<A: Averaged> LocalUpdate<A::State> for Hooks<A> {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[Client<'_, A::State>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        self.0.objective(context.model, pack, network, context.lab)
    }

    fn client_update(
        &self,
        training: &LocalTraining<'_, A::State>,
        pack: &mut [Client<'_, A::State>],
    ) -> Result<Learnt, PolicyError> {
        self.0.learn(training.context.model, pack, training.context.lab)
    }

    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        self.0.work(samples, plan)
    }

    fn work_in_round(&self, load: &Workload<'_>) -> f64 {
        self.0.seat_work(load.model, (load.seat, load.round), load.samples, load.plan)
    }
}

impl<A: Averaged> UploadExtras<A::State> for Hooks<A> {
    fn places(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        self.0.says(facts)
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &Client<'_, A::State>,
        trained: &Trained,
    ) -> Result<Vec<Section>, PolicyError> {
        self.0.describe(member, trained, context.lab)
    }

    fn weight_tensor(&self) -> &'static str {
        self.0.weight()
    }

    fn elementwise_weight_prefix(&self) -> Option<&'static str> {
        self.0.importance()
    }

    fn elementwise_weights(
        &self,
        context: &ClientContext<'_>,
        member: &Client<'_, A::State>,
        trained: &Trained,
    ) -> Result<ParameterSet, PolicyError> {
        self.0.weigh(context.model, member, trained, context.lab)
    }

    fn fields(&self, facts: &SketchFacts<'_>, first_row: usize, _usual: Vec<u8>) -> Vec<u8> {
        self.0.control(facts, first_row)
    }

    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        self.0.accepts(update)
    }

    fn size(&self) -> UpSize {
        self.0.size()
    }
}

impl<A: Averaged> DownloadExtras<A::Memory> for Hooks<A> {
    fn places(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        self.0.hears(facts)
    }

    fn is_upper_bound(&self, facts: &SketchFacts<'_>) -> bool {
        self.0.hears_at_most(facts)
    }

    fn sections(
        &self,
        memory: &A::Memory,
        round: &RoundContext,
    ) -> Result<Vec<Section>, PolicyError> {
        self.0.tell(memory, round)
    }

    fn personal_sections(
        &self,
        model: &ModelFacts,
        memory: &A::Memory,
        seat: &Seat,
    ) -> Result<Vec<Section>, PolicyError> {
        self.0.tell_seat(model, memory, seat)
    }

    fn is_personal(&self) -> bool {
        self.0.personal()
    }

    fn field_template(&self, facts: &SketchFacts<'_>) -> Vec<u8> {
        self.0.hears_fields(facts)
    }

    fn fields(&self, memory: &A::Memory, round: &RoundContext) -> Vec<u8> {
        self.0.tell_fields(memory, round)
    }

    fn round(&self, download: &Message) -> u32 {
        self.0.round_told(download)
    }

    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        self.0.also_named(facts)
    }

    fn assets(
        &self,
        memory: &A::Memory,
        seat: &Seat,
        lab: &Lab,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        self.0.assets(memory, seat, lab)
    }
}

impl<A: Averaged> ServerUpdate<A::Memory> for Hooks<A> {
    fn begin_task(
        &self,
        TaskStart { model, task, init }: TaskStart<'_>,
        memory: &mut A::Memory,
        theta: &mut ParameterSet,
    ) {
        *theta = self.0.begin_task(model, memory, task, std::mem::take(theta), init);
    }

    fn server_update(
        &self,
        memory: &mut A::Memory,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        self.0.after_mean(memory, closing, theta)
    }

    fn end_task(
        &self,
        memory: &mut A::Memory,
        theta: &ParameterSet,
        period: &Period,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.0.end_task(memory, theta, period, lab)
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        self.0.server_work(model, round, updates)
    }

    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        self.0.holdings(model)
    }
}

impl<A: Averaged> TransformUpload for Hooks<A> {
    fn layout(&self, facts: &SketchFacts<'_>, upload: Layout) -> Layout {
        self.0.folds(facts, upload)
    }

    fn transform(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        upload: Message,
    ) -> Result<Message, PolicyError> {
        self.0.lift(facts, sent, upload)
    }
}

impl<A: Averaged> FinalExchange<A::State, A::Memory> for Hooks<A> {
    fn name(&self) -> &'static str {
        self.0.closes_with().unwrap_or_default()
    }

    fn training_rounds(&self, rounds: u32) -> u32 {
        self.0.training_rounds(rounds)
    }

    fn sends_assets(&self) -> bool {
        self.0.closing_names_assets()
    }

    fn places(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        self.0.reports(facts)
    }

    fn report(
        &self,
        context: &ClientContext<'_>,
        member: &mut Client<'_, A::State>,
    ) -> Result<(Vec<Section>, Figures), PolicyError> {
        self.0.report(context.model, member, context.lab)
    }

    fn aggregate(
        &self,
        memory: &mut A::Memory,
        closing: Closing<'_>,
    ) -> Result<Figures, PolicyError> {
        self.0.after_reports(memory, closing)
    }

    fn work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        self.0.report_work(model, view, samples)
    }
}

impl<A: Averaged> Roles for Hooks<A> {
    fn roles(&self) -> Vec<(Role, &'static str)> {
        self.0.roles()
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.0.seats(round, cohort)
    }
}

impl<A: Averaged> Answer<A::Memory> for Hooks<A> {
    fn server_predictor(
        &self,
        model: &ModelFacts,
        memory: &A::Memory,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.0.answering(model, memory, theta, lab).map(Some)
    }

    fn client_predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        sent: &Message,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.0.own_predictor(model, task, (sent, theta), lab).map(Some)
    }
}

/// [`LocalTraining::train_single`] of a method.
///
/// # Errors
/// As there.
pub fn train_alone<C: AveragingMethod>(
    method: &C,
    model: &ModelFacts,
    member: &Client<'_, C::State>,
    lab: &Lab,
) -> Result<Trained, PolicyError> {
    let pack = std::slice::from_ref(member);
    method.parts().training(model, pack, lab).train_single(member)
}

/// [`LocalTraining::train`] of a method.
///
/// # Errors
/// As there.
pub fn train<C: AveragingMethod>(
    method: &C,
    model: &ModelFacts,
    pack: &[Client<'_, C::State>],
    lab: &Lab,
) -> Result<Learnt, PolicyError> {
    method.parts().training(model, pack, lab).train(pack)
}

/// [`LocalTraining::train_with_objective`] of a method.
///
/// # Errors
/// As there.
pub fn train_by<'o, C: AveragingMethod>(
    method: &C,
    model: &ModelFacts,
    pack: &[Client<'_, C::State>],
    lab: &Lab,
    objective: impl FnOnce(&Classifier) -> Result<Box<dyn Objective + 'o>, PolicyError>,
) -> Result<Learnt, PolicyError> {
    method.parts().training(model, pack, lab).train_with_objective(pack, objective)
}
