//! Matrix products of training steps on one thread, by our kernels and by the crate `gemm`.
//!
//! ```text
//! cargo bench --bench products
//! ```
//! Rates are interleaved medians. `gemm` is compiled without its AVX-512 kernels, as candle uses it; the row of AVX-512
//! is printed if the machine has it. `bits` tells if both gave the same bits, as they do if `gemm` sums one chain.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fedcast_kernels::products::{Matrix, Target};
use fedcast_kernels::vectors::Vectors;
use gemm::Parallelism;

/// Shape of a product with rows of `x` or of gradients.
struct Shape {
    name: &'static str,
    rows: usize,
    columns: usize,
    inner: usize,
    /// True for each factor that is transposed, so that the values of a column are adjacent.
    transposed: (bool, bool),
}

const fn shape(
    name: &'static str,
    [rows, columns, inner]: [usize; 3],
    transposed: (bool, bool),
) -> Shape {
    Shape { name, rows, columns, inner, transposed }
}

/// 16 images of 197 tokens on a ViT-Tiny, ResNet-18 on 32 x 32 pixels, and heads.
const SHAPES: [Shape; 17] = [
    shape("qkv, x W^T", [3152, 576, 192], (false, true)),
    shape("fc1, x W^T", [3152, 768, 192], (false, true)),
    shape("fc2, x W^T", [3152, 192, 768], (false, true)),
    shape("fc1, gradient of x", [3152, 192, 768], (false, false)),
    shape("fc1, gradient of W", [768, 192, 3152], (true, false)),
    shape("one head, q k^T", [197, 197, 64], (false, true)),
    shape("one head, p v", [197, 64, 197], (false, false)),
    shape("convolution of 64 channels", [2048, 64, 576], (false, true)),
    shape("convolution of 256 channels", [512, 256, 2304], (false, true)),
    shape("its gradient of x", [2048, 576, 64], (false, false)),
    shape("its gradient of W", [64, 576, 2048], (true, false)),
    shape("minimal filtering, 64 channels", [8192, 64, 64], (false, true)),
    shape("minimal filtering, 512 channels", [128, 512, 512], (false, true)),
    shape("head, 10 x 100 x 192", [10, 100, 192], (false, true)),
    shape("head, 10 x 100 x 3072", [10, 100, 3072], (false, true)),
    shape("embedded network", [272, 64, 64], (false, true)),
    shape("embedded network, q k^T", [17, 17, 16], (false, true)),
];

const REPEATS: usize = 15;

fn main() {
    let sizes = SHAPES.iter().flat_map(|s| [s.rows * s.inner, s.inner * s.columns]);
    let largest = sizes.max().unwrap_or(0);
    let wave = |step: usize| -> Vec<f32> {
        (0..largest).map(|i| ((i * step + i / 13) % 1013) as f32 * 1e-3 - 0.5).collect()
    };
    let (a, b) = (wave(7919), wave(104_729));
    let widths: Vec<Vectors> = [Vectors::Baseline, Vectors::Avx2, Vectors::Avx512]
        .into_iter()
        .filter(|vectors| *vectors <= Vectors::of_machine())
        .collect();
    print!("{:34}{:>8}", "GFLOP/s", "gemm");
    widths.iter().for_each(|vectors| print!("{:>10}", format!("{vectors:?}")));
    println!("{:>8}  bits", "ratio");
    for shape in &SHAPES {
        measure(shape, &a, &b, &widths);
    }
}

/// Prints the rates of all kernels, and the ratio of the widest to `gemm`.
fn measure(shape: &Shape, a: &[f32], b: &[f32], widths: &[Vectors]) {
    let (mut ours, mut theirs) = (vec![0f32; shape.rows * shape.columns], Vec::new());
    theirs.clone_from(&ours);
    let operations = 2 * shape.rows * shape.columns * shape.inner;
    let times = (40_000_000 / operations).max(1);
    let timed = |work: &mut dyn FnMut()| -> Duration {
        let start = Instant::now();
        (0..times).for_each(|_| work());
        start.elapsed()
    };
    let mut taken = vec![Vec::new(); widths.len() + 1];
    for _ in 0..REPEATS {
        taken[0].push(timed(&mut || by_gemm(shape, a, b, black_box(&mut theirs))));
        for (vectors, taken) in widths.iter().zip(&mut taken[1..]) {
            let mut work = || by_rule(shape, a, b, black_box(&mut ours));
            taken.push(vectors.limit(|| timed(&mut work)));
        }
    }
    let rates: Vec<f64> = taken
        .iter_mut()
        .map(|taken| {
            taken.sort();
            (operations * times) as f64 / taken[REPEATS / 2].as_secs_f64() * 1e-9
        })
        .collect();
    print!("{:34}{:8.1}", shape.name, rates[0]);
    rates[1..].iter().for_each(|rate| print!("{rate:10.1}"));
    let differ = ours.iter().zip(&theirs).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let ratio = rates[rates.len() - 1] / rates[0];
    let bits = if differ == 0 { "equal".to_owned() } else { format!("{differ} differ") };
    println!("{ratio:8.2}  {bits}");
}

fn by_rule(shape: &Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    let &Shape { rows, columns, inner, transposed, .. } = shape;
    let a = match transposed.0 {
        true => Matrix::dense(a, inner, rows).t(),
        false => Matrix::dense(a, rows, inner),
    };
    let b = match transposed.1 {
        true => Matrix::dense(b, columns, inner).t(),
        false => Matrix::dense(b, inner, columns),
    };
    Target::dense(c, rows, columns).set(1.0, a, b);
}

fn by_gemm(shape: &Shape, a: &[f32], b: &[f32], c: &mut [f32]) {
    let &Shape { rows, columns, inner, transposed, .. } = shape;
    let strides = |transposed: bool, rows: usize, columns: usize| match transposed {
        true => (rows as isize, 1),
        false => (1, columns as isize),
    };
    let (a_column, a_row) = strides(transposed.0, rows, inner);
    let (b_column, b_row) = strides(transposed.1, inner, columns);
    assert!(a.len() >= rows * inner && b.len() >= inner * columns && c.len() == rows * columns);
    // SAFETY: all three matrices lie inside of their buffers.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            c.as_mut_ptr(),
            1,
            columns as isize,
            false,
            a.as_ptr(),
            a_column,
            a_row,
            b.as_ptr(),
            b_column,
            b_row,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
