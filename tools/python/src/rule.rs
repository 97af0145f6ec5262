//! Method `python`: FedAvg whose server calls a Python object after averaging.
//!
//! Clients, messages, bytes and virtual time are FedAvg's. Uploads are kept until the round closes; the object gets
//! them as named arrays and returns the server's new parameters. Its state is in `round.state`, which is saved with the
//! server, so that a run can be resumed.

mod arrays;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use fedcast::methods::averaging::{ClosedRound, ServerState};
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::parts::{AveragingMethod, Demands, Parts, ServerUpdate};
use fedcast::methods::{MethodEntry, Registry};
use fedcast::model::ParameterSet;
use fedcast::policy::{
    Capability, Metrics, ModelFacts, PolicyError, RoundContext, vector_section, vectors_of,
};
use fedcast::scenario::Scenario;
use fedcast::scenario::reader::{Param, TableReader};
use fedcast::wire::{Body, Saved, WireError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use self::arrays::{from_arrays, to_arrays};
use crate::errors::Failure;

/// Name of the method.
const NAME: &str = "python";

/// Error of a computation without the Python object.
const MISSING: &str = "the method `python` needs its Python object\n  help: give it to Scenario.load, Scenario.from_dict or \
                       Run.open as `rule`";

/// Python object with `aggregate(round, updates)`, and the exception that it raised last.
#[derive(Clone, Default)]
pub struct Rule {
    object: Option<Arc<Py<PyAny>>>,
    raised: Arc<Mutex<Option<PyErr>>>,
}

impl Rule {
    /// Returns the rule of an object. Without one, scenarios can only be read and planned.
    pub fn new(object: Option<Py<PyAny>>) -> Rule {
        Rule { object: object.map(Arc::new), raised: Arc::default() }
    }

    /// Returns the methods of fedcast and this one.
    pub fn registry(&self) -> Registry {
        let rule = self.clone();
        Registry::builtin().with(MethodEntry {
            idea: "FedAvg whose server calls an object of Python after the mean.",
            source: "the page of the guide on Python",
            state: "server: the parameters and the arrays of `round.state`; client: nothing",
            ..MethodEntry::averaging(NAME, move |table| PythonMethod::read(table, rule.clone()))
        })
    }

    /// Returns the requirement of a run besides its directory, for its manifest.
    pub fn object_of(&self, scenario: &Scenario) -> Option<String> {
        let class = scenario.method.parameters().get("rule").and_then(|class| class.as_str());
        let class = class.filter(|_| scenario.method.name == NAME)?;
        Some(format!("the Python object `{class}`; without it the run cannot be computed again"))
    }

    /// Checks that there is an object if the method of this name needs it.
    ///
    /// # Errors
    /// Fails with advice if it is missing.
    pub fn require(&self, method: &str) -> Result<(), Failure> {
        match method == NAME && self.object.is_none() {
            true => Err(Failure::usage(MISSING)),
            false => Ok(()),
        }
    }

    /// Returns `error` with the exception of the object as its cause, if it raised one.
    pub fn explain(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(cause) = raised {
            error.set_cause(py, Some(cause));
        }
        error
    }
}

/// The `[method]` table: FedAvg's keys, and the name and digest of the object.
#[derive(Clone)]
struct PythonMethod {
    fedavg: FedAvg,
    /// `server_passes`: work of the rule per upload.
    server_passes: f64,
    rule: Rule,
}

impl PythonMethod {
    fn read(table: &mut TableReader<'_>, rule: Rule) -> PythonMethod {
        let object = Param::new("rule", String::new(), "class of the object, as `module.Class`");
        let _: String = table.get(&object.source("the package sets it"));
        let digest = Param::new("digest", String::new(), "digest of the object's code and values");
        let _: String = table.get(&digest.source("the package sets it"));
        let doc = "work of the rule per upload for virtual time, in passes of one sample";
        let passes = Param::new("server_passes", 0.0, doc).at_least(0.0);
        let server_passes = table.get(&passes.source("none: the rule takes no virtual time"));
        PythonMethod { fedavg: FedAvg::read(table), server_passes, rule }
    }
}

/// Arrays that the object keeps between rounds.
#[derive(Default)]
pub struct RuleState(ParameterSet);

impl Saved for RuleState {
    fn save(&self) -> Body {
        Body::new(Vec::new(), vec![vector_section("state", &self.0)])
    }

    fn load(saved: &Body) -> Result<RuleState, WireError> {
        Ok(RuleState(vectors_of(&saved.sections, "state")?))
    }
}

impl ServerState for RuleState {}

impl AveragingMethod for PythonMethod {
    type State = ();
    type Memory = RuleState;

    fn parts(&self) -> Parts<'_, (), RuleState> {
        Parts { server: self, keeps_uploads: true, ..self.fedavg.base() }
    }
}

impl ServerUpdate<RuleState> for PythonMethod {
    fn server_update(
        &self,
        memory: &mut RuleState,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let missing = || PolicyError::Unsupported(MISSING.to_owned());
        let object = self.rule.object.as_ref().ok_or_else(missing)?;
        let called = Python::attach(|py| call(py, object, memory, &closing, theta));
        match called {
            Ok(metrics) => Ok(metrics),
            Err(RuleError::Policy(error)) => Err(error),
            Err(RuleError::Raised(error)) => {
                let text = Python::attach(|py| {
                    let of = error.get_type(py).name().map_or("error".into(), |of| of.to_string());
                    format!("the rule in Python raised {of}: {}", error.value(py))
                });
                *self.rule.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(PolicyError::Unsupported(text))
            }
        }
    }

    fn work(&self, _: &ModelFacts, _: &RoundContext, updates: usize) -> f64 {
        self.server_passes * updates as f64
    }

    fn demands(&self) -> Demands {
        let services = [Capability::MixedTasks, Capability::RobustAggregation];
        Demands::restricting(&services, "the rule in Python replaces the mean")
    }
}

/// Error of a call of the object.
enum RuleError {
    Raised(PyErr),
    Policy(PolicyError),
}

impl From<PyErr> for RuleError {
    fn from(error: PyErr) -> RuleError {
        RuleError::Raised(error)
    }
}

impl From<PolicyError> for RuleError {
    fn from(error: PolicyError) -> RuleError {
        RuleError::Policy(error)
    }
}

/// Calls the object; its parameters replace those of `theta`, its state that of `memory`.
fn call(
    py: Python<'_>,
    object: &Py<PyAny>,
    memory: &mut RuleState,
    closing: &ClosedRound<'_>,
    theta: &mut ParameterSet,
) -> Result<Metrics, RuleError> {
    let round = PyDict::new(py);
    let view = &closing.round.stage.view;
    round.set_item("number", closing.round.round.0 + 1)?;
    round.set_item("task", u32::from(view.task.0) + 1)?;
    round.set_item("seed", closing.round.run_seed)?;
    round.set_item("classes", &view.classes)?;
    round.set_item("new_rows", (view.rows.start, view.rows.end))?;
    round.set_item("parameters", to_arrays(py, closing.before)?)?;
    round.set_item("mean", to_arrays(py, theta)?)?;
    round.set_item("state", to_arrays(py, &memory.0)?)?;
    let updates = PyList::empty(py);
    for kept in &closing.aggregate.kept_uploads {
        let update = PyDict::new(py);
        let samples = kept.update.named(fedcast::methods::averaging::SAMPLES);
        let samples = samples.and_then(|tensor| tensor.numbers().first().copied());
        update.set_item("client", kept.meta.participant.client.0)?;
        update.set_item("participant", kept.meta.participant.id.0)?;
        update.set_item("samples", samples)?;
        update.set_item("staleness", kept.meta.staleness)?;
        update.set_item("parameters", to_arrays(py, &closing.trained(kept)?)?)?;
        updates.append(update)?;
    }
    let shim = py.import("fedcast.rule")?.getattr("_call")?;
    let (parameters, state, metrics) =
        shim.call1((object.bind(py), round, updates))?
            .extract::<(Py<PyDict>, Py<PyDict>, Py<PyDict>)>()?;
    let changed = from_arrays(parameters.bind(py))?;
    *theta = std::mem::take(theta).merge(&changed);
    memory.0 = from_arrays(state.bind(py))?;
    let metrics = metrics
        .bind(py)
        .iter()
        .map(|(name, value)| Ok((interned(name.extract()?), value.extract::<f64>()?)));
    Ok(metrics.collect::<PyResult<Metrics>>()?)
}

/// Returns a name for the journal with static lifetime. Each is stored once.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name.as_str()) {
        Some(known) => known,
        None => {
            let name: &'static str = name.leak();
            names.insert(name);
            name
        }
    }
}
