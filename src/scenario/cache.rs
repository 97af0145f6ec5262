//! `[cache]`: what is computed once and kept.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

/// Unless it is said.
const LIMIT_MB: u32 = 1000;

/// Whether and where the outputs of the frozen backbone are kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheSection {
    /// Where they are kept. Default `memory`. On a CPU no choice changes a bit of a run.
    pub features: CachePlace,
    /// The folder of the files; required with `file`. Absolute in memory; relative to the scenario
    /// file on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Largest size in MB (10^6 bytes) of what is kept of one split, in memory or on disk; of more,
    /// nothing is kept. Default 1000.
    pub limit_mb: u32,
    /// Whether streams of tokens below the first adapted block are kept, too, where they fit the limit:
    /// one takes `4 x tokens x width` bytes per sample. Default true.
    pub tokens: bool,
}

/// Where outputs of the backbone are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum CachePlace {
    /// In memory, for this run.
    Memory,
    /// In files of `folder`, for later runs, too.
    File,
    /// Nowhere: everything is computed per batch, to the same bits.
    Off,
}

impl CacheSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> CacheSection {
        let features = "where outputs of the frozen backbone are kept, if no augmentation is drawn";
        let features = table.get(&Param::new("features", CachePlace::Memory, features));
        let folder = Param::<PathBuf>::unset("folder", "of the files, relative to this file");
        let folder = match features {
            CachePlace::File => {
                let folder = table.optional(&folder);
                if folder.is_none() && !table.given("folder") {
                    table.reject(
                        "features",
                        "features in files need a folder",
                        "where?",
                        "add `folder = \"...\"`, relative to this file",
                    );
                }
                folder
            }
            CachePlace::Memory => {
                // Known to the description all the same.
                if table.given("folder") {
                    table.reject(
                        "folder",
                        "features in memory have no folder",
                        "no effect here",
                        "set `cache.features = \"file\"`, or remove this line",
                    );
                }
                table.optional(&folder);
                None
            }
            CachePlace::Off => {
                table.foreign(&["folder"], "features = \"off\"");
                None
            }
        };
        let limit = Param::new("limit_mb", LIMIT_MB, "largest size of what is kept of one split");
        let tokens =
            "keep token streams below the first adapted block: 4 x tokens x width bytes each";
        let off = features == CachePlace::Off;
        let tokens = Param::new("tokens", !off, tokens);
        let limit_mb = table.get(&limit.at_least(1.0));
        let tokens = table.get(&tokens);
        // An effective scenario has the values that they have where nothing is kept: those are taken back.
        for (name, asked) in [("limit_mb", limit_mb != LIMIT_MB), ("tokens", tokens)] {
            if off && asked {
                let message = format!("`cache.{name}` has no meaning with `features = \"off\"`");
                let help = "remove this line, or change `features`";
                table.reject(name, &message, "no effect here", help);
            }
        }
        CacheSection { features, folder, limit_mb, tokens }
    }
}

impl Default for CacheSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
