//! Launch of a kernel of `kernels.cu`.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, bail};

/// Kernel with everything but its first operand.
///
/// Operands are contiguous; the kernel takes them in order, then the output, then numbers.
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "nothing is launched"))]
pub(super) struct Launch {
    /// Name of the kernel without the type, which is that of the first operand.
    pub kernel: &'static str,
    /// Operands after the first.
    pub others: Vec<Tensor>,
    pub numbers: Vec<Argument>,
    /// Number of blocks.
    pub grid: usize,
    /// Threads per block, in two dimensions.
    pub block: (u32, u32),
    pub shape: Shape,
    /// Type of the output.
    pub dtype: DType,
}

/// Number passed to a kernel.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "nothing is launched"))]
pub(super) enum Argument {
    Count(u32),
    Real(f32),
}

impl Argument {
    /// Returns the argument for a count.
    ///
    /// # Errors
    /// Returns an error if the count exceeds what a kernel can count.
    pub fn count(count: usize) -> Result<Argument> {
        match u32::try_from(count) {
            Ok(count) => Ok(Argument::Count(count)),
            Err(_) => bail!("{count} is too many for a kernel; use smaller packs or batches"),
        }
    }
}

impl Launch {
    /// Runs the kernel on its first operand. The result has no graph.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub fn run(&self, first: &Tensor) -> Result<Tensor> {
        first.apply_op1_no_bwd(self)
    }
}

impl CustomOp1 for Launch {
    fn name(&self) -> &'static str {
        self.kernel
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        bail!("{}: this kernel runs on GPUs only", self.kernel)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, first: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        cuda::launch(self, first, layout)
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        bail!("{}: this program was built without GPUs", self.kernel)
    }
}

#[cfg(feature = "cuda")]
#[allow(unsafe_code)]
mod cuda {
    use candle_core::backend::BackendStorage;
    use candle_core::cuda_backend::cudarc::driver::{
        CudaStream, DevicePtr, DeviceRepr, LaunchConfig, PushKernelArg,
    };
    use candle_core::cuda_backend::{CudaDType, WrapErr};
    use candle_core::{CudaStorage, DType, Layout, Result, Shape, Storage, bail};

    use super::{Argument, Launch};

    /// Kernels of `kernels.cu`, compiled by the build script.
    const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.ptx"));
    const MODULE: &str = "fedcast";

    pub(super) fn launch(
        of: &Launch,
        first: &CudaStorage,
        layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let stream = first.device().cuda_stream();
        let mut operands = vec![address(first, layout, &stream)?];
        // Locked until the kernel is in the stream.
        let others: Vec<_> = of.others.iter().map(|t| t.storage_and_layout()).collect();
        for (storage, layout) in &others {
            match &**storage {
                Storage::Cuda(storage) => operands.push(address(storage, layout, &stream)?),
                _ => bail!("{}: an operand lies on another device", of.kernel),
            }
        }
        let storage = match of.dtype {
            DType::F32 => into::<f32>(of, first, operands)?,
            DType::BF16 => into::<half::bf16>(of, first, operands)?,
            dtype => bail!("{}: no kernel writes {dtype:?}", of.kernel),
        };
        Ok((storage, of.shape.clone()))
    }

    fn into<T: CudaDType + DeviceRepr>(
        of: &Launch,
        first: &CudaStorage,
        mut pointers: Vec<u64>,
    ) -> Result<CudaStorage> {
        let device = first.device();
        let name = format!("{}_{}", of.kernel, first.dtype().as_str());
        let function = device.get_or_load_custom_func(&name, MODULE, PTX)?;
        // SAFETY: the kernel writes every number of the output.
        let output = unsafe { device.alloc::<T>(of.shape.elem_count()) }?;
        let stream = device.cuda_stream();
        pointers.push(output.device_ptr(&stream).0);
        let mut builder = function.builder();
        for pointer in &pointers {
            builder.arg(pointer);
        }
        for number in &of.numbers {
            match number {
                Argument::Count(count) => builder.arg(count),
                Argument::Real(real) => builder.arg(real),
            };
        }
        let blocks = match u32::try_from(of.grid) {
            Ok(blocks) => blocks,
            Err(_) => bail!("{}: {} blocks are too many", of.kernel, of.grid),
        };
        let config = LaunchConfig {
            grid_dim: (blocks, 1, 1),
            block_dim: (of.block.0, of.block.1, 1),
            shared_mem_bytes: 0,
        };
        if blocks > 0 {
            // SAFETY: operands and numbers are those of the kernel, in its order (this module's functions are its
            // only callers), all memory lives until the stream has passed this point, and shapes bound every index.
            unsafe { builder.launch(config) }.w()?;
        }
        Ok(CudaStorage::wrap_cuda_slice(output, device.clone()))
    }

    /// Returns the address of a contiguous operand.
    fn address(storage: &CudaStorage, layout: &Layout, stream: &CudaStream) -> Result<u64> {
        if !layout.is_contiguous() {
            bail!("kernels take contiguous operands, not {layout:?}");
        }
        let start = match storage.dtype() {
            DType::F32 => storage.as_cuda_slice::<f32>()?.device_ptr(stream).0,
            DType::BF16 => storage.as_cuda_slice::<half::bf16>()?.device_ptr(stream).0,
            DType::U32 => storage.as_cuda_slice::<u32>()?.device_ptr(stream).0,
            dtype => bail!("no kernel reads {dtype:?}"),
        };
        Ok(start + (layout.start_offset() * storage.dtype().size_in_bytes()) as u64)
    }
}
