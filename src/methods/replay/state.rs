//! A client's memory between rounds.

use crate::learning::exemplars::{BufferedSample, Reservoir};
use crate::numerics::distributions::below;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::ClientState;
use crate::quantity::TaskId;
use crate::wire::Saved;

/// Memory of a client: a reservoir of samples that it has trained on.
///
/// A sample that was offered several times may be in it several times. The state names samples by their index in the
/// data set. A real client would keep the samples themselves; these and their logits are the bytes that
/// [`state_bytes`](ClientState::state_bytes) counts.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct ReplayMemory {
    /// Bytes of one sample.
    pub(super) sample_bytes: u64,
    /// Number of tasks whose samples have been offered: all before this one.
    next: u64,
    /// Reservoir of samples.
    pub reservoir: Reservoir,
}

impl ReplayMemory {
    /// Starts a task; returns true if its samples were not offered yet.
    pub(super) fn begin(&mut self, task: TaskId) -> bool {
        let new = u64::from(task.0) >= self.next;
        self.next = self.next.max(u64::from(task.0) + 1);
        new
    }

    /// Offers the next sample of the stream to the reservoir.
    ///
    /// The slot is drawn from the client's stream at the number of samples offered before.
    pub(super) fn offer(&mut self, capacity: usize, new: BufferedSample, key: StreamKey) {
        let key = key.domain(Domain::Method).step(self.reservoir.offered());
        self.reservoir.offer(capacity, new, |n| below(&mut key.rng(), n));
    }
}

impl ClientState for ReplayMemory {
    fn state_bytes(&self) -> u64 {
        let of = |slot: &BufferedSample| self.sample_bytes + 4 * slot.logits.len() as u64;
        self.reservoir.slots().iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rehearsal card, section 3 (M = 200, K = 100: 614,400 + 80,000 bytes) and invariant 9.
    #[test]
    fn a_memory_counts_its_bytes_and_is_read_back() {
        let mut memory = ReplayMemory { sample_bytes: 3_072, ..ReplayMemory::default() };
        assert!(memory.begin(TaskId(1)) && !memory.begin(TaskId(1)) && !memory.begin(TaskId(0)));
        let key = StreamKey::new(1, Domain::Method);
        for sample in 0..300 {
            memory.offer(200, BufferedSample { sample, logits: vec![0.5; 100] }, key);
        }
        assert_eq!(memory.state_bytes(), 614_400 + 80_000);
        assert_eq!(ReplayMemory::load(&memory.save()).unwrap(), memory);
        assert_eq!(
            ReplayMemory::of(&ReplayMemory::default().save()).unwrap(),
            ReplayMemory::default()
        );
    }
}
