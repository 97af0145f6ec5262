//! Network of the step in candle's own differentiable ops.

use candle_core::{D, Device, Result, Tensor, Var};
use candle_nn::{Linear, Module};
use fedcast::model::{ModelError, ParameterSet, VitConfig};

struct Block {
    norm1: [Tensor; 2],
    qkv: Linear,
    proj: Linear,
    norm2: [Tensor; 2],
    fc1: Linear,
    fc2: Linear,
}

pub struct StockVit {
    config: VitConfig,
    patch: [Tensor; 2],
    cls: Tensor,
    position: Tensor,
    blocks: Vec<Block>,
    norm: [Tensor; 2],
    /// Keeps the variables alive when the network trains.
    _variables: Vec<Var>,
}

impl StockVit {
    pub fn new(
        config: VitConfig,
        set: &ParameterSet,
        trained: bool,
    ) -> std::result::Result<StockVit, ModelError> {
        let mut variables = Vec::new();
        let mut get = |name: String| -> Result<Tensor> {
            let parameter = set.get(&name).expect("the set is complete");
            let shape = parameter.shape.as_slice();
            let tensor = Tensor::from_slice(&parameter.values, shape, &Device::Cpu)?;
            if !trained {
                return Ok(tensor);
            }
            variables.push(Var::from_tensor(&tensor)?);
            Ok(variables[variables.len() - 1].as_tensor().clone())
        };
        let mut pair = |layer: &str| -> Result<[Tensor; 2]> {
            Ok([get(format!("{layer}.weight"))?, get(format!("{layer}.bias"))?])
        };
        let linear = |[weight, bias]: [Tensor; 2]| Linear::new(weight, Some(bias));
        let (patch, norm) = (pair("patch_embed.proj")?, pair("norm")?);
        let blocks = (0..config.depth)
            .map(|i| {
                Ok(Block {
                    norm1: pair(&format!("blocks.{i}.norm1"))?,
                    qkv: linear(pair(&format!("blocks.{i}.attn.qkv"))?),
                    proj: linear(pair(&format!("blocks.{i}.attn.proj"))?),
                    norm2: pair(&format!("blocks.{i}.norm2"))?,
                    fc1: linear(pair(&format!("blocks.{i}.mlp.fc1"))?),
                    fc2: linear(pair(&format!("blocks.{i}.mlp.fc2"))?),
                })
            })
            .collect::<Result<_>>()?;
        let (cls, position) = (get("cls_token".into())?, get("pos_embed".into())?);
        Ok(StockVit { config, patch, cls, position, blocks, norm, _variables: variables })
    }

    fn norm(&self, x: &Tensor, [weight, bias]: &[Tensor; 2]) -> Result<Tensor> {
        candle_nn::ops::layer_norm_slow(x, weight, bias, self.config.norm_eps as f32)
    }

    pub fn features(&self, pixels: &Tensor, prompts: &[Var]) -> Result<Tensor> {
        let VitConfig { patch, dim, .. } = self.config;
        let batch = pixels.dim(0)?;
        let [weight, bias] = &self.patch;
        let patches = pixels.conv2d(weight, 0, patch, 1, 1)?.flatten_from(2)?.transpose(1, 2)?;
        let patches = patches.broadcast_add(bias)?.contiguous()?;
        let cls = self.cls.broadcast_as((batch, 1, dim))?.contiguous()?;
        let mut x = Tensor::cat(&[cls, patches], 1)?.broadcast_add(&self.position)?;
        for (i, block) in self.blocks.iter().enumerate() {
            let packed = block.qkv.forward(&self.norm(&x, &block.norm1)?)?;
            let mixed = self.attention(&packed, prompts.get(i))?;
            x = (x + block.proj.forward(&mixed)?)?;
            let hidden = block.fc1.forward(&self.norm(&x, &block.norm2)?)?.gelu_erf()?;
            x = (x + block.fc2.forward(&hidden)?)?;
        }
        self.norm(&x.narrow(1, 0, 1)?.squeeze(1)?, &self.norm)
    }

    fn attention(&self, packed: &Tensor, prompt: Option<&Var>) -> Result<Tensor> {
        let (batch, tokens, _) = packed.dims3()?;
        let VitConfig { dim, heads, .. } = self.config;
        let head = dim / heads;
        let packed = packed.reshape((batch, tokens, 3, heads, head))?;
        let packed = packed.permute((2, 0, 3, 1, 4))?.contiguous()?;
        let (q, mut k, mut v) = (packed.get(0)?, packed.get(1)?, packed.get(2)?);
        if let Some(prompt) = prompt {
            let half = prompt.dim(0)? / 2;
            let expand = |from: usize| {
                let part = prompt.narrow(0, from, half)?.reshape((1, half, heads, head))?;
                let part = part.transpose(1, 2)?;
                part.broadcast_as((batch, heads, half, head))?.contiguous()
            };
            k = Tensor::cat(&[expand(0)?, k], 2)?.contiguous()?;
            v = Tensor::cat(&[expand(half)?, v], 2)?.contiguous()?;
        }
        let scores = (q.matmul(&k.t()?)? * (1.0 / (head as f64).sqrt()))?;
        let weights = candle_nn::ops::softmax(&scores, D::Minus1)?;
        weights.matmul(&v)?.transpose(1, 2)?.reshape((batch, tokens, dim))
    }
}
