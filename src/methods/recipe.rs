//! Recipes: methods whose keys are read, and which are not built yet.

use std::sync::Arc;

use super::Requirement;
use super::averaging::Averager;
use super::parts::AveragingMethod;
use crate::policy::{Method, ModelFacts};

/// Method whose keys are read, to be built for a model.
pub trait Recipe: Send + Sync {
    /// Returns the method for a model of these dimensions.
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method>;

    /// Returns the method's requirements on a scenario.
    fn requirements(&self) -> Vec<Requirement> {
        Vec::new()
    }

    /// Returns the first method, on whose features this one runs; `None` if it runs alone.
    fn first(&self) -> Option<&dyn Recipe> {
        None
    }
}

/// Recipe of a method that averages parameters, from its `[method]` table.
pub(super) struct Averages<C>(pub C);

impl<C: AveragingMethod> Recipe for Averages<C> {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(Averager::new(self.0.clone(), facts))
    }

    fn requirements(&self) -> Vec<Requirement> {
        self.0.parts().requirements()
    }
}

/// Recipe of a method without requirements.
impl<F: Fn(&ModelFacts) -> Arc<dyn Method> + Send + Sync> Recipe for F {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        self(facts)
    }
}
