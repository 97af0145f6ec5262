//! `vit_tiny_real*` and `vit_prefix`.

use candle_core::{D, Device, Tensor, Var};

use super::{cls, flat, gradient, labels, on_both_paths, prefixes, stored, tensor, trained_head};
use crate::data::{Image, Kernel, Normalization, Step, Transform, Workspace};
use crate::golden::{Golden, shared_data};
use crate::model::vit::{Checkpoint, Vit};
use crate::model::{Adaptation, LinearHead, ModelError, ops, testing};
use crate::numerics::streams::{Domain, StreamKey};

const WEIGHTS: &str = "weights/vit_tiny_patch16_224.safetensors";

fn vit(resolution: Option<usize>) -> Option<Vit> {
    let path = shared_data(WEIGHTS)?;
    let vit = Vit::load(&path, resolution, None).expect("the weights load");
    Some(vit.at(&testing::place()).expect("there is room"))
}

/// Returns all stored images through resizing steps, normalized to mean and deviation 0.5.
fn pixels(inputs: &Golden, steps: Vec<Step>) -> Tensor {
    let transform = Transform { steps, normalization: Normalization::Half, channels: None };
    let shape = inputs.shape("images_u8");
    let bytes = inputs.u8("images_u8");
    let key = StreamKey::new(0, Domain::Augment);
    let (mut workspace, mut values) = (Workspace::default(), Vec::new());
    let mut extents = [0; 3];
    for image in bytes.chunks_exact(shape[1..].iter().product()) {
        let image =
            Image { channels: shape[1], height: shape[2], width: shape[3], pixels: image.into() };
        extents = transform.apply(&image, key, &mut workspace, &mut values).expect("pixels");
    }
    tensor(values, &[shape[0], extents[0], extents[1], extents[2]])
}

fn resize(side: usize, kernel: Kernel) -> Step {
    Step::Resize { side, kernel }
}

#[test]
fn golden_vit_tiny_real_layers() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tiny_real") else { return Ok(()) };
    let Some(inputs) = Golden::open("vit_tiny_real_inputs") else { return Ok(()) };
    let Some(vit) = vit(None) else { return Ok(()) };
    let images = pixels(&inputs, vec![resize(224, Kernel::Torch)]);

    let rows = golden.shape("patch_tokens0")[0];
    let patches = vit.patch_tokens(&stored(&inputs, "pixels_torch"))?;
    golden.assert_close("patch_tokens0", &flat(&patches.get(0)?.narrow(0, 0, rows)?));

    let plain = Adaptation::none();
    let mut stream = vit.embed(&images)?;
    let mut after_blocks = Vec::new();
    for block in 0..vit.config().depth {
        stream = vit.advance(&stream, block..block + 1, &plain)?;
        after_blocks.extend(cls(&stream));
    }
    golden.assert_close("block_cls", &after_blocks);

    let tokens = vit.tokens(&images, &plain)?;
    let rows = golden.shape("tokens0")[0];
    golden.assert_close("tokens0", &flat(&tokens.get(0)?.narrow(0, 0, rows)?));
    golden.assert_close("feature", &cls(&tokens));
    let patches = tokens.narrow(1, 1, tokens.dim(1)? - 1)?;
    golden.assert_close("patch_mean", &flat(&patches.mean(D::Minus2)?));

    let features = vit.features(&images, &plain)?;
    golden.assert_close("feature", &flat(&features));
    let path = shared_data(WEIGHTS).expect("found before");
    let file = candle_core::safetensors::load(path, &Device::Cpu)?;
    let head = LinearHead { weight: file["head.weight"].clone(), bias: file["head.bias"].clone() };
    golden.assert_close("head_logits", &flat(&head.logits(&features)?));
    Ok(())
}

#[test]
fn golden_vit_tiny_real_preprocessed() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tiny_real") else { return Ok(()) };
    let Some(inputs) = Golden::open("vit_tiny_real_inputs") else { return Ok(()) };
    let Some(vit) = vit(None) else { return Ok(()) };
    let pillow = resize(224, Kernel::Pillow);
    for (name, steps) in [
        ("feature_pil", vec![pillow.clone()]),
        ("feature_aa", vec![resize(224, Kernel::Antialias)]),
        (
            "feature_protocol",
            vec![pillow, resize(256, Kernel::Antialias), Step::CenterCrop { side: 224 }],
        ),
    ] {
        let features = vit.features(&pixels(&inputs, steps), &Adaptation::none())?;
        golden.assert_close(name, &flat(&features));
    }
    Ok(())
}

#[test]
fn golden_vit_tiny_real_at_another_resolution() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_tiny_real") else { return Ok(()) };
    let Some(inputs) = Golden::open("vit_tiny_real_inputs") else { return Ok(()) };
    let Some(path) = shared_data(WEIGHTS) else { return Ok(()) };
    let side = 96;
    let resized = Checkpoint::read(&path, None)?.at_resolution(side)?;
    let positions = resized.parameters.get("pos_embed").expect("positions");
    golden.assert_close("pos_embed_96", &positions.values);

    let vit = Vit::load(&path, Some(side), None)?.at(&testing::place())?;
    let images = pixels(&inputs, vec![resize(side, Kernel::Torch)]);
    let features = vit.features(&images, &Adaptation::none())?;
    golden.assert_close("feature_96", &flat(&features));
    Ok(())
}

#[test]
fn golden_vit_prefix() -> Result<(), ModelError> {
    on_both_paths(vit_prefix)
}

fn vit_prefix() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("vit_prefix") else { return Ok(()) };
    let Some(inputs) = Golden::open("vit_tiny_real_inputs") else { return Ok(()) };
    let Some(vit) = vit(None) else { return Ok(()) };
    let images = pixels(&inputs, vec![resize(224, Kernel::Torch)]);
    let (labels, columns) = (labels(&golden), 10..20);
    let shape = golden.shape("grad_prompt");
    let (blocks, prompt) = (shape[0], &shape[1..]);
    let classes = golden.shape("logits")[1];

    let prompts = (0..blocks)
        .map(|j| {
            Var::from_tensor(&tensor(golden.fill(&format!("prompt.{j}"), prompt, 0.1), prompt))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let shape = [classes, vit.config().dim];
    let (weight, bias, head) = trained_head(
        tensor(golden.fill("head.weight", &shape, 0.05), &shape),
        tensor(golden.fill("head.bias", &[classes], 0.01), &[classes]),
    );

    let features = vit.features(&images, &Adaptation::prefixes(prefixes(&prompts)))?;
    golden.assert_close("feature", &flat(&features));
    let logits = head.logits(&features)?;
    golden.assert_close("logits", &flat(&logits));
    let loss = ops::cross_entropy(&logits, &labels, columns.clone())?;
    golden.assert_close("loss", &flat(&loss));

    let grads = loss.backward()?;
    let by_prompt: Vec<f32> = prompts.iter().flat_map(|p| gradient(&grads, p)).collect();
    golden.assert_close("grad_prompt", &by_prompt);
    let (by_weight, by_bias) = (gradient(&grads, &weight), gradient(&grads, &bias));
    let width = vit.config().dim;
    let current = columns.start * width..columns.end * width;
    golden.assert_close("grad_head_weight", &by_weight[current.clone()]);
    golden.assert_close("grad_head_bias", &by_bias[columns.clone()]);
    let outside = by_weight[..current.start].iter().chain(&by_weight[current.end..]);
    assert!(outside.chain(&by_bias[..columns.start]).all(|g| *g == 0.0));
    let all = by_prompt.iter().chain(&by_weight).chain(&by_bias);
    let norm = all.map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    golden.assert_close("grad_norm", &[norm]);

    let zeros = (0..blocks)
        .map(|_| Ok(Var::from_tensor(&tensor(vec![0.0; prompt.iter().product()], prompt))?))
        .collect::<Result<Vec<_>, ModelError>>()?;
    let features = vit.features(&images, &Adaptation::prefixes(prefixes(&zeros)))?;
    golden.assert_close("zero_feature", &flat(&features));
    let loss = ops::cross_entropy(&head.logits(&features)?, &labels, columns)?;
    golden.assert_close("zero_loss", &flat(&loss));
    Ok(())
}
