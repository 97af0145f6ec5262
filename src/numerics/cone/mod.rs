//! Nearest vector at an acute angle to some rows: `argmin |u - g|^2  s.t.  <R_i, u> >= rho |g| |R_i|`, for gradient
//! episodic memory and GradMA.
//!
//! The solution is `u = g + R^T z` with `z >= 0`, and `z` depends only on inner products: a [`Program`]. Rows of length
//! zero constrain nothing, and a row that another one implies has a multiplier of zero. With a `rho` above zero, the
//! constraints may contradict each other; then there is no solution.
//!
//! ```
//! use fedcast::numerics::cone::Program;
//! let (g, row) = ([1.0f64, -1.0], [0.0f64, 1.0]);
//! let z = Program::of(&g, &[&row], 0.0).by_enumeration().expect("there is one");
//! assert_eq!(z, [1.0]); // u = g + 1 row = (1, 0)
//! ```

mod active_sets;

/// Relative violation of a constraint that is tolerated.
const SLACK: f64 = 1e-9;

/// Constraints as inner products of a vector and rows, all scaled to unit length.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Gram matrix `<R_i, R_j> / |R_i| |R_j|` of rows that are not zero, row-major.
    gram: Vec<f64>,
    /// Shortfall of the vector itself, `rho - <R_i, g> / |R_i| |g|`.
    lacks: Vec<f64>,
    /// Factors `|g| / |R_i|` back to the original lengths.
    scales: Vec<f64>,
    /// Indices of rows that are not zero, and the number of all rows.
    rows: (Vec<usize>, usize),
}

fn product<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (*a).into() * (*b).into()).sum()
}

impl Program {
    /// Creates the program of a vector and rows of its length.
    pub fn of<V, R>(vector: &[V], rows: &[&[R]], rho: f64) -> Program
    where
        V: Copy + Into<f64>,
        R: Copy + Into<f64>,
    {
        let length = product(vector, vector).sqrt();
        let lengths: Vec<f64> = rows.iter().map(|row| product(row, row).sqrt()).collect();
        let full: Vec<usize> = (0..rows.len()).filter(|i| lengths[*i] > 0.0).collect();
        // A zero vector is its own solution.
        let unit = if length > 0.0 { length } else { 1.0 };
        let mut gram = vec![0.0; full.len() * full.len()];
        for (at, i) in full.iter().enumerate() {
            for (column, j) in full.iter().enumerate().take(at + 1) {
                let cosine = product(rows[*i], rows[*j]) / (lengths[*i] * lengths[*j]);
                gram[at * full.len() + column] = cosine;
                gram[column * full.len() + at] = cosine;
            }
        }
        let asked = if length > 0.0 { rho } else { 0.0 };
        let lacks = |i: &usize| asked - product(rows[*i], vector) / (lengths[*i] * unit);
        Program {
            gram,
            lacks: full.iter().map(lacks).collect(),
            scales: full.iter().map(|i| unit / lengths[*i]).collect(),
            rows: (full, rows.len()),
        }
    }

    /// Returns the number of multiplications per entry of a vector, for this number of rows.
    ///
    /// They are for lengths, inner products and the [moved] vector.
    pub fn multiplications(rows: usize) -> usize {
        let lengths = 1 + rows;
        let inner = rows * (rows + 1) / 2 + rows;
        lengths + inner + rows
    }

    /// Returns the multipliers, by trying every set of rows that may be active; for a few rows only.
    pub fn by_enumeration(&self) -> Option<Vec<f64>> {
        let count = self.lacks.len();
        let mut sets: Vec<u32> = (0..1u32 << count).collect();
        sets.sort_by_key(|set| set.count_ones());
        sets.into_iter().find_map(|set| {
            let active: Vec<usize> = (0..count).filter(|i| set & (1 << i) != 0).collect();
            let own = self.at_limits(&active, 0.0)?;
            let mut all = vec![0.0; count];
            active.iter().zip(&own).for_each(|(i, z)| all[*i] = *z);
            let valid = own.iter().all(|z| *z >= 0.0) && self.is_met(&all);
            valid.then(|| self.scaled(&all))
        })
    }

    /// Returns the multipliers with exactly these rows active, and zero for the others.
    ///
    /// `None` if rows depend on each other. `ridge` is added to the diagonal.
    fn at_limits(&self, active: &[usize], ridge: f64) -> Option<Vec<f64>> {
        let (order, count) = (active.len(), self.lacks.len());
        let mut factor = vec![0.0; order * order];
        let mut solution: Vec<f64> = active.iter().map(|i| self.lacks[*i]).collect();
        for row in 0..order {
            for column in 0..=row {
                let before =
                    (0..column).map(|k| factor[row * order + k] * factor[column * order + k]);
                let before: f64 = before.sum();
                let entry = self.gram[active[row] * count + active[column]] - before;
                if column < row {
                    factor[row * order + column] = entry / factor[column * order + column];
                } else if entry + ridge > if ridge > 0.0 { 0.5 * ridge } else { DEPENDENT } {
                    factor[row * order + row] = (entry + ridge).sqrt();
                } else {
                    return None;
                }
            }
        }
        for row in 0..order {
            let before: f64 = (0..row).map(|k| factor[row * order + k] * solution[k]).sum();
            solution[row] = (solution[row] - before) / factor[row * order + row];
        }
        for row in (0..order).rev() {
            let behind: f64 = (row + 1..order).map(|k| factor[k * order + row] * solution[k]).sum();
            solution[row] = (solution[row] - behind) / factor[row * order + row];
        }
        Some(solution)
    }

    /// Returns the amount by which `g + R^T z` falls short of each row's constraint.
    fn lacking(&self, multipliers: &[f64]) -> Vec<f64> {
        let rows = self.gram.chunks(self.lacks.len().max(1)).zip(&self.lacks);
        rows.map(|(row, lacks)| lacks - product(row, multipliers)).collect()
    }

    fn is_met(&self, multipliers: &[f64]) -> bool {
        self.lacking(multipliers).iter().all(|lacks| *lacks <= SLACK)
    }

    /// Returns the multipliers of all rows at their original lengths.
    fn scaled(&self, multipliers: &[f64]) -> Vec<f64> {
        let (full, count) = &self.rows;
        let mut all = vec![0.0; *count];
        for ((at, z), scale) in full.iter().zip(multipliers).zip(&self.scales) {
            all[*at] = z * scale;
        }
        all
    }
}

/// Squared sine of an angle below which rows count as dependent.
const DEPENDENT: f64 = 1e-12;

/// Returns `g + R^T z`.
pub fn moved<V, R>(vector: &[V], rows: &[&[R]], multipliers: &[f64]) -> Vec<f64>
where
    V: Copy + Into<f64>,
    R: Copy + Into<f64>,
{
    let mut moved: Vec<f64> = vector.iter().map(|value| (*value).into()).collect();
    for (row, z) in rows.iter().zip(multipliers).filter(|(_, z)| **z != 0.0) {
        moved.iter_mut().zip(*row).for_each(|(moved, row)| *moved += z * (*row).into());
    }
    moved
}

#[cfg(test)]
mod tests;
