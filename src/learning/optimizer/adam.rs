//! Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as in `torch.optim`.

use super::{MomentsMut, Stride};
use crate::numerics::wide::{WideWork, wide};

/// Way in which weight decay is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// AdamW: the value is multiplied by `1 - rate * decay` before the step.
    #[default]
    Decoupled,
    /// Adam: `decay * value` is added to the gradient, and so enters the moments.
    Coupled,
}

/// Adam with bias-corrected moments. Epsilon is added after the root of the corrected second moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Base learning rate.
    pub learning_rate: f64,
    /// Decay rate of the first moment.
    pub beta1: f64,
    /// Decay rate of the second moment.
    pub beta2: f64,
    /// Value added to the denominator.
    pub epsilon: f64,
    /// Weight decay, 0 for none.
    pub weight_decay: f64,
    /// Form of the weight decay.
    pub decay: Decay,
}

impl Default for Adam {
    fn default() -> Adam {
        Adam {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            decay: Decay::Decoupled,
        }
    }
}

impl Adam {
    pub(super) fn update(
        &self,
        values: &mut [f32],
        gradient: &[f32],
        Stride { rate, scale }: Stride,
        moments: MomentsMut<'_>,
        step: u64,
    ) {
        // In f64 and with libm's `pow`: torch computes these scalars in double precision on the host.
        let correction1 = 1.0 - libm::pow(self.beta1, step as f64);
        let correction2 = (1.0 - libm::pow(self.beta2, step as f64)).sqrt() as f32;
        let stride = (rate / correction1) as f32;
        let (shrink, coupled) = match self.decay {
            Decay::Decoupled => ((1.0 - rate * self.weight_decay) as f32, 0.0),
            Decay::Coupled => (1.0, self.weight_decay as f32),
        };
        wide(AdamStep {
            values,
            gradient,
            moments,
            scale: scale as f32,
            coupled,
            shrink,
            rest1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            rest2: (1.0 - self.beta2) as f32,
            correction2,
            epsilon: self.epsilon as f32,
            stride,
        });
    }
}

/// Single step of Adam with all its factors.
struct AdamStep<'a> {
    values: &'a mut [f32],
    gradient: &'a [f32],
    moments: MomentsMut<'a>,
    scale: f32,
    coupled: f32,
    shrink: f32,
    rest1: f32,
    beta2: f32,
    rest2: f32,
    correction2: f32,
    epsilon: f32,
    stride: f32,
}

impl WideWork for AdamStep<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let AdamStep { values, gradient, moments, scale, coupled, shrink, stride, .. } = self;
        let AdamStep { rest1, beta2, rest2, correction2, epsilon, .. } = self;
        let moments = moments.first.iter_mut().zip(moments.second);
        for ((v, &g), (m, s)) in values.iter_mut().zip(gradient).zip(moments) {
            let g = scale * g + coupled * *v;
            *m += rest1 * (g - *m);
            *s = beta2 * *s + rest2 * (g * g);
            *v = shrink * *v - stride * (*m / (s.sqrt() / correction2 + epsilon));
        }
    }
}
