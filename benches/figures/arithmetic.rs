//! Arithmetic of a training step of a vision transformer, and the machine's rate of multiplications.
//!
//! Only matrix products are counted; a multiplication and an addition are two operations.

use std::time::{Duration, Instant};

use fedcast::learning::PromptShape;
use fedcast::model::VitConfig;
use fedcast_kernels::products::{Matrix, Target};

/// Parameters that train in addition to a head.
#[derive(Clone, Copy)]
pub enum Trained {
    /// Prefix keys and values of the first blocks.
    Prefixes(PromptShape),
    /// Low-rank pairs at the queries and values of all blocks.
    LowRank {
        /// Rank of each pair.
        rank: usize,
    },
    /// All parameters of the network.
    Everything,
}

impl Trained {
    /// Returns the number of prefix tokens in a block.
    fn prefix(self, block: usize) -> usize {
        match self {
            Trained::Prefixes(prompt) if block < prompt.blocks => prompt.length / 2,
            _ => 0,
        }
    }

    /// Returns the number of multiplications for the pairs of a block.
    fn pairs(self, vit: &VitConfig) -> usize {
        match self {
            Trained::LowRank { rank } => 2 * vit.tokens() * 2 * vit.dim * rank,
            _ => 0,
        }
    }

    /// Returns the operations of a forward pass for one image. In the last block only the class token is a query.
    pub fn forward(self, vit: &VitConfig) -> f64 {
        let blocks =
            (0..vit.depth).map(|block| self.linear(vit, block) + self.attention(vit, block));
        let pairs = vit.depth * self.pairs(vit);
        operations(patches(vit) + blocks.sum::<usize>() + pairs)
    }

    /// Returns the operations of a backward pass for one image.
    ///
    /// It goes to the inputs of all layers except the first, and to what trains.
    pub fn backward(self, vit: &VitConfig) -> f64 {
        let layers: usize = (0..vit.depth).map(|block| self.linear(vit, block)).sum();
        let attention: usize = (0..vit.depth).map(|block| 2 * self.attention(vit, block)).sum();
        let to_first = 3 * vit.tokens() * vit.dim * vit.dim;
        let (to_inputs, to_weights) = match self {
            Trained::Everything => (layers, layers + patches(vit)),
            // Nothing trains below the first block's queries, keys and values.
            _ => (layers - to_first, 2 * vit.depth * self.pairs(vit)),
        };
        operations(to_inputs + to_weights + attention)
    }

    /// Returns the number of multiplications in the linear layers of a block.
    fn linear(self, vit: &VitConfig, block: usize) -> usize {
        let pack = vit.tokens() * vit.dim * 3 * vit.dim;
        pack + queries(vit, block) * vit.dim * (vit.dim + 2 * vit.mlp)
    }

    /// Returns the number of multiplications of queries with keys, and of probabilities with values.
    fn attention(self, vit: &VitConfig, block: usize) -> usize {
        2 * queries(vit, block) * (vit.tokens() + self.prefix(block)) * vit.dim
    }
}

fn queries(vit: &VitConfig, block: usize) -> usize {
    if block + 1 == vit.depth { 1 } else { vit.tokens() }
}

fn patches(vit: &VitConfig) -> usize {
    (vit.tokens() - 1) * vit.channels * vit.patch * vit.patch * vit.dim
}

fn operations(multiplications: usize) -> f64 {
    2.0 * multiplications as f64
}

/// Returns the operations per second of `threads` threads at once, the best of three repetitions.
///
/// Each multiplies matrices of 768 rows and columns with the widest kernels.
pub fn peak(threads: usize) -> f64 {
    let go = || -> f64 {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(rate)).collect();
            all.into_iter().map(|thread| thread.join().expect("multiplies")).sum()
        })
    };
    (0..3).map(|_| go()).fold(0.0, f64::max)
}

fn rate() -> f64 {
    const SIDE: usize = 768;
    let (values, mut product) = (vec![1f32; SIDE * SIDE], vec![0f32; SIDE * SIDE]);
    let matrix = Matrix::dense(&values, SIDE, SIDE);
    let start = Instant::now();
    let mut products = 0;
    while start.elapsed() < Duration::from_millis(500) {
        Target::dense(std::hint::black_box(&mut product), SIDE, SIDE).set(1.0, matrix, matrix);
        products += 1;
    }
    2.0 * SIDE.pow(3) as f64 * f64::from(products) / start.elapsed().as_secs_f64()
}

/// Prints the fraction of the machine's peak rate that `operations` in `seconds` reach.
pub fn print_share(name: &str, operations: f64, seconds: f64, peak: f64) {
    let rate = operations / seconds;
    println!(
        "products  {name}: {:.1} GFLOP, {:.0} GFLOP/s of {:.0} that large products reach: {:.0} %",
        operations / 1e9,
        rate / 1e9,
        peak / 1e9,
        100.0 * rate / peak
    );
}
