//! The guide: how to run, read and extend fedcast.
//!
//! | page | subject |
//! |---|---|
//! | [first_hour] | first steps: your own images and weights, from `new` to `report` |
//! | [scenarios] | every key of a scenario file, instructions, shipped scenarios |
//! | [data] | your own data: layouts of files, splits and clients, precomputed features |
//! | [weights] | pretrained weights: supported files and names, fetching data and weights by name |
//! | [methods] | methods: ideas, messages, costs, differences between papers and code |
//! | [adding_a_method] | a new method in one file |
//! | [running] | runs: results, files, exit codes, resume, verify, what if, fork |
//! | [running_studies] | many runs from one file: grid, seeds, shards, tables |
//! | [comparing] | comparisons and lists of runs, one HTML page of a study |
//! | [python] | runs, results, own data and a server rule from Python |
//! | [outputs] | files of a run for other programs: tables, their columns, trackers, models |
//! | [clusters] | studies in job arrays of a scheduler, requeued jobs |
//! | [mpi] | one run on several machines |
//! | [gpu] | NVIDIA GPUs |
//! | [performance] | measurements and the benches that make them |
//! | [reliability] | guarantees when a process is killed, a disk is full, a file is damaged or untrusted |
//! | [reproduction] | every table and figure of the papers: files, changes, missing parts |
//! | [studies] | small studies with their commands, dates and tables |
//! | [architecture] | structure of the program: a round, an upload, replay, layers |
//! | [testing] | vectors for comparison, the frozen table, mutants |
//! | [glossary] | terms of tables, help texts and messages |
//!
//! Pages are Markdown files in the folder of this module, readable on a code host as well as here. Their links are
//! references that each page defines at its end as paths of files; `links.md`, which is included before every page
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
#[doc = include_str!("python.md")]
pub mod python {}

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
