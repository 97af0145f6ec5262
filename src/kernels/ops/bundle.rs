//! Bundle of any number of tensors as one operand of an operation.
//!
//! candle differentiates operations of at most three operands. A [`Bundle`] stands for more: in the graph it is one
//! tensor of a single value, which depends on all of them. The operation computes their gradients in its own backward
//! pass and leaves them here; the nodes of the bundle, which candle visits next, pass them on to the tensors. No values
//! are copied.

use std::sync::Arc;

use parking_lot::Mutex;

use candle_core::{
    CpuStorage, CustomOp2, CustomOp3, DType, Device, Layout, Result, Shape, Tensor, bail,
};

/// One operand that depends on many tensors.
pub(super) struct Bundle {
    /// Operand of the operation: a single value without meaning.
    pub operand: Tensor,
    /// Storage for the gradients that the operation computes.
    pub gradients: BundleGradients,
}

/// Gradients of a bundle's tensors, on their way from the operation to the tensors.
#[derive(Clone, Default)]
pub(super) struct BundleGradients(Arc<Mutex<Vec<Option<Tensor>>>>);

impl BundleGradients {
    /// Stores the gradients of all tensors, in the order of the bundle.
    ///
    /// A tensor that needs none has `None`.
    pub fn put(&self, gradients: Vec<Option<Tensor>>) {
        *self.0.lock() = gradients;
    }

    fn take(&self, at: usize, tensor: &Tensor) -> Result<Option<Tensor>> {
        if !tensor.track_op() {
            return Ok(None);
        }
        match self.0.lock().get_mut(at).and_then(Option::take) {
            Some(gradient) => Ok(Some(gradient)),
            None => bail!("an op left no gradient for tensor {at} of its bundle"),
        }
    }
}

impl Bundle {
    /// Bundles tensors; `None` if none of them is tracked.
    ///
    /// # Errors
    /// Returns an error only if candle fails.
    pub fn of(tensors: &[&Tensor]) -> Result<Option<Bundle>> {
        let tracked: Vec<usize> = (0..tensors.len()).filter(|at| tensors[*at].track_op()).collect();
        if tracked.is_empty() {
            return Ok(None);
        }
        let gradients = BundleGradients::default();
        let mut operand = no_value()?;
        for places in tracked.chunks(2) {
            let link = BundleLink { places: places.to_vec(), gradients: gradients.clone() };
            operand = match *places {
                [first, second] => operand.apply_op3(tensors[first], tensors[second], link)?,
                [first] => operand.apply_op2(tensors[first], link)?,
                _ => unreachable!("chunks of one or two"),
            };
        }
        Ok(Some(Bundle { operand, gradients }))
    }
}

/// Returns the meaningless value of a bundle, which also stands for its gradient.
pub(super) fn no_value() -> Result<Tensor> {
    Tensor::zeros(1, DType::F32, &Device::Cpu)
}

/// Node that links one or two tensors to those before them.
struct BundleLink {
    places: Vec<usize>,
    gradients: BundleGradients,
}

impl BundleLink {
    fn value() -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![0.0]), Shape::from(1)))
    }

    /// Returns a meaningless gradient of the tensors before.
    fn onward(before: &Tensor) -> Result<Option<Tensor>> {
        before.track_op().then(no_value).transpose()
    }
}

impl CustomOp2 for BundleLink {
    fn name(&self) -> &'static str {
        "bundle-of-one-more"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        BundleLink::value()
    }

    fn bwd(
        &self,
        before: &Tensor,
        first: &Tensor,
        _: &Tensor,
        _: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((BundleLink::onward(before)?, self.gradients.take(self.places[0], first)?))
    }
}

impl CustomOp3 for BundleLink {
    fn name(&self) -> &'static str {
        "bundle-of-two-more"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        BundleLink::value()
    }

    fn bwd(
        &self,
        before: &Tensor,
        first: &Tensor,
        second: &Tensor,
        _: &Tensor,
        _: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok((
            BundleLink::onward(before)?,
            self.gradients.take(self.places[0], first)?,
            self.gradients.take(self.places[1], second)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;

    /// Multiplies `x` by the number of the tensor for each of them.
    struct Scaled(BundleGradients, Vec<Tensor>);

    impl CustomOp2 for Scaled {
        fn name(&self) -> &'static str {
            "scaled"
        }

        fn cpu_fwd(
            &self,
            x: &CpuStorage,
            x_layout: &Layout,
            _: &CpuStorage,
            _: &Layout,
        ) -> Result<(CpuStorage, Shape)> {
            Ok((x.try_clone_for_test(x_layout)?, x_layout.shape().clone()))
        }

        fn bwd(
            &self,
            x: &Tensor,
            operand: &Tensor,
            _: &Tensor,
            g: &Tensor,
        ) -> Result<(Option<Tensor>, Option<Tensor>)> {
            let by = |(at, tensor): (usize, &Tensor)| {
                let gradient = (tensor.ones_like()? * (at + 1) as f64)?;
                Ok(tensor.track_op().then_some(gradient))
            };
            self.0.put(self.1.iter().enumerate().map(by).collect::<Result<_>>()?);
            let by_x = x.track_op().then(|| g.clone());
            Ok((by_x, operand.track_op().then(no_value).transpose()?))
        }
    }

    trait CloneForTest {
        fn try_clone_for_test(&self, layout: &Layout) -> Result<CpuStorage>;
    }

    impl CloneForTest for CpuStorage {
        fn try_clone_for_test(&self, layout: &Layout) -> Result<CpuStorage> {
            Ok(CpuStorage::F32(super::super::storage::values(self, layout)?.to_vec()))
        }
    }

    #[test]
    fn every_tracked_tensor_gets_its_own_gradient() -> Result<()> {
        for tracked in 1..8u32 {
            let device = Device::Cpu;
            let x = Tensor::new(&[1f32, 2.0], &device)?;
            let vars: Vec<Var> =
                (0..5).map(|_| Var::zeros(2, DType::F32, &device)).collect::<Result<_>>()?;
            let tensor = |at: usize| match at < 3 && tracked & (1 << at) == 0 {
                true => vars[at].as_detached_tensor(),
                false => vars[at].as_tensor().clone(),
            };
            let tensors: Vec<Tensor> = (0..5).map(tensor).collect();
            let bundle =
                Bundle::of(&tensors.iter().collect::<Vec<_>>())?.expect("some are tracked");
            let op = Scaled(bundle.gradients.clone(), tensors.clone());
            let grads = x.apply_op2(&bundle.operand, op)?.sum_all()?.backward()?;
            for (at, tensor) in tensors.iter().enumerate() {
                let found = grads.get(&vars[at]).map(|g| g.to_vec1::<f32>()).transpose()?;
                let wanted = tensor.track_op().then(|| vec![(at + 1) as f32; 2]);
                assert_eq!(found, wanted, "{tracked} {at}");
            }
        }
        let frozen = Tensor::zeros(2, DType::F32, &Device::Cpu)?;
        assert!(Bundle::of(&[&frozen])?.is_none());
        Ok(())
    }
}
