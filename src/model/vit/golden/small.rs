//! `vit_tokens`: the plain and prefix parts, and HGP's client step in small.

use candle_core::{Tensor, Var};

use super::{cls, flat, gradient, labels, on_both_paths, prefixes, stored, tensor, trained_head};
use crate::golden::{Golden, Wave};
use crate::model::vit::{Vit, VitConfig};
use crate::model::{
    Adaptation, Adapter, AdapterShape, CosineHead, LinearHead, ModelError, Parameter, Pooling,
    PromptPosition, PromptTokens, adapters_of, ops, testing,
};
use crate::numerics::streams::{Domain, StreamKey};

const COLUMNS: std::ops::Range<usize> = 4..8;

fn config() -> VitConfig {
    let default = VitConfig::default();
    VitConfig { image: 32, patch: 8, dim: 48, depth: 4, heads: 3, mlp: 192, ..default }
}

/// Returns the small ViT of the README, which several files share.
pub(crate) fn small_vit(golden: &Golden) -> Vit {
    vit(golden, Wave::Chirp, 1.0)
}

/// Returns the small ViT of the README; `embedding` scales CLS, positions and patch embedding.
fn vit(golden: &Golden, wave: Wave, embedding: f64) -> Vit {
    let fill = |name: &str, shape: Vec<usize>| {
        let scale = |w: f64| match name {
            "cls_token" | "pos_embed" => 0.5 * embedding * w,
            _ if name.contains("norm") && name.ends_with(".weight") => 1.0 + 0.1 * w,
            "patch_embed.proj.bias" => 0.05 * embedding * w,
            "patch_embed.proj.weight" => 0.2 * embedding * w,
            _ if name.ends_with(".bias") => 0.05 * w,
            _ => 0.2 * w,
        };
        Parameter { values: golden.map_wave(wave, name, &shape, scale).into(), shape }
    };
    let parameters = config()
        .parameter_shapes()
        .into_iter()
        .map(|(name, shape)| {
            let parameter = fill(&name, shape);
            (name, parameter)
        })
        .collect();
    Vit::frozen_at(config(), &parameters, &testing::place()).expect("every parameter is filled")
}

fn head(golden: &Golden) -> (Var, Var, LinearHead) {
    let classes = golden.shape("plain.logits")[1];
    let shape = [classes, config().dim];
    trained_head(
        tensor(golden.fill("head.weight", &shape, 0.2), &shape),
        tensor(golden.fill("head.bias", &[classes], 0.05), &[classes]),
    )
}

fn prompts(fill: impl Fn(usize, &[usize]) -> Vec<f32>, shape: &[usize]) -> Vec<Var> {
    (0..shape[0])
        .map(|j| Var::from_tensor(&tensor(fill(j, &shape[1..]), &shape[1..])).expect("a variable"))
        .collect()
}

fn loss(
    vit: &Vit,
    head: &LinearHead,
    prompts: &[Var],
    golden: &Golden,
) -> Result<(Tensor, Tensor), ModelError> {
    let adaptation = Adaptation::prefixes(prefixes(prompts));
    let features = vit.features(&stored(golden, "x"), &adaptation)?;
    let loss = ops::cross_entropy(&head.logits(&features)?, &labels(golden), COLUMNS)?;
    Ok((features, loss))
}

#[test]
fn golden_vit_tokens_plain() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_plain)
}

fn vit_tokens_plain() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let (vit, x, plain) =
        (vit(&golden, Wave::Chirp, 1.0), stored(&golden, "x"), Adaptation::none());
    golden.assert_close("plain.tokens", &flat(&vit.tokens(&x, &plain)?));
    let (mut stream, mut after_blocks) = (vit.embed(&x)?, Vec::new());
    for block in 0..vit.config().depth {
        stream = vit.advance(&stream, block..block + 1, &plain)?;
        after_blocks.extend(cls(&stream));
    }
    golden.assert_close("plain.block_cls", &after_blocks);
    let (_, _, head) = head(&golden);
    golden.assert_close("plain.logits", &flat(&head.logits(&vit.features(&x, &plain)?)?));
    Ok(())
}

#[test]
fn golden_vit_tokens_sine_and_eps() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_sine_and_eps)
}

fn vit_tokens_sine_and_eps() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let (x, plain) = (stored(&golden, "x"), Adaptation::none());
    let sine = vit(&golden, Wave::Sine, 1.0).features(&x, &plain)?;
    golden.assert_close("sine.feature", &flat(&sine));
    let faint = vit(&golden, Wave::Chirp, 1e-3);
    let stream = faint.advance(&faint.embed(&x)?, 0..1, &plain)?;
    golden.assert_close("eps.cls_block0", &cls(&stream));
    Ok(())
}

#[test]
fn golden_vit_tokens_prefix() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_prefix)
}

fn vit_tokens_prefix() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let vit = vit(&golden, Wave::Chirp, 1.0);
    let (_, _, head) = head(&golden);
    let name = |j: usize| format!("prefix.{j}");
    let prompts =
        prompts(|j, shape| golden.fill(&name(j), shape, 0.5), &golden.shape("prefix.grad"));
    let (features, loss) = loss(&vit, &head, &prompts, &golden)?;
    golden.assert_close("prefix.feature", &flat(&features));
    golden.assert_close("prefix.loss", &flat(&loss));
    let grads = loss.backward()?;
    let by_prompt: Vec<f32> = prompts.iter().flat_map(|p| gradient(&grads, p)).collect();
    golden.assert_close("prefix.grad", &by_prompt);
    Ok(())
}

/// Prompt tokens behind CLS, with each kind of positions.
#[test]
fn golden_vit_tokens_inserted() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_inserted)
}

fn vit_tokens_inserted() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let (vit, x) = (vit(&golden, Wave::Chirp, 1.0), stored(&golden, "x"));
    let filled = |name: &str, scale: f64| tensor(golden.fill(name, &[6, 48], scale), &[6, 48]);
    let tokens = filled("tokens", 0.5).broadcast_as((x.dim(0)?, 6, 48))?.contiguous()?;
    let offsets = tensor(golden.fill("offsets", &[1, 6, 48], 0.02), &[6, 48]);
    let kinds = [
        ("tokens.cls_copy", PromptPosition::ClsCopy),
        ("tokens.misordered", PromptPosition::Misordered(offsets)),
        ("tokens.none", PromptPosition::None),
    ];
    for (name, position) in kinds {
        let prompts = PromptTokens { tokens: tokens.clone(), position, pooling: Pooling::Cls };
        let pooled = |pooling| {
            let tokens = PromptTokens { pooling, ..prompts.clone() };
            vit.features(&x, &Adaptation { tokens: Some(tokens), ..Adaptation::none() })
        };
        let adaptation = Adaptation { tokens: Some(prompts.clone()), ..Adaptation::none() };
        let outputs = vit.tokens(&x, &adaptation)?.narrow(1, 0, 7)?;
        golden.assert_close(name, &flat(&outputs));
        // Features are made of these outputs.
        let (first, prompts) = (outputs.narrow(1, 0, 1)?, outputs.narrow(1, 1, 6)?);
        for (pooling, expected) in [
            (Pooling::Cls, first.squeeze(1)?),
            (Pooling::ClsAndPrompts, outputs.mean(1)?),
            (Pooling::Prompts, prompts.mean(1)?),
        ] {
            let (found, expected) = (flat(&pooled(pooling)?), flat(&expected));
            let near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(near, "{name}, {pooling:?}");
        }
    }
    Ok(())
}

/// Tokens that join the input of a block: behind everything, which is what the file has in front of it.
#[test]
fn golden_vit_tokens_of_blocks() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_of_blocks)
}

fn vit_tokens_of_blocks() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let (vit, x) = (vit(&golden, Wave::Chirp, 1.0), stored(&golden, "x"));
    let tokens = |name: &str| -> Result<Option<Tensor>, ModelError> {
        let tokens = tensor(golden.fill(name, &[3, 48], 0.5), &[3, 48]);
        Ok(Some(tokens.broadcast_as((x.dim(0)?, 3, 48))?.contiguous()?))
    };
    let features = |block_tokens: Vec<Option<Tensor>>| {
        let adaptation = Adaptation { block_tokens, ..Adaptation::none() };
        let first = adaptation.first_adapted_block().unwrap_or_default();
        let below = vit.advance(&vit.embed(&x)?, 0..first, &Adaptation::none())?;
        let found = flat(&vit.features(&x, &adaptation)?);
        assert_eq!(found, flat(&vit.features_from(&below, first, &adaptation)?));
        Ok::<_, ModelError>(found)
    };
    golden.assert_close("append.feature", &features(vec![tokens("append")?])?);
    let blocks = vec![None, tokens("block_tokens.1")?, tokens("block_tokens.2")?];
    golden.assert_close("block_tokens.feature", &features(blocks)?);
    // No token is none.
    let empty = Tensor::zeros((x.dim(0)?, 0, 48), x.dtype(), x.device())?;
    let plain = flat(&vit.features(&x, &Adaptation::none())?);
    assert_eq!(features(vec![None, Some(empty)])?, plain);
    Ok(())
}

/// Adapters parallel to the perceptron, and the cosine head of STSA's first stage.
#[test]
fn golden_adapter_parallel() -> Result<(), ModelError> {
    let (Some(golden), Some(images)) = (Golden::open("adapter"), Golden::open("vit_tokens")) else {
        return Ok(());
    };
    let vit = vit(&images, Wave::Chirp, 1.0);
    let variable = |name: &str, shape: &[usize], scale: f64| {
        Var::from_tensor(&tensor(golden.fill(name, shape, scale), shape)).expect("a variable")
    };
    let parts = [("down.weight", 0.2), ("down.bias", 0.05), ("up.weight", 0.2), ("up.bias", 0.05)];
    // By part, then by block.
    let trained: Vec<Vec<Var>> = parts
        .iter()
        .map(|(part, scale)| {
            let shape = golden.shape(&format!("parallel.grad.{part}"));
            let of_block = |j| variable(&format!("adapter.{j}.{part}"), &shape[1..], *scale);
            (0..shape[0]).map(of_block).collect()
        })
        .collect();
    let of_block = |j: usize| {
        let [down_weight, down_bias, up_weight, up_bias] =
            [0, 1, 2, 3].map(|part: usize| trained[part][j].as_tensor().clone());
        Adapter { down_weight, down_bias, up_weight, up_bias }
    };
    let adapters = (0..vit.config().depth).map(of_block).collect();
    let adaptation = Adaptation { adapters, ..Adaptation::none() };
    let weight = variable("cosine.weight", &golden.shape("parallel.grad.cosine.weight"), 0.2);
    let sigma = Var::from_tensor(&tensor(vec![1.5], &[]))?;
    let head = CosineHead { weight: weight.as_tensor().clone(), sigma: sigma.as_tensor().clone() };

    let features = vit.features(&stored(&images, "x"), &adaptation)?;
    golden.assert_close("parallel.feature", &flat(&features));
    let logits = head.logits(&features)?;
    golden.assert_close("parallel.logits", &flat(&logits));
    let labels: Vec<u32> = labels(&images).iter().map(|y| y - COLUMNS.start as u32).collect();
    let loss = ops::cross_entropy(&logits, &labels, 0..COLUMNS.len())?;
    golden.assert_close("parallel.loss", &flat(&loss));
    let grads = loss.backward()?;
    golden.assert_close("parallel.grad.cosine.weight", &gradient(&grads, &weight));
    golden.assert_close("parallel.grad.sigma", &gradient(&grads, &sigma));
    for ((part, _), variables) in parts.iter().zip(&trained) {
        let stacked: Vec<f32> = variables.iter().flat_map(|v| gradient(&grads, v)).collect();
        golden.assert_close(&format!("parallel.grad.{part}"), &stacked);
    }
    Ok(())
}

/// STSA card, invariant 7: a fresh adapter leaves the output as it is.
#[test]
fn fresh_adapters_change_nothing() -> Result<(), ModelError> {
    let key = StreamKey::new(1, Domain::Init);
    let weights = Vit::initial_parameters(&config(), key);
    let vit = Vit::frozen_at(config(), &weights, &testing::place())?;
    let shape = AdapterShape { blocks: 4, dim: 48, bottleneck: 8 };
    let set = shape.initial_parameters(key);
    let tensor_of = |name: &str| Some(set.get(name)?.tensor(&testing::device()));
    let adaptation = Adaptation { adapters: adapters_of(tensor_of)?, ..Adaptation::none() };
    assert_eq!((adaptation.adapters.len(), adaptation.first_adapted_block()), (4, Some(0)));
    let x = tensor((0..2 * 3 * 1024).map(|i| (i as f32 * 0.7).sin()).collect(), &[2, 3, 32, 32]);
    let plain = vit.features(&x, &Adaptation::none())?;
    assert_eq!(flat(&vit.features(&x, &adaptation)?), flat(&plain));
    Ok(())
}

/// Five AdamW steps with clipping, written out here so that a failure points at the network.
#[test]
fn golden_vit_tokens_train() -> Result<(), ModelError> {
    on_both_paths(vit_tokens_train)
}

fn vit_tokens_train() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tokens") else { return Ok(()) };
    let vit = vit(&golden, Wave::Chirp, 1.0);
    let (weight, bias, head) = head(&golden);
    let shape = golden.shape("train.prefix");
    let prompts = prompts(|_, shape| vec![0.0; shape.iter().product()], &shape);
    let trained: Vec<&Var> = prompts.iter().chain([&weight, &bias]).collect();
    let mut moments: Vec<[Vec<f64>; 2]> =
        trained.iter().map(|v| [(); 2].map(|()| vec![0f64; v.elem_count()])).collect();
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for step in 1..=golden.shape("train.norms")[0] as i32 {
        let (_, loss) = loss(&vit, &head, &prompts, &golden)?;
        losses.extend(flat(&loss));
        let grads = loss.backward()?;
        let gradients: Vec<Vec<f32>> = trained.iter().map(|v| gradient(&grads, v)).collect();
        let norm = gradients.iter().flatten().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        norms.push(norm);
        let clip = (1.0 / (norm + 1e-6)).min(1.0);
        for ((variable, gradient), [first, second]) in
            trained.iter().zip(&gradients).zip(&mut moments)
        {
            let mut values = flat(variable);
            for (i, value) in values.iter_mut().enumerate() {
                let g = clip * f64::from(gradient[i]);
                first[i] = 0.9 * first[i] + 0.1 * g;
                second[i] = 0.999 * second[i] + 0.001 * g * g;
                let (m, v) =
                    (first[i] / (1.0 - 0.9f64.powi(step)), second[i] / (1.0 - 0.999f64.powi(step)));
                *value = (f64::from(*value) - 3e-3 * m / (v.sqrt() + 1e-8)) as f32;
            }
            variable.set(&tensor(values, variable.dims()))?;
        }
    }
    let (features, loss) = loss(&vit, &head, &prompts, &golden)?;
    losses.extend(flat(&loss));
    golden.assert_close("train.losses", &losses);
    golden.assert_close("train.norms", &norms);
    golden.assert_close("train.prefix", &prompts.iter().flat_map(|p| flat(p)).collect::<Vec<_>>());
    golden
        .assert_close("train.head_weight", &flat(&weight.narrow(0, COLUMNS.start, COLUMNS.len())?));
    golden.assert_close("train.logits", &flat(&head.logits(&features)?));
    Ok(())
}
