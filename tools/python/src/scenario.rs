//! Scenarios: read from a file or a dictionary, checked, planned.

use std::path::{Path, PathBuf};

use fedcast::experiment::assemble::{blueprint, divide};
use fedcast::experiment::plan::{Faults, plan};
use fedcast::experiment::{Origin, Provenance, Run, RunOptions, default_directory};
use fedcast::scenario::{Loaded, Override};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::attend::without_gil;
use crate::errors::Failure;
use crate::rule::Rule;
use crate::runs::{Ended, RunCall, compute};
use crate::values::{to_overrides, to_table};

/// Scenario that was read and checked.
#[pyclass(frozen, module = "fedcast._fedcast")]
pub struct Scenario {
    loaded: Loaded,
    rule: Rule,
    overrides: Vec<String>,
    file: Option<PathBuf>,
}

fn changes(overrides: &[String]) -> Vec<Override> {
    overrides.iter().map(Override::new).collect()
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::usage(error.to_string()))
}

#[pymethods]
impl Scenario {
    /// Read a scenario file.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        overrides: Option<&Bound<'_, PyDict>>,
        rule: Option<Py<PyAny>>,
    ) -> PyResult<Scenario> {
        let (rule, overrides) = (Rule::new(rule), to_overrides(overrides)?);
        let methods = rule.registry();
        let changes = changes(&overrides);
        let loaded =
            without_gil(py, || Ok(fedcast::scenario::Scenario::load(&path, &changes, &methods)?))?;
        Ok(Scenario { loaded, rule, overrides, file: Some(path) })
    }

    /// Read a dictionary as if it were the file `folder/name.toml`.
    #[staticmethod]
    fn from_dict(
        py: Python<'_>,
        table: &Bound<'_, PyDict>,
        name: &str,
        folder: PathBuf,
        overrides: Option<&Bound<'_, PyDict>>,
        rule: Option<Py<PyAny>>,
    ) -> PyResult<Scenario> {
        let text = to_table(table)?.to_string();
        let (rule, overrides) = (Rule::new(rule), to_overrides(overrides)?);
        let methods = rule.registry();
        let changes = changes(&overrides);
        let loaded = without_gil(py, || {
            let read = fedcast::scenario::Scenario::from_toml;
            Ok(read(&text, name, &folder, &changes, &methods)?)
        })?;
        Ok(Scenario { loaded, rule, overrides, file: None })
    }

    /// Label of the scenario.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.scenario.name
    }

    /// Digest of the effective scenario.
    #[getter]
    fn hash(&self) -> String {
        self.loaded.scenario.hash()
    }

    /// Default run directory.
    #[getter]
    fn directory(&self) -> PathBuf {
        default_directory(&self.loaded.scenario)
    }

    /// Name of the method.
    #[getter]
    fn method(&self) -> &str {
        &self.loaded.scenario.method.name
    }

    /// Effective scenario: TOML with every default written out.
    fn to_toml(&self) -> String {
        self.loaded.scenario.to_effective_toml()
    }

    /// Draw the partition and return notes as JSON.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        without_gil(py, || {
            divide(&self.loaded.scenario)?;
            json(&[self.loaded.notes(), self.loaded.absent_inputs()].concat())
        })
    }

    /// Plan the run and return the plan as JSON.
    fn plan(&self, py: Python<'_>, faults: bool) -> PyResult<String> {
        without_gil(py, || {
            let blueprint = blueprint(&self.loaded.scenario, &self.rule.registry())?;
            let planned = plan(&blueprint, if faults { Faults::On } else { Faults::Off })?;
            let mut planned = serde_json::to_value(&planned)
                .map_err(|error| Failure::usage(error.to_string()))?;
            planned["notes"] = blueprint.notes.into();
            Ok(planned.to_string())
        })
    }

    /// Run the scenario; see `fedcast.Scenario.run`.
    #[pyo3(signature = (out, workers, force, callback))]
    fn run(
        &self,
        py: Python<'_>,
        out: Option<PathBuf>,
        workers: Option<u32>,
        force: bool,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Ended> {
        let command = py.import("sys")?.getattr("argv")?.extract()?;
        let origin = self.file.as_deref().and_then(|file: &Path| Origin::of(file));
        let requires = self.rule.object_of(&self.loaded.scenario);
        let provenance =
            Provenance { command, overrides: self.overrides.clone(), origin, requires };
        let options = RunOptions { workers, ranks: None, out, force, provenance };
        let ended = compute(py, callback, |call: RunCall| {
            let scenario = &self.loaded.scenario;
            self.rule.require(&scenario.method.name)?;
            let run = Run::prepare(scenario, &self.rule.registry(), &options)?;
            call.execute(run, scenario, 0, Vec::new())
        });
        ended.map_err(|error| self.rule.explain(py, error))
    }
}
