//! The server's policy, in one place at a time: here, or in a job.

use crate::federation::error::FederationError;
use crate::policy::Server;
use crate::wire::{Body, WireError};

/// Holder of the policy while no job has it; always empty if a source supplies the results.
#[derive(Default)]
pub(in crate::federation) struct PolicyHolder(Option<Box<dyn Server>>);

/// A step of the policy: the policy comes back with the result.
pub(crate) struct PolicyStep<T> {
    /// `None` if the step was not computed, or if the policy was lost in it.
    pub policy: Option<Box<dyn Server>>,
    pub result: Result<T, FederationError>,
}

impl<T> PolicyStep<T> {
    /// Creates a step whose result is known.
    pub fn supplied(result: Result<T, FederationError>) -> PolicyStep<T> {
        PolicyStep { policy: None, result }
    }
}

impl PolicyHolder {
    /// Creates a holder of this policy.
    pub fn new(policy: Option<Box<dyn Server>>) -> PolicyHolder {
        PolicyHolder(policy)
    }

    /// Gives the policy to a job.
    pub fn lend(&mut self) -> Box<dyn Server> {
        self.0.take().expect("the policy is in one place at a time")
    }

    /// Takes the policy back from a step, and returns the step's result.
    ///
    /// # Errors
    /// Returns the error of the step.
    pub fn take_back<T>(&mut self, step: PolicyStep<T>) -> Result<T, FederationError> {
        if step.policy.is_some() {
            self.0 = step.policy;
        }
        step.result
    }

    /// Loads a saved state into the policy, if there is one.
    ///
    /// # Errors
    /// Returns an error if the state is not one of this policy.
    pub fn load(&mut self, state: &Body) -> Result<(), WireError> {
        self.0.as_mut().map_or(Ok(()), |policy| policy.load(state))
    }
}
