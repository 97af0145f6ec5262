//! Images of noise.

use std::sync::Arc;

use fedcast::data::{Dataset, Split};
use fedcast::numerics::streams::{Domain, StreamKey};
use rand::RngCore;

/// Returns a data set of noise with equally large classes, in which sample `i` has class `i % classes`.
pub fn noise(classes: usize, train: u32, test: u32, shape: [usize; 3]) -> Dataset {
    Dataset {
        name: "noise".to_string(),
        class_names: (0..classes).map(|class| class.to_string()).collect(),
        train: Arc::new(split(classes, train, shape, 1)),
        test: Arc::new(split(classes, test, shape, 2)),
        notes: Vec::new(),
    }
}

fn split(classes: usize, samples: u32, shape: [usize; 3], step: u64) -> Split {
    let mut bytes = vec![0; samples as usize * shape.iter().product::<usize>()];
    StreamKey::new(1, Domain::Drawing).step(step).rng().fill_bytes(&mut bytes);
    let labels = (0..samples).map(|i| i % classes as u32).collect();
    Split::from_buffer(bytes, shape, labels, classes).expect("fits")
}
