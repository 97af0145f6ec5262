//! MPI as a transport of packets.
//!
//! One thread of a process does all of MPI. It checks whether something has arrived, and sleeps while nothing
//! happens, up to a millisecond: waiting as MPI does it takes a whole core. A request has one other side, so a
//! request that fails identifies the rank that is lost. Where the launcher ends a run that loses a rank (all but Open
//! MPI 5 with `--with-ft ulfm`), nothing is ever reported, and `resume` goes on.

mod pump;
mod raw;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::bounded;

use self::pump::{Ending, Pump};
use self::raw::Universe;
use super::RanksError;
use crate::federation::remote::{Rank, RankChannel};

/// This process among those that a launcher started.
pub struct Joined {
    /// Rank of this process, from 0.
    pub rank: Rank,
    /// Number of processes.
    pub size: u32,
    /// Channel to rank 0, or to all others.
    pub line: RankChannel,
    /// Thread that sends and receives packets.
    pub carrying: Carrying,
}

/// The thread of MPI. It ends when rank 0 has dropped its line.
pub struct Carrying {
    thread: JoinHandle<Ending>,
    abort: Arc<AtomicBool>,
}

/// Exit code of an aborted MPI job, unless its launcher sets another.
const ABORTED: i32 = 17;

/// Joins the processes of this MPI job.
///
/// # Errors
/// Returns an error if MPI does not begin.
pub fn join() -> Result<Joined, RanksError> {
    let (line, carrier) = RankChannel::new();
    let (place_sender, place) = bounded(1);
    let abort = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&abort);
    let carry = move || {
        let started = Universe::begin().and_then(|mpi| Ok((mpi.place()?, mpi)));
        let ((rank, size), universe) = match started {
            Ok(started) => started,
            Err(why) => {
                let _ = place_sender.send(Err(RanksError::Mpi(why)));
                return Ending::Lame;
            }
        };
        let _ = place_sender.send(Ok((Rank(rank), size)));
        let ending = Pump::new(&universe, (rank, size), carrier, &asked).run();
        match ending {
            Ending::Whole => universe.finalize(),
            Ending::Lame => {}
            Ending::Aborted => universe.abort(ABORTED),
        }
        ending
    };
    let thread = std::thread::Builder::new().name("mpi".into()).spawn(carry)?;
    let place = place.recv().unwrap_or_else(|_| Err(RanksError::Mpi("its thread ended".into())));
    let (rank, size) = place?;
    Ok(Joined { rank, size, line, carrying: Carrying { thread, abort } })
}

impl Carrying {
    /// Waits until all messages are sent. Returns false if a rank was lost.
    ///
    /// The process must then [`leave`], because MPI would wait for that rank at its end.
    pub fn wait(self) -> bool {
        matches!(self.thread.join(), Ok(Ending::Whole))
    }

    /// Ends all processes of the job.
    pub fn abort(self) {
        self.abort.store(true, Ordering::SeqCst);
        let _ = self.thread.join();
    }
}

/// Ends this process at once, after flushing its output.
pub fn leave(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    raw::leave(code)
}
