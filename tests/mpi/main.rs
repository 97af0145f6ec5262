//! Promise: a run under a real MPI comes to the digests of one process, and to a clear end when something dies.
//!
//! Built with `--features mpi` only, and run by `.ci/mpi`; without `mpirun` these tests fail. What needs no MPI is tested
//! in `library::ranks`, over the same parcels.

mod launched;
mod loss;
mod runs;
