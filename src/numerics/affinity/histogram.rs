//! Histogram of prompt components over classes.

/// Rules that aggregate the scores of samples to histogram entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// True for the mean over the samples of a class, false for their sum.
    pub mean_over_samples: bool,
    /// True for the mean over the layers with prompts, false for their sum.
    pub mean_over_layers: bool,
    /// True if negative entries become 0.
    pub clipped: bool,
}

impl Default for Counting {
    /// Returns clipped means.
    ///
    /// The paper leaves the aggregation open; with sums, large clients would dominate.
    fn default() -> Self {
        Counting { mean_over_samples: true, mean_over_layers: true, clipped: true }
    }
}

/// Scores of `components` prompt components on samples of `classes` classes.
///
/// ```
/// use fedcast::numerics::affinity::{ClassHistogram, Counting};
/// let mut histogram = ClassHistogram::new(2, 3, 1, Counting::default());
/// histogram.add(1, &[0.5, -1.0]);
/// histogram.add(1, &[1.5, 0.25]);
/// // The mean of 0.5 and 1.5; that of -1 and 0.25 is below 0.
/// assert_eq!(histogram.entries(), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClassHistogram {
    components: usize,
    layers: usize,
    counting: Counting,
    /// Sums over samples and layers, `(components, classes)`.
    sums: Vec<f64>,
    /// Number of samples of every class.
    samples: Vec<u64>,
}

impl ClassHistogram {
    /// Returns an empty histogram of this number of components, classes and layers.
    pub fn new(
        components: usize,
        classes: usize,
        layers: usize,
        counting: Counting,
    ) -> ClassHistogram {
        let sums = vec![0.0; components * classes];
        ClassHistogram { components, layers, counting, sums, samples: vec![0; classes] }
    }

    /// Counts a sample of a class with the scores of all components, layer by layer.
    pub fn add(&mut self, class: usize, scores: &[f32]) {
        let classes = self.samples.len();
        self.samples[class] += 1;
        for (at, score) in scores.iter().enumerate() {
            self.sums[at % self.components * classes + class] += f64::from(*score);
        }
    }

    /// Returns the number of samples counted so far.
    pub fn samples(&self) -> u64 {
        self.samples.iter().sum()
    }

    /// Returns `H`, `(components, classes)` row-major; 0 for classes without samples.
    pub fn entries(&self) -> Vec<f64> {
        let Counting { mean_over_samples, mean_over_layers, clipped } = self.counting;
        let layers = if mean_over_layers { self.layers.max(1) as f64 } else { 1.0 };
        let places = self.sums.iter().zip(self.samples.iter().cycle());
        let entry = |(sum, samples): (&f64, &u64)| {
            let samples = if mean_over_samples { (*samples).max(1) as f64 } else { 1.0 };
            let entry = sum / (samples * layers);
            if clipped { entry.max(0.0) } else { entry }
        };
        places.map(entry).collect()
    }
}
