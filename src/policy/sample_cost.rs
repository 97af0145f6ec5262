//! Multiplications that one sample costs in a method.

use super::ModelFacts;

/// Multiplications of one sample in a method, from shapes.
///
/// Norms, softmaxes, activations and optimizers are left out. Nothing is taken as kept between passes, as frozen
/// features may be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SampleCost {
    /// Forward pass in training: backbone, what adapts it, and head.
    pub forward: f64,
    /// Backward pass, as far as trained parameters need it.
    pub backward: f64,
    /// Answer to a sample, with the pass for its query if the method asks one.
    pub inference: f64,
    /// Work of a round; `None` if it follows from the sample passes of virtual time.
    ///
    /// These are [`Method::cost`](super::Method::cost).
    pub work: Option<WorkCost>,
}

/// Multiplications of a round whose work sample passes do not measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkCost {
    /// Work of a client for each of its samples.
    pub client: f64,
    /// Work of the server as the round closes.
    pub server: f64,
}

impl SampleCost {
    /// Returns the cost where the backbone and a linear head train: a backward pass is two forward passes.
    pub fn whole(model: &ModelFacts) -> SampleCost {
        let forward = model.forward();
        SampleCost { forward, backward: 2.0 * forward, inference: forward, work: None }
    }

    /// Returns the multiplications of a training pass.
    pub fn training(&self) -> f64 {
        self.forward + self.backward
    }
}
