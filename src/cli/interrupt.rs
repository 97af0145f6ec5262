//! Signals: the first Ctrl-C, SIGTERM or SIGHUP stops the run between two events, the second at once.
//!
//! Schedulers end a job with SIGTERM; a closed terminal sends SIGHUP. Like Ctrl-C, both leave a run that can be
//! resumed, with a checkpoint of the last round. A process that ignores SIGHUP (`nohup`) continues to ignore it.

use std::thread;

use super::stderr::print_status;
use crate::federation::Interrupt;
use crate::study::LEASH;

/// Returns the interrupt that the first signal to this process requests; see [`on_interrupt`].
pub fn interruptible() -> Interrupt {
    let interrupt = Interrupt::default();
    on_interrupt(interrupt.clone());
    interrupt
}

/// Requests `run` to end on the first signal; a second one ends the process with code 130.
///
/// Listens on a separate thread, because the simulation may be waiting for workers. If [`LEASH`] is set,
/// the end of standard input is an interrupt, too.
pub fn on_interrupt(run: Interrupt) {
    if std::env::var_os(LEASH).is_some() {
        let run = run.clone();
        let listen = move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            run.request();
        };
        let _ = thread::Builder::new().name("leash".into()).spawn(listen);
    }
    listen(move || {
        // Before the line is printed, because stderr may be closed.
        run.request();
        print_status("stopping after the current event; press Ctrl-C again to stop at once");
    });
}

/// Calls `first` on the first signal, and ends the process on the second.
fn listen(first: impl FnOnce() + Send + 'static) {
    let listen = move || {
        if !has_room() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            let Ok(mut signals) = Signals::listen() else { return };
            signals.next().await;
            first();
            signals.next().await;
            std::process::exit(i32::from(super::Exit::Interrupted.code()));
        });
    };
    // Without a listener a signal ends the process in the usual way, which is no error.
    let _ = thread::Builder::new().name("interrupt".into()).spawn(listen);
}

/// Ignores the first signal, because rank 0 gets it, too, and ends the run; a second ends the process.
#[cfg(feature = "mpi")]
pub fn leave_to_rank_zero() {
    listen(|| {});
}

/// Returns true if there are file handles left to listen with; without any the library panics.
#[cfg(unix)]
fn has_room() -> bool {
    use std::os::unix::net::UnixStream;
    (0..4).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>().is_ok()
}

#[cfg(not(unix))]
fn has_room() -> bool {
    true
}

struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose()?;
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Signals { interrupt: signal(interrupt)?, terminate: signal(terminate)?, hangup })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Returns true if this process ignores SIGHUP, as under `nohup`, or if that is unknown.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status =
        crate::files::read_text("/proc/self/status".as_ref(), crate::files::FileKind::Table);
    status.map_or(true, |status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // Signal 1.
        mask.is_none_or(|mask| mask & 1 == 1)
    })
}

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Signals> {
        Ok(Signals {})
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
