//! Network of the step in candle's own layers.

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{
    BatchNorm, Conv2d, Conv2dConfig, ModuleT, VarBuilder, VarMap, batch_norm, conv2d_no_bias,
};
use fedcast::model::{ParameterSet, ResNetConfig};

struct Unit {
    convolution: Conv2d,
    norm: BatchNorm,
}

impl Unit {
    fn new(
        (inputs, outputs): (usize, usize),
        (kernel, stride): (usize, usize),
        (convolution, norm): (VarBuilder<'_>, VarBuilder<'_>),
    ) -> Result<Unit> {
        let config = Conv2dConfig { stride, padding: kernel / 2, ..Conv2dConfig::default() };
        Ok(Unit {
            convolution: conv2d_no_bias(inputs, outputs, kernel, config, convolution)?,
            norm: batch_norm(outputs, 1e-5, norm)?,
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.norm.forward_t(&self.convolution.forward_t(x, true)?, true)
    }
}

struct Block {
    first: Unit,
    second: Unit,
    downsample: Option<Unit>,
}

impl Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = self.second.forward(&self.first.forward(x)?.relu()?)?;
        let shortcut = match &self.downsample {
            Some(unit) => unit.forward(x)?,
            None => x.clone(),
        };
        (y + shortcut)?.relu()
    }
}

/// ResNet-18 with a linear head, in training mode.
pub struct StockResNet {
    stem: Unit,
    blocks: Vec<Block>,
    head: Tensor,
}

impl StockResNet {
    /// Creates the network with these parameters and this head.
    pub fn new(config: &ResNetConfig, set: &ParameterSet, head: &Tensor) -> Result<StockResNet> {
        let variables = VarMap::new();
        let root = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
        let at = |names: (&str, &str)| (root.pp(names.0), root.pp(names.1));
        let stem = Unit::new((config.channels, config.width), (3, 1), at(("conv1", "bn1")))?;
        let (mut blocks, mut inputs) = (Vec::new(), config.width);
        for (stage, &count) in config.blocks.iter().enumerate() {
            let outputs = config.width << stage;
            for block in 0..count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let root = root.pp(format!("layer{}.{block}", stage + 1));
                let at = |names: (&str, &str)| (root.pp(names.0), root.pp(names.1));
                let downsample = (stride != 1).then(|| {
                    let at = at(("downsample.0", "downsample.1"));
                    Unit::new((inputs, outputs), (1, stride), at)
                });
                blocks.push(Block {
                    first: Unit::new((inputs, outputs), (3, stride), at(("conv1", "bn1")))?,
                    second: Unit::new((outputs, outputs), (3, 1), at(("conv2", "bn2")))?,
                    downsample: downsample.transpose()?,
                });
                inputs = outputs;
            }
        }
        for (name, variable) in variables.data().lock().expect("nobody panicked").iter() {
            let parameter = set.get(name).expect("torchvision's names");
            variable.set(&parameter.tensor(&Device::Cpu).map_err(candle_core::Error::wrap)?)?;
        }
        Ok(StockResNet { stem, blocks, head: Var::from_tensor(head)?.as_tensor().clone() })
    }

    /// Returns the mean cross-entropy of `pixels` `(b, c, h, w)`.
    pub fn loss(&self, pixels: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let mut x = self.stem.forward(pixels)?.relu()?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let logits = x.mean((2, 3))?.matmul(&self.head.t()?)?;
        candle_nn::loss::cross_entropy(&logits, labels)
    }
}
