//! `[cache]`: results that are computed once and kept.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, Param, TableReader};

/// Default of `limit_mb`.
const LIMIT_MB: u32 = 1000;

/// Storage of the outputs of the frozen backbone.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = section.refuse_unused(table))]
pub struct CacheSection {
    /// Place for outputs of the frozen backbone; used if no augmentation is drawn.
    ///
    /// On a CPU the choice changes no bit of a run.
    #[key(default = CachePlace::Memory)]
    pub features: CachePlace,
    /// Folder of cache files, relative to this file; required with `file`.
    ///
    /// Absolute in memory.
    #[key(read = features.read_folder(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Largest cache of one split in MB (10^6 bytes); nothing is kept of a larger one.
    ///
    /// In memory or on disk.
    #[key(default = LIMIT_MB, at_least = 1.0)]
    pub limit_mb: u32,
    /// Cache of token streams below the first adapted block, 4 x tokens x width bytes each.
    ///
    /// Used if they fit the limit.
    #[key(default = features != CachePlace::Off)]
    pub tokens: bool,
}

/// Place for outputs of the backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum CachePlace {
    /// In memory, for this run.
    Memory,
    /// In files of `folder`, for later runs too.
    File,
    /// No cache: outputs are computed per batch, with the same bits.
    Off,
}

impl CachePlace {
    fn read_folder(self, table: &mut TableReader<'_>, doc: &'static str) -> Option<PathBuf> {
        let folder = Param::<PathBuf>::unset("folder", doc);
        match self {
            CachePlace::File => {
                let folder = table.optional(&folder);
                if folder.is_none() && !table.given("folder") {
                    table.reject(
                        "features",
                        "`features = \"file\"` needs `folder`",
                        "no `folder` here",
                        "add `folder = \"...\"`, relative to this file",
                    );
                }
                folder
            }
            CachePlace::Memory => {
                // The description of keys has the key in any case.
                if table.given("folder") {
                    table.reject(
                        "folder",
                        "`folder` has no meaning with `features = \"memory\"`",
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
        }
    }
}

impl CacheSection {
    /// Reports keys that have no meaning without a cache. An effective scenario may have them with their defaults.
    fn refuse_unused(&self, table: &mut TableReader<'_>) {
        let off = self.features == CachePlace::Off;
        for (name, asked) in [("limit_mb", self.limit_mb != LIMIT_MB), ("tokens", self.tokens)] {
            if off && asked {
                let message = format!("`cache.{name}` has no meaning with `features = \"off\"`");
                let help = "remove this line, or change `features`";
                table.reject(name, &message, "no effect here", help);
            }
        }
    }
}
