//! SGD with heavy-ball momentum and coupled weight decay, as `torch.optim.SGD`.

use super::{MomentsMut, Stride};
use crate::numerics::wide::{WideWork, each, wide};

/// SGD: `b <- momentum b + (g + decay v)`, `v <- v - rate b`; without momentum `b = g + decay v`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Base learning rate.
    pub learning_rate: f64,
    /// Momentum; 0 disables it, and no buffer is kept then.
    pub momentum: f64,
    /// Weight decay, added to the gradient as `weight_decay * value`.
    pub weight_decay: f64,
}

impl Sgd {
    pub(super) fn update(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        stride: Stride,
        moments: MomentsMut<'_>,
    ) {
        let (scale, rate) = (stride.scale as f32, stride.rate as f32);
        let (momentum, decay) = (self.momentum as f32, self.weight_decay as f32);
        if moments.first.is_empty() {
            each(values, gradient, move |v, g| *v -= rate * (scale * g + decay * *v));
            return;
        }
        wide(Heavy { values, gradient, buffer: moments.first, scale, rate, momentum, decay });
    }
}

/// A step with momentum.
struct Heavy<'a> {
    values: &'a mut [f32],
    gradient: &'a [f32],
    buffer: &'a mut [f32],
    scale: f32,
    rate: f32,
    momentum: f32,
    decay: f32,
}

impl WideWork for Heavy<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Heavy { values, gradient, buffer, scale, rate, momentum, decay } = self;
        for ((v, &g), b) in values.iter_mut().zip(gradient).zip(buffer) {
            *b = momentum * *b + (scale * g + decay * *v);
            *v -= rate * *b;
        }
    }
}
