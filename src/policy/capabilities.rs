//! Engine services for the uploads of every method, and the methods that allow them.
//!
//! Nothing is marked by hand: a service is allowed if the [layouts](MessageSpec) of a method's uploads allow it and the
//! method does not restrict it. A refusal names the tensor that forbids it, or gives the method's reason.

use std::fmt;
use std::sync::Arc;

use super::message_spec::StalenessRule;
use super::{
    ClassCounts, ExchangeFacts, MessageKind, MessageSpec, Method, ModelFacts, Stage, UploadSize,
};
use crate::data::TaskView;
use crate::quantity::TaskId;

/// Service of the engine for uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// An upload may be aggregated into a later round than its own.
    LateUpdates,
    /// Participants of one round may learn different tasks.
    MixedTasks,
    /// Another mean than the weighted one: medians, trimming, clipping.
    RobustAggregation,
    /// Uploads are added in secret, the server sees their sum.
    SecureAggregation,
    /// Clients may lie about what they learned.
    MaliciousClients,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Capability; 5] = [
        Capability::LateUpdates,
        Capability::MixedTasks,
        Capability::RobustAggregation,
        Capability::SecureAggregation,
        Capability::MaliciousClients,
    ];

    /// Returns the word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Capability::LateUpdates => "late updates",
            Capability::MixedTasks => "mixed tasks",
            Capability::RobustAggregation => "robust means",
            Capability::SecureAggregation => "secure aggregation",
            Capability::MaliciousClients => "malicious clients",
        }
    }
}

/// Service that a method does not allow although its layouts would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// Restricted service.
    pub service: Capability,
    /// Reason for the refusal, as a clause of a message.
    pub why: &'static str,
}

impl Restriction {
    /// Returns one restriction per service, all for one reason.
    pub fn against(services: &[Capability], why: &'static str) -> Vec<Restriction> {
        services.iter().map(|service| Restriction { service: *service, why }).collect()
    }
}

/// Reason why a method does not allow a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapabilityError {
    /// The server keeps this tensor of every client whole.
    Kept(Arc<str>),
    /// This tensor is a sum over the clients of one round.
    Sum(Arc<str>),
    /// No upload holds parameters that are averaged.
    NoMean,
    /// Every number of this parameter is averaged with its own weight.
    Elementwise(Arc<str>),
    /// The size of an upload depends on the data that a client holds or learned.
    DataDependentSize,
    /// The method does not allow it, for this reason.
    Restricted(&'static str),
}

impl fmt::Display for CapabilityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CapabilityError::Kept(name) => {
                write!(f, "the server keeps `{name}` of every client whole")
            }
            CapabilityError::Sum(name) => {
                write!(f, "`{name}` is a sum over the clients of one round")
            }
            CapabilityError::NoMean => {
                f.write_str("its uploads hold no parameters that are averaged")
            }
            CapabilityError::Elementwise(name) => {
                write!(f, "every number of `{name}` has its own weight, however small")
            }
            CapabilityError::DataDependentSize => {
                f.write_str("the size of its uploads reveals what clients hold")
            }
            CapabilityError::Restricted(why) => f.write_str(why),
        }
    }
}

/// Returns the reason why `method` does not allow a service, or `None` if it does.
pub fn check_capability(
    method: &dyn Method,
    facts: &ModelFacts,
    service: Capability,
) -> Option<CapabilityError> {
    if let Some(restriction) =
        method.profile().restrictions.into_iter().find(|restriction| restriction.service == service)
    {
        return Some(CapabilityError::Restricted(restriction.why));
    }
    let layouts = upload_layouts(method, facts);
    let kept = || {
        let mut places = layouts.iter().flat_map(MessageSpec::tensor_specs);
        places
            .find(|place| place.aggregation.keep)
            .map(|place| CapabilityError::Kept(Arc::clone(&place.name)))
    };
    let summed = |forbidden: &dyn Fn(StalenessRule) -> bool| {
        let mut places = layouts.iter().flat_map(MessageSpec::tensor_specs);
        let found = places.find(|place| place.aggregation.sum.is_some_and(forbidden));
        found.map(|place| CapabilityError::Sum(Arc::clone(&place.name)))
    };
    let no_mean = || {
        let mut places = layouts.iter().flat_map(MessageSpec::tensor_specs);
        (!places.any(|place| place.aggregation.mean.is_some())).then_some(CapabilityError::NoMean)
    };
    let elementwise = || {
        let mut places = layouts.iter().flat_map(MessageSpec::tensor_specs);
        let found = places.find(|place| place.weights().is_some());
        found.map(|place| CapabilityError::Elementwise(Arc::clone(&place.name)))
    };
    match service {
        Capability::LateUpdates => {
            kept().or_else(|| summed(&|stale| stale == StalenessRule::Refuse))
        }
        Capability::MixedTasks => summed(&|_| true),
        Capability::RobustAggregation => {
            kept().or_else(|| summed(&|_| true)).or_else(no_mean).or_else(elementwise)
        }
        Capability::SecureAggregation => kept().or_else(elementwise).or_else(|| {
            let depends_on_data =
                layouts.iter().any(|layout| layout.size == UploadSize::FromValues);
            depends_on_data.then_some(CapabilityError::DataDependentSize)
        }),
        Capability::MaliciousClients => no_mean(),
    }
}

/// Returns the layouts of uploads in every phase of the first two tasks.
///
/// These suffice to see how each tensor is aggregated.
pub fn upload_layouts(method: &dyn Method, facts: &ModelFacts) -> Vec<MessageSpec> {
    let rows = (facts.classes / facts.tasks.max(1)).max(1);
    let tasks = facts.tasks.clamp(1, 2);
    let of_task = |task: usize| {
        let own = task * rows..(task + 1) * rows;
        let classes = own.clone().map(|row| row as u32).collect();
        let view = Arc::new(TaskView { task: TaskId(task as u16), rows: own.clone(), classes });
        let counts: ClassCounts = own.map(|row| (row as u32, 8)).collect();
        let phases = method.phases(&Stage::of(Arc::clone(&view), facts.tasks.max(1)), 1);
        let used = phases.iter().enumerate().filter(|(_, phase)| phase.rounds > 0);
        let layout = |(phase, _)| {
            let (model, view, counts) = (facts, &view, &counts);
            let facts = ExchangeFacts {
                model,
                view,
                stage: view.task,
                phase,
                round_in_phase: 0,
                role: Default::default(),
                counts,
            };
            method.message_spec(MessageKind::Upload, &facts)
        };
        used.map(layout).collect::<Vec<_>>()
    };
    (0..tasks).flat_map(of_task).collect()
}
