//! The parts of a method that averages parameters: a method is a configuration and a list of parts.
//!
//! [`AveragingMethod::parts`] names them in [`Parts`], and a part that is not named is FedAvg's:
//!
//! ```text
//! client   theta <- download                                                       (adaptation, download extras)
//!          E epochs: minimize the objective over the rows that train               (local update)
//!          sends theta_m and n_m                                                   (upload extras)
//! server   theta <- theta + sum_m n_m (theta_m - theta) / sum_m n_m                (averaging, transform)
//!          its own step after the mean                                             (server update)
//! ```
//! Demands on scenario and engine ([`Demands`]) and costs belong to the part that causes them. The declaration of the
//! parameters determines the rows that travel, the uploads that may be late, and the sums that secure aggregation may
//! hide.

mod adaptation;
mod answer;
mod class_means;
mod client_context;
mod demands;
mod download_extras;
mod exchange;
mod final_exchange;
mod local_training;
mod local_update;
mod previous_model;
mod roles;
pub mod sample_cost;
mod server_update;
mod shared_model;
mod totals;
mod transform_upload;
mod upload_extras;
mod workload;

pub use adaptation::{ModelAdaptation, RowQuery, TrainingSettings};
pub use answer::Answer;
pub use class_means::ClassMeans;
pub use client_context::ClientContext;
pub use demands::Demands;
pub use download_extras::{DownloadExtras, PlainDownload};
pub use final_exchange::FinalExchange;
pub use local_training::LocalTraining;
pub use local_update::{LocalUpdate, PlainTraining};
pub use previous_model::PreviousModel;
pub use roles::Roles;
pub use server_update::{PlainMean, ServerUpdate, TaskEnd, TaskStart};
pub use shared_model::{SharedModel, TrainedRows};
pub use transform_upload::TransformUpload;
pub use upload_extras::{SampleCount, UploadExtras};
pub use workload::Workload;

use super::averaging::{AveragingConfig, ServerState};
use crate::policy::ClientState;

/// Method that averages parameters. `self` is its `[method]` table.
pub trait AveragingMethod: Clone + Send + Sync + 'static {
    /// State of a client between rounds; `()` for stateless methods.
    type State: ClientState;
    /// State of the server in addition to the parameters.
    type Memory: ServerState;

    /// Returns the parts of the method.
    fn parts(&self) -> Parts<'_, Self::State, Self::Memory>;
}

/// Parts of a method.
///
/// `..Parts::fedavg(adaptation, averaging)` fills in FedAvg's for all that are not named.
pub struct Parts<'m, S, M> {
    /// Trained parameters, and the network that they make.
    pub adaptation: &'m dyn ModelAdaptation,
    /// Weights of clients in the mean, and head rows in messages.
    pub averaging: AveragingConfig,
    /// Head rows that a client trains.
    pub trains: TrainedRows,
    /// Training of a pack of clients.
    pub local: &'m dyn LocalUpdate<S>,
    /// Tensors of an upload in addition to parameters.
    pub upload: &'m dyn UploadExtras<S>,
    /// Mean features of classes in an upload; `None` if it has none.
    pub class_means: Option<&'m dyn ClassMeans>,
    /// Tensors, fields and assets of a download in addition to parameters.
    pub download: &'m dyn DownloadExtras<M>,
    /// Model of the end of the previous task, if clients get it.
    pub previous_model: Option<PreviousModel>,
    /// Step of the server after the mean.
    pub server: &'m dyn ServerUpdate<M>,
    /// Transform of an upload into the server's contribution; `None` if the upload itself is aggregated.
    pub transform: Option<&'m dyn TransformUpload>,
    /// Exchange after the training of a task.
    pub final_exchange: Option<&'m dyn FinalExchange<S, M>>,
    /// Division of a cohort by roles; `None`: one role.
    pub roles: Option<&'m dyn Roles>,
    /// Predictors that need more than the parameters.
    pub answer: Option<&'m dyn Answer<M>>,
    /// True if the server keeps the parameters of every client whole, in addition to their mean.
    pub keeps_uploads: bool,
    /// True if clients keep nothing between rounds, although `State` is not `()`.
    pub stateless: bool,
    /// True if messages cross a network; false for a single site, whose bytes are not charged.
    pub uses_network: bool,
}

impl<S, M> Clone for Parts<'_, S, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, M> Copy for Parts<'_, S, M> {}

impl<'m, S: ClientState, M: ServerState> Parts<'m, S, M> {
    /// Returns the parts of FedAvg for an adaptation.
    pub fn fedavg(
        adaptation: &'m dyn ModelAdaptation,
        averaging: AveragingConfig,
    ) -> Parts<'m, S, M> {
        Parts {
            adaptation,
            averaging,
            trains: TrainedRows::Usual,
            local: &PlainTraining,
            upload: &SampleCount,
            class_means: None,
            download: &PlainDownload,
            previous_model: None,
            server: &PlainMean,
            transform: None,
            final_exchange: None,
            roles: None,
            answer: None,
            keeps_uploads: false,
            stateless: S::STATELESS,
            uses_network: true,
        }
    }

    /// Returns the parameters that clients train and the server averages.
    pub fn shared(&self) -> SharedModel<'m> {
        let Parts { adaptation, averaging, trains, .. } = *self;
        SharedModel { adaptation, averaging, trains }
    }
}

#[cfg(test)]
mod tests;
