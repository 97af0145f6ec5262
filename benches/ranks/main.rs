//! Cost of computing in other processes: a method that learns nothing, under `mpirun`.
//!
//! * jobs of 6.5 MB to other ranks and back: jobs per second over four ranks, and the additional processor time of rank
//!   0 per job; required: 50, and 8 ms;
//! * a round of 100 clients whose jobs last 200 ms: the speedup with four workers, in as many processes, over one;
//!   required: 3.5.
//!
//! ```text
//! cargo bench --features mpi --bench ranks
//! ```
//! It starts itself with `mpirun` on this machine. Workers sleep during a job, so that two cores suffice for five
//! processes.

#[path = "../engine/echo.rs"]
mod echo;
#[path = "../figures/mod.rs"]
mod figures;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use echo::{Federation, THOUSAND};
use fedcast::experiment::ranks::mpi::{self, Joined};
use fedcast::federation::remote::{Rank, RemoteRank, RemoteRanks, serve};
use fedcast::federation::{Interrupt, simulate};
use figures::{Asked, Records, Times};

/// A round of jobs that send 6.5 MB to other ranks and back.
const CROSSING: Federation = Federation {
    floats: 1_625_000,
    clients: 100,
    rounds: 3,
    nap: Duration::from_millis(20),
    apart: true,
    ..THOUSAND
};

/// A round of long jobs.
const LASTING: Federation =
    Federation { rounds: 1, nap: Duration::from_millis(200), apart: false, ..CROSSING };

/// Environment variable with the case, for a process that `mpirun` started.
const CASE: &str = "FEDCAST_BENCH_CASE";

/// Report of rank 0 on a run.
struct RankReport {
    seconds: f64,
    /// Processor time of rank 0's process.
    processor_seconds: f64,
    /// Number of jobs that other ranks computed.
    crossed: f64,
}

fn main() {
    figures::begin();
    match std::env::var(CASE).as_deref() {
        Ok("crossing") => take_part(&CROSSING),
        Ok(_) => take_part(&LASTING),
        Err(_) => measure(),
    }
}

/// Starts the runs, and prints their figures.
fn measure() {
    let (mut rates, mut costs, mut ratios) = <(Times, Times, Times)>::default();
    for _ in 0..5 {
        let (alone, five) = (launch("crossing", 1), launch("crossing", 5));
        rates.note(five.crossed / five.seconds);
        let more = five.processor_seconds - alone.processor_seconds;
        costs.note(more / five.crossed * 1e3);
    }
    for _ in 0..3 {
        ratios.note(launch("lasting", 1).seconds / launch("lasting", 4).seconds);
    }
    let same = |figure: f64| figure;
    rates.print("6.5 MB to a rank and back", "jobs/s", Asked::AtLeast(50.0), same);
    costs.print("of rank 0's processor, for each", "ms", Asked::AtMost(8.0), same);
    ratios.print("four workers against one", "times", Asked::AtLeast(3.5), same);
}

fn launch(case: &str, ranks: u32) -> RankReport {
    let mut command = Command::new("mpirun");
    command
        .args(["-n", &ranks.to_string(), "--bind-to", "none"])
        .arg(std::env::current_exe().expect("this program"))
        .env(CASE, case)
        // Allows more processes than cores, and root: Open MPI 4, then 5. MPICH allows both.
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let ended = command.output().expect("mpirun is needed for this bench");
    let text = String::from_utf8_lossy(&ended.stdout);
    let why = || format!("{text}{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{}", why());
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[seconds, processor_seconds, crossed] = numbers.as_slice() else { panic!("{}", why()) };
    RankReport { seconds, processor_seconds, crossed }
}

/// Runs one of the ranks of a run, with one worker.
fn take_part(case: &Federation) {
    let Joined { rank, size, line, carrying } = mpi::join().expect("MPI begins");
    let mut setup = case.setup();
    setup.workers = 1.into();
    if rank != Rank::ZERO {
        serve(setup, &line).expect("rank 0 lets it go");
        drop(line);
        carrying.wait();
        return;
    }
    let rank = |rank| RemoteRank { rank: Rank(rank), workers: 1, done: Arc::default() };
    let ranks: Vec<RemoteRank> = (1..size).map(rank).collect();
    let done: Vec<Arc<AtomicU64>> = ranks.iter().map(|rank| Arc::clone(&rank.done)).collect();
    setup.fleet = Some(RemoteRanks { line, ranks, on_loss: Box::new(|loss| panic!("{loss:?}")) });
    let (start, worked) = (Instant::now(), figures::processor_time());
    simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well");
    let (seconds, worked) = (start.elapsed(), figures::processor_time() - worked);
    let crossed: u64 = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
    carrying.wait();
    println!("{} {} {crossed}", seconds.as_secs_f64(), worked.as_secs_f64());
}
