//! Owners of the samples of a task.

/// Client of every sample: per class of the task, per position within the class.
pub(super) type Owners = Vec<Vec<u32>>;

/// Returns the number of samples of the client that holds the fewest.
pub(super) fn smallest_shard(owners: &Owners, clients: u32) -> u32 {
    let mut held = vec![0u32; clients as usize];
    owners.iter().flatten().for_each(|&owner| held[owner as usize] += 1);
    held.into_iter().min().unwrap_or(0)
}
