//! Costs of algebra in f64: Gram matrices compared with a plain product; factors, solutions and eigenvectors by order;
//! and STSA's projection, Gram matrix and solution compared with the extraction of the features.
//!
//! One thread, best of several; ratios are taken within one run.
//! ```text
//! cargo bench --bench statistics
//! ```

use std::hint::black_box;
use std::time::Instant;

use candle_core::{DType, Device, Tensor};
use fedcast::model::{Adaptation, Vit, VitConfig};
use fedcast::numerics::dense::{Cholesky, Eigen, eigenvalues};
use fedcast::numerics::projection::Projection;
use fedcast::numerics::ridge::{Penalty, ridge};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::numerics::symmetric::{Gram, Symmetric};

/// Number of rows multiplied at once, as by a client.
const BLOCK: usize = 256;

/// Returns the shortest of several runs, in seconds.
fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    let time = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

fn rows(count: usize, width: usize) -> Vec<f64> {
    (0..count * width).map(|k| ((k * 7919) % 1013) as f64 / 1013.0 - 0.5).collect()
}

/// Returns the useful operations per second of a product of two square matrices in f64. ReLU adds a thousandth.
fn product_rate() -> f64 {
    let n = 1_024;
    let layer = Projection::from_weights(n, n, rows(n, n)).expect("a square of weights");
    let features = rows(n, n);
    2.0 * (n as f64).powi(3) / best(7, || layer.apply(&features))
}

fn main() {
    let rate = product_rate();
    println!("f64 product of 1024 x 1024 matrices    {:7.1} GFLOP/s", rate / 1e9);
    for width in [1_250, 5_000] {
        let block = rows(BLOCK, width);
        let mut gram = Gram::new(width);
        let seconds = best(5, || gram.add(&block));
        // One multiplication and one addition per entry of the lower triangle.
        let useful = (BLOCK * width * (width + 1)) as f64 / seconds;
        println!(
            "Gram of {BLOCK} rows at D = {width}          {:7.1} GFLOP/s, {:.0} % of it",
            useful / 1e9,
            100.0 * useful / rate
        );
    }
    algebra();
    against_extraction();
}

/// Prints the milliseconds of operations on a Gram matrix, by its order.
fn algebra() {
    println!("\nms at order         192       768      1250");
    let matrices = [192, 768, 1_250].map(|order| {
        let mut gram = Gram::new(order);
        gram.add(&rows(order + 300, order));
        let mut matrix = gram.finish();
        matrix.add_to_diagonal(1.0);
        matrix
    });
    let line = |name: &str, work: &dyn Fn(&Symmetric) -> f64| {
        let seconds = matrices.each_ref().map(|matrix| 1e3 * work(matrix));
        println!("{name:14} {:8.3}  {:8.3}  {:8.3}", seconds[0], seconds[1], seconds[2]);
    };
    line("Cholesky", &|matrix| best(5, || Cholesky::of(matrix).expect("a factor")));
    line("solve, 100", &|matrix| {
        let factor = Cholesky::of(matrix).expect("a factor");
        let right = rows(100, matrix.order());
        best(5, || factor.solve(&right))
    });
    line("eigenvalues", &|matrix| best(3, || eigenvalues(matrix).expect("eigenvalues")));
    line("eigenvectors", &|matrix| best(3, || Eigen::of(matrix).expect("eigenvectors")));
}

/// Compares a task of 1,000 samples at D = 1250 with their extraction by a ViT-Tiny at 224 pixels.
fn against_extraction() {
    let (samples, width, classes) = (1_000, 1_250, 100);
    let config = VitConfig::preset("vit-tiny-patch16-224").expect("a preset");
    let parameters = Vit::initial_parameters(&config, StreamKey::new(1, Domain::Init));
    let vit = Vit::from_parameters(config, &parameters).expect("its own parameters");
    let pixels = Tensor::zeros((8, 3, 224, 224), DType::F32, &Device::Cpu).expect("pixels");
    let none = Adaptation::none();
    let extraction = best(3, || vit.features(&pixels, &none).expect("features"));
    let extraction = extraction / 8.0 * samples as f64;

    let layer = Projection::draw(1, config.dim, width);
    let features = rows(BLOCK, config.dim);
    let projection = best(5, || layer.apply(&features)) / BLOCK as f64 * samples as f64;
    let hidden = layer.apply(&features);
    let mut gram = Gram::new(width);
    let product = best(5, || gram.add(&hidden)) / BLOCK as f64 * samples as f64;
    let (gram, correlation) = (gram.finish(), rows(classes, width));
    let solve = best(3, || ridge(&gram, &correlation, Penalty::Relative(1e-3), 0));
    let all = projection + product + solve;
    println!("\n{samples} samples, D = {width}, ViT-Tiny at 224 pixels");
    println!("extraction   {extraction:8.3} s");
    println!("projection   {projection:8.3} s");
    println!("Gram         {product:8.3} s");
    println!("solve        {solve:8.3} s");
    println!("the last three are {:.1} % of the first", 100.0 * all / extraction);
}
