//! Givens rotations of neighboring rows, several sweeps at a time.
//!
//! A sweep rotates rows `(i, i + 1)` for descending `i`. Several sweeps are applied in one pass as a wavefront: once
//! the first has left a row, the second may rotate it, and a row is loaded and stored only once for all sweeps (Van
//! Zee, van de Geijn and Quintana-Orti 2014). Columns are independent of each other, so neither panels nor passes
//! change a result.

/// Number of columns in a panel: one or two registers per row.
const WIDTH: usize = 8;
/// Number of sweeps that one pass applies.
const DEPTH: usize = 3;
/// Number of passes that are collected, and then applied to one panel after the other.
const PASSES: usize = 8;
/// Rows of zeros before and after a panel, for a wavefront that begins or ends at its edge.
const MARGIN: usize = DEPTH - 1;

type Row = [f64; WIDTH];

/// One step of a wavefront, with a rotation of each sweep.
#[derive(Clone, Copy)]
struct WavefrontStep {
    cosines: [f64; DEPTH],
    sines: [f64; DEPTH],
}

/// Step without rotations, for rows that a sweep does not reach.
const IDLE: WavefrontStep = WavefrontStep { cosines: [1.0; DEPTH], sines: [0.0; DEPTH] };

/// Sweeps that are applied together in one pass.
struct SweepGroup {
    /// Steps, indexed by the row of the first sweep, starting `MARGIN` rows before the matrix.
    steps: Vec<WavefrontStep>,
    /// Smallest row `i` of the rotations, and one more than the largest.
    rows: (usize, usize),
    sweeps: usize,
}

impl SweepGroup {
    fn new(order: usize) -> SweepGroup {
        SweepGroup { steps: vec![IDLE; order + MARGIN], rows: (order, 0), sweeps: 0 }
    }

    fn clear(&mut self, order: usize) {
        if self.sweeps > 0 {
            self.steps[self.rows.0..self.rows.1 + MARGIN].fill(IDLE);
        }
        (self.rows, self.sweeps) = ((order, 0), 0);
    }
}

/// Square matrix whose rows are rotated.
pub(super) struct Rotated {
    order: usize,
    /// Panels of columns, concatenated, each with its margins.
    panels: Vec<Row>,
    passes: Vec<SweepGroup>,
    /// Index of the pass that is being filled.
    current: usize,
}

impl Rotated {
    /// Creates it from a square matrix, row-major.
    pub(super) fn new(order: usize, matrix: &[f64]) -> Rotated {
        let height = order + 2 * MARGIN;
        let mut panels = vec![[0.0; WIDTH]; height * order.div_ceil(WIDTH)];
        for (row, values) in matrix.chunks_exact(order.max(1)).enumerate() {
            for (panel, values) in values.chunks(WIDTH).enumerate() {
                panels[panel * height + MARGIN + row][..values.len()].copy_from_slice(values);
            }
        }
        let passes = (0..PASSES).map(|_| SweepGroup::new(order)).collect();
        Rotated { order, panels, passes, current: 0 }
    }

    /// Adds a rotation of rows `i` and `i + 1` to the open sweep.
    ///
    /// Rows `(a, b)` become `(c a - s b, s a + c b)`.
    #[inline(always)]
    pub(super) fn rotate(&mut self, i: usize, cosine: f64, sine: f64) {
        let pass = &mut self.passes[self.current];
        let step = &mut pass.steps[i + MARGIN - pass.sweeps];
        step.cosines[pass.sweeps] = cosine;
        step.sines[pass.sweeps] = sine;
        pass.rows = (pass.rows.0.min(i), pass.rows.1.max(i + 1));
    }

    /// Ends a sweep. The next one may begin at any row.
    #[inline(always)]
    pub(super) fn end_sweep(&mut self) {
        let pass = &mut self.passes[self.current];
        pass.sweeps += 1;
        if pass.sweeps == DEPTH {
            self.current += 1;
            if self.current == PASSES {
                self.apply();
            }
        }
    }

    /// Applies all collected sweeps.
    #[inline(always)]
    pub(super) fn apply(&mut self) {
        for panel in self.panels.chunks_exact_mut(self.order + 2 * MARGIN) {
            for pass in self.passes.iter().filter(|pass| pass.rows.0 < pass.rows.1) {
                let (first, end) = pass.rows;
                rotate(&mut panel[first..=end + 2 * MARGIN], &pass.steps[first..end + MARGIN]);
            }
        }
        let order = self.order;
        self.passes.iter_mut().for_each(|pass| pass.clear(order));
        self.current = 0;
    }

    /// Returns the rows in the order of `rows`, row-major. All sweeps must have been applied.
    pub(super) fn rows(&self, rows: &[usize]) -> Vec<f64> {
        let (order, height) = (self.order, self.order + 2 * MARGIN);
        let mut matrix = vec![0.0; rows.len() * order];
        for (values, row) in matrix.chunks_exact_mut(order.max(1)).zip(rows) {
            for (panel, values) in values.chunks_mut(WIDTH).enumerate() {
                let from = &self.panels[panel * height + MARGIN + row];
                values.copy_from_slice(&from[..values.len()]);
            }
        }
        matrix
    }
}

/// Applies the steps in descending order: step `s` rotates rows `s..=s + DEPTH`.
#[inline(always)]
fn rotate(panel: &mut [Row], steps: &[WavefrontStep]) {
    // Rows that are not completely rotated yet, lowest first.
    let mut window = *panel[steps.len()..].first_chunk::<DEPTH>().expect("a margin behind");
    for (at, step) in steps.iter().enumerate().rev() {
        let mut low = panel[at];
        let mut left = [[0.0; WIDTH]; DEPTH];
        for sweep in 0..DEPTH {
            let (cosine, sine) = (step.cosines[sweep], step.sines[sweep]);
            let high = window[sweep];
            for column in 0..WIDTH {
                left[sweep][column] = cosine.mul_add(low[column], -(sine * high[column]));
                low[column] = sine.mul_add(low[column], cosine * high[column]);
            }
        }
        panel[at + DEPTH] = low;
        window = left;
    }
    panel[..DEPTH].copy_from_slice(&window);
}
