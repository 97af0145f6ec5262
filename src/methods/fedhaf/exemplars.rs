//! Choice of a client's exemplars by their frozen features, and their number.

use std::sync::Arc;

use super::FedHaf;
use super::features::shard_features;
use crate::data::Shard;
use crate::learning::{exemplars, kept};
use crate::methods::averaging::PackClient;
use crate::methods::held::HeldSamples;
use crate::policy::{PolicyError, RunContext};
use crate::quantity::TaskId;

/// Chooses exemplars of every task that a member has held, if none are chosen yet.
///
/// These are tasks that it missed and the current one; the choice does not depend on training.
pub(super) fn herd(
    config: &FedHaf,
    member: &mut PackClient<'_, HeldSamples>,
    ctx: &RunContext,
) -> Result<(), PolicyError> {
    if config.retention <= 0.0 {
        return Ok(());
    }
    let missed = member.missed.iter().map(|missed| (missed.task, Arc::clone(&missed.shard)));
    let current = (member.participant.view.task, Arc::clone(member.shard));
    let held: Vec<(TaskId, Shard)> = missed.chain([current]).collect();
    for (task, shard) in held {
        if member.state.knows(task) || shard.is_empty() {
            continue;
        }
        let view = ctx.task_sequence.tasks.get(task.index()).ok_or_else(|| {
            PolicyError::Unsupported(format!("{task} is not among the tasks of this run"))
        })?;
        let (features, labels) = shard_features(ctx, &shard)?;
        let (rule, share, rows) = (config.herding, config.retention, view.rows.clone());
        let chosen = exemplars(rule, share, rows, &shard, &labels, &features);
        member.state.keep(task, chosen.into(), ctx.dataset.train.sample_bytes()?);
    }
    Ok(())
}

/// Returns the number of exemplars of a shard with `samples` samples, spread evenly over `classes`.
pub(super) fn kept_of(samples: usize, classes: usize, share: f64) -> usize {
    let (each, more) = (samples / classes.max(1), samples % classes.max(1));
    more * kept(each + 1, share) + (classes - more) * kept(each, share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At least one sample is kept of each class that has any.
    #[test]
    fn what_is_kept_is_counted_class_by_class() {
        for (samples, classes, share, all) in [
            (20, 10, 0.2, 10),
            (23, 10, 0.5, 13),
            (100, 10, 0.2, 20),
            (3, 10, 0.2, 3),
            (100, 10, 0.0, 0),
            (100, 10, 1.0, 100),
        ] {
            assert_eq!(kept_of(samples, classes, share), all, "{samples} of {classes}, {share}");
        }
    }
}
