//! Resizing, in the variants that pretrained networks expect. At a strong edge their results differ by several gray
//! levels.
//!
//! | kernel | constant | border | arithmetic | who does it |
//! |---|---|---|---|---|
//! | [`Kernel::Torch`] | A = -0.75, always 4 taps | indices clamped | float, overshoot kept | `interpolate(antialias=False)` |
//! | [`Kernel::Antialias`] | A = -0.5, widened when shrinking | taps outside dropped, rest renormalized | float, overshoot kept | torchvision on tensors |
//! | [`Kernel::Pillow`] | as `Antialias` | as `Antialias` | u8, 22-bit fixed point, clipped after each pass | Pillow, torchvision on images |
//! | [`Kernel::Bilinear`] | triangle, widened when shrinking | as `Antialias` | as `Pillow` | the same, torchvision's default |
//!
//! All are separable: first along rows, then along columns.

pub use crate::scenario::Kernel;

const FIXED_BITS: u32 = 22;

/// Weights that resize a line of `from` pixels to `to` pixels, computed once per pair of sizes.
#[derive(Clone, Debug)]
pub struct ResizeWeights {
    from: usize,
    taps: usize,
    /// First source pixel of each target pixel.
    starts: Vec<usize>,
    /// Weights `(to, taps)`; unused taps are zero and still lie inside the source line.
    weights: Vec<f32>,
    /// Weights times 2^22 (kernels on bytes only).
    fixed: Vec<i32>,
}

impl ResizeWeights {
    /// Returns the weights of `kernel` from `from` to `to` pixels, both positive.
    pub fn new(kernel: Kernel, from: usize, to: usize) -> ResizeWeights {
        let lines: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|o| match kernel {
                Kernel::Torch => plain(o, from, to),
                Kernel::Antialias | Kernel::Pillow => {
                    antialiased(o, from, to, 2.0, |x| cubic(x, -0.5))
                }
                Kernel::Bilinear => antialiased(o, from, to, 1.0, triangle),
            })
            .collect();
        let taps = lines.iter().map(|(_, w)| w.len()).max().unwrap_or(0);
        let mut table =
            ResizeWeights { from, taps, starts: vec![], weights: vec![], fixed: vec![] };
        for (start, mut line) in lines {
            // Lines at the end of the source are padded in front instead of behind.
            let shift = (start + taps).saturating_sub(from);
            line.splice(0..0, std::iter::repeat_n(0.0, shift));
            line.resize(taps, 0.0);
            table.starts.push(start - shift);
            table.weights.extend(line.iter().map(|&w| w as f32));
            if kernel.on_bytes() {
                let scale = f64::from(1 << FIXED_BITS);
                // `as` truncates towards zero, as C does.
                table.fixed.extend(line.iter().map(|&w| (w * scale + 0.5f64.copysign(w)) as i32));
            }
        }
        table
    }

    /// Returns the length of the line it produces.
    pub fn to(&self) -> usize {
        self.starts.len()
    }
}

/// Keys' cubic convolution kernel.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

/// Linear interpolation between two pixels.
fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Returns the first source pixel and the weights, four at most, of target pixel `o`.
///
/// Indices outside the line fall on the border pixel.
fn plain(o: usize, from: usize, to: usize) -> (usize, Vec<f64>) {
    let at = (o as f64 + 0.5) * from as f64 / to as f64 - 0.5;
    let base = at.floor();
    let clamp = |i: f64| i.clamp(0.0, from as f64 - 1.0) as usize;
    let start = clamp(base - 1.0);
    let mut line = vec![0.0; clamp(base + 2.0) - start + 1];
    for k in [-1.0, 0.0, 1.0, 2.0] {
        line[clamp(base + k) - start] += cubic(at - base - k, -0.75);
    }
    (start, line)
}

/// Returns the first source pixel and the weights of a kernel that widens when it shrinks the image.
///
/// Weights are zero beyond `reach` times the shrinking factor, and are normalized to sum to one.
fn antialiased(
    o: usize,
    from: usize,
    to: usize,
    reach: f64,
    kernel: impl Fn(f64) -> f64,
) -> (usize, Vec<f64>) {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = reach * stretch;
    let center = (o as f64 + 0.5) * scale;
    let start = (center - support + 0.5).max(0.0) as usize;
    let end = ((center + support + 0.5) as usize).min(from);
    let mut line: Vec<f64> =
        (start..end).map(|i| kernel((i as f64 - center + 0.5) / stretch)).collect();
    let total: f64 = line.iter().sum();
    if total != 0.0 {
        line.iter_mut().for_each(|w| *w /= total);
    }
    (start, line)
}

/// Resizes planes of floats: `input` is `(planes, rows.from, columns.from)`, `output` becomes `(planes, rows.to,
/// columns.to)`. `middle` is scratch memory.
pub fn resize_f32(
    rows: &ResizeWeights,
    columns: &ResizeWeights,
    input: &[f32],
    middle: &mut Vec<f32>,
    output: &mut Vec<f32>,
) {
    let (width, planes) = (columns.to(), input.len() / (rows.from * columns.from));
    middle.clear();
    middle.reserve(planes * rows.from * width);
    for line in input.chunks_exact(columns.from) {
        for (start, weights) in
            columns.starts.iter().zip(columns.weights.chunks_exact(columns.taps))
        {
            let taps = &line[*start..start + columns.taps];
            middle.push(taps.iter().zip(weights).map(|(v, w)| v * w).sum());
        }
    }
    output.clear();
    output.resize(planes * rows.to() * width, 0.0);
    let planes = middle.chunks_exact(rows.from * width);
    for (plane, out) in planes.zip(output.chunks_exact_mut(rows.to() * width)) {
        for (o, line) in out.chunks_exact_mut(width).enumerate() {
            for (k, &w) in rows.weights[o * rows.taps..(o + 1) * rows.taps].iter().enumerate() {
                let source = &plane[(rows.starts[o] + k) * width..][..width];
                line.iter_mut().zip(source).for_each(|(out, v)| *out += w * v);
            }
        }
    }
}

/// Resizes planes of bytes like [`resize_f32`], with Pillow's arithmetic. The weights must be of a kernel on bytes.
pub fn resize_u8(
    rows: &ResizeWeights,
    columns: &ResizeWeights,
    input: &[u8],
    middle: &mut Vec<u8>,
    output: &mut Vec<u8>,
) {
    const HALF: i32 = 1 << (FIXED_BITS - 1);
    let clip = |sum: i32| (sum >> FIXED_BITS).clamp(0, 255) as u8;
    let (width, planes) = (columns.to(), input.len() / (rows.from * columns.from));
    middle.clear();
    middle.reserve(planes * rows.from * width);
    for line in input.chunks_exact(columns.from) {
        for (start, weights) in columns.starts.iter().zip(columns.fixed.chunks_exact(columns.taps))
        {
            let taps = &line[*start..start + columns.taps];
            let sum: i32 = taps.iter().zip(weights).map(|(&v, w)| i32::from(v) * w).sum();
            middle.push(clip(HALF + sum));
        }
    }
    output.clear();
    output.reserve(planes * rows.to() * width);
    let mut sums = vec![0i32; width];
    for plane in middle.chunks_exact(rows.from * width) {
        for o in 0..rows.to() {
            sums.fill(HALF);
            for (k, &w) in rows.fixed[o * rows.taps..(o + 1) * rows.taps].iter().enumerate() {
                let source = &plane[(rows.starts[o] + k) * width..][..width];
                sums.iter_mut().zip(source).for_each(|(sum, &v)| *sum += w * i32::from(v));
            }
            output.extend(sums.iter().map(|&sum| clip(sum)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_changes_nothing() {
        let line: Vec<u8> = (0..49).map(|i| (i * 37 % 256) as u8).collect();
        let floats: Vec<f32> = line.iter().map(|&v| f32::from(v)).collect();
        for kernel in [Kernel::Torch, Kernel::Antialias, Kernel::Pillow, Kernel::Bilinear] {
            let table = ResizeWeights::new(kernel, 7, 7);
            let (mut middle, mut out) = (vec![], vec![]);
            resize_f32(&table, &table, &floats, &mut middle, &mut out);
            assert_eq!(out, floats, "{kernel:?}");
        }
        let table = ResizeWeights::new(Kernel::Pillow, 7, 7);
        let (mut middle, mut out) = (vec![], vec![]);
        resize_u8(&table, &table, &line, &mut middle, &mut out);
        assert_eq!(out, line);
    }

    #[test]
    fn weights_sum_to_one_at_every_pair_of_sizes() {
        for (from, to) in [(1, 5), (2, 7), (8, 32), (32, 224), (224, 256), (256, 224), (90, 7)] {
            for kernel in [Kernel::Torch, Kernel::Antialias, Kernel::Pillow, Kernel::Bilinear] {
                let table = ResizeWeights::new(kernel, from, to);
                for (o, line) in table.weights.chunks_exact(table.taps).enumerate() {
                    let sum: f32 = line.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-5, "{kernel:?} {from}->{to} at {o}: {sum}");
                    assert!(table.starts[o] + table.taps <= from);
                }
            }
        }
    }

    /// Numbers of Pillow 13's `resize(.., BILINEAR)` of one 5 x 7 image: shrinking, and growing in part.
    #[test]
    fn bilinear_is_that_of_pillow() {
        const IMAGE: [u8; 35] = [
            200, 17, 68, 97, 16, 169, 44, 53, 70, 65, 206, 69, 166, 153, 106, 67, 174, 3, 66, 19,
            206, 103, 176, 227, 0, 175, 72, 203, 212, 229, 224, 109, 228, 69, 56,
        ];
        let resized = |height, width| {
            let rows = ResizeWeights::new(Kernel::Bilinear, 5, height);
            let columns = ResizeWeights::new(Kernel::Bilinear, 7, width);
            let (mut middle, mut out) = (vec![], vec![]);
            resize_u8(&rows, &columns, &IMAGE, &mut middle, &mut out);
            out
        };
        assert_eq!(resized(3, 4), [92, 83, 94, 121, 96, 116, 73, 133, 186, 176, 138, 103]);
        assert_eq!(resized(3, 3), [80, 96, 113, 108, 88, 116, 196, 143, 116]);
        let grown = resized(8, 10);
        assert_eq!(grown[..10], [200, 99, 30, 65, 87, 69, 24, 131, 113, 44]);
        assert_eq!(grown[40..50], [105, 103, 124, 186, 68, 36, 97, 52, 112, 205]);
    }
}
