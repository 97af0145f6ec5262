//! Rules by which parts become a method.

use std::sync::Arc;

use super::*;
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::methods::HeadForm;
use crate::methods::averaging::{LocalTrainingResult, PackClient, Requirement, RowPurpose};
use crate::methods::trainable::{Train, Trainable};
use crate::model::{BackboneConfig, BatchNormMode, PixelShape};
use crate::policy::{
    Capability, ExchangeFacts, ModelFacts, PolicyError, Restriction, Role, RoundContext, Stage,
    TensorSpec, WireForm, one_participant_per_client,
};
use crate::quantity::{ClientId, TaskId};
use crate::wire::Section;

fn model(form: WireForm) -> ModelFacts {
    let backbone = BackboneConfig::Pixels(PixelShape { channels: 1, image: 2 });
    ModelFacts { backbone, classes: 6, tasks: 3, clients: 1, form, auxiliary: None }
}

fn second_task() -> TaskView {
    TaskView { task: TaskId(1), rows: 2..4, classes: vec![2, 3] }
}

fn round() -> RoundContext {
    RoundContext::alone(&Stage::of(Arc::new(second_task()), 3), 0)
}

/// Training and uploads that cost, ask and restrict.
struct Demanding;

impl LocalUpdate<()> for Demanding {
    fn work(&self, load: &Workload<'_>) -> f64 {
        10.0 * load.samples as f64
    }

    fn demands(&self) -> Demands {
        let why = "for a reason of training";
        Demands {
            requirements: vec![Requirement::new(|_| None).summarized("for training")],
            restrictions: Restriction::against(&[Capability::MixedTasks], why),
        }
    }
}

impl UploadExtras<()> for Demanding {
    fn tensor_specs(&self, _facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        Vec::new()
    }

    fn sections(
        &self,
        _context: &ClientContext<'_>,
        _member: &PackClient<'_, ()>,
        _trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        Ok(Vec::new())
    }

    fn work(&self, samples: usize) -> f64 {
        samples as f64 / 2.0
    }

    fn demands(&self) -> Demands {
        let why = "for a reason of uploads";
        Demands {
            requirements: vec![Requirement::new(|_| None).summarized("for uploads")],
            restrictions: Restriction::against(&[Capability::SecureAggregation], why),
        }
    }
}

#[test]
fn trained_rows_are_sent_in_lean_uploads_only() {
    let trainable = Trainable { head_form: HeadForm::Fixed, ..Trainable::default() };
    let head = |trains, form, direction| {
        let parts: Parts<'_, (), ()> = Parts { trains, ..trainable.base() };
        parts.shared().cut(&model(form), &second_task(), direction).head
    };
    let kinds =
        [(TrainedRows::Usual, 2..4), (TrainedRows::Seen, 0..4), (TrainedRows::Carried, 0..6)];
    for (trains, rows) in kinds {
        assert_eq!(head(trains, WireForm::Full, RowPurpose::Training), rows, "{trains:?}");
        assert_eq!(head(trains, WireForm::Lean, RowPurpose::Up), rows, "{trains:?}");
        assert_eq!(head(trains, WireForm::Full, RowPurpose::Up), 0..6, "{trains:?}");
        assert_eq!(head(trains, WireForm::Lean, RowPurpose::Down), 0..6, "{trains:?}");
    }
}

#[test]
fn demands_and_costs_of_all_parts_count() {
    let trainable = Trainable {
        train: Train::Module,
        batch_norm: BatchNormMode::Running,
        ..Trainable::default()
    };
    let plain: Parts<'_, (), ()> = trainable.base();
    let parts = Parts { local: &Demanding, upload: &Demanding, ..plain };
    let plan = &TrainingPlan { epochs: 3, ..TrainingPlan::default() };
    let (model, round) = (&model(WireForm::Full), &round());
    let participant = &one_participant_per_client(&round.stage, &[ClientId(0)])[0];
    let load = Workload { model, participant, round, samples: 4, plan };
    assert_eq!((plain.work(&load), parts.work(&load)), (12.0, 42.0));
    let required: Vec<_> = parts.requirements().into_iter().map(|one| one.summary).collect();
    assert_eq!(required, ["for training", "for uploads"].map(|what| Some(what.to_owned())));
    let reasons: Vec<_> = parts
        .restrictions()
        .iter()
        .map(|restriction| (restriction.service, restriction.why))
        .collect();
    let training = (Capability::MixedTasks, "for a reason of training");
    assert_eq!(reasons, [training, (Capability::SecureAggregation, "for a reason of uploads")]);
    // The adaptation's own reason counts where no other part has one.
    assert_eq!(plain.restrictions().len(), 1);
    assert_eq!(plain.restrictions()[0].service, Capability::MixedTasks);
}

#[test]
fn previous_models_go_to_their_role_or_to_all() {
    let (learner, reviewer) = (Role::default(), Role(1));
    let to = |role| {
        let model = PreviousModel { role, ..PreviousModel::default() };
        [learner, reviewer].map(|role| model.is_sent_to(role))
    };
    assert_eq!(to(None), [true, true]);
    assert_eq!(to(Some(reviewer)), [false, true]);
}
