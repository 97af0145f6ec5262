//! What HGP sends: down the prompt and the head, up both again and the client's Gaussians.
//!
//! Of `C_m` classes present with at least two samples each, an Up carries `C_m (1 + d + d)`
//! four-byte numbers beside the parameters: counts, means and variances, as three tensors.
//! Which classes they are is control data.

use std::sync::Arc;

use super::prototypes::{ClassStatistics, from_body, section, section_sketch};
use crate::methods::fedavg;
use crate::policy::{ClassCounts, OldMessage};
use crate::wire::{Body, BodySketch, MetaReader, MetaWriter, WireError};

/// Server to client: prompt and head.
pub type Down = fedavg::Down;

/// Client to server.
#[derive(Clone, Debug)]
pub struct Up {
    /// Prompt, head and sample count.
    pub learnt: fedavg::Up,
    /// One entry per class with at least two samples, by head row.
    pub classes: Vec<Arc<ClassStatistics>>,
}

/// Classes a client of these counts describes: those with at least two samples.
pub(super) fn described(counts: &ClassCounts) -> Vec<u32> {
    counts.iter().filter(|(_, count)| **count >= 2).map(|(row, _)| *row).collect()
}

impl Up {
    /// Adds the Gaussians of `rows` to the sketch of what was learnt; `full` for whole
    /// covariances.
    pub(super) fn sketch(learnt: BodySketch, rows: &[u32], dim: usize, full: bool) -> BodySketch {
        let mut sketch = learnt;
        sketch.meta += meta_of(rows).len();
        sketch.sections.extend(section_sketch(rows.len(), dim, full));
        sketch
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        let mut body = self.learnt.pack();
        let rows: Vec<u32> = self.classes.iter().map(|class| class.row).collect();
        body.meta.extend(meta_of(&rows));
        body.sections.extend(section(&self.classes));
        body
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let first_row = meta.u64()? as u32;
        let rows = meta.u32s()?;
        meta.finish()?;
        let learnt = fedavg::Up::from_sections(body, first_row)?;
        Ok(Up { learnt, classes: from_body(&rows, body)? })
    }
}

fn meta_of(rows: &[u32]) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.u32s(rows);
    meta.finish()
}
