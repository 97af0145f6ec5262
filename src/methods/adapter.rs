//! **Adapters**: a bottleneck adapter beside the perceptron of every block of a frozen transformer, and a
//! cosine head, averaged over clients. The first stage of STSA (arXiv 2506.01327, section 2 and table of
//! hyperparameters), as a method of its own: name it in `[method.first]`, or run it alone.
//!
//! ```text
//! client   theta <- down;  E epochs: minimise CE over the rows of the current task, dropout in adapters
//! server   theta <- theta + mean_m (theta_m - theta)
//! ```
//! On ViT-B/16 with a bottleneck of 64 the adapters are 1,189,632 parameters, and 7,681 the head of ten
//! classes. Messages are FedAvg's; clients keep nothing between rounds.

use super::HeadForm;
use super::averaged::{Averaged, Averaging, Needs, Parameters, Weights};
use super::registry::MethodEntry;
use crate::model::{AdapterShape, HeadKind, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{Lab, ModelFacts, PolicyError};
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Width between the two layers of an adapter.
    pub bottleneck: u32,
    /// Share of its hidden entries set to zero in training.
    pub dropout: f64,
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

impl Default for Adapter {
    fn default() -> Self {
        defaults(Adapter::read)
    }
}

impl Adapter {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Adapter {
        let bottleneck = Param::new("bottleneck", 64, "width between an adapter's two layers");
        let dropout = Param::new("dropout", 0.1, "share of hidden entries dropped in training");
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Growing, "head rows in messages");
        Adapter {
            bottleneck: table.get(&bottleneck.source("STSA").at_least(1.0).at_most(65_536.0)),
            dropout: table.get(&dropout.source("STSA").at_least(0.0).below(1.0)),
            weights: table.get(&weights.source("the public code of STSA: plain mean")),
            head: table.get(&head.source("STSA: the classes of its one task")),
        }
    }
}

impl Adapter {
    fn shape(&self, model: &ModelFacts) -> AdapterShape {
        AdapterShape {
            blocks: model.backbone.vit().map_or(0, |vit| vit.depth),
            dim: model.backbone.dim(),
            bottleneck: self.bottleneck as usize,
        }
    }
}

impl Averaged for Adapter {
    type State = ();
    type Memory = ();

    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let adapters = Parameters::shared(self.shape(model).shapes());
        adapters.head(HeadKind::Cosine, model.classes, model.backbone.dim())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let adapters = self.shape(model).initial_parameters(init);
        let (classes, dim) = (model.classes, model.backbone.dim());
        Ok(adapters.merge(&HeadKind::Cosine.initial_parameters(classes, dim, init)))
    }

    fn averaging(&self) -> Averaging {
        Averaging { weights: self.weights, head: self.head }
    }

    fn needs(&self) -> Vec<Needs> {
        let instead = "train the whole network with `method.name = \"fedavg\"`";
        vec![Needs::Blocks { what: "an adapter", instead }]
    }

    fn dropout(&self) -> f64 {
        self.dropout
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "A bottleneck adapter in every block of a frozen transformer and a cosine head, \
               averaged over clients; STSA's first stage.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327; adapters: Chen et al., AdaptFormer, NeurIPS 2022",
        state: "server: adapters and head; client: nothing",
        ..MethodEntry::averaging("adapter", Adapter::read)
    }
}
