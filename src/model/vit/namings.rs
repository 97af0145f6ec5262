//! Small transformer in the names and layouts of every family. Written here by hand from what those programs save:
//! all of them must load to the same bits.

use candle_core::{Device, Tensor};

use super::{Checkpoint, Vit, VitConfig};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::model::{Adaptation, ModelError, to_safetensors};
use crate::numerics::streams::{Domain, StreamKey};

const HEADS: usize = 3;

fn config() -> VitConfig {
    VitConfig {
        image: 8,
        patch: 4,
        dim: 12,
        depth: 2,
        heads: HEADS,
        mlp: 20,
        ..VitConfig::default()
    }
}

fn parameters() -> ParameterSet {
    // Biases and norms that differ from place to place, so that no exchange goes unnoticed.
    let set = Vit::initial_parameters(&config(), StreamKey::new(1, Domain::Init));
    set.iter()
        .enumerate()
        .map(|(place, (name, parameter))| {
            let values = parameter.values.iter().enumerate();
            let values = values.map(|(at, value)| value + ((place * 31 + at) as f32).sin() * 0.05);
            let values = values.collect();
            (name.clone(), Parameter { shape: parameter.shape.clone(), values })
        })
        .collect()
}

/// Rows `part` of three of a fused projection.
fn third(parameter: &Parameter, part: usize) -> Parameter {
    let rows = parameter.rows() / 3;
    parameter.cut(part * rows..(part + 1) * rows).unwrap()
}

fn hugging_face(prefix: &str) -> ParameterSet {
    let mut set = ParameterSet::new();
    for (name, parameter) in parameters().iter() {
        let name = match &**name {
            "cls_token" => "embeddings.cls_token".to_owned(),
            "pos_embed" => "embeddings.position_embeddings".to_owned(),
            name if name.contains(".attn.qkv.") => {
                let (block, end) = name.split_once(".attn.qkv.").unwrap();
                let block = block.replace("blocks", "encoder.layer");
                for (part, word) in ["query", "key", "value"].into_iter().enumerate() {
                    let name = format!("{prefix}{block}.attention.attention.{word}.{end}");
                    set.insert(name, third(parameter, part));
                }
                continue;
            }
            name => name
                .replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
                .replace("blocks", "encoder.layer")
                .replace("norm1", "layernorm_before")
                .replace("norm2", "layernorm_after")
                .replace("attn.proj", "attention.output.dense")
                .replace("mlp.fc1", "intermediate.dense")
                .replace("mlp.fc2", "output.dense")
                .replace("norm.", "layernorm.")
                .replace("layerlayernorm", "layernorm"),
        };
        set.insert(format!("{prefix}{name}"), parameter.clone());
    }
    set
}

fn torchvision(perceptron: [&str; 2]) -> ParameterSet {
    let renamed = |name: &str| match name {
        "cls_token" => "class_token".to_owned(),
        "pos_embed" => "encoder.pos_embedding".to_owned(),
        "norm.weight" => "encoder.ln.weight".to_owned(),
        "norm.bias" => "encoder.ln.bias".to_owned(),
        name => name
            .replace("patch_embed.proj", "conv_proj")
            .replace("blocks.", "encoder.layers.encoder_layer_")
            .replace("norm1", "ln_1")
            .replace("norm2", "ln_2")
            .replace("attn.qkv.", "self_attention.in_proj_")
            .replace("attn.proj", "self_attention.out_proj")
            .replace("mlp.fc1", perceptron[0])
            .replace("mlp.fc2", perceptron[1]),
    };
    parameters().iter().map(|(name, parameter)| (renamed(name), parameter.clone())).collect()
}

fn reread(set: &ParameterSet) -> Result<Checkpoint, ModelError> {
    Checkpoint::from_bytes("model.safetensors", &to_safetensors(set).unwrap(), Some(HEADS))
}

fn prefixed(prefix: &str) -> ParameterSet {
    let named =
        |(name, p): (&std::sync::Arc<str>, &Parameter)| (format!("{prefix}{name}"), p.clone());
    parameters().iter().map(named).collect()
}

#[test]
fn every_naming_loads_to_the_same_bits() -> Result<(), ModelError> {
    let pixels: Vec<f32> = (0..192).map(|at| (at as f32 * 0.37).cos()).collect();
    let pixels = Tensor::from_vec(pixels, (1, 3, 8, 8), &Device::Cpu)?;
    let features = |checkpoint: Checkpoint| -> Result<Vec<f32>, ModelError> {
        let vit = Vit::from_checkpoint(checkpoint, None)?;
        Ok(vit.features(&pixels, &Adaptation::none())?.flatten_all()?.to_vec1()?)
    };
    let ours = features(reread(&parameters())?)?;
    for (family, mut set, head) in [
        ("Hugging Face", hugging_face(""), None),
        ("Hugging Face, with a head", hugging_face("vit."), Some("classifier.weight")),
        ("torchvision", torchvision(["mlp.0", "mlp.3"]), Some("heads.head.weight")),
        ("torchvision before 0.13", torchvision(["mlp.linear_1", "mlp.linear_2"]), None),
        ("parallel", prefixed("module."), Some("module.head.weight")),
        ("DINO", prefixed("teacher.backbone."), Some("teacher.head.mlp.0.weight")),
    ] {
        if let Some(head) = head {
            set.insert(head, Parameter { shape: vec![1], values: [f32::NAN].into() });
        }
        let read = reread(&set).unwrap_or_else(|error| panic!("{family}: {error}"));
        assert_eq!((&read.config, &read.parameters), (&config(), &parameters()), "{family}");
        assert_eq!(features(read)?, ours, "{family}");
    }
    Ok(())
}

/// Kernels with their inputs in front and heads as an axis, as `numpy.savez` keeps them.
#[test]
fn the_release_in_jax_loads_to_the_same_bits() {
    let (d, width) = (12, 4);
    let tensor = |parameter: &Parameter| parameter.tensor(&Device::Cpu).unwrap();
    let mut arrays: Vec<(String, Tensor)> = Vec::new();
    for (name, parameter) in parameters().iter() {
        let array = tensor(parameter);
        let block = name.split('.').nth(1).unwrap_or_default().to_owned();
        let inside = |rest: &str| format!("Transformer/encoderblock_{block}/{rest}");
        let matrix = |array: &Tensor| array.t().unwrap().contiguous().unwrap();
        let (name, array) = match &**name {
            "cls_token" => ("cls".to_owned(), array),
            "pos_embed" => ("Transformer/posembed_input/pos_embedding".to_owned(), array),
            "patch_embed.proj.weight" => {
                let kernel = array.permute((2, 3, 1, 0)).unwrap().contiguous().unwrap();
                ("embedding/kernel".to_owned(), kernel)
            }
            "patch_embed.proj.bias" => ("embedding/bias".to_owned(), array),
            "norm.weight" => ("Transformer/encoder_norm/scale".to_owned(), array),
            "norm.bias" => ("Transformer/encoder_norm/bias".to_owned(), array),
            name if name.contains("attn.qkv") => {
                for (part, word) in ["query", "key", "value"].into_iter().enumerate() {
                    let part = tensor(&third(parameter, part));
                    let head = inside(&format!("MultiHeadDotProductAttention_1/{word}"));
                    arrays.push(match name.ends_with("weight") {
                        true => (
                            format!("{head}/kernel"),
                            matrix(&part).reshape((d, HEADS, width)).unwrap(),
                        ),
                        false => (format!("{head}/bias"), part.reshape((HEADS, width)).unwrap()),
                    });
                }
                continue;
            }
            name if name.ends_with("attn.proj.weight") => {
                let kernel = matrix(&array).reshape((HEADS, width, d)).unwrap();
                (inside("MultiHeadDotProductAttention_1/out/kernel"), kernel)
            }
            name if name.ends_with("attn.proj.bias") => {
                (inside("MultiHeadDotProductAttention_1/out/bias"), array)
            }
            name if name.contains(".mlp.") => {
                let dense = usize::from(name.contains("fc2"));
                match name.ends_with("weight") {
                    true => (inside(&format!("MlpBlock_3/Dense_{dense}/kernel")), matrix(&array)),
                    false => (inside(&format!("MlpBlock_3/Dense_{dense}/bias")), array),
                }
            }
            name => {
                let norm = if name.contains("norm1") { 0 } else { 2 };
                let end = if name.ends_with("weight") { "scale" } else { "bias" };
                (inside(&format!("LayerNorm_{norm}/{end}")), array)
            }
        };
        arrays.push((name, array));
    }
    arrays.push((
        "head/kernel".to_owned(),
        Tensor::zeros((d, 5), candle_core::DType::F32, &Device::Cpu).unwrap(),
    ));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Ti_16.npz");
    Tensor::write_npz(&arrays, &path).unwrap();
    let read = Checkpoint::read(&path, Some(HEADS)).unwrap();
    assert_eq!((read.config, read.parameters), (config(), parameters()));
}

#[test]
fn what_a_plain_transformer_lacks_is_refused_by_name() {
    for (name, meaning) in [
        ("reg_token", "register tokens"),
        ("norm_pre.weight", "a norm before the blocks"),
        ("blocks.1.attn.q_norm.weight", "norms of queries and keys"),
        ("fc_norm.weight", "a norm behind averaged tokens"),
        ("something.else", "no place for"),
    ] {
        let mut set = parameters();
        set.insert(name, Parameter { shape: vec![12], values: [1.0; 12].into() });
        let error = reread(&set).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains(meaning), "{error}");
    }
}
