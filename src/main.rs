//! The `fedcast` binary: parse, dispatch, exit code.

#![deny(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static MEMORY: fedcast::cli::ReportingAllocator = fedcast::cli::ReportingAllocator;

fn main() -> ExitCode {
    // fedcast trains one client per worker thread. Thread pools inside libraries would compete for the same cores, so
    // they are limited to one thread, before any thread exists.
    for pool in ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"] {
        // SAFETY: no other thread runs yet that could read the environment.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var(pool, "1")
        };
    }
    fedcast::cli::main(std::env::args_os()).into()
}
