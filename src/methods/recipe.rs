//! Methods with their settings read.

use std::sync::Arc;

use super::Requirement;
use super::averaging::Averager;
use super::parts::AveragingMethod;
use crate::policy::{Method, ModelFacts};

/// A method with its settings read, to be built for a model.
pub trait Recipe: Send + Sync {
    /// Returns the method for a model of these dimensions.
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method>;

    /// Returns requirements on a scenario.
    fn requirements(&self) -> Vec<Requirement> {
        Vec::new()
    }

    /// Returns the method whose features it learns on, where it has one.
    fn first(&self) -> Option<&dyn Recipe> {
        None
    }
}

/// A method that averages parameters, with its settings read.
pub(super) struct Averages<C>(pub C);

impl<C: AveragingMethod> Recipe for Averages<C> {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(Averager::new(self.0.clone(), facts))
    }

    fn requirements(&self) -> Vec<Requirement> {
        self.0.parts().requirements()
    }
}

/// A method without requirements.
impl<F: Fn(&ModelFacts) -> Arc<dyn Method> + Send + Sync> Recipe for F {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        self(facts)
    }
}
