//! Every op of this module, on a device as GPUs are: composed, in `f32` and in `bf16`, each
//! gradient present, finite and that of the kernel. Where `FEDCAST_TEST_DEVICE` names a GPU, the
//! composed side runs there.

use candle_core::{DType, Result, Tensor};

use super::testing::{agrees_at, draw, pass};
use super::*;
use crate::vectors::Vectors;

const LABELS: [u32; 4] = [3, 5, 4, 3];

/// An op as a function of nothing but its operands.
type Op = fn(&[Tensor]) -> Result<Tensor>;

fn groups() -> SampleGroups {
    SampleGroups::new([1, 0, 3])
}

fn normalized(t: &[Tensor]) -> Result<Tensor> {
    let own = channel_moments(&t[0])?;
    let affine = ChannelAffine { weight: &t[1], bias: &t[2], eps: 1e-5 };
    batch_norm(&t[0], affine, BatchNormStatistics::Batch(&own), t.get(3), false)
}

/// Name, shapes of the operands, and the op; one line per public op.
fn all() -> Vec<(&'static str, Vec<Vec<usize>>, Op)> {
    let image = vec![2, 4, 5, 3];
    vec![
        ("linear", vec![vec![4, 2, 7], vec![3, 7], vec![3]], |t| linear(&t[0], &t[1], Some(&t[2]))),
        ("grouped_linear", vec![vec![4, 2, 7], vec![3, 3, 7], vec![3, 3]], |t| {
            grouped_linear(&t[0], &t[1], Some(&t[2]), &groups())
        }),
        ("layer_norm", vec![vec![4, 6], vec![6], vec![6]], |t| {
            layer_norm(&t[0], &t[1], &t[2], 1e-6)
        }),
        ("linear_at", vec![vec![4, 2, 7], vec![3, 7], vec![3]], |t| {
            linear_at(Precision::F32, &t[0], &t[1], Some(&t[2]))
        }),
        ("grouped_linear_at", vec![vec![4, 2, 7], vec![3, 3, 7], vec![3, 3]], |t| {
            grouped_linear_at(Precision::F32, &t[0], &t[1], Some(&t[2]), &groups())
        }),
        ("gelu", vec![vec![4, 6]], |t| gelu(&t[0])),
        ("quick_gelu", vec![vec![4, 6]], |t| quick_gelu(&t[0])),
        ("relu", vec![vec![4, 6]], |t| relu(&t[0])),
        ("leaky_relu", vec![vec![4, 6]], |t| leaky_relu(&t[0], 0.2)),
        ("tanh", vec![vec![4, 6]], |t| tanh(&t[0])),
        ("sigmoid", vec![vec![4, 6]], |t| sigmoid(&t[0])),
        ("upsample", vec![image.clone()], |t| upsample(&t[0])),
        ("differentiable_moments", vec![image.clone()], |t| differentiable_moments(&t[0])),
        ("attention", vec![vec![2, 5, 24], vec![3, 8], vec![3, 8]], |t| {
            attention(&t[0], 2, Some((&t[1], &t[2])), 5)
        }),
        ("attention_at", vec![vec![2, 5, 24], vec![3, 8], vec![3, 8]], |t| {
            attention_at(Precision::F32, &t[0], 2, Some((&t[1], &t[2])), 5)
        }),
        ("grouped_attention_at", vec![vec![4, 5, 24], vec![3, 3, 8], vec![3, 3, 8]], |t| {
            grouped_attention_at(Precision::F32, &t[0], 2, Some((&t[1], &t[2])), 5, &groups())
        }),
        // The halves of stacked prompts: strided operands.
        ("grouped_attention", vec![vec![4, 5, 24], vec![3, 6, 8]], |t| {
            let (keys, values) = (t[1].narrow(1, 0, 3)?, t[1].narrow(1, 3, 3)?);
            grouped_attention(&t[0], 2, Some((&keys, &values)), 5, &groups())
        }),
        ("conv2d", vec![image.clone(), vec![4, 3, 3, 3]], |t| conv2d(&t[0], &t[1], 2, 1)),
        ("conv_transpose2d", vec![image.clone(), vec![3, 2, 4, 4]], |t| {
            conv_transpose2d(&t[0], &t[1], 2, 1)
        }),
        ("max_pool", vec![image.clone()], |t| max_pool(&t[0], 3, 2, 1)),
        ("channel_moments", vec![image.clone(), vec![3], vec![3]], normalized),
        ("batch_norm", vec![image.clone(), vec![3], vec![3], image], normalized),
        ("cross_entropy", vec![vec![4, 9]], |t| cross_entropy(&t[0], &LABELS, 3..7)),
        ("grouped_cross_entropy", vec![vec![4, 9]], |t| {
            grouped_cross_entropy(&t[0], &LABELS, 3..7, &groups())
        }),
        ("softmax", vec![vec![4, 6]], |t| softmax(&t[0])),
        ("exp", vec![vec![4, 6]], |t| exp(&t[0])),
        ("log", vec![vec![4, 6]], |t| log(&(t[0].sqr()? + 0.5)?)),
        ("sum", vec![vec![4, 2, 7]], |t| sum(&t[0].sqr()?, 2)),
        ("mean", vec![vec![4, 2, 7]], |t| mean(&t[0].sqr()?, 1)),
        ("sum_all", vec![vec![4, 2, 7]], |t| sum_all(&t[0].sqr()?)),
        ("mean_all", vec![vec![4, 2, 7]], |t| mean_all(&t[0].sqr()?)),
        ("add_columns", vec![vec![4, 2, 7], vec![4, 2, 3]], |t| add_columns(&t[0], &t[1], 2)),
        ("unit_rows", vec![vec![4, 2, 7]], |t| unit_rows(&t[0])),
        ("scale_rows", vec![vec![4, 6], vec![4]], |t| scale_rows(&t[0], &t[1])),
        ("shift_rows", vec![vec![4, 6], vec![4]], |t| shift_rows(&t[0], &t[1])),
    ]
}

#[test]
fn every_op_has_a_path_on_any_device_that_differentiates() {
    for (name, shapes, op) in all() {
        println!("{name}");
        let named = shapes.into_iter().zip(["x", "w", "b", "r"]);
        let operands: Vec<Tensor> = named.map(|(shape, name)| draw(name, shape)).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let device = super::testing::device();
        agrees_at(&device, DType::F32, &operands, op);
        agrees_at(&device, DType::BF16, &operands, op);
    }
}

/// Values and gradients have the same bits in vectors of every width, with rows that fill no vector.
#[test]
fn the_width_of_vectors_never_shows() {
    let wide: [(&str, Vec<Vec<usize>>, Op); 19] = [
        ("linear", vec![vec![19, 37], vec![45, 37], vec![45]], |t| {
            linear(&t[0], &t[1], Some(&t[2]))
        }),
        ("gelu", vec![vec![3, 701]], |t| gelu(&t[0])),
        ("quick_gelu", vec![vec![3, 701]], |t| quick_gelu(&t[0])),
        ("relu", vec![vec![3, 701]], |t| relu(&t[0])),
        ("leaky_relu", vec![vec![3, 701]], |t| leaky_relu(&t[0], 0.2)),
        ("tanh", vec![vec![3, 701]], |t| tanh(&t[0])),
        ("sigmoid", vec![vec![3, 701]], |t| sigmoid(&t[0])),
        ("differentiable_moments", vec![vec![301, 37]], |t| differentiable_moments(&t[0])),
        ("layer_norm", vec![vec![5, 83], vec![83], vec![83]], |t| {
            layer_norm(&t[0], &t[1], &t[2], 1e-6)
        }),
        ("attention", vec![vec![2, 37, 24], vec![9, 8], vec![9, 8]], |t| {
            attention(&t[0], 2, Some((&t[1], &t[2])), 37)
        }),
        ("cross_entropy", vec![vec![4, 99]], |t| cross_entropy(&t[0], &LABELS, 1..98)),
        ("linear_at", vec![vec![19, 37], vec![45, 37], vec![45]], |t| {
            linear_at(Precision::Bf16, &t[0], &t[1], Some(&t[2]))
        }),
        ("attention_at", vec![vec![2, 37, 24], vec![9, 8], vec![9, 8]], |t| {
            attention_at(Precision::Bf16, &t[0], 2, Some((&t[1], &t[2])), 37)
        }),
        ("softmax", vec![vec![5, 83]], |t| softmax(&t[0])),
        ("sum", vec![vec![5, 83]], |t| sum(&t[0].sqr()?, 1)),
        ("mean over rows", vec![vec![3, 83, 37]], |t| mean(&t[0].sqr()?, 1)),
        ("unit_rows", vec![vec![5, 83]], |t| unit_rows(&t[0])),
        ("scale_rows", vec![vec![5, 83], vec![5]], |t| scale_rows(&t[0], &t[1])),
        ("shift_rows", vec![vec![5, 83], vec![5]], |t| shift_rows(&t[0], &t[1])),
    ];
    for (name, shapes, op) in wide.into_iter().chain(all()) {
        let named = shapes.into_iter().zip(["x", "w", "b", "r"]);
        let operands: Vec<Tensor> = named.map(|(shape, name)| draw(name, shape)).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let at = |vectors: Vectors| vectors.limit(|| pass(&operands, DType::F32, op).bits());
        for vectors in Vectors::ALL {
            assert!(at(vectors) == at(Vectors::Baseline), "{name} in {vectors:?}");
        }
    }
}

/// Products in `bf16` agree with those in `f32` up to the rounding of the factors.
///
/// Gradients do, too.
#[test]
fn products_in_bf16_agree_with_those_in_f32() {
    let (x, w, b) = (draw("x", (19, 37)), draw("w", (45, 37)), draw("b", 45));
    let linear = |precision| {
        pass(&[&x, &w, &b], DType::F32, |t| linear_at(precision, &t[0], &t[1], Some(&t[2])))
    };
    let (packed, keys, values) = (draw("x", (2, 37, 24)), draw("w", (9, 8)), draw("b", (9, 8)));
    let attention = |precision| {
        pass(&[&packed, &keys, &values], DType::F32, |t| {
            attention_at(precision, &t[0], 2, Some((&t[1], &t[2])), 37)
        })
    };
    for (half, full) in [
        (linear(Precision::Bf16), linear(Precision::F32)),
        (attention(Precision::Bf16), attention(Precision::F32)),
    ] {
        half.assert_close(&full, 0.02);
        assert!(half.bits() != full.bits(), "the precision is not that of f32");
    }
}

/// The list above is complete: a new op must enter it.
#[test]
fn the_list_names_every_public_op() {
    // These give nothing where no kernel of ours serves: `conv_norm.rs`, `frozen/tests.rs`, `trained/tests.rs`.
    let others = [
        "conv_norm",
        "served",
        "without_kernels",
        "frozen",
        "frozen_attention",
        "frozen_perceptron",
        "trained",
        "trained_attention",
        "trained_perceptron",
    ];
    let modules = [
        "pub",
        "use",
        "activation",
        "affine",
        "by_row",
        "elementary",
        "groups",
        "matrix",
        "storage",
        "sums",
    ];
    let exported: Vec<&str> = include_str!("mod.rs")
        .lines()
        .filter(|line| line.starts_with("pub use"))
        .flat_map(|line| line.split(['{', '}', ',', ';', ':', ' ']))
        .filter(|word| word.starts_with(char::is_lowercase))
        .filter(|word| !modules.contains(word) && !others.contains(word))
        .collect();
    let listed: Vec<&str> = all().into_iter().map(|(name, ..)| name).collect();
    assert!(exported.len() >= 13, "{exported:?}");
    for op in exported {
        assert!(listed.contains(&op), "{op} is not in the list");
    }
}
