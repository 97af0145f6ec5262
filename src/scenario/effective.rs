//! A scenario as text with every default written out, and its hash.

use std::path::{Path, PathBuf};

use super::{Scenario, Workers};

impl Scenario {
    /// The scenario with every default, as TOML. Reading it gives the same scenario and the
    /// same hash, wherever the file lies: its paths are absolute.
    pub fn to_effective_toml(&self) -> String {
        // Every section is made of numbers, words and tables: nothing TOML cannot say.
        let text = toml::to_string(self).expect("a scenario is representable in TOML");
        format!("# The scenario with every default written out.\n{text}")
    }

    /// 64 hexadecimal digits that name the content: equal for scenarios whose runs are equal.
    ///
    /// In it is everything but: formatting and comments, `name`, `devices.workers`,
    /// `record.histograms`, and the folders of `data.path` and `backbone.weights` (their last
    /// component counts; a run's manifest has digests of what lies there).
    pub fn hash(&self) -> String {
        let last = |path: &Path| PathBuf::from(path.file_name().unwrap_or_default());
        let mut content = self.clone();
        content.name.clear();
        content.devices.workers = Workers::Auto;
        content.record.histograms = true;
        content.data.path = content.data.path.as_deref().map(last);
        if let Some(path) = content.backbone.weights_file_mut() {
            *path = last(path);
        }
        blake3::hash(content.to_effective_toml().as_bytes()).to_hex().to_string()
    }
}
