//! Shards by natural owners: every client is an owner in the data.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::data::{DataError, Shard, Split, TaskView};
pub use crate::scenario::Leftover;

/// Clients that are natural owners in the data. By default client 0 is the owner with most samples.
#[derive(Clone, Debug)]
pub struct NaturalClients {
    /// Client of every sample.
    client_of: Vec<Option<u32>>,
    /// Class id of every sample.
    labels: Vec<u32>,
    clients: u32,
}

/// A sample of a task that a client holds.
struct HeldSample {
    sample: u32,
    client: usize,
    /// Index of its class among those of the task.
    class: usize,
}

impl NaturalClients {
    /// Makes clients of the owners with most samples, the largest first.
    ///
    /// Owners beyond the number of clients are left out, or merged into the smallest clients, as `rest` says. Each
    /// client must hold `min_samples` samples over all tasks.
    ///
    /// # Errors
    /// Returns an error if the data have no owners or fewer than clients, or if a client has too few samples.
    pub fn new(
        split: &Split,
        clients: u32,
        min_samples: u32,
        rest: Leftover,
    ) -> Result<NaturalClients, DataError> {
        let owners = split.owners().ok_or_else(|| {
            DataError::unfit_at(
                "partition.kind",
                "these data have no owners of samples",
                "divide them: partition.kind = \"iid\", \"dirichlet\" or \"lda\"",
            )
        })?;
        let mut held: BTreeMap<u32, u32> = BTreeMap::new();
        owners.iter().for_each(|owner| *held.entry(*owner).or_default() += 1);
        if held.len() < clients as usize {
            return Err(DataError::unfit_at(
                "federation.clients",
                format!("there are {clients} clients, and the data belong to {}", held.len()),
                format!("set federation.clients to at most {}", held.len()),
            ));
        }
        let mut largest: Vec<(u32, u32)> = held.into_iter().collect();
        largest.sort_by_key(|&(owner, held)| (Reverse(held), owner));
        let (chosen, others) = largest.split_at(clients as usize);
        let mut sizes: Vec<u32> = chosen.iter().map(|&(_, held)| held).collect();
        let mut client_of: BTreeMap<u32, u32> =
            chosen.iter().zip(0..).map(|(&(owner, _), client)| (owner, client)).collect();
        if rest == Leftover::Merge {
            for &(owner, held) in others {
                let Some(least) = (0..sizes.len()).min_by_key(|client| sizes[*client]) else {
                    break;
                };
                sizes[least] += held;
                client_of.insert(owner, least as u32);
            }
        }
        if let Some(least) = sizes.iter().min().filter(|least| **least < min_samples) {
            return Err(DataError::unfit_at(
                "partition.min_samples",
                format!("one of {clients} clients would hold {least} samples of {min_samples}"),
                "set fewer federation.clients, partition.leftover = \"merge\" or a smaller partition.min_samples",
            ));
        }
        let client_of = owners.iter().map(|owner| client_of.get(owner).copied()).collect();
        Ok(NaturalClients { client_of, labels: split.labels().to_vec(), clients })
    }

    /// Makes clients of the owners with the same numbers; samples of other owners have no client.
    ///
    /// # Errors
    /// Returns an error if a client has fewer than `min_samples` samples.
    pub fn listed(
        split: &Split,
        clients: u32,
        min_samples: u32,
    ) -> Result<NaturalClients, DataError> {
        let owners = split.owners().unwrap_or_default();
        let mut held = vec![0u32; clients as usize];
        let client_of = owners.iter().map(|owner| {
            let of_owner = held.get_mut(*owner as usize)?;
            *of_owner += 1;
            Some(*owner)
        });
        let client_of: Vec<Option<u32>> = client_of.collect();
        if let Some(client) = held.iter().position(|held| *held < min_samples) {
            return Err(DataError::unfit_at(
                "partition.min_samples",
                format!("client {client} holds {} samples of {min_samples}", held[client]),
                "give it more in partition.file, or set a smaller partition.min_samples",
            ));
        }
        Ok(NaturalClients { client_of, labels: split.labels().to_vec(), clients })
    }

    /// Returns the shard of every client for one task. Shards may be empty.
    pub fn shards(&self, view: &TaskView) -> Vec<Shard> {
        let mut shards = vec![Vec::new(); self.clients as usize];
        self.held(view).for_each(|held| shards[held.client].push(held.sample));
        shards.into_iter().map(Shard::from).collect()
    }

    /// Returns the number of samples per client and class of the task, `[client][class of the view]`.
    pub fn counts(&self, view: &TaskView) -> Vec<Vec<u32>> {
        let mut counts = vec![vec![0; view.classes.len()]; self.clients as usize];
        self.held(view).for_each(|held| counts[held.client][held.class] += 1);
        counts
    }

    /// Returns the samples of a task that have a client, ascending.
    fn held(&self, view: &TaskView) -> impl Iterator<Item = HeldSample> {
        let classes: BTreeMap<u32, usize> = view.classes.iter().copied().zip(0..).collect();
        let samples = self.client_of.iter().zip(&self.labels).zip(0u32..);
        samples.filter_map(move |((client, label), sample)| {
            Some(HeldSample { sample, client: (*client)? as usize, class: *classes.get(label)? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

    /// Owners 0 to 3 with 4, 3, 2 and 1 samples, all of class 0 but the last of each.
    fn split() -> Split {
        let owners = vec![0, 0, 0, 0, 1, 1, 1, 2, 2, 3];
        let labels = vec![0, 0, 0, 1, 0, 0, 1, 0, 1, 1];
        Split::from_buffer(vec![0; 10], [1, 1, 1], labels, 2).unwrap().with_owners(owners)
    }

    fn everything() -> TaskView {
        TaskView { task: TaskId(0), rows: 0..2, classes: vec![0, 1] }
    }

    fn shards(clients: u32, rest: Leftover) -> Vec<Vec<u32>> {
        let natural = NaturalClients::new(&split(), clients, 1, rest).unwrap();
        natural.shards(&everything()).iter().map(|shard| shard.to_vec()).collect()
    }

    #[test]
    fn largest_owners_are_clients_and_others_are_left_out_or_added() {
        assert_eq!(shards(2, Leftover::Drop), [vec![0, 1, 2, 3], vec![4, 5, 6]]);
        // Owner 2 goes to client 1, which holds 3; then owner 3 to client 0, which holds 4.
        assert_eq!(shards(2, Leftover::Merge), [vec![0, 1, 2, 3, 9], vec![4, 5, 6, 7, 8]]);
        assert_eq!(shards(4, Leftover::Merge), shards(4, Leftover::Drop));
    }

    #[test]
    fn listed_clients_keep_their_numbers_and_others_have_none() {
        let natural = NaturalClients::listed(&split(), 3, 2).unwrap();
        assert_eq!(natural.counts(&everything()), [[3, 1], [2, 1], [1, 1]]);
        let error = NaturalClients::listed(&split(), 3, 3).unwrap_err().to_string();
        assert!(error.contains("client 2 holds 2 samples of 3"), "{error}");
    }

    #[test]
    fn of_a_task_a_client_holds_what_it_has() {
        let natural = NaturalClients::new(&split(), 4, 1, Leftover::Drop).unwrap();
        assert_eq!(natural.counts(&everything()), [[3, 1], [2, 1], [1, 1], [0, 1]]);
        let first = TaskView { task: TaskId(0), rows: 0..1, classes: vec![0] };
        let of_first: Vec<usize> = natural.shards(&first).iter().map(|s| s.len()).collect();
        assert_eq!(of_first, [3, 2, 1, 0]);
    }

    #[test]
    fn too_few_owners_too_little_and_none_are_refused() {
        let error = |clients, least| {
            let found = NaturalClients::new(&split(), clients, least, Leftover::Drop);
            found.unwrap_err().to_string()
        };
        assert!(error(5, 1).contains("belong to 4") && error(5, 1).contains("at most 4"));
        assert!(error(4, 2).contains("hold 1 samples of 2"), "{}", error(4, 2));
        assert!(NaturalClients::new(&split(), 2, 4, Leftover::Merge).is_ok());
        let no_owners = Split::from_buffer(vec![0], [1, 1, 1], vec![0], 1).unwrap();
        assert!(NaturalClients::new(&no_owners, 1, 1, Leftover::Drop).is_err());
    }
}
