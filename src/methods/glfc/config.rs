//! The `[method]` tables of GLFC and LGA.

use clap::ValueEnum;

use super::choosing::Exemplars;
use super::compensation::{Balance, Groups};
use super::head_rows::HeadRows;
use super::objective::Terms;
use super::outputs::Outputs;
use super::proxy::{Augment, Proxy, Scale};
use super::schedule::RateSchedule;
use super::signal::Signal;
use crate::methods::fedavg::FedAvg;
use crate::methods::trainable::TrainableKeys;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Which model's answers are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OldModel {
    /// The mean model as the previous task ended.
    TaskEnd,
    /// The one that the client received as its task began.
    ///
    /// It keeps that model itself, so that nothing more travels, and clients may be at tasks of their own.
    Received,
    /// The one that knew best the images that a proxy server found in clients' gradients.
    ///
    /// Heavy: hundreds of iterations for every class of every client.
    Proxy,
}

/// The `[method]` table of GLFC, or of LGA.
#[derive(Clone, Debug, PartialEq)]
pub struct Glfc {
    /// What trains and how; all classes seen train.
    pub fedavg: FedAvg,
    /// Exemplars of a client, of all learned classes together.
    pub budget: u32,
    /// Whether a sample may be an exemplar several times.
    pub repeats: bool,
    /// What tells which samples are exemplars.
    pub exemplars: Exemplars,
    /// What begins a task for a client.
    pub signal: Signal,
    /// How far the entropy jumps at a new task, in nats.
    pub threshold: f64,
    /// Whose answers are held.
    pub old_model: OldModel,
    /// How the proxy server works, where there is one.
    pub proxy: Proxy,
    /// When the learning rate falls.
    pub lr_schedule: RateSchedule,
    /// The outputs that the loss runs over.
    pub outputs: Outputs,
    /// Whose head rows the server takes.
    pub rows: HeadRows,
    /// The loss.
    pub terms: Terms,
}

impl Default for Glfc {
    fn default() -> Self {
        defaults(Glfc::read)
    }
}

impl Glfc {
    /// The defaults of LGA.
    pub fn default_lga() -> Glfc {
        defaults(Glfc::read_lga)
    }

    /// Reads the keys of a `[method]` table of GLFC.
    pub fn read(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of GLFC");
        let compensate = Param::new("compensate", true, "weigh old and new samples");
        let share = |name, doc| Param::new(name, 0.5, doc).source("GLFC").at_least(0.0);
        let labels = share("label_weight", "weight of the labels where there is an old model");
        let relation = share("relation_weight", "weight of the old model's answers");
        let compensate = compensate.source("GLFC; Powder's port does not");
        let balance = if table.get(&compensate) { Balance::Learned } else { Balance::None };
        let terms = Terms {
            balance,
            labels: table.get(&labels),
            relation: table.get(&relation),
            weighs_relation: false,
        };
        let exemplars = "what tells which samples are exemplars";
        let exemplars = Param::new("exemplars", Exemplars::Herding, exemplars);
        let exemplars = exemplars.source("GLFC; what Powder's port herds makes it random");
        let outputs = Param::new("outputs", Outputs::Seen, "outputs that the loss runs over");
        let rows = Param::new("rows", HeadRows::Mean, "whose head rows the server takes");
        Glfc {
            terms,
            exemplars: table.get(&exemplars),
            outputs: table.get(&outputs.source("GLFC; Powder's port has own")),
            rows: table.get(&rows.source("GLFC; Powder's port has last")),
            ..glfc
        }
    }

    /// Reads the keys of a `[method]` table of LGA.
    pub fn read_lga(table: &mut TableReader<'_>) -> Glfc {
        let glfc = Glfc::learning(table, "the release of LGA");
        let groups = Param::new("groups", Groups::Task, "which learned classes are a group");
        let groups = groups.source("the paper; the release has cumulative");
        let lambda = Param::new("lambda", 1.0, "weight of either term where there is an old model");
        let balance = Balance::Tasks(table.get(&groups));
        let lambda = table.get(&lambda.source("the release of LGA").at_least(0.0));
        let terms = Terms { balance, labels: lambda, relation: lambda, weighs_relation: true };
        let wait = Param::new("proxy_wait", 6, "rounds of a task in which scores count as zero");
        let radius = "radius of copies of features in the first task; 0 scores images";
        let radius = Param::new("radius", 0.15, radius).source("the release of LGA").at_least(0.0);
        let spread = "later the radius is that of clients' features in the first task";
        let spread = Param::new("radius_from_clients", true, spread);
        let scale = Param::new("noise_scale", Scale::Deviation, "how noise is scaled");
        let augment = Augment {
            radius: table.get(&radius),
            from_clients: table.get(&spread.source("the release reads all images at the server")),
            scale: table.get(&scale.source("what is meant; the release has squared-variance")),
        };
        let wait = table.get(&wait.source("the release of LGA"));
        let augment = (augment.radius > 0.0).then_some(augment);
        let proxy = Proxy { wait, augment, ..glfc.proxy };
        Glfc { terms, proxy, ..glfc }
    }

    /// The keys of both; terms are still to be read.
    fn learning(table: &mut TableReader<'_>, release: &'static str) -> Glfc {
        let keys = TrainableKeys::FEDAVG.uniform(release).over_all_seen().growing(release);
        let fedavg = FedAvg::read_keys(table, keys);
        let budget = Param::new("budget", 2_000, "exemplars of a client, of all classes together");
        let repeats = Param::new("repeats", true, "a sample may be an exemplar several times");
        let signal = Param::new("signal", Signal::Task, "what begins a task for a client");
        let threshold = "how far the entropy jumps at a new task, in nats";
        let threshold = Param::new("threshold", 1.2, threshold).source(release).at_least(0.0);
        let old = Param::new("old_model", OldModel::TaskEnd, "whose answers are held");
        let rates = Param::new("lr_schedule", RateSchedule::Code, "when the learning rate falls");
        Glfc {
            fedavg,
            budget: table.get(&budget.source(release).at_most(1e7)),
            repeats: table.get(&repeats.source(release)),
            signal: table.get(&signal.source("Powder's port; the release has entropy")),
            threshold: table.get(&threshold),
            old_model: table.get(&old.source("Powder's port; the release has proxy")),
            proxy: Proxy::read(table, release),
            lr_schedule: table.get(&rates.source(release)),
            exemplars: Exemplars::Herding,
            outputs: Outputs::Seen,
            rows: HeadRows::Mean,
            terms: Terms {
                balance: Balance::None,
                labels: 0.0,
                relation: 0.0,
                weighs_relation: false,
            },
        }
    }
}
