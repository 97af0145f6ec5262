//! Composition of a layer's weight, its gradients, and the terms of the loss besides the cross-entropy.
//!
//! ```text
//! theta = B sg(m) + A + sum_i alpha_i K_i            m of an output unit is of its whole row
//! dB = g sg(m)    dm = sg'(m) sum_row g B    dA = g    dalpha_i = <g, K_i>          g = dCE/dtheta
//! terms = decay/2 (|A|^2 + |m|^2 [+ |B|^2 in a client's first task]) + l1 (|A|_1 + sum_i |A_i|_1)
//!         + drift/2 sum_i |B sg(m_i) + A_i - start_i|^2                              i: earlier tasks
//! ```

/// Values of a layer's parts, row-major; rows are output units.
#[derive(Clone, Debug)]
pub(super) struct LayerValues<'a> {
    /// Base `B`.
    pub base: &'a [f32],
    /// Masks `m`, one per output unit.
    pub mask: &'a [f32],
    /// Adaptive parts `A`.
    pub adaptive: &'a [f32],
    /// Attention `alpha_i` and values `K_i` of every entry of the knowledge base.
    pub knowledge: Vec<(f32, &'a [f32])>,
}

/// Parts of a layer in an earlier task.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastLayer<'a> {
    /// Masks `m_i`.
    pub mask: &'a [f32],
    /// Adaptive parts `A_i`.
    pub adaptive: &'a [f32],
    /// Weight at the start of the current task, without the knowledge base.
    pub start: &'a [f32],
}

/// Gradients of a layer's parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LayerSlopes {
    pub base: Vec<f64>,
    pub mask: Vec<f64>,
    pub adaptive: Vec<f64>,
    pub attention: Vec<f64>,
    /// Gradients of masks and adaptive parts of earlier tasks.
    pub past: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Weights of the loss terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TermWeights {
    pub decay: f64,
    /// True in a client's first task, in which the base has weight decay, too.
    pub base_decays: bool,
    pub sparsity: f64,
    pub drift: f64,
}

/// Values of the loss terms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LossTerms {
    pub decay: f64,
    pub sparsity: f64,
    pub drift: f64,
}

impl LossTerms {
    pub fn sum(&self) -> f64 {
        self.decay + self.sparsity + self.drift
    }

    pub fn plus(self, other: LossTerms) -> LossTerms {
        LossTerms {
            decay: self.decay + other.decay,
            sparsity: self.sparsity + other.sparsity,
            drift: self.drift + other.drift,
        }
    }
}

/// Returns the sigmoid of a mask.
pub(super) fn gate(mask: f32) -> f64 {
    1.0 / (1.0 + libm::exp(-f64::from(mask)))
}

/// Returns the inner product of two vectors.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

fn square(values: &[f32]) -> f64 {
    dot(values, values)
}

fn sign(value: f32) -> f64 {
    if value == 0.0 { 0.0 } else { f64::from(value.signum()) }
}

impl LayerValues<'_> {
    fn width(&self) -> usize {
        (self.base.len() / self.mask.len().max(1)).max(1)
    }

    /// Returns the composed weight `theta`.
    pub fn compose(&self) -> Vec<f32> {
        let width = self.width();
        let mut theta = Vec::with_capacity(self.base.len());
        for (unit, mask) in self.mask.iter().enumerate() {
            let gate = gate(*mask);
            for at in unit * width..(unit + 1) * width {
                let lent = self
                    .knowledge
                    .iter()
                    .map(|(alpha, entry)| f64::from(*alpha) * f64::from(entry[at]));
                let own = f64::from(self.base[at]) * gate + f64::from(self.adaptive[at]);
                theta.push((own + lent.sum::<f64>()) as f32);
            }
        }
        theta
    }

    /// Returns the gradients of the parts for the gradient `theta` of the weight.
    pub fn slopes(&self, theta: &[f32]) -> LayerSlopes {
        let width = self.width();
        let mut slopes = LayerSlopes {
            adaptive: theta.iter().map(|g| f64::from(*g)).collect(),
            attention: self.knowledge.iter().map(|(_, entry)| dot(theta, entry)).collect(),
            ..LayerSlopes::default()
        };
        for ((mask, g), base) in
            self.mask.iter().zip(theta.chunks(width)).zip(self.base.chunks(width))
        {
            let gate = gate(*mask);
            slopes.base.extend(g.iter().map(|g| f64::from(*g) * gate));
            slopes.mask.push(gate * (1.0 - gate) * dot(g, base));
        }
        slopes
    }

    /// Adds the gradients of the loss terms to `slopes`, and returns their values.
    ///
    /// With `retroactive`, `slopes` also gets the gradients of earlier tasks' masks and adaptive parts.
    pub fn add_terms(
        &self,
        weights: &TermWeights,
        past: &[PastLayer<'_>],
        retroactive: bool,
        slopes: &mut LayerSlopes,
    ) -> LossTerms {
        let TermWeights { decay, base_decays, sparsity, drift } = *weights;
        let absolute = |values: &[f32]| values.iter().map(|v| f64::from(v.abs())).sum::<f64>();
        let mut terms = LossTerms {
            decay: decay / 2.0 * (square(self.adaptive) + square(self.mask)),
            sparsity: sparsity * absolute(self.adaptive),
            drift: 0.0,
        };
        for (slope, value) in slopes.adaptive.iter_mut().zip(self.adaptive) {
            *slope += decay * f64::from(*value) + sparsity * sign(*value);
        }
        for (slope, value) in slopes.mask.iter_mut().zip(self.mask) {
            *slope += decay * f64::from(*value);
        }
        if base_decays {
            terms.decay += decay / 2.0 * square(self.base);
            for (slope, value) in slopes.base.iter_mut().zip(self.base) {
                *slope += decay * f64::from(*value);
            }
        }
        let width = self.width();
        for PastLayer { mask, adaptive, start } in past {
            terms.sparsity += sparsity * absolute(adaptive);
            let (mut of_mask, mut of_adaptive) = (Vec::new(), Vec::new());
            for (unit, mask) in mask.iter().enumerate() {
                let (gate, mut along) = (gate(*mask), 0.0);
                for at in unit * width..(unit + 1) * width {
                    let base = f64::from(self.base[at]);
                    let gap = base * gate + f64::from(adaptive[at]) - f64::from(start[at]);
                    terms.drift += drift / 2.0 * gap * gap;
                    slopes.base[at] += drift * gap * gate;
                    along += gap * base;
                    if retroactive {
                        of_adaptive.push(drift * gap + sparsity * sign(adaptive[at]));
                    }
                }
                of_mask.push(drift * along * gate * (1.0 - gate));
            }
            if retroactive {
                slopes.past.push((of_mask, of_adaptive));
            }
        }
        terms
    }
}
