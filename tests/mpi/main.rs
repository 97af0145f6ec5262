//! Promise: a run under a real MPI gives the digests of one process, and a clear end if a process dies.
//!
//! Built with `--features mpi` only, and run by `.ci/mpi`; without `mpirun` these tests fail. What needs no MPI is
//! tested in `library::ranks`, over the same packets.

mod launched;
mod loss;
mod runs;
