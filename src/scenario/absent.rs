//! Data, weights and other inputs of a scenario that this machine lacks.

use std::path::Path;

use super::files::may_be_named;
use super::reader::{Diagnostic, message_and_help};
use super::{Loaded, Scenario, method_files};
use crate::fetch::{FetchError, Name, Settings};

/// Input of a scenario that is not on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentInput {
    /// Key that names the input, such as `backbone.weights`.
    pub key: String,
    /// Name or path of the input, and the place that was searched.
    pub message: String,
    /// Command that brings the input, or the key to change.
    pub help: String,
}

impl Scenario {
    /// Returns data, weights and other files that a run would open and that this machine lacks. Reads no file.
    pub fn absent_inputs(&self) -> Vec<AbsentInput> {
        let settings = Settings::from_env();
        let mut absent = Vec::new();
        if let Some(Err(error)) = self.data.name().map(|name| settings.find_data(&name)) {
            absent.push(AbsentInput::of("data.source", &error));
        }
        let mut copy = self.clone();
        for (key, path) in copy.paths_mut() {
            let opened = may_be_named(&key) || key.starts_with("data.split.");
            let name = Name::of_path(path).filter(|_| may_be_named(&key));
            let found = |name: &Name| match key.starts_with("data.") {
                true => settings.find_data(name),
                false => settings.find_weights(name),
            };
            match name {
                Some(name) => {
                    let error = name.and_then(|name| found(&name)).err();
                    absent.extend(error.map(|error| AbsentInput::of(&key, &error)));
                }
                None if opened => absent.extend(AbsentInput::at(&key, path)),
                None => {}
            }
        }
        for (key, path) in method_files::paths(&self.method.name, self.method.parameters()) {
            absent.extend(AbsentInput::at(&key, &path));
        }
        absent
    }
}

impl Loaded {
    /// Returns a note on each of [`Scenario::absent_inputs`], at the key that names it.
    pub fn absent_inputs(&self) -> Vec<Diagnostic> {
        let note = |AbsentInput { key, message, help }: AbsentInput| {
            self.error_at(&key, &message, "not on this machine", &help).diagnostics()
        };
        self.scenario.absent_inputs().into_iter().flat_map(note).collect()
    }
}

impl AbsentInput {
    /// Returns the input of a name that was not found.
    fn of(key: &str, error: &FetchError) -> AbsentInput {
        let text = error.to_string();
        let (message, help) = message_and_help(&text);
        AbsentInput { key: key.to_owned(), message: message.to_owned(), help: help.to_owned() }
    }

    /// Returns the input at a path, if nothing is there.
    fn at(key: &str, path: &Path) -> Option<AbsentInput> {
        let help = || format!("copy it there, or set {key} to its path on this machine");
        let message = || format!("{} does not exist", path.display());
        let absent = || AbsentInput { key: key.to_owned(), message: message(), help: help() };
        (!path.exists()).then(absent)
    }
}
