//! Sums of features by class.

/// Sums of random features by class, `P^T`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSums {
    /// Width of a row, `D`.
    pub width: usize,
    /// Sums `(classes, D)`, row-major.
    pub values: Vec<f64>,
}

impl ClassSums {
    /// Creates sums of zero for this number of classes.
    pub fn zeros(classes: usize, width: usize) -> ClassSums {
        ClassSums { width, values: vec![0.0; classes * width] }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Returns the sum of a class.
    pub fn row(&self, class: usize) -> &[f64] {
        &self.values[class * self.width..(class + 1) * self.width]
    }

    /// Returns the sum of a class, mutably.
    pub fn row_mut(&mut self, class: usize) -> &mut [f64] {
        &mut self.values[class * self.width..(class + 1) * self.width]
    }

    /// Adds other sums of the same classes and width.
    pub fn add(&mut self, other: &ClassSums) {
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
    }
}
