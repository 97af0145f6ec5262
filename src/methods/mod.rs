//! Federated methods, one folder or file each. Nothing here knows actors, files or the command
//! line.

pub mod adapter;
mod averaged;
pub mod fedavg;
pub mod fedavg_prompt;
pub mod fedhaf;
mod head_form;
pub mod hepco;
pub mod hgp;
pub mod joint;
mod late;
mod mixed;
mod privacy;
mod registry;
pub mod stsa;
mod transformer;

pub use head_form::HeadForm;
pub use registry::{MethodEntry, ReadRecipe, Recipe, Registry, UnknownMethod};
