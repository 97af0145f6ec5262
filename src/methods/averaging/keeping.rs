//! Keys of methods with vectors for every client: whether a new task resets them, and who keeps them.

use clap::ValueEnum;

use super::{LocalTrainingResult, ParameterVectors, RowPurpose, sample_count};
use crate::methods::parts::SharedModel;
use crate::model::is_buffer;
use crate::policy::{
    ExchangeFacts, MemoryFootprint, ModelFacts, StalenessRule, TensorSpec, vector_tensors,
};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Dtype, Kind, NamedTensor, Section, WireError};

/// Name of the tensor of an upload with the sum of the client's learning rates.
pub(in crate::methods) const RATES: &str = "rates";

/// State of remembered vectors at the start of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Reset {
    /// Reset to zero.
    ///
    /// Their content belongs to the classes of the previous task.
    Task,
    /// Kept; new rows of a head begin at zero.
    Keep,
}

impl Reset {
    /// Source that the registry shows for the default of `reset`.
    pub(in crate::methods) const SOURCE: &str = "no source: the paper has one task";
}

/// Keeper of the vectors of clients.
///
/// A client has renewed its vectors when its training is over; if the upload is then lost, the server lacks the change.
/// A server that keeps the vectors is always consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Keeper {
    /// Each client keeps its own.
    Client,
    /// The server keeps those of all clients; clients keep nothing.
    Server,
}

/// Keys of a method with vectors for every client.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct VectorKeeping {
    /// State of vectors of earlier tasks at the start of a task.
    #[key(default = Reset::Task, source = Reset::SOURCE)]
    pub reset: Reset,
    /// Keeper of the vectors of clients.
    #[key(name = "variates", default = Keeper::Client, source = "the paper; the server in public code of FL-bench")]
    pub keeper: Keeper,
}

impl Keeper {
    /// Returns the specifications of an upload's tensors besides parameters.
    ///
    /// They are the sample count and the change of the client's `vector`, which the server sums up. If the server keeps
    /// the vectors, the sum of the client's learning rates takes the place of the change.
    pub(in crate::methods) fn places(
        self,
        shared: &SharedModel<'_>,
        facts: &ExchangeFacts<'_>,
        vector: &str,
    ) -> Vec<TensorSpec> {
        let mut places = vec![sample_count()];
        match self {
            Keeper::Client => {
                let up = ParameterVectors::of(shared, facts.model, facts.view, RowPurpose::Up);
                let summed = |place: TensorSpec| place.summed(StalenessRule::Refuse);
                places.extend(up.places(vector).into_iter().map(summed));
            }
            Keeper::Server => {
                places.push(TensorSpec::new(Kind::Statistics, RATES, &[], Dtype::F64))
            }
        }
        places
    }

    /// Returns the tensors specified by [`Keeper::places`], with `trained.vectors` as the change.
    ///
    /// # Errors
    /// Returns an error only if values do not fill a tensor, which cannot happen here.
    pub(in crate::methods) fn section(
        self,
        trained: &LocalTrainingResult,
        vector: &str,
    ) -> Result<Section, WireError> {
        let mut statistics = trained.sample_count()?;
        match self {
            Keeper::Client => statistics.tensors.extend(vector_tensors(vector, &trained.vectors)),
            Keeper::Server => {
                statistics.tensors.push(NamedTensor::f64(RATES, [], vec![trained.rates])?)
            }
        }
        Ok(statistics)
    }

    /// Returns the bytes that are kept: the parameters, `own` vectors of the server, `of_client` vectors per client.
    pub(in crate::methods) fn memory_footprint(
        self,
        shared: &SharedModel<'_>,
        model: &ModelFacts,
        (own, of_client): (u64, u64),
    ) -> MemoryFootprint {
        let all = shared.adaptation.parameters(model);
        let parameters = 4 * all.numbers() as u64;
        let vector = 4 * all.filter(|name| !is_buffer(name)).numbers() as u64;
        let (server, client) = match self {
            Keeper::Client => (own, of_client),
            Keeper::Server => (own + of_client * model.clients as u64, 0),
        };
        MemoryFootprint { server: parameters + server * vector, client: client * vector }
    }
}
