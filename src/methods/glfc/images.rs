//! Images in passes without a gradient: for the detection of a new task, and for the scores of a proxy server.
//!
//! The releases of GLFC and LGA augment both: the entropy is computed with the training loader (`GLFC.py`, `LGA.py`),
//! and reconstructed images pass the training transform before a model is scored on them (`fl_main.py`,
//! `ProxyServer.py`).

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
    /// Returns a loader of a client's samples with this transform.
    pub(super) fn loader(self, shard: &Shard, ctx: &RunContext) -> Loader {
        match self {
            PassTransform::Train => ctx.train_loader(shard),
            PassTransform::Statistics => ctx.statistics_loader(shard),
        }
    }

    /// Returns a loader of reconstructed images with this transform.
    ///
    /// The network reads images of their shape `(channels, rows, columns)`. The statistics transform only normalizes
    /// them.
    ///
    /// # Errors
    /// When the training transform makes images of another size.
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
