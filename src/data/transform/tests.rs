//! Golden vectors of preprocessing, and what the random steps promise.

use super::*;
use crate::data::Image;
use crate::golden::Golden;
use crate::numerics::streams::{Domain, StreamKey};

fn key(step: u64) -> StreamKey {
    StreamKey::new(3, Domain::Augment).step(step)
}

fn apply(transform: &Transform, image: &Image<'_>, step: u64) -> Vec<f32> {
    let mut out = Vec::new();
    transform.apply(image, key(step), &mut Workspace::default(), &mut out).unwrap();
    out
}

fn image(pixels: &[u8], shape: [usize; 3]) -> Image<'_> {
    Image { channels: shape[0], height: shape[1], width: shape[2], pixels: pixels.into() }
}

fn noise(shape: [usize; 3]) -> Vec<u8> {
    let mut rng = key(99).rng();
    (0..shape.iter().product()).map(|_| (rng.next_u32() >> 24) as u8).collect()
}

/// Returns the stored images `0..` that the pixels of `name` were made from, through `transform`.
fn preprocessed(golden: &Golden, name: &str, transform: &Transform) -> Vec<f32> {
    let bytes = golden.u8("images_u8");
    let stored = golden.shape("images_u8");
    let shape = [stored[1], stored[2], stored[3]];
    let size: usize = shape.iter().product();
    (0..golden.shape(name)[0])
        .flat_map(|i| apply(transform, &image(&bytes[i * size..(i + 1) * size], shape), 0))
        .collect()
}

fn resized(golden: &Golden, name: &str, kernel: Kernel, normalization: Normalization) -> Vec<f32> {
    let side = golden.shape(name)[2];
    let steps = vec![Step::Resize { side, kernel }];
    preprocessed(golden, name, &Transform { steps, normalization, channels: None })
}

#[test]
fn golden_bicubic_torch() {
    let Some(golden) = Golden::open("vit_tiny_real_inputs") else { return };
    let got = resized(&golden, "pixels_torch", Kernel::Torch, Normalization::Half);
    golden.assert_close("pixels_torch", &got);
}

#[test]
fn golden_bicubic_antialiased() {
    let Some(golden) = Golden::open("vit_tiny_real_inputs") else { return };
    let got = resized(&golden, "pixels_aa", Kernel::Antialias, Normalization::Half);
    golden.assert_close("pixels_aa", &got);
}

#[test]
fn golden_bicubic_pillow_is_exact() {
    let Some(golden) = Golden::open("vit_tiny_real_inputs") else { return };
    let got = resized(&golden, "pixels_pil_u8", Kernel::Pillow, Normalization::None);
    let bytes: Vec<u8> = got.iter().map(|v| (v * 255.0).round() as u8).collect();
    golden.assert_close("pixels_pil_u8", &bytes);
}

#[test]
fn the_workspace_never_changes_a_result() {
    let (large, small) = (noise([3, 40, 30]), noise([3, 21, 21]));
    let transform = Transform {
        steps: vec![
            Step::RandomResizedCrop {
                side: 16,
                scale: [0.1, 1.0],
                ratio: [0.75, 4.0 / 3.0],
                kernel: Kernel::Antialias,
            },
            Step::Flip { probability: 0.5 },
        ],
        normalization: Normalization::ImageNet,
        channels: None,
    };
    let mut workspace = Workspace::default();
    for step in 0..20 {
        for (pixels, shape) in [(&large, [3, 40, 30]), (&small, [3, 21, 21])] {
            let input = image(pixels, shape);
            let mut out = Vec::new();
            let got = transform.apply(&input, key(step), &mut workspace, &mut out).unwrap();
            assert_eq!(got, transform.output_shape(shape));
            assert_eq!(out, apply(&transform, &input, step));
        }
    }
}

#[test]
fn a_flip_mirrors_every_row_about_half_the_time() {
    let pixels: Vec<u8> = (0..12).collect();
    let input = image(&pixels, [2, 2, 3]);
    let flip = Transform { steps: vec![Step::Flip { probability: 0.5 }], ..Transform::default() };
    let mirrored: Vec<f32> =
        [2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9].iter().map(|&v| v as f32 / 255.0).collect();
    let straight = apply(&Transform::default(), &input, 0);
    let flips = (0..1_000).map(|step| apply(&flip, &input, step)).filter(|out| {
        assert!(*out == mirrored || *out == straight);
        *out == mirrored
    });
    let flips = flips.count();
    assert!((450..550).contains(&flips), "{flips}");
}

#[test]
fn a_padded_crop_shifts_the_image_over_black() {
    let input = image(&[255; 4], [1, 2, 2]);
    let crop =
        Transform { steps: vec![Step::RandomCrop { side: 2, padding: 1 }], ..Transform::default() };
    let mut sums = std::collections::BTreeSet::new();
    for step in 0..200 {
        sums.insert(apply(&crop, &input, step).iter().sum::<f32>() as u32);
    }
    // A corner, an edge or the whole image is left.
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn grey_repeats_and_wrong_channels_are_refused() {
    let gray = noise([1, 4, 4]);
    let to = |channels, normalization| Transform { steps: vec![], normalization, channels };
    let out = apply(&to(Some(3), Normalization::Half), &image(&gray, [1, 4, 4]), 0);
    assert_eq!(out[..16], out[16..32]);
    assert_eq!(out[..16], out[32..]);
    let color = noise([3, 4, 4]);
    let refused = |transform: Transform, input: Image<'_>| {
        let mut out = Vec::new();
        let made = transform.apply(&input, key(0), &mut Workspace::default(), &mut out);
        made.unwrap_err().to_string()
    };
    let message = refused(to(Some(4), Normalization::None), image(&color, [3, 4, 4]));
    assert!(
        message.contains("the network takes images of 4 channels, and these have 3 channels"),
        "{message}"
    );
    let message = refused(to(None, Normalization::ImageNet), image(&gray, [1, 4, 4]));
    assert!(message.contains("does not fit images of 1 channels"), "{message}");
    let crop = Transform { steps: vec![Step::CenterCrop { side: 5 }], ..Transform::default() };
    let message = refused(crop, image(&gray, [1, 4, 4]));
    assert!(message.contains("crop of 5 pixels does not fit an image of 4 x 4"), "{message}");
}

#[test]
fn the_shorter_side_rules() {
    let resize = Transform {
        steps: vec![Step::Resize { side: 10, kernel: Kernel::Pillow }],
        ..Transform::default()
    };
    assert_eq!(resize.output_shape([3, 20, 41]), [3, 10, 20]);
    assert_eq!(resize.output_shape([3, 41, 20]), [3, 20, 10]);
}

#[test]
fn a_squash_forgets_the_shape_and_a_resize_keeps_it() {
    let kernel = Kernel::Bilinear;
    let input = noise([3, 20, 41]);
    let squash =
        Transform { steps: vec![Step::Squash { side: 10, kernel }], ..Transform::default() };
    assert_eq!(squash.output_shape([3, 20, 41]), [3, 10, 10]);
    assert!(squash.is_deterministic());
    let squashed = apply(&squash, &image(&input, [3, 20, 41]), 0);
    assert_eq!(squashed.len(), 300);
    // The middle columns of a squashed image come from all of it, those of a crop from its middle.
    let kept = Transform {
        steps: vec![Step::Resize { side: 10, kernel }, Step::CenterCrop { side: 10 }],
        ..Transform::default()
    };
    let mut left = vec![0; 20 * 41];
    left.chunks_exact_mut(41).for_each(|row| row[..8].fill(255));
    let sum =
        |transform: &Transform| apply(transform, &image(&left, [1, 20, 41]), 0).iter().sum::<f32>();
    // 8 of 41 columns are white; the crop drops five columns of 20 at either side.
    assert!((sum(&squash) - 100.0 * 8.0 / 41.0).abs() < 1.0, "{}", sum(&squash));
    assert_eq!(sum(&kept), 0.0);
}

/// A mirror image draws nothing, so that what is computed of it can be kept.
#[test]
fn what_is_seen_in_a_mirror_is_every_row_of_what_comes_out_backwards() {
    let resize = Step::Resize { side: 4, kernel: Kernel::Bilinear };
    for steps in [vec![], vec![resize, Step::CenterCrop { side: 3 }]] {
        let straight =
            Transform { steps, normalization: Normalization::Half, ..Transform::default() };
        assert!(straight.mirrored().is_deterministic());
        let input = noise([2, 5, 7]);
        let width = straight.output_shape([2, 5, 7])[2];
        let mut rows = apply(&straight, &image(&input, [2, 5, 7]), 0);
        rows.chunks_mut(width).for_each(<[f32]>::reverse);
        assert_eq!(apply(&straight.mirrored(), &image(&input, [2, 5, 7]), 0), rows);
    }
}

#[test]
fn jitter_comes_after_the_flip_and_moves_none_of_its_draws() {
    let jitter = Step::Jitter(Jitter { brightness: 0.5, ..Jitter::default() });
    let flip = Step::Flip { probability: 0.5 };
    let make = |steps| Transform { steps, ..Transform::default() };
    let (plain, moved) = (make(vec![flip.clone()]), make(vec![flip, jitter]));
    assert!(!moved.is_deterministic());
    let pixels = [40, 200, 120, 80];
    let mut factors = Vec::new();
    for step in 0..200 {
        let (before, after) = (
            apply(&plain, &image(&pixels, [1, 1, 4]), step),
            apply(&moved, &image(&pixels, [1, 1, 4]), step),
        );
        // 80 cannot leave the bytes at a factor of 1.5 at most, so that it reveals the factor.
        let place = before.iter().position(|v| *v == 80.0 / 255.0).unwrap();
        let factor = after[place] * 255.0 / 80.0;
        for (before, after) in before.iter().zip(&after) {
            let expected = (before * factor).min(1.0);
            assert!((after - expected).abs() < 4.0 / 255.0, "{step}: {before} {after} {factor}");
        }
        factors.push(factor);
    }
    assert!(factors.iter().all(|f| (0.48..=1.5).contains(f)));
    let mean = factors.iter().sum::<f32>() / 200.0;
    assert!((0.93..1.07).contains(&mean), "{mean}");
    assert!(factors.iter().any(|f| *f < 0.6) && factors.iter().any(|f| *f > 1.4));
}
