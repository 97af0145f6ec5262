//! Effective scenario: text with every default written out, and its hash.

use std::path::{Path, PathBuf};

use super::{
    ArrivalChoice, AvailabilityPattern, CachePlace, DistributionKindSection, ExpectedSection,
    OwnedSample, PartitionKind, SavedModels, Scenario, SplitSection, Workers, method_files,
};
use crate::fetch::Name;

impl Scenario {
    /// Returns the scenario with every default, as TOML. Reading it gives the same scenario and the same hash, wherever
    /// the file is: its paths are absolute.
    pub fn to_effective_toml(&self) -> String {
        // Every section is made of numbers, words and tables: nothing TOML cannot say.
        let text = toml::to_string(self).expect("a scenario is representable in TOML");
        format!("# Effective scenario: every default is written out.\n{text}")
    }

    /// Returns 64 hexadecimal digits that are equal for scenarios whose runs are equal.
    ///
    /// The hash covers everything but: formatting and comments; `name`, `devices.workers`, `record.histograms`,
    /// `record.parquet`, `record.tensorboard`, `record.confusion`, `record.predictions`, `record.models`,
    /// `record.single_task` and `[expected]`; whether features are kept in memory or in which folder; the folders of `data.path`, of its lists,
    /// of `data.auxiliary.path`, `backbone.weights` and `backbone.vocabulary` (their last component counts; of a name
    /// all of it; a run's manifest has digests of the files); and the names of CSV files and of a method's files (their
    /// contents count).
    pub fn hash(&self) -> String {
        // A name means the same everywhere.
        let last = |path: &Path| match Name::of_path(path) {
            Some(_) => path.to_owned(),
            None => PathBuf::from(path.file_name().unwrap_or_default()),
        };
        let mut content = self.clone();
        content.name.clear();
        content.devices.workers = Workers::Auto;
        content.federation.dummy_clients.forget_unused();
        content.record.histograms = true;
        content.record.single_task = None;
        content.record.parquet = false;
        content.record.tensorboard = false;
        content.record.confusion = false;
        content.record.predictions = false;
        content.record.models = SavedModels::None;
        content.expected = ExpectedSection::default();
        let auxiliary = content.data.auxiliary.as_mut().and_then(|section| section.path.as_mut());
        for path in content.data.path.iter_mut().chain(auxiliary) {
            *path = last(path);
        }
        let lists = content.data.split.iter_mut().flat_map(SplitSection::files_mut);
        lists.for_each(|(_, path)| *path = last(path));
        for (_, path) in content.backbone.files_mut() {
            *path = last(path);
        }
        // The content of these files counts, not their place.
        if let AvailabilityPattern::Trace { file, transitions, .. } =
            &mut content.availability.pattern
        {
            let lines: String = transitions.iter().map(|line| format!("{line:?}\n")).collect();
            *file = PathBuf::from(blake3::hash(lines.as_bytes()).to_hex().as_str());
        }
        if let ArrivalChoice::File { file, lines } = &mut content.tasks.arrival {
            let lines: String = lines.iter().map(|line| format!("{line:?}\n")).collect();
            *file = PathBuf::from(blake3::hash(lines.as_bytes()).to_hex().as_str());
        }
        if let PartitionKind::File { file, lines, .. } = &mut content.partition.kind {
            let held = |line: &OwnedSample| [line.sample.to_le_bytes(), line.client.to_le_bytes()];
            let bytes = lines.iter().flat_map(held).flatten().collect::<Vec<u8>>();
            *file = PathBuf::from(blake3::hash(&bytes).to_hex().as_str());
        }
        let method = content.method.name.clone();
        method_files::by_content(&method, content.method.parameters_mut());
        for (_, _, distribution) in content.distributions_mut() {
            if let DistributionKindSection::Empirical { file, values, .. } = &mut distribution.shape
            {
                let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                *file = PathBuf::from(blake3::hash(&bytes).to_hex().as_str());
            }
        }
        content.cache.folder = None;
        if content.cache.features == CachePlace::File {
            content.cache.features = CachePlace::Memory;
        }
        blake3::hash(content.to_effective_toml().as_bytes()).to_hex().to_string()
    }
}
