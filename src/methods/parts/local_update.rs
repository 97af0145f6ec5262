//! Training of a pack of clients.

use super::{ClientContext, Demands, LocalTraining, Workload};
use crate::learning::Classifier;
use crate::methods::averaging::{CrossEntropy, Objective, PackClient, PackResult};
use crate::policy::PolicyError;

/// Training of a pack of clients (ClientUpdate of McMahan et al. 2017).
pub trait LocalUpdate<S> {
    /// Returns the loss of a pack's members for the network that is trained, from what they received.
    ///
    /// # Errors
    /// When a download does not fit the method or the network.
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, S>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let _ = (context, pack, network);
        Ok(Box::new(CrossEntropy))
    }

    /// Trains the members of a pack; by default with the usual loop, which minimizes the objective.
    ///
    /// # Errors
    /// When all members fail; a single failure is an entry of the result.
    fn client_update(
        &self,
        training: &LocalTraining<'_, S>,
        pack: &mut [PackClient<'_, S>],
    ) -> Result<PackResult, PolicyError> {
        training.train(pack)
    }

    /// Returns the largest number of clients that train as one pack; `usual` is the limit of the network.
    fn max_pack(&self, usual: usize) -> usize {
        usual
    }

    /// Returns the sample passes of a client in a round, for virtual time.
    fn work(&self, load: &Workload<'_>) -> f64 {
        load.passes()
    }

    /// Returns the demands of such training on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}

/// Local training of FedAvg: the cross-entropy alone, with the usual loop.
pub struct PlainTraining;

impl<S> LocalUpdate<S> for PlainTraining {}
