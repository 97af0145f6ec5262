//! `--mpi`: one run by several processes; rank 0 has the run, the others work for it.

use clap::Args;

use super::Exit;
use super::failure::CliError;
use crate::experiment::ranks::Ranks;
use crate::methods::Registry;
use crate::study::LEASH;

/// Options of runs by several processes.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct RankArgs {
    /// Compute with all processes that mpirun or srun started, on any machines (needs a build with MPI)
    #[arg(long)]
    pub mpi: bool,
}

impl RankArgs {
    /// Calls `conduct` as rank 0, with the other ranks if any; as another rank, works for rank 0.
    ///
    /// `workers` is the number of this rank's worker threads; the methods of all ranks are the same.
    ///
    /// # Errors
    /// Returns the errors of `conduct`. Also fails if MPI is missing, or if there are several processes without `--mpi`,
    /// which would be as many separate runs.
    pub fn with_ranks(
        self,
        workers: Option<u32>,
        methods: &Registry,
        conduct: impl FnOnce(Option<Ranks>) -> Result<Exit, CliError>,
    ) -> Result<Exit, CliError> {
        match self.mpi {
            true => joined(workers, methods, conduct),
            false => match several(|name| std::env::var(name).ok()) {
                Some(count) => Err(CliError::Usage(format!(
                    "this is one of {count} processes, and each would compute a separate run\n  help: add --mpi to \
                     compute one run together, or start one process"
                ))),
                None => conduct(None),
            },
        }
    }
}

/// Returns the number of processes that an MPI launcher started, if it is more than one.
///
/// `srun` does not count: it starts programs of all kinds, perhaps runs with different seeds. Cells of a study are
/// separate runs.
fn several(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    if variable(LEASH).is_some() {
        return None;
    }
    let count = variable("OMPI_COMM_WORLD_SIZE").or_else(|| variable("MPI_LOCALNRANKS"))?;
    count.parse().ok().filter(|count| *count > 1)
}

#[cfg(not(feature = "mpi"))]
fn joined(
    _: Option<u32>,
    _: &Registry,
    _: impl FnOnce(Option<Ranks>) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    Err(CliError::Usage(
        "--mpi: this fedcast was built without MPI\n  help: build it on a machine with `mpicc` and libclang: \
         cargo build --release --features mpi"
            .into(),
    ))
}

#[cfg(feature = "mpi")]
fn joined(
    workers: Option<u32>,
    methods: &Registry,
    conduct: impl FnOnce(Option<Ranks>) -> Result<Exit, CliError>,
) -> Result<Exit, CliError> {
    use super::interrupt::leave_to_rank_zero;
    use super::stderr::print_status;
    use crate::experiment::ranks::{mpi, work};
    use crate::federation::remote::Rank;

    let mpi::Joined { rank, size, line, carrying } = mpi::join()?;
    if rank == Rank::ZERO {
        let ranks = Ranks::new(line, size - 1).reporting_to(print_status);
        let ended = conduct(Some(ranks));
        if carrying.wait() {
            return ended;
        }
        let exit = ended.unwrap_or_else(|error| {
            error.print();
            error.exit_code()
        });
        mpi::leave(exit.code());
    }
    leave_to_rank_zero();
    let ended = work(rank, &line, methods, workers);
    drop(line);
    if let Err(error) = ended {
        print_status(&format!("{rank}: {error}"));
        carrying.abort();
        return Ok(Exit::Device);
    }
    match carrying.wait() {
        true => Ok(Exit::Done),
        false => mpi::leave(Exit::Done.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launcher_is_seen_where_it_started_more_than_one() {
        let set = |name: &'static str, value: &'static str| {
            several(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(set("OMPI_COMM_WORLD_SIZE", "3"), Some(3));
        assert_eq!(set("MPI_LOCALNRANKS", "2"), Some(2));
        assert_eq!(set("OMPI_COMM_WORLD_SIZE", "1"), None);
        assert_eq!(set("SLURM_NTASKS", "3"), None);
        assert_eq!(several(|_| Some("3".to_owned())), None, "a cell of a study");
    }
}
