//! Parameters of the shared model in messages: which of them, and which of their rows, are sent.
//!
//! Nothing here depends on the types of client and server states, so it is compiled once for all methods.

use super::averager::is_closing;
use super::previous::previous_shape;
use super::row_selection::RowSelection;
use super::{Parameters, RowPurpose};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::learning::feature_inversion::UpdateMatching;
use crate::methods::HeadForm;
use crate::methods::parts::{RowQuery, SharedModel};
use crate::model::{Adjustment, ModelError, ParameterSet};
use crate::policy::{
    AssetSpec, Disclosures, ExchangeFacts, Member, Message, MessageSpec, ModelFacts, PolicyError,
    RunContext, TensorSpec, TrainedClass, Weight, kind_of,
};
use crate::quantity::TaskId;
use crate::wire::{BodyShape, Kind};

/// Parameters of a method for a model of certain dimensions, with the rules for their rows in messages.
#[derive(Clone, Copy)]
pub(super) struct ModelMessages<'a> {
    pub shared: SharedModel<'a>,
    pub model: &'a ModelFacts,
    /// All parameters that the method trains.
    pub all: &'a Parameters,
}

impl ModelMessages<'_> {
    /// Returns the rows that are sent, trained or used for predictions, depending on the purpose.
    pub fn cut(&self, view: &TaskView, purpose: RowPurpose) -> RowSelection {
        self.shared.cut(self.model, view, purpose)
    }

    /// Returns the rows that predictors use after a task.
    pub fn inference_cut(&self, task: usize) -> RowSelection {
        self.cut(&self.whole_view(task), RowPurpose::Inference)
    }

    /// Returns a view of a task that has all classes of the model.
    fn whole_view(&self, task: usize) -> TaskView {
        let classes = (0..self.model.classes as u32).collect();
        TaskView { task: TaskId(task as u16), rows: 0..self.model.classes, classes }
    }

    /// Returns the selected rows of the parameters that take part in a round.
    pub fn take(
        &self,
        cut: &RowSelection,
        (view, purpose, round): (&TaskView, RowPurpose, u32),
        whole: &ParameterSet,
    ) -> Result<ParameterSet, ModelError> {
        let query = RowQuery { round, ..self.shared.query(self.model, view, purpose) };
        cut.take(self.all, whole, &|name| self.shared.adaptation.takes_part(&query, name))
    }

    /// Returns the specifications of the parameters in a message of the first round of the phase.
    pub fn places(&self, view: &TaskView, purpose: RowPurpose) -> Vec<TensorSpec> {
        self.places_of(&self.cut(view, purpose), view, purpose)
    }

    fn places_of(
        &self,
        cut: &RowSelection,
        view: &TaskView,
        purpose: RowPurpose,
    ) -> Vec<TensorSpec> {
        let query = self.shared.query(self.model, view, purpose);
        let takes_part = |name: &str| self.shared.adaptation.takes_part(&query, name);
        cut.places(self.all, view, &takes_part, &|place, _, _| place)
    }

    /// Returns the specifications of the parameters in an upload of a round, with their aggregation.
    pub fn averaged_places(
        &self,
        cut: &RowSelection,
        facts: &ExchangeFacts<'_>,
        weight_of: &dyn Fn(&str) -> Weight,
        keeps_uploads: bool,
    ) -> Vec<TensorSpec> {
        let (view, round) = (facts.view, facts.round_in_phase);
        let query = RowQuery { round, ..self.shared.query(self.model, view, RowPurpose::Up) };
        let takes_part = |name: &str| self.shared.adaptation.takes_part(&query, name);
        cut.places(self.all, view, &takes_part, &|place, group, name| {
            let place = place.averaged(group, weight_of(name));
            if keeps_uploads { place.kept() } else { place }
        })
    }

    /// Returns the specification of the previous task's model, or `None` in the first task.
    ///
    /// `reinitializes` is true if tasks start from newly drawn parameters.
    pub fn previous(&self, view: &TaskView, reinitializes: bool) -> Option<AssetSpec> {
        let before = view.task.0.checked_sub(1)?;
        let mut cut = self.cut(view, RowPurpose::Down);
        if self.shared.averaging.head == HeadForm::Growing {
            cut.head = 0..view.rows.start;
        }
        let places = self.places_of(&cut, view, RowPurpose::Down);
        // Rows that do not begin with the first may change from task to task.
        let stays = !reinitializes && places.iter().all(|place| place.first_row == 0);
        let shapes: Vec<_> =
            places.into_iter().map(|place| (place.name.to_string(), place.shape)).collect();
        Some(previous_shape(TaskId(before), &shapes, stays))
    }

    /// Returns the shape of the parameters below the head that predict after the first task.
    pub fn features(&self) -> BodyShape {
        let mut places = self.places(&self.whole_view(0), RowPurpose::Inference);
        places.retain(|place| kind_of(&place.name) != Kind::Head);
        MessageSpec::of(places).body()
    }

    /// Returns a client's whole parameters in a phase of a task: `sent` with the uploaded rows of `own` put in.
    ///
    /// `None` in the final exchange, and if the download has only the rows that the client trains.
    pub fn client_parameters(
        &self,
        (view, phase): (&TaskView, usize),
        sent: &Message,
        own: &Message,
    ) -> Result<Option<ParameterSet>, PolicyError> {
        let down = self.cut(view, RowPurpose::Down);
        if is_closing(phase) || down.only_trained {
            return Ok(None);
        }
        let received = down.padded(self.all, &sent.parameters);
        let up = self.cut(view, RowPurpose::Up);
        Ok(Some(up.put(self.all, &received, &own.parameters)?))
    }

    /// Returns the parameter update of an upload, with the network before and after training.
    ///
    /// The loss of the network is the cross-entropy, plus the terms of prompt keys.
    pub fn disclosed_update(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (all, shared, view) = (self.all, &self.shared, &member.participant.view);
        let received = self.cut(view, RowPurpose::Down).padded(all, &member.download.parameters);
        let sent = self.cut(view, RowPurpose::Up).put(all, &received, &upload.parameters)?;
        let rows = shared.trained_rows(self.model, view);
        let norms = shared.adaptation.settings(view).norms;
        // The set of trained parameters may depend on the round: parameters missing from the upload were frozen.
        let stays = |name: &str| upload.parameters.get(name).is_none();
        let network = |set: ParameterSet| {
            let prompting = shared.adaptation.prompting(self.model, view.task.index(), true);
            let rows = rows.clone();
            // Batch norms by the moments of a single image would erase it.
            if ctx.backbone.is_in(&set) || Adjustment::is_in(&set) {
                return Classifier::evaluating(&ctx.backbone, vec![set], rows);
            }
            Classifier::pack_but(&ctx.backbone, vec![set], rows, prompting, norms, &stays)
        };
        let factors = |name: &str| shared.adaptation.rate_factor(name);
        let matching = UpdateMatching::new(network(received)?, &network(sent)?, &factors)?;
        let trained = |(row, samples): (u32, u32)| {
            let class = TrainedClass { row: row as usize, label: row, samples: samples.into() };
            rows.contains(&class.row).then_some(class)
        };
        let classes: Vec<TrainedClass> =
            ctx.shard_label_counts(&member.shard).into_iter().filter_map(trained).collect();
        let matching = matching.map(Box::new).filter(|_| !classes.is_empty());
        Ok(matching.map(|matching| Disclosures::Update { matching, classes }))
    }
}
