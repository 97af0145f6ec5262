//! Data: images, rows or text, and labels, the classes' order and tasks, who holds which sample, and batches.
//!
//! ```text
//! Parts                        as files have them: labels, owners, a share to test (labels, parts, undivided)
//! Dataset { train, test }      u8 images, rows or tokens, class ids (cifar, digits, folder, idx, image_arrays, ...)
//! TaskSequence                 class ids -> head rows, tasks     (task_sequence)
//! Partitioner                  task -> one Shard per client      (partition)
//! ClientTasks                  tasks of a client's own           (client_tasks)
//! Auxiliary                    samples without owner, in shards (auxiliary)
//! Loader                       shard + transform -> Batch        (transform, loader)
//! ```
//!
//! Everything drawn here comes from named streams, and the partition from our own
//! distributions, so that the same scenario divides the same data in the same way on every machine.

mod arrow_file;
mod auxiliary;
mod batch;
pub mod cifar;
mod client_tasks;
mod column_rules;
mod columnar;
mod columns;
mod dataset;
pub mod digits;
pub mod dummy_clients;
mod error;
pub mod folder;
mod foreign;
mod from_scenario;
mod held_out;
pub mod idx;
mod image;
pub mod image_arrays;
mod labels;
pub mod leaf;
mod loader;
mod loading;
mod normal_form;
mod numpy;
pub(crate) mod packed;
mod part_files;
pub mod partition;
mod parts;
mod pickle;
mod prepared;
mod rows;
mod saved_folder;
mod stack;
mod store;
pub mod synthetic;
pub mod table;
mod task_sequence;
pub(crate) mod text;
pub(crate) mod transform;
mod undivided;
mod untested;

use std::sync::Arc;

pub use auxiliary::{Auxiliary, AuxiliaryFacts};
pub use batch::Batch;
pub use cifar::Cifar;
pub use client_tasks::{ClientTask, ClientTaskRules, ClientTasks, SliceBy};
pub use dataset::{Dataset, Split};
pub(crate) use error::Cause;
pub use error::DataError;
pub use folder::{FolderOptions, StoredSize};
pub(crate) use from_scenario::shards as auxiliary_shards;
pub use from_scenario::{Transforms, is_present, nominal_class_sizes};
pub use held_out::Purpose;
pub use image::Image;
pub use loader::{Batches, Loader};
pub use loading::show_loading;
pub(crate) use normal_form::normal_form;
pub use partition::{
    FreshClients, FreshPartition, Leftover, NaturalClients, PartitionRule, Partitioner,
};
pub use prepared::Prepared;
pub use rows::{HeldRows, SampleRows};
pub use stack::Stacked;
pub use task_sequence::{ClassPermutation, TaskSequence, TaskSizes, TaskView};
pub use text::Tokenizer;
pub(crate) use transform::ChannelScales;
pub use transform::{Jitter, Kernel, Normalization, Step, Transform, Workspace};
pub use undivided::TestFraction;

/// Samples that a client holds for a task: indices into the training split, ascending.
pub type Shard = Arc<[u32]>;
