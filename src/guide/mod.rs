//! The guide: how to run, read and extend fedcast.
//!
//! | page | is about |
//! |---|---|
//! | [running] | results, files of a run, resume, verify, what if |
//! | [running_studies] | many runs from one file: grid, seeds, shards, tables |
//! | [scenarios] | every key of a scenario file, how-tos, what is shipped |
//! | [data] | own data: what lies where, own splits and clients, features from elsewhere |
//! | [weights] | own weights: files and names that are read, what is refused, fetching data and weights by name |
//! | [methods] | what methods there are, what travels, where papers and code differ |
//! | [architecture] | the layers, the life of a round and of an upload, how replay works |
//! | [adding_a_method] | a new method in one file |
//! | [comparing] | runs side by side, lists of runs, one HTML page of a study |
//! | [outputs] | the files of a run for other programs: tables, their columns, trackers, models |
//! | [performance] | figures and the benches that measure them |
//! | [testing] | vectors that numbers are compared with, mutants that tests must notice |
//! | [clusters] | studies over a scheduler's array, requeued jobs |
//! | [mpi] | one run on several machines |
//! | [first_hour] | a new user's first hour: own images, own weights, from `new` to `report` |
//! | [glossary] | the words of tables, helps and messages |
//! | [gpu] | NVIDIA GPUs |
//! | [reliability] | what holds when a process is killed, a disk is full, a file is damaged or foreign |
//! | [reproduction] | every table and figure of the papers: files, changes, what is missing |
//! | [studies] | small studies with their commands, dates and tables |
//!
//! Pages are Markdown files beside this module, to be read on a code host as well as here. Their links are
//! references that each page defines at its end as paths of files; `links.md`, which stands before every page
//! here, defines the same references as items of the crate, and the first definition counts.

#[doc = include_str!("links.md")]
#[doc = include_str!("adding_a_method.md")]
pub mod adding_a_method {}

#[doc = include_str!("links.md")]
#[doc = include_str!("architecture.md")]
pub mod architecture {}

#[doc = include_str!("links.md")]
#[doc = include_str!("clusters.md")]
pub mod clusters {}

#[doc = include_str!("links.md")]
#[doc = include_str!("comparing.md")]
pub mod comparing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("data.md")]
pub mod data {}

#[doc = include_str!("links.md")]
#[doc = include_str!("first_hour.md")]
pub mod first_hour {}

#[doc = include_str!("links.md")]
#[doc = include_str!("glossary.md")]
pub mod glossary {}

#[doc = include_str!("links.md")]
#[doc = include_str!("gpu.md")]
pub mod gpu {}

#[doc = include_str!("links.md")]
#[doc = include_str!("methods.md")]
pub mod methods {}

#[doc = include_str!("links.md")]
#[doc = include_str!("mpi.md")]
pub mod mpi {}

#[doc = include_str!("links.md")]
#[doc = include_str!("outputs.md")]
pub mod outputs {}

#[doc = include_str!("links.md")]
#[doc = include_str!("performance.md")]
pub mod performance {}

#[doc = include_str!("links.md")]
#[doc = include_str!("reliability.md")]
pub mod reliability {}

#[doc = include_str!("links.md")]
#[doc = include_str!("reproduction.md")]
pub mod reproduction {}

#[doc = include_str!("links.md")]
#[doc = include_str!("running.md")]
pub mod running {}

#[doc = include_str!("links.md")]
#[doc = include_str!("running_studies.md")]
pub mod running_studies {}

#[doc = include_str!("links.md")]
#[doc = include_str!("scenarios.md")]
pub mod scenarios {}

pub mod studies;

#[doc = include_str!("links.md")]
#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("weights.md")]
pub mod weights {}
