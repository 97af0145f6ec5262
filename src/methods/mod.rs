//! Federated methods, one folder or file each. Nothing here knows actors, files or the command
//! line.

pub mod adapter;
pub mod averaged;
pub mod c2prompt;
pub mod ccvr;
pub mod class_statistics;
pub mod coda_prompt;
pub mod der;
pub mod dualprompt;
pub mod er;
pub mod ewc;
pub mod fed_cprompt;
pub mod fedavg;
pub mod fedavg_prompt;
pub mod feddc;
pub mod fedhaf;
pub mod fedlwf_2t;
pub mod fedproto;
pub mod fedprox;
pub mod fisheravg;
pub mod gradma;
mod head_form;
pub mod held;
pub mod hepco;
pub mod hgp;
pub mod icarl;
pub mod joint;
pub mod l2p;
mod local_fisher;
pub mod lwf;
mod needs;
pub mod oracle;
pub mod powder;
pub mod prompted;
mod registry;
pub mod replay;
pub mod scaffold;
mod services;
pub mod stsa;
mod uses;

pub use head_form::HeadForm;
pub use needs::Needs;
pub use registry::{Family, MethodEntry, ReadRecipe, Recipe, Registry, UnknownMethod};
pub use uses::Uses;
