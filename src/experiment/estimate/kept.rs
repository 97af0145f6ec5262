//! Storage of measured costs between two calls: a JSON file in the user's cache folder.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Costs;
use crate::experiment::directory_error::DirectoryError;
use crate::experiment::machine::Machine;
use crate::experiment::run_directory::write_atomically;
use crate::scenario::Scenario;

/// Returns this user's cache folder: that which `FEDCAST_CACHE` names, else the platform's.
pub fn cache_folder() -> Option<PathBuf> {
    match env::var_os("FEDCAST_CACHE") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(dirs::cache_dir()?.join("fedcast")),
    }
}

/// Costs by [`cost_key`].
#[derive(Clone, Debug)]
pub struct KeptCosts {
    path: PathBuf,
    by_key: BTreeMap<String, Costs>,
}

impl KeptCosts {
    /// Returns the costs of this user: from the folder that `FEDCAST_CACHE` names, else the platform's. Without
    /// either nothing is kept. A file that cannot be read counts as none: it is measured again.
    pub fn of_this_user() -> Option<KeptCosts> {
        Some(KeptCosts::in_folder(&cache_folder()?))
    }

    /// Reads the costs in a folder.
    pub fn in_folder(folder: &Path) -> KeptCosts {
        let path = folder.join("costs.json");
        let text = fs::read_to_string(&path).unwrap_or_default();
        KeptCosts { path, by_key: serde_json::from_str(&text).unwrap_or_default() }
    }

    /// Returns the costs measured for this key.
    pub fn get(&self, key: &str) -> Option<&Costs> {
        self.by_key.get(key)
    }

    /// Keeps measured costs.
    pub fn keep(&mut self, key: &str, costs: &Costs) -> Result<(), DirectoryError> {
        self.by_key.insert(key.to_owned(), costs.clone());
        let text = serde_json::to_vec_pretty(&self.by_key).expect("costs have only string keys");
        write_atomically(&self.path, &text)
    }
}

/// Returns a key of all that a unit of work depends on. It is network, method, data and their transforms, batch,
/// codecs, what computes, program, processor and its path of vectors. Not in it is the amount of work: clients,
/// rounds, epochs, tasks, seeds.
pub fn cost_key(scenario: &Scenario, workers: usize) -> String {
    let machine = Machine::here();
    let parts = [
        env!("CARGO_PKG_VERSION").to_owned(),
        machine.cpu,
        machine.vectors,
        format!("workers {workers}, batch {}", scenario.client.batch_size),
        section(&scenario.data),
        section(&scenario.backbone),
        section(&scenario.method),
        section(&scenario.wire),
        section(&scenario.devices),
        section(&scenario.cache),
        format!("{:?}", scenario.tasks.arrival),
    ];
    blake3::hash(parts.join("\n").as_bytes()).to_hex()[..16].to_owned()
}

fn section(of: &impl Serialize) -> String {
    toml::to_string(of).expect("a section is representable in TOML")
}
