//! Cost of class-aware aggregation (CPA) at the server, by number of clients.
//!
//! Measured are the weights `softmax(H Hᵀ / tau)` and the mixing of prompts, keys and attention vectors of all
//! clients.
//!
//! Components as on ViT-B/16: 8 per client in three blocks, each of 10 prompt rows, a key and an attention vector
//! of width 768; 20 classes per client. One thread, best of several. Mixing grows with the square of the clients.
//! ```text
//! cargo bench --bench affinity
//! ```

use std::hint::black_box;
use std::time::Instant;

use fedcast::numerics::affinity::{Affinity, RowScale};
use fedcast::numerics::distributions::{fill_normal, unit};
use fedcast::numerics::streams::{Domain, StreamKey};

/// Number of components per client and block.
const COMPONENTS: usize = 8;
/// Number of values per component and block: prompt, key and attention.
const WIDTH: usize = 12 * 768;
const BLOCKS: usize = 3;
const CLASSES: usize = 20;

/// Returns the shortest of several runs, in seconds.
fn best<T>(runs: usize, mut work: impl FnMut() -> T) -> f64 {
    let time = |_| {
        let start = Instant::now();
        black_box(work());
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

fn main() {
    println!("clients  components      weights       mixing   per client  mixing, GFLOP/s");
    for clients in [5, 50, 100, 300] {
        let rows = clients * COMPONENTS;
        let mut rng = StreamKey::new(1, Domain::Method).rng();
        let h: Vec<f64> = (0..rows * CLASSES).map(|_| unit(&mut rng)).collect();
        let mut block = vec![0f32; rows * WIDTH];
        fill_normal(&mut rng, &mut block);
        let runs = if clients < 100 { 5 } else { 1 };
        let weights = best(runs, || Affinity::of(&h, CLASSES, RowScale::Unit, 1.0));
        let affinity = Affinity::of(&h, CLASSES, RowScale::Unit, 1.0);
        let mixing = BLOCKS as f64 * best(runs, || affinity.mix(&block, WIDTH));
        let useful = 2.0 * (rows * rows * WIDTH * BLOCKS) as f64 / mixing / 1e9;
        println!(
            "{clients:7}  {rows:10}  {:8.2} ms  {:8.1} ms  {:8.2} ms  {useful:8.1}",
            1e3 * weights,
            1e3 * mixing,
            1e3 * (weights + mixing) / clients as f64,
        );
    }
}
