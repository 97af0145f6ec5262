//! Cache of frozen features, so that none is computed twice.
//!
//! A head-only method asks for the features of the same frozen network on the same images in every epoch of every
//! round; so does every evaluation of such a method. Here they are computed once per sample. The same holds for the
//! blocks below the first adapted one of a prompted transformer. Both need a deterministic transform: an augmented
//! image differs every time.
//!
//! ```text
//! FeatureCache           one per run: memory, a folder of files, or off
//!   FeatureStore         per split, transform and frozen part         (store)
//!     canonical blocks   always the same batches, computed once       (blocks)
//!     CacheFile          checksummed blocks, read row by row          (file)
//! ```
//! On a CPU the cache changes no bit of a run: memory, file or off, cold or warm, however small. What is
//! not kept is computed in the same way, see [`Backbone::frozen`]. On a GPU a value that is not kept may
//! differ in its last bits, because kernels are chosen by the batch around a sample.
//!
//! ```
//! use std::sync::Arc;
//! use candle_core::Device;
//! use fedcast::data::{digits, SampleRows, Transform};
//! use fedcast::learning::FeatureCache;
//! use fedcast::model::{embedded_vit, Backbone, FrozenPart};
//! # fn main() -> Result<(), fedcast::learning::LearningError> {
//! let split = digits::embedded()?.train;
//! let (backbone, transform) = (Backbone::from(embedded_vit()?), Arc::new(Transform::default()));
//! let cache = FeatureCache::default();
//! let store = cache
//!     .store(&backbone, &split, &transform, FrozenPart::Whole)?
//!     .expect("the transform draws nothing");
//! store.fill(&backbone, &Device::Cpu, &[3])?; // and the block around it
//! let mut feature = Vec::new();
//! store.read(3, &mut feature)?;
//! assert_eq!((feature.len(), store.counts().computed), (64, 32));
//! # Ok(())
//! # }
//! ```

mod blocks;
mod counts;
mod error;
mod file;
mod key;
mod store;

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;

pub use blocks::BLOCK;
pub use counts::CacheCounts;
pub use error::CacheError;
pub use store::FeatureStore;

use self::blocks::Blocks;
use self::file::{CacheFile, Opened};
use self::key::{Inputs, NetworkKey};
use self::store::{FeatureSource, row_shape};
use super::LearningError;
use crate::data::{Split, Transform};
use crate::model::{Backbone, FrozenPart};

/// Storage place of cached values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// Nowhere: everything is computed per batch, with the same bits.
    Off,
    /// Memory, for this run.
    #[default]
    Memory,
    /// Files that later runs read, too.
    File {
        /// Folder, created if it is missing.
        folder: PathBuf,
        /// Version and arithmetic of the program. Each has separate files.
        program: String,
    },
}

/// Default limit of one store, in bytes: the features of 1.3 million samples of width 192.
const LIMIT: u64 = 1_000_000_000;

/// Feature stores of a run, shared by all workers.
#[derive(Debug)]
pub struct FeatureCache {
    place: Storage,
    limit: u64,
    tokens: bool,
    stores: Mutex<Vec<Arc<FeatureStore>>>,
    notices: Mutex<Vec<String>>,
}

impl Default for FeatureCache {
    /// Returns a cache of features and token streams in memory.
    fn default() -> FeatureCache {
        FeatureCache::new(Storage::Memory, LIMIT, true)
    }
}

impl FeatureCache {
    /// Returns a cache whose stores take at most `limit` bytes each, in memory or on disk. Larger stores are not
    /// created. If `tokens` is true, streams of tokens are stored in addition to features.
    pub fn new(place: Storage, limit: u64, tokens: bool) -> FeatureCache {
        let (stores, notices) = (Mutex::default(), Mutex::default());
        FeatureCache { place, limit, tokens, stores, notices }
    }

    /// Returns the store of a split under a transform, empty when it is new. `None` if nothing is cached: the cache is
    /// off, the transform is random, nothing is frozen, or the store would be too large. Plain pixels are not cached
    /// either, as nothing is computed from them.
    ///
    /// # Errors
    /// Returns an error if a cache file cannot be created or opened.
    pub fn store(
        &self,
        backbone: &Backbone,
        split: &Arc<Split>,
        transform: &Arc<Transform>,
        part: FrozenPart,
    ) -> Result<Option<Arc<FeatureStore>>, LearningError> {
        let asked = match (part, backbone) {
            (FrozenPart::Nothing, _) | (_, Backbone::Pixels(_)) => false,
            (FrozenPart::Below(block), _) => self.tokens && block > 0 && backbone.vit().is_some(),
            (FrozenPart::Whole | FrozenPart::Adapted(_), _) => true,
        };
        if !asked || self.place == Storage::Off || !transform.is_deterministic() || split.is_empty()
        {
            return Ok(None);
        }
        let network = NetworkKey::of(backbone)?;
        let mut stores = self.stores.lock();
        let known = stores.iter().find(|store| {
            let source = store.source();
            Arc::ptr_eq(&source.split, split)
                && source.part == part
                && source.network == network
                && source.transform == *transform
        });
        if let Some(store) = known {
            return Ok(Some(Arc::clone(store)));
        }
        let shape = row_shape(backbone, part);
        let row: usize = shape.iter().product();
        if 4 * (row * split.len()) as u64 > self.limit {
            return Ok(None);
        }
        let blocks = Blocks::of(split);
        let file = match &self.place {
            Storage::Off | Storage::Memory => None,
            Storage::File { folder, program } => {
                let network = &network;
                let key = Inputs { network, split, transform, part, program }.key()?;
                let name = format!("{}-{}.features", &key.to_hex()[..32], part.name());
                let Opened { file, notice } = CacheFile::open(folder, &name, &key, &blocks, row)?;
                self.note(notice);
                Some(file)
            }
        };
        let (split, transform) = (Arc::clone(split), Arc::clone(transform));
        let source = FeatureSource { network, split, transform, part };
        let store = Arc::new(FeatureStore::new(source, shape, blocks, file));
        stores.push(Arc::clone(&store));
        Ok(Some(store))
    }

    /// Returns notices for the user: files that were damaged and are computed again.
    pub fn notices(&self) -> Vec<String> {
        let mut all = self.notices.lock().clone();
        let CacheCounts { damaged, .. } = self.counts();
        if damaged > 0 {
            all.push(format!(
                "feature cache: the rows of {damaged} samples were damaged and are computed again"
            ));
        }
        all
    }

    /// Returns the metrics of all stores so far.
    pub fn counts(&self) -> CacheCounts {
        let stores = self.stores.lock();
        stores.iter().map(|store| store.counts()).fold(CacheCounts::default(), CacheCounts::plus)
    }

    /// Returns the number of samples in all stores, computed or not.
    pub fn samples(&self) -> u64 {
        let stores = self.stores.lock();
        stores.iter().map(|store| store.samples()).sum()
    }

    fn note(&self, notice: Option<String>) {
        self.notices.lock().extend(notice);
    }
}
