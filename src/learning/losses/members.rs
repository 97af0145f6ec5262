//! Loss terms of each pack member that depend on its parameters alone: `<w, c>` and `mu/2 |w - a|^2`.
//!
//! A variable of a pack holds its members' values stacked, `(members, ..)`; a term is `(members)`. Gradients are in
//! closed form.

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, bail};

use crate::learning::optimizer::lend;
use crate::model::ops;

/// Linear term `<w, c>` of every member, whose gradient is the constant `c`. It corrects the direction of descent, and
/// is created once for all steps of a training.
#[derive(Clone, Debug)]
pub struct Linear {
    /// Slope `c`, in the shape of the variable.
    slope: Tensor,
}

impl Linear {
    /// Returns the term with these slopes, row-major, for a variable of the shape of `like`.
    ///
    /// # Errors
    /// Returns an error if the number of slopes differs from that of the values.
    pub fn new(slope: Vec<f32>, like: &Tensor) -> Result<Linear> {
        let slope = Tensor::from_vec(slope, like.shape(), like.device())?;
        Ok(Linear { slope: slope.to_dtype(like.dtype())? })
    }

    /// Returns the term of each member, `(members)`.
    ///
    /// # Errors
    /// Returns an error if the variable has another shape, or does not divide among the members.
    pub fn of(&self, w: &Tensor, members: usize) -> Result<Tensor> {
        if w.shape() != self.slope.shape() {
            bail!("a linear term of {:?} for {:?}", self.slope.shape(), w.shape());
        }
        if !is_here(w) {
            let products = (w * &self.slope)?;
            return ops::sum(&products.reshape((members, w.elem_count() / members.max(1)))?, 1);
        }
        let values = lend(&self.slope, |slope| {
            lend(w, |w| {
                let own = w.len().div_ceil(members.max(1)).max(1);
                let product = |(w, c): (&f32, &f32)| f64::from(*w) * f64::from(*c);
                let sums = w.chunks(own).zip(slope.chunks(own));
                Ok(sums.map(|(w, c)| w.iter().zip(c).map(product).sum::<f64>() as f32).collect())
            })
        })?;
        by_member(w, values, self.slope.clone())
    }
}

/// Returns each member's proximal term towards its own anchor, `mu/2 |w - a|^2`. `anchors` have the layout of the
/// variable, and `mus` one value per member.
///
/// # Errors
/// Returns an error if the number of anchor values differs.
pub fn proximals(w: &Tensor, anchors: &[f32], mus: &[f64]) -> Result<Tensor> {
    let divides = !mus.is_empty() && w.elem_count().is_multiple_of(mus.len());
    if anchors.len() != w.elem_count() || !divides {
        let (values, members) = (anchors.len(), mus.len());
        bail!("proximal terms: {values} values of {members} members for {:?}", w.shape());
    }
    let (values, slope) = lend(w, |w| {
        let own = w.len().div_ceil(mus.len().max(1)).max(1);
        let (mut values, mut slope) = (Vec::with_capacity(mus.len()), Vec::with_capacity(w.len()));
        for ((w, anchors), mu) in w.chunks(own).zip(anchors.chunks(own)).zip(mus) {
            let mut total = 0.0;
            slope.extend(w.iter().zip(anchors).map(|(w, a)| {
                let gap = f64::from(*w) - f64::from(*a);
                total += gap * gap;
                (mu * gap) as f32
            }));
            values.push((0.5 * mu * total) as f32);
        }
        Ok((values, slope))
    })?;
    let slope = Tensor::from_vec(slope, w.shape(), w.device())?.to_dtype(w.dtype())?;
    by_member(w, values, slope)
}

fn is_here(w: &Tensor) -> bool {
    w.device().is_cpu() && w.dtype() == DType::F32
}

/// Returns a tensor `(members)` of these values. The gradient of each, in its own part of `w`, is that part of `slope`.
fn by_member(w: &Tensor, values: Vec<f32>, slope: Tensor) -> Result<Tensor> {
    let members = values.len();
    if members == 0 || !w.elem_count().is_multiple_of(members) {
        bail!("terms of {members} members for {:?}", w.shape());
    }
    if is_here(w) {
        return w.apply_op1(ByMember { values, slope });
    }
    // On other devices and types: a linear function with the right slope, shifted to the right values.
    let products = (w * slope)?.reshape((members, w.elem_count() / members))?;
    let linear = ops::sum(&products, 1)?;
    let values = Tensor::from_vec(values, members, w.device())?.to_dtype(w.dtype())?;
    let offset = (values - linear.detach())?;
    linear + offset
}

struct ByMember {
    values: Vec<f32>,
    slope: Tensor,
}

impl CustomOp1 for ByMember {
    fn name(&self) -> &'static str {
        "by-member"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(self.values.clone()), Shape::from(self.values.len())))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let factors = g.to_vec1::<f32>()?;
        if factors.iter().all(|factor| *factor == 1.0) {
            return Ok(Some(self.slope.clone()));
        }
        let (members, shape) = (factors.len(), self.slope.shape());
        let each = self.slope.reshape((members, shape.elem_count() / members))?;
        each.broadcast_mul(&g.reshape((members, 1))?)?.reshape(shape).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning::losses::proximal;
    use crate::model::ops::without_kernels;
    use candle_core::{Device, Var};

    const W: [f32; 4] = [1.0, -2.0, 0.5, 4.0];
    const C: [f32; 4] = [3.0, 1.0, -2.0, 0.25];

    fn var() -> Var {
        Var::from_slice(&W, &[2, 2], &Device::Cpu).unwrap()
    }

    /// Values and gradients of the members' terms, where each counts as much as it says.
    fn of(terms: &Tensor, w: &Var, shares: [f64; 2]) -> ([f64; 2], Vec<f32>) {
        let values = terms.to_vec1::<f32>().unwrap();
        let shares = Tensor::new(&shares, &Device::Cpu).unwrap().to_dtype(DType::F32).unwrap();
        let gradients = (terms * shares).unwrap().backward().unwrap();
        let gradient = gradients.get(w).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        ([f64::from(values[0]), f64::from(values[1])], gradient)
    }

    /// The sign, the owner and the factor: `<w, c>` of each member, with gradient `c` times what the member counts.
    #[test]
    fn a_linear_term_has_the_gradient_it_is_made_of() {
        let w = var();
        let term = Linear::new(C.to_vec(), &w).unwrap();
        let alone = term.of(&w, 1).unwrap();
        assert_eq!(alone.to_vec1::<f32>().unwrap(), [1.0]);
        let gradients = alone.backward().unwrap();
        assert_eq!(
            gradients.get(&w).unwrap().to_vec2::<f32>().unwrap(),
            [[3.0, 1.0], [-2.0, 0.25]]
        );
        let both = term.of(&w, 2).unwrap();
        assert_eq!(of(&both, &w, [1.0, 1.0]), ([1.0, 0.0], C.to_vec()));
        assert_eq!(of(&both, &w, [2.0, -1.0]).1, [6.0, 2.0, 2.0, -0.25]);
        let other = Var::from_slice(&W, &[4], &Device::Cpu).unwrap();
        assert!(term.of(&other, 1).is_err());
    }

    #[test]
    fn pulls_are_those_of_members_alone() {
        let (w, mus) = (var(), [0.5, 2.0]);
        let (values, gradient) = of(&proximals(&w, &C, &mus).unwrap(), &w, [1.0, 1.0]);
        for (member, mu) in mus.into_iter().enumerate() {
            let own = 2 * member..2 * member + 2;
            let alone = Var::from_slice(&W[own.clone()], &[2], &Device::Cpu).unwrap();
            let pull = proximal(&alone, &C[own.clone()], mu).unwrap();
            assert_eq!(f64::from(pull.to_scalar::<f32>().unwrap()), values[member]);
            let gradients = pull.backward().unwrap();
            assert_eq!(gradients.get(&alone).unwrap().to_vec1::<f32>().unwrap(), gradient[own]);
        }
        assert!(proximals(&w, &C[..3], &mus).is_err());
        assert!(proximals(&w, &C, &[1.0; 3]).is_err());
    }

    /// Elsewhere than on the CPU in `f32`: the same values and gradients.
    #[test]
    fn terms_are_the_same_in_another_type() {
        let w = var();
        let wide = Var::from_tensor(&w.to_dtype(DType::F64).unwrap()).unwrap();
        let linear = |w: &Var| Linear::new(C.to_vec(), w).unwrap().of(w, 2).unwrap();
        let pull = |w: &Var| proximals(w, &C, &[0.5, 2.0]).unwrap();
        for term in [&linear as &dyn Fn(&Var) -> Tensor, &pull] {
            let (here, there) = (term(&w), without_kernels(|| term(&wide)));
            let narrow = there.to_dtype(DType::F32).unwrap();
            assert_eq!(narrow.to_vec1::<f32>().unwrap(), here.to_vec1::<f32>().unwrap());
            let gradients = there.backward().unwrap();
            let slope = gradients.get(&wide).unwrap().to_dtype(DType::F32).unwrap();
            let slope = slope.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert_eq!(slope, of(&here, &w, [1.0, 1.0]).1);
        }
    }
}
