//! Networks, and the differentiable kernels that they consist of.
//!
//! * [`ops`]: kernels with their own backward pass;
//! * [`Backbone`]: feature extractor of any kind, from a transformer to no network at all;
//! * [`Vit`]: the one vision transformer, frozen or trained, with timm's parameters, with an [`Adaptation`] (prefix
//!   keys and values, adapters per block) given as plain tensors;
//! * [`ResNet`]: residual networks for small images, trained from scratch, with their own batch norm;
//! * [`Bert`]: an encoder of token sequences, frozen only;
//! * [`DeepResNet`]: ResNet-50 and ResNet-152 with pretrained weights, frozen only;
//! * [`LinearHead`] and [`CosineHead`]: the classifiers on top of the features;
//! * [`ImageGenerator`]: images from noise, for methods that replay without data;
//! * [`AcGan`]: a generator of images of given classes and a discriminator that classifies;
//! * [`ParameterSet`]: named parameters outside of networks, for messages, checkpoints and digests. Tensors never move
//!   between threads, parameter sets do.
//!
//! ```
//! use fedcast::model::{Adaptation, LinearHead, Vit, VitConfig};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! use candle_core::{DType, Device, Tensor};
//! # fn main() -> Result<(), fedcast::model::ModelError> {
//! let config = VitConfig { image: 16, patch: 4, dim: 32, depth: 2, heads: 2, mlp: 64, ..VitConfig::default() };
//! let key = StreamKey::new(1, Domain::Init);
//! let vit = Vit::from_parameters(config, &Vit::initial_parameters(&config, key))?;
//! let pixels = Tensor::zeros((5, 3, 16, 16), DType::F32, &Device::Cpu)?;
//! let features = vit.features(&pixels, &Adaptation::none())?; // (5, 32)
//! let logits = LinearHead::zeros(10, 32)?.logits(&features)?; // (5, 10)
//! assert_eq!(logits.dims(), [5, 10]);
//! # Ok(())
//! # }
//! ```

pub(crate) mod acgan;
mod adaptation;
mod adapter;
mod adjustment;
mod backbone;
pub mod bert;
mod class_head;
mod cosine_head;
#[cfg(feature = "cuda")]
#[allow(unsafe_code)]
mod cuda;
pub mod deep_resnet;
mod device;
mod device_spec;
mod embedded;
mod error;
pub(crate) mod footprint;
mod from_scenario;
mod frozen;
mod frozen_weights;
pub(crate) mod generator;
mod gpu_memory;
mod head;
mod input_hook;
mod lora;
mod mapping;
mod norm;
mod parameters;
mod prompt_tokens;
pub mod prompts;
mod prototype_head;
pub(crate) mod resnet;
#[cfg(test)]
pub(crate) mod testing;
pub mod vit;
mod weights_file;
mod weights_report;

pub use fedcast_kernels::ops;

pub use acgan::{
    AcDiscriminator, AcGan, AcGanConfig, AcGenerator, GENERATOR, GanAnswer, GanDropout, GanForm,
    of_generator,
};
pub use adaptation::{Adaptation, Prefix};
pub use adapter::{Adapter, AdapterShape, Dropout, MaskPlace, adapters_of, is_adapter};
pub(crate) use adjustment::{Adjustment, ByBatch, Drops, Trains, of_module};
pub use adjustment::{BatchNormMode, ModuleShape, NetworkShape, Residual, TeacherBatchNormMode};
pub use backbone::{Backbone, BackboneConfig, PixelShape};
pub use bert::{Bert, BertConfig};
pub use class_head::{ClassHead, HeadKind, HeadShape};
pub use cosine_head::CosineHead;
pub use deep_resnet::{DeepResNet, DeepResNetConfig};
pub use device::{DeviceError, is_out_of_memory};
pub use device_spec::DeviceSpec;
pub use embedded::{EMBEDDED_CONFIG, embedded_vit};
pub use error::ModelError;
pub use from_scenario::backbone_config;
pub use frozen::{FROZEN_BATCH, FrozenPart, in_frozen_batches};
pub use generator::{GeneratorForm, ImageGenerator, ImageGeneratorConfig, LabelNoise};
pub use gpu_memory::{GpuMemory, peak_gpu_memory_mb};
pub use head::{HeadStart, LinearHead};
pub use input_hook::{InputHook, LinearLayer};
pub use lora::{
    Factor, LoraBlock, LoraPair, LoraPlace, LoraShape, is_lora, lora_name, lora_pairs, loras_of,
};
pub(crate) use mapping::Mapping;
pub use mapping::MappingPlace;
#[cfg(test)]
pub(crate) use norm::NORM_EPS;
pub(crate) use norm::Norm;
pub use norm::NormInput;
#[cfg(test)]
pub(crate) use norm::RunningMoments;
pub use parameters::{Parameter, ParameterSet, Variables};
pub use prompt_tokens::{Pooling, PromptPosition, PromptTokens};
pub use prototype_head::PrototypeHead;
pub use resnet::{ResNet, ResNetConfig, Stem, is_buffer};
pub use vit::{Vit, VitConfig};
pub use weights_file::{WeightsSource, to_safetensors};
pub use weights_report::{WeightsReport, inspect_weights};
