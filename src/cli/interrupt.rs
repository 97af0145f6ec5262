//! Ctrl-C: the first asks the simulation to stop between two events, the second stops at once.

use std::thread;

use crate::federation::Interrupt;
use crate::study::LEASH;

/// Requests `run` to end on the first interrupt of this process; a second one ends the process with
/// code 130. Listens on a thread of its own, because the simulation may be waiting for workers.
///
/// On a leash (see [`LEASH`]) the end of standard input is an interrupt as well.
pub fn on_interrupt(run: Interrupt) {
    if std::env::var_os(LEASH).is_some() {
        let run = run.clone();
        let listen = move || {
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            run.request();
        };
        let _ = thread::Builder::new().name("leash".into()).spawn(listen);
    }
    let listen = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return;
        };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                eprintln!("stopping after the current event; press Ctrl-C again to stop at once");
                run.request();
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(i32::from(super::Exit::Interrupted.code()));
            }
        });
    };
    // Without a listener Ctrl-C ends the process the usual way: a loss of comfort, no error.
    let _ = thread::Builder::new().name("interrupt".into()).spawn(listen);
}
