//! A pen on a bitmap: 32 x 32 binary cells, counted in 4 x 4 blocks to 8 x 8 values of 0 to 16.
//!
//! That is how the UCI digits were made from scanned forms, so drawn images have the same
//! grain as the embedded data set, and nothing else in common with it.

/// Cells per side of the bitmap.
const CELLS: usize = 32;
/// Values per side of the image.
pub const SIDE: usize = 8;
const BLOCK: usize = CELLS / SIDE;

/// A point; the unit square is the image, y downwards.
pub type Point = [f64; 2];

/// A bitmap under a round pen.
pub struct Canvas {
    rows: [u32; CELLS],
}

impl Canvas {
    pub fn new() -> Canvas {
        Canvas { rows: [0; CELLS] }
    }

    /// Inks every cell whose center is within `radius` of the line through `points` (unit coordinates).
    pub fn draw(&mut self, points: &[Point], radius: f64) {
        let scale = CELLS as f64;
        let radius = radius * scale;
        let cell = |v: f64| v.clamp(0.0, scale - 1.0) as usize;
        for pair in points.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|p| [p[0] * scale, p[1] * scale]);
            let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
            let length = dx * dx + dy * dy;
            let rows = cell(a[1].min(b[1]) - radius - 0.5)..=cell(a[1].max(b[1]) + radius + 0.5);
            for y in rows {
                for x in cell(a[0].min(b[0]) - radius - 0.5)..=cell(a[0].max(b[0]) + radius + 0.5) {
                    let (px, py) = (x as f64 + 0.5 - a[0], y as f64 + 0.5 - a[1]);
                    let along = (px * dx + py * dy) / length.max(1e-12);
                    let along = along.clamp(0.0, 1.0);
                    let (ex, ey) = (px - along * dx, py - along * dy);
                    if ex * ex + ey * ey <= radius * radius {
                        self.rows[y] |= 1 << x;
                    }
                }
            }
        }
    }

    /// Inked cells per block, `0..=16`, row by row.
    pub fn counts(&self) -> [u8; SIDE * SIDE] {
        let mut counts = [0; SIDE * SIDE];
        for (y, row) in self.rows.iter().enumerate() {
            for x in 0..SIDE {
                let block = (row >> (x * BLOCK)) & ((1 << BLOCK) - 1);
                counts[y / BLOCK * SIDE + x] += block.count_ones() as u8;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_inks_what_it_covers() {
        let mut canvas = Canvas::new();
        // A vertical bar two blocks wide, all the way down: columns 3 and 4.
        canvas.draw(&[[0.5, -1.0], [0.5, 2.0]], 0.124);
        for row in canvas.counts().chunks_exact(SIDE) {
            assert_eq!(row, [0, 0, 0, 16, 16, 0, 0, 0]);
        }
    }

    #[test]
    fn a_dot_is_round_and_the_border_cuts() {
        let mut canvas = Canvas::new();
        canvas.draw(&[[0.5, 0.5], [0.5, 0.5]], 0.2);
        let counts = canvas.counts();
        let mut turned = counts;
        turned.reverse();
        assert_eq!(counts, turned);
        let ink: u32 = counts.iter().map(|&c| u32::from(c)).sum();
        assert!((115..=142).contains(&ink), "{ink}"); // pi 6.4^2 = 129
        canvas.draw(&[[-3.0, -3.0], [-3.0, -3.0]], 0.2);
        assert_eq!(canvas.counts(), counts);
    }
}
