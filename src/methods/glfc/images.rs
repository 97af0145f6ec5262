//! Images in passes without a gradient: those by which a client detects a new task, and those that a proxy server found.
//!
//! The releases of GLFC and LGA augment both: the entropy is of the training loader (`GLFC.py`, `LGA.py`), and found
//! images pass the training transform before a model is scored on them (`fl_main.py`, `ProxyServer.py`).

use std::sync::Arc;

use clap::ValueEnum;

use crate::data::{Loader, Shard, Split, Transform};
use crate::policy::{PolicyError, RunContext};
use crate::scenario::reader::Choice;

/// Transform of images in a pass without a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum PassTransform {
    /// Training transform.
    ///
    /// Where it crops or flips at random, every round draws again.
    Train,
    /// Transform of images for statistics.
    Statistics,
}

impl PassTransform {
    /// Returns batches of a client's samples.
    pub(super) fn loader(self, shard: &Shard, ctx: &RunContext) -> Loader {
        match self {
            PassTransform::Train => ctx.train_loader(shard),
            PassTransform::Statistics => ctx.statistics_loader(shard),
        }
    }

    /// Returns batches of images that were found.
    ///
    /// Their shape `(channels, rows, columns)` is what the network reads. Images for statistics are normalized and no
    /// more.
    ///
    /// # Errors
    /// A training transform that makes images of another size.
    pub(super) fn loader_of_found(
        self,
        found: Split,
        shape: [usize; 3],
        ctx: &RunContext,
    ) -> Result<Loader, PolicyError> {
        let normalized = |transform: &Transform| Transform {
            normalization: transform.normalization.clone(),
            ..Transform::default()
        };
        let transform = match self {
            PassTransform::Train => Transform { channels: None, ..(*ctx.train_transform).clone() },
            PassTransform::Statistics => normalized(&ctx.statistics_transform),
        };
        let made = transform.output_shape(shape);
        if made != shape {
            return Err(PolicyError::Unsupported(format!(
                "`data.train` makes images of {} x {} of those that the proxy server found, but the network reads {} \
                 x {}: set `method.proxy_transform = \"statistics\"`",
                made[1], made[2], shape[1], shape[2]
            )));
        }
        let all = (0..found.len() as u32).collect();
        Ok(Loader::new(Arc::new(found), all, Arc::clone(&ctx.task_sequence), Arc::new(transform)))
    }
}
