//! What a client keeps: samples of the tasks it has held, chosen from their frozen features.

use std::sync::Arc;

use super::FedHaf;
use super::features::shard_features;
use crate::data::Shard;
use crate::learning::exemplars;
use crate::methods::averaged::Client;
use crate::methods::held::HeldSamples;
use crate::policy::{Lab, PolicyError};
use crate::quantity::TaskId;

/// Chooses exemplars of every task that a member has held and not chosen from yet: of those it missed, and of
/// the current one, whose choice does not depend on what will be trained on it.
pub(super) fn herd(
    config: &FedHaf,
    member: &mut Client<'_, HeldSamples>,
    lab: &Lab,
) -> Result<(), PolicyError> {
    if config.retention <= 0.0 {
        return Ok(());
    }
    let missed = member.missed.iter().map(|missed| (missed.task, Arc::clone(&missed.shard)));
    let current = (member.seat.view.task, Arc::clone(member.shard));
    let held: Vec<(TaskId, Shard)> = missed.chain([current]).collect();
    for (task, shard) in held {
        if member.state.knows(task) || shard.is_empty() {
            continue;
        }
        let view = lab.curriculum.tasks.get(task.index()).ok_or_else(|| {
            PolicyError::Unsupported(format!("{task} is not among the tasks of this run"))
        })?;
        let (features, labels) = shard_features(lab, &shard)?;
        let (rule, share, rows) = (config.herding, config.retention, view.rows.clone());
        let chosen = exemplars(rule, share, rows, &shard, &labels, &features);
        member.state.keep(task, chosen.into(), lab.dataset.train.sample_bytes()?);
    }
    Ok(())
}
