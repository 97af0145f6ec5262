//! Queue of jobs with an order: the first of those that wait is taken next.
//!
//! A channel carries a token for each job, so that threads can wait for jobs of several queues at once; the jobs
//! themselves wait in a sorted map.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvError, SendError, Sender, TryRecvError, unbounded};
use parking_lot::Mutex;

use crate::quantity::{ParticipantId, VirtualTime};

/// Place of a job among those that wait. The least comes first, and jobs of one place in the order of posting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JobOrder {
    /// End of the work on the simulated clock.
    pub end: VirtualTime,
    /// First participant that the job is for.
    pub participant: ParticipantId,
}

/// Waiting jobs, by place and by the number of jobs posted before.
struct WaitingJobs<J> {
    jobs: BTreeMap<(JobOrder, u64), J>,
    posted: u64,
}

/// Sending end of a queue of jobs.
pub(super) struct JobSender<J> {
    tokens: Sender<()>,
    waiting: Arc<Mutex<WaitingJobs<J>>>,
}

/// Receiving end of a queue of jobs.
pub(super) struct JobReceiver<J> {
    tokens: Receiver<()>,
    waiting: Arc<Mutex<WaitingJobs<J>>>,
}

/// Creates a queue of jobs.
pub(super) fn job_queue<J>() -> (JobSender<J>, JobReceiver<J>) {
    let (sender, receiver) = unbounded();
    let waiting = Arc::new(Mutex::new(WaitingJobs { jobs: BTreeMap::new(), posted: 0 }));
    (
        JobSender { tokens: sender, waiting: Arc::clone(&waiting) },
        JobReceiver { tokens: receiver, waiting },
    )
}

impl<J> Clone for JobSender<J> {
    fn clone(&self) -> JobSender<J> {
        JobSender { tokens: self.tokens.clone(), waiting: Arc::clone(&self.waiting) }
    }
}

impl<J> Clone for JobReceiver<J> {
    fn clone(&self) -> JobReceiver<J> {
        JobReceiver { tokens: self.tokens.clone(), waiting: Arc::clone(&self.waiting) }
    }
}

impl<J> JobSender<J> {
    /// Queues a job.
    ///
    /// # Errors
    /// Returns an error if all receiving ends are gone.
    pub fn send(&self, order: JobOrder, job: J) -> Result<(), SendError<()>> {
        let mut waiting = self.waiting.lock();
        let number = waiting.posted;
        waiting.posted += 1;
        waiting.jobs.insert((order, number), job);
        drop(waiting);
        // Only now, so that a job is there for every token.
        self.tokens.send(())
    }
}

impl<J> JobReceiver<J> {
    /// Returns the channel that has a token for each waiting job; [`JobReceiver::take`] needs one.
    pub fn tokens(&self) -> &Receiver<()> {
        &self.tokens
    }

    /// Takes the first waiting job for a token.
    pub fn take(&self) -> Option<J> {
        self.waiting.lock().jobs.pop_first().map(|(_, job)| job)
    }

    /// Waits for a job.
    ///
    /// # Errors
    /// Returns an error if no job waits and all sending ends are gone.
    pub fn recv(&self) -> Result<J, RecvError> {
        self.tokens.recv()?;
        self.take().ok_or(RecvError)
    }

    /// Takes a job without waiting for one.
    ///
    /// # Errors
    /// Returns an error if no job waits.
    pub fn try_recv(&self) -> Result<J, TryRecvError> {
        self.tokens.try_recv()?;
        self.take().ok_or(TryRecvError::Empty)
    }

    /// Returns the number of waiting jobs.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns true if no job waits.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order((end, participant): (u64, u32)) -> JobOrder {
        JobOrder { end: VirtualTime(end), participant: ParticipantId(participant) }
    }

    #[test]
    fn jobs_leave_by_end_then_participant_then_posting() {
        let (sender, receiver) = job_queue();
        let places = [(7, 1), (0, 9), (7, 0), (0, 4), (3, 5), (0, 4)];
        for (number, place) in places.into_iter().enumerate() {
            sender.send(order(place), number).expect("the other end is here");
        }
        assert_eq!(receiver.len(), 6);
        let left: Vec<usize> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        assert_eq!(left, [3, 5, 1, 4, 2, 0]);
        drop(sender);
        assert!(receiver.is_empty() && receiver.recv().is_err());
    }

    #[test]
    fn jobs_that_wait_are_received_after_their_sender_is_gone() {
        let (sender, receiver) = job_queue();
        sender.send(order((1, 1)), "job").expect("the other end is here");
        drop(sender);
        assert_eq!(receiver.recv(), Ok("job"));
        assert!(receiver.recv().is_err());
    }
}
