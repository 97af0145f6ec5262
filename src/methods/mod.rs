//! Federated methods, one folder or file each. Nothing here knows actors, files or the command
//! line.

pub mod adapter;
pub mod averaged;
pub mod c2prompt;
pub mod coda_prompt;
pub mod dualprompt;
pub mod fed_cprompt;
pub mod fedavg;
pub mod fedavg_prompt;
pub mod feddc;
pub mod fedhaf;
pub mod fedlwf_2t;
pub mod fedprox;
pub mod gradma;
mod head_form;
pub mod held;
pub mod hepco;
pub mod hgp;
pub mod joint;
pub mod l2p;
mod needs;
pub mod oracle;
pub mod powder;
pub mod prompted;
mod registry;
pub mod scaffold;
mod services;
pub mod stsa;

pub use head_form::HeadForm;
pub use needs::Needs;
pub use registry::{MethodEntry, ReadRecipe, Recipe, Registry, UnknownMethod};
