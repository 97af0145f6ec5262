//! Synthetic data set of any size: one Gaussian per class, without files, for studies of systems.
//!
//! A class mean is `separation / sqrt(2 width)` times a standard normal vector, so that two means are `separation`
//! standard deviations apart on average (root mean square); a sample is its class mean plus standard normal noise. With
//! natural owners every client adds its own shift, drawn as a class mean is. Classes are equally large, and samples
//! cycle through them: sample `i` has class `i % classes`.
//!
//! A row is drawn when it is read, from its own stream. So a data set of ten million samples needs memory for their
//! labels only, and a sample does not depend on the number of others.
//!
//! ```
//! use fedcast::data::synthetic::{self, SyntheticOptions};
//!
//! let options = SyntheticOptions { classes: 3, width: 4, train_samples: 5, ..SyntheticOptions::default() };
//! let data = synthetic::open(&options)?;
//! assert_eq!(data.train.labels()[..4], [0, 1, 2, 0]);
//! let (row, width) = data.train.rows(&[7]).expect("samples are rows");
//! assert_eq!((row.len(), width), (4, 4));
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

use std::sync::Arc;

use super::store::Store;
use super::{DataError, Dataset, Split};
use crate::numerics::distributions::{choose, fill_normal};
use crate::numerics::streams::{Domain, StreamKey};

/// Size and shape of a synthetic data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyntheticOptions {
    /// Number of classes.
    pub classes: usize,
    /// Numbers per row.
    pub width: usize,
    /// Training samples per class.
    pub train_samples: usize,
    /// Test samples per class.
    pub test_samples: usize,
    /// Distance of two class means (root mean square), in standard deviations of a class.
    pub separation: f64,
    /// Number of natural owners; none if `None`.
    pub clients: Option<usize>,
    /// Classes of an owner; all if `None`.
    pub classes_per_client: Option<usize>,
    /// Distance between the shifts of two owners (root mean square), in standard deviations of a class.
    pub client_shift: f64,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

impl Default for SyntheticOptions {
    fn default() -> SyntheticOptions {
        SyntheticOptions {
            classes: 10,
            width: 32,
            train_samples: 100,
            test_samples: 20,
            separation: 4.0,
            clients: None,
            classes_per_client: None,
            client_shift: 0.0,
            seed: 0,
        }
    }
}

/// Purpose of a stream below [`Domain::Synthetic`], used as the round of its key.
#[derive(Clone, Copy, Debug)]
enum SyntheticDraw {
    /// Mean of a class.
    Mean = 0,
    /// Shift of an owner.
    Shift = 1,
    /// Classes of an owner.
    Holding = 2,
    /// Noise of a training sample.
    Train = 3,
    /// Noise of a test sample.
    Test = 4,
}

impl SyntheticOptions {
    fn stream(&self, draw: SyntheticDraw) -> StreamKey {
        StreamKey::new(self.seed, Domain::Synthetic).round(draw as u32)
    }

    /// Returns `count` vectors, concatenated, with this root mean square distance between two of them.
    fn apart(&self, draw: SyntheticDraw, count: usize, distance: f64) -> Vec<f32> {
        let scale = (distance / (2.0 * self.width as f64).sqrt()) as f32;
        let mut vectors = vec![0.0; count * self.width];
        for (place, vector) in vectors.chunks_exact_mut(self.width).enumerate() {
            fill_normal(&mut self.stream(draw).step(place as u64).rng(), vector);
            vector.iter_mut().for_each(|value| *value *= scale);
        }
        vectors
    }

    /// Draws the classes of every owner. A class that none drew is given to one owner.
    fn holders(&self, clients: usize) -> ClassOwners {
        let Some(held) = self.classes_per_client else {
            return ClassOwners(vec![(0..clients as u32).collect(); self.classes]);
        };
        let mut holders = vec![Vec::new(); self.classes];
        for client in 0..clients as u32 {
            let mut rng = self.stream(SyntheticDraw::Holding).client(client).rng();
            for class in choose(&mut rng, self.classes as u64, held as u64) {
                holders[class as usize].push(client);
            }
        }
        for (class, holders) in holders.iter_mut().enumerate() {
            if holders.is_empty() {
                holders.push((class % clients) as u32);
            }
        }
        ClassOwners(holders)
    }
}

/// Rows of one part of a synthetic data set, each drawn when it is read.
#[derive(Debug)]
pub(crate) struct DrawnRows {
    options: SyntheticOptions,
    part: SyntheticDraw,
    /// Class means, `(classes, width)`.
    means: Arc<Vec<f32>>,
    /// Shifts of the owners, `(clients, width)`; empty without owners.
    shifts: Arc<Vec<f32>>,
    holders: Option<Arc<ClassOwners>>,
}

/// Owners of each class, ascending.
#[derive(Debug)]
struct ClassOwners(Vec<Vec<u32>>);

impl ClassOwners {
    /// Returns the owner of a sample. The owners of its class take turns.
    fn owner(&self, sample: u32) -> u32 {
        let classes = self.0.len();
        let of_class = &self.0[sample as usize % classes];
        of_class[sample as usize / classes % of_class.len()]
    }
}

impl DrawnRows {
    /// Returns the numbers per row.
    pub fn width(&self) -> usize {
        self.options.width
    }

    /// Appends the row of a sample.
    pub fn append(&self, sample: u32, rows: &mut Vec<f32>) {
        let (start, width) = (rows.len(), self.options.width);
        rows.resize(start + width, 0.0);
        let row = &mut rows[start..];
        let noise = self.options.stream(self.part).step(u64::from(sample));
        fill_normal(&mut noise.rng(), row);
        let class = sample as usize % self.options.classes;
        add(row, &self.means[class * width..][..width]);
        if let Some(holders) = &self.holders {
            let owner = holders.owner(sample) as usize;
            add(row, &self.shifts[owner * width..][..width]);
        }
    }

    /// Adds everything that determines the rows to a digest.
    pub fn digest_into(&self, hasher: &mut blake3::Hasher) {
        hasher.update(b"synthetic rows, form 1").update(&[self.part as u8]);
        let SyntheticOptions { classes, width, clients, classes_per_client, seed, .. } =
            self.options;
        let counts = [
            classes as u64,
            width as u64,
            clients.map_or(0, |clients| clients as u64),
            classes_per_client.map_or(0, |held| held as u64),
            self.options.separation.to_bits(),
            self.options.client_shift.to_bits(),
            seed,
        ];
        counts.iter().for_each(|count| {
            hasher.update(&count.to_le_bytes());
        });
    }
}

fn add(row: &mut [f32], vector: &[f32]) {
    row.iter_mut().zip(vector).for_each(|(value, added)| *value += added);
}

/// Returns the data set of these options.
///
/// # Errors
/// Does not fail: labels are below the number of classes by construction.
pub fn open(options: &SyntheticOptions) -> Result<Dataset, DataError> {
    let means = Arc::new(options.apart(SyntheticDraw::Mean, options.classes, options.separation));
    let clients = options.clients.unwrap_or(0);
    let shifts = Arc::new(options.apart(SyntheticDraw::Shift, clients, options.client_shift));
    let holders = options.clients.map(|clients| Arc::new(options.holders(clients)));
    let split = |part, of_class: usize| {
        let samples = options.classes * of_class;
        let labels = (0..samples).map(|sample| (sample % options.classes) as u32).collect();
        let rows = DrawnRows {
            options: *options,
            part,
            means: Arc::clone(&means),
            shifts: Arc::clone(&shifts),
            holders: holders.clone(),
        };
        let samples: Vec<u32> = (0..samples as u32).collect();
        let owners = holders
            .as_ref()
            .map(|holders| samples.iter().map(|sample| holders.owner(*sample)).collect());
        let store = Store::Drawn { rows: Arc::new(rows), samples };
        let split = Split::new(store, labels, options.classes)?;
        Ok::<Split, DataError>(match owners {
            Some(owners) => split.with_owners(owners),
            None => split,
        })
    };
    Ok(Dataset {
        name: "synthetic".to_owned(),
        class_names: (0..options.classes).map(|class| class.to_string()).collect(),
        train: Arc::new(split(SyntheticDraw::Train, options.train_samples)?),
        test: Arc::new(split(SyntheticDraw::Test, options.test_samples)?),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
