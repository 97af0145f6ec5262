//! SGD with heavy-ball momentum and coupled weight decay, as `torch.optim.SGD`.

use super::{MomentsMut, Stride};
use crate::model::ops::wide::wide;

/// `b <- momentum b + (g + decay v)`, `v <- v - rate b`; without momentum `b` is the bracket.
#[derive(Clone, Debug, PartialEq)]
pub struct Sgd {
    /// Base learning rate.
    pub learning_rate: f64,
    /// 0 for none (no buffer is kept then).
    pub momentum: f64,
    /// Added to the gradient as `weight_decay * value`.
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
            wide(|| {
                for (v, &g) in values.iter_mut().zip(gradient) {
                    *v -= rate * (scale * g + decay * *v);
                }
            });
            return;
        }
        wide(|| {
            for ((v, &g), b) in values.iter_mut().zip(gradient).zip(moments.first) {
                *b = momentum * *b + (scale * g + decay * *v);
                *v -= rate * *b;
            }
        });
    }
}
