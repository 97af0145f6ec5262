//! Keys of the `[method]` table of GLFC and LGA.

use clap::ValueEnum;

use super::choosing::Exemplars;
use super::head_rows::HeadRows;
use super::images::PassTransform;
use super::outputs::Outputs;
use super::proxy::{Augment, Proxy};
use super::release::Release;
use super::schedule::RateSchedule;
use super::signal::Signal;
use super::terms::Terms;
use crate::methods::fedavg::FedAvg;
use crate::scenario::reader::{Choice, Keys, TableReader, defaults};

/// Old model that is distilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OldModel {
    /// Mean model at the end of the previous task.
    TaskEnd,
    /// Model that the client received at the start of its task.
    ///
    /// The client keeps it, so no further bytes are sent, and clients may be at different tasks.
    Received,
    /// Model with the best accuracy on images that a proxy server reconstructs from clients' gradients.
    ///
    /// Expensive: hundreds of iterations for every class of every client.
    Proxy,
}

/// Keys of the `[method]` table of GLFC, or of LGA.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(release: Release), default_given(Release::Glfc), function = read_release)]
pub struct Glfc {
    /// Trained parameters and their aggregation; all classes seen are trained.
    #[key(read = FedAvg::read_keys(table, release.fedavg_keys()))]
    pub fedavg: FedAvg,
    /// Number of exemplars of a client, of all learned classes together.
    #[key(default = 2_000, at_most = 1e7, source = release.source())]
    pub memory_size: u32,
    /// True to allow a sample several times among the exemplars.
    #[key(default = true, source = release.source())]
    pub repeats: bool,
    /// Signal that begins a task for a client.
    #[key(default = Signal::Task, source = "Powder's port; the release has entropy")]
    pub task_detection: Signal,
    /// Rise of the mean prediction entropy in nats above which a new task is detected.
    #[key(default = 1.2, at_least = 0.0, source = release.source())]
    pub threshold: f64,
    /// Transform of the images on whose predictions the entropy is measured.
    #[key(default = PassTransform::Train, source = release.source())]
    pub entropy_transform: PassTransform,
    /// Old model that is distilled.
    #[key(default = OldModel::TaskEnd, source = "Powder's port; the release has proxy")]
    pub old_model: OldModel,
    /// Proxy server, if there is one.
    #[key(read = Proxy::read(table, release.source()))]
    pub proxy: Proxy,
    /// Epochs of a task at which the learning rate falls.
    #[key(default = RateSchedule::Code, source = release.source())]
    pub lr_schedule: RateSchedule,
    /// Weights of the terms of the loss.
    #[key(read = Terms::read(table, release))]
    pub terms: Terms,
    /// Choice of samples as exemplars.
    #[key(
        default = Exemplars::Herding,
        when = release == Release::Glfc,
        source = "GLFC; random in effect in Powder's port"
    )]
    pub exemplars: Exemplars,
    /// Outputs in the loss.
    #[key(
        default = Outputs::Seen,
        when = release == Release::Glfc,
        source = "GLFC; Powder's port has own"
    )]
    pub outputs: Outputs,
    /// Clients whose head rows the server uses.
    #[key(
        default = HeadRows::Mean,
        when = release == Release::Glfc,
        source = "GLFC; Powder's port has last"
    )]
    pub rows: HeadRows,
}

impl Glfc {
    /// Returns LGA with its default settings.
    pub fn default_lga() -> Glfc {
        defaults(Glfc::read_lga)
    }

    /// Reads the `[method]` table of GLFC.
    pub fn read(table: &mut TableReader<'_>) -> Glfc {
        Glfc::read_release(table, Release::Glfc)
    }

    /// Reads the `[method]` table of LGA, whose proxy server scores copies of features.
    pub fn read_lga(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::read_release(table, Release::Lga);
        let Scoring { augment, wait } = Scoring::read(table);
        let augment = (augment.radius > 0.0).then_some(augment);
        Glfc { proxy: Proxy { wait, augment, ..glfc.proxy }, ..glfc }
    }
}

/// Scores of LGA's proxy server.
#[derive(Keys)]
struct Scoring {
    /// Copies of features that are scored.
    #[key(flatten)]
    augment: Augment,
    /// Number of first rounds of a task in which scores count as zero.
    #[key(name = "proxy_wait", default = 6, source = "the release of LGA")]
    wait: u32,
}
