//! Promise: arithmetic has the same bits on every machine. A digest of every kind of number that reaches results is
//! recorded here; a CPU, C library, compiler or number of threads under which one of them is another breaks the promise.
//!
//! A digest moves only if an order of operations was changed on purpose: then `Machine::here().arithmetic` is raised too.

use candle_core::{Device, Tensor, Var};
use fedcast::model::ops::{self, Precision};
use fedcast::numerics::dense::{Cholesky, Eigen};
use fedcast::numerics::distributions::{dirichlet, fill_normal, log_gamma_draw, normal};
use fedcast::numerics::projection::Projection;
use fedcast::numerics::regression_mean::{SecondMoments, regression_mean};
use fedcast::numerics::ridge::{Penalty, ridge};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::numerics::symmetric::{Gram, Symmetric};
use fedcast::numerics::vectors::Vectors;
use fedcast_kernels::products::{Matrix, Target};

/// Digests by name, in the order in which they were taken.
#[derive(Default)]
struct Digests(Vec<String>);

impl Digests {
    fn add(&mut self, name: &str, bytes: impl Iterator<Item = u8>) {
        let digest = blake3::hash(&bytes.collect::<Vec<u8>>()).to_hex();
        self.0.push(format!("{name:34} {}", &digest[..16]));
    }

    fn singles(&mut self, name: &str, values: &[f32]) {
        assert!(values.iter().all(|value| value.is_finite()), "{name}");
        self.add(name, values.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn doubles(&mut self, name: &str, values: &[f64]) {
        assert!(values.iter().all(|value| value.is_finite()), "{name}");
        self.add(name, values.iter().flat_map(|value| value.to_le_bytes()));
    }

    /// The value of an op and the gradients of its operands, each output weighted otherwise.
    fn op(&mut self, name: &str, shapes: &[&[usize]], op: impl Fn(&[Tensor]) -> Tensor) {
        let draw = |(at, shape): (usize, &&[usize])| {
            let values = singles(shape.iter().product(), at as u64 + 10);
            Var::from_tensor(&Tensor::from_vec(values, *shape, &Device::Cpu).unwrap()).unwrap()
        };
        let operands: Vec<Var> = shapes.iter().enumerate().map(draw).collect();
        let tensors: Vec<Tensor> = operands.iter().map(|var| var.as_tensor().clone()).collect();
        let value = op(&tensors).flatten_all().unwrap();
        let weights = singles(value.elem_count(), 77);
        let weights = Tensor::from_vec(weights, value.elem_count(), &Device::Cpu).unwrap();
        let gradients = ops::sum_all(&(&value * weights).unwrap()).unwrap().backward().unwrap();
        let mut all = value.to_vec1::<f32>().unwrap();
        for operand in &operands {
            let gradient = gradients.get(operand).expect("a gradient of every operand");
            all.extend(gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap());
        }
        self.singles(name, &all);
    }
}

fn singles(count: usize, step: u64) -> Vec<f32> {
    let mut values = vec![0f32; count];
    fill_normal(&mut StreamKey::new(9, Domain::Drawing).step(step).rng(), &mut values);
    values
}

fn doubles(count: usize, step: u64) -> Vec<f64> {
    singles(count, step).into_iter().map(|value| f64::from(value) / 3.0).collect()
}

/// Products on both sides of every limit that libraries have: few rows, dots, blocks of 512, columns beyond a vector.
fn products(digests: &mut Digests) {
    for (m, n, k) in [
        (1, 100, 192),
        (10, 10, 192),
        (16, 16, 64),
        (17, 17, 16),
        (37, 29, 513),
        (64, 130, 1100),
        (3, 5, 5000),
        (200, 1, 768),
    ] {
        let (a, b) = (singles(m * k, 1), singles(k * n, 2));
        let mut c = vec![0f32; m * n];
        Target::dense(&mut c, m, n).set(1.0, Matrix::dense(&a, m, k), Matrix::dense(&b, n, k).t());
        digests.singles(&format!("f32 {m} x {n} x {k}"), &c);
        let (a, b) = (doubles(m * k, 3), doubles(k * n, 4));
        let mut c = vec![0f64; m * n];
        Target::dense(&mut c, m, n).set(0.3, Matrix::dense(&a, k, m).t(), Matrix::dense(&b, k, n));
        digests.doubles(&format!("f64 {m} x {n} x {k}"), &c);
    }
}

fn gram(order: usize) -> Symmetric {
    let mut gram = Gram::new(order);
    gram.add(&doubles((order + 40) * order, order as u64));
    gram.finish()
}

fn dense_algebra(digests: &mut Digests) {
    for order in [1, 7, 64, 131] {
        let matrix = gram(order);
        digests.doubles(&format!("Gram matrix of {order}"), matrix.packed());
        let factor = Cholesky::of(&matrix).unwrap();
        digests.doubles(&format!("Cholesky factor of {order}"), factor.lower());
        let right = doubles(3 * order, 5);
        digests.doubles(&format!("solutions of {order}"), &factor.solve(&right));
        let eigen = Eigen::of(&matrix).unwrap();
        let all: Vec<f64> = eigen.values.iter().chain(&eigen.vectors).copied().collect();
        digests.doubles(&format!("eigenvectors of {order}"), &all);
        let head = ridge(&matrix, &right, Penalty::Relative(0.01), 0).unwrap();
        digests.doubles(&format!("ridge head of {order}"), &head.weights);
        let mean = regression_mean(&right, &SecondMoments::Full(matrix), 0.0).unwrap();
        digests.doubles(&format!("regression mean of {order}"), &mean);
    }
    digests.doubles("random features", &Projection::draw(3, 37, 90).apply(&doubles(11 * 37, 6)));
}

fn network(digests: &mut Digests) {
    let labels = [3u32, 5, 4, 3];
    digests.op("linear", &[&[21, 37], &[45, 37], &[45]], |t| {
        ops::linear(&t[0], &t[1], Some(&t[2])).unwrap()
    });
    digests.op("linear in bf16", &[&[21, 37], &[45, 37], &[45]], |t| {
        ops::linear_at(Precision::Bf16, &t[0], &t[1], Some(&t[2])).unwrap()
    });
    digests.op("attention", &[&[2, 21, 24], &[9, 8], &[9, 8]], |t| {
        ops::attention(&t[0], 2, Some((&t[1], &t[2])), 21).unwrap()
    });
    digests.op("layer norm", &[&[5, 83], &[83], &[83]], |t| {
        ops::layer_norm(&t[0], &t[1], &t[2], 1e-6).unwrap()
    });
    digests.op("GELU", &[&[3, 701]], |t| ops::gelu(&t[0]).unwrap());
    digests.op("softmax", &[&[3, 101]], |t| ops::softmax(&t[0]).unwrap());
    digests.op("exponential", &[&[3, 101]], |t| ops::exp(&t[0]).unwrap());
    digests.op("logarithm", &[&[3, 101]], |t| {
        ops::log(&(t[0].sqr().unwrap() + 0.1).unwrap()).unwrap()
    });
    digests.op("sum", &[&[3, 101]], |t| ops::sum(&t[0].sqr().unwrap(), 1).unwrap());
    digests.op("rows of length one", &[&[3, 101]], |t| ops::unit_rows(&t[0]).unwrap());
    digests.op("rows by numbers", &[&[3, 101], &[3]], |t| ops::scale_rows(&t[0], &t[1]).unwrap());
    digests.op("convolution 3 x 3", &[&[2, 9, 9, 20], &[24, 20, 3, 3]], |t| {
        ops::conv2d(&t[0], &t[1], 1, 1).unwrap()
    });
    digests.op("convolution in steps of 2", &[&[2, 9, 9, 5], &[7, 5, 3, 3]], |t| {
        ops::conv2d(&t[0], &t[1], 2, 1).unwrap()
    });
    digests
        .op("cross-entropy", &[&[4, 99]], |t| ops::cross_entropy(&t[0], &labels, 1..98).unwrap());
}

fn draws(digests: &mut Digests) {
    let rng = |step| StreamKey::new(5, Domain::Drawing).step(step).rng();
    digests.singles("normal draws", &singles(1000, 8));
    digests.doubles("Dirichlet draws", &dirichlet(&mut rng(1), 0.1, 500));
    let mut of_gamma = rng(2);
    let gamma = |_| 2.0 * libm::exp(log_gamma_draw(&mut of_gamma, 0.7));
    let gammas: Vec<f64> = (0..500).map(gamma).collect();
    digests.doubles("gamma draws", &gammas);
    let mut of_times = rng(3);
    let time = |_| libm::exp(normal(&mut of_times, 0.2, 0.9));
    let times: Vec<f64> = (0..500).map(time).collect();
    digests.doubles("log-normal draws", &times);
}

fn all() -> String {
    let mut digests = Digests::default();
    products(&mut digests);
    dense_algebra(&mut digests);
    network(&mut digests);
    draws(&mut digests);
    digests.0.join("\n")
}

#[test]
fn digests_of_arithmetic_are_those_recorded() {
    insta::assert_snapshot!(all());
}

#[test]
fn digests_do_not_depend_on_vector_width() {
    let widest = all();
    for vectors in Vectors::ALL {
        assert_eq!(vectors.limit(all), widest, "{vectors:?}");
    }
}
