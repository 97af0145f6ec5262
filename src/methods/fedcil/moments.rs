//! Moments of the optimizers of both networks, by names of variables.

use std::collections::BTreeMap;

use crate::learning::optimizer::{Moments, OptimizerState};
use crate::learning::{LearningError, Optimizer, OptimizerConfig};
use crate::model::{AcGan, Parameter, ParameterSet, Variables};

/// Name of the set of first moments; the next is that of second moments.
const FIRST: &str = "moments.first";
const SECOND: &str = "moments.second";

/// Moments of both optimizers, which have taken equally many steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NetworkMoments {
    steps: u64,
    first: ParameterSet,
    second: ParameterSet,
}

/// Optimizers of both networks.
pub(super) struct GanOptimizers {
    pub discriminator: Optimizer,
    pub generator: Optimizer,
}

impl NetworkMoments {
    /// Returns the number of steps that the optimizers have taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the moments stored in `sets`; empty ones if there are none.
    pub fn from_sets(steps: u64, sets: &BTreeMap<String, ParameterSet>) -> NetworkMoments {
        let set = |name: &str| sets.get(name).cloned().unwrap_or_default();
        NetworkMoments { steps, first: set(FIRST), second: set(SECOND) }
    }

    /// Stores the moments in `sets`; empty ones are removed.
    pub fn into_sets(self, sets: &mut BTreeMap<String, ParameterSet>) {
        for (name, set) in [(FIRST, self.first), (SECOND, self.second)] {
            match set.is_empty() {
                true => drop(sets.remove(name)),
                false => drop(sets.insert(name.to_owned(), set)),
            }
        }
    }

    /// Returns optimizers of both networks that continue with these moments.
    ///
    /// # Errors
    /// When the moments do not fit the networks.
    pub fn optimizers(
        &self,
        rule: &OptimizerConfig,
        gan: &AcGan,
    ) -> Result<GanOptimizers, LearningError> {
        let of = |variables: &Variables| {
            let vars = variables.iter().map(|(_, var)| var.clone()).collect();
            let mut optimizer = rule.clone().over(vars);
            if self.steps > 0 {
                optimizer.resume(self.state_of(variables))?;
            }
            Ok::<Optimizer, LearningError>(optimizer)
        };
        let (generator, discriminator) = (&gan.generator, &gan.discriminator);
        Ok(GanOptimizers {
            discriminator: of(discriminator.variables())?,
            generator: of(generator.variables())?,
        })
    }

    fn state_of(&self, variables: &Variables) -> OptimizerState {
        let values = |set: &ParameterSet, name: &str| {
            set.get(name).map(|known| known.values.to_vec()).unwrap_or_default()
        };
        let moments = variables.iter().map(|(name, _)| Moments {
            first: values(&self.first, name),
            second: values(&self.second, name),
        });
        OptimizerState { steps: self.steps, moments: moments.collect() }
    }

    /// Returns the moments of these optimizers of the networks `gan`.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub fn of(optimizers: GanOptimizers, gan: &AcGan) -> Result<NetworkMoments, LearningError> {
        let mut all = NetworkMoments::default();
        let GanOptimizers { discriminator, generator } = optimizers;
        for (optimizer, variables) in
            [(discriminator, gan.discriminator.variables()), (generator, gan.generator.variables())]
        {
            let OptimizerState { steps, moments } = optimizer.into_state()?;
            all.steps = steps;
            for ((name, var), Moments { first, second }) in variables.iter().zip(moments) {
                for (set, values) in [(&mut all.first, first), (&mut all.second, second)] {
                    if !values.is_empty() {
                        let shape = var.dims().to_vec();
                        set.insert(name.clone(), Parameter { shape, values: values.into() });
                    }
                }
            }
        }
        Ok(all)
    }

    #[cfg(test)]
    pub fn advance_for_tests(&mut self, steps: u64, first: &ParameterSet) {
        self.steps += steps;
        self.first = first.clone();
    }
}
