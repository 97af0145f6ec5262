//! Interface to the source of the results that a run needs.
//!
//! A run is walked in one way only: cohorts, clocks, links, faults and closing rules are the same for every
//! [`Supplier`] of results. Workers compute them; a [recorded run](super::RecordedRun) and [layouts
//! alone](super::dry_run()) know them without computing and are [sources](ResultSource) of results.

mod client_update;
mod computation;
mod model_tests;
mod opening;
mod policy_holder;
mod policy_steps;
mod result_source;
mod supplier;

pub(super) use client_update::ClientUpdate;
pub(super) use computation::{Computation, answered};
pub(super) use model_tests::{ComparisonRequest, ModelTest, OwnModel};
pub(super) use opening::{OpeningRequest, RoundOpening};
pub(super) use policy_holder::{PolicyHolder, PolicyStep};
pub(super) use policy_steps::{
    BeginRequest, ClosingRequest, EndRequest, PolicyRestart, PolicyStepResult, RoundAggregate,
    StepRequest,
};
pub(super) use result_source::{ParticipantRef, ResultSource, SuppliedClosing, SuppliedTraining};
pub(super) use supplier::Supplier;
