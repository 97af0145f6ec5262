//! Position embeddings for another resolution, as by timm's `resample_abs_pos_embed`. The CLS row is kept, and the grid
//! is resampled bicubically with antialiasing (A = -0.5, with a wider kernel if the grid shrinks).

use crate::data::transform::{Kernel, ResizeWeights, resize_f32};

/// Resamples `embedding` `(1 + from^2, dim)`, row-major, to `(1 + to^2, dim)`.
pub(super) fn resample(embedding: &[f32], dim: usize, from: usize, to: usize) -> Vec<f32> {
    if from == to {
        return embedding.to_vec();
    }
    let (cls, grid) = embedding.split_at(dim);
    let table = ResizeWeights::new(Kernel::Antialias, from, to);
    let (mut middle, mut resized) = (Vec::new(), Vec::new());
    resize_f32(&table, &table, &transpose(grid, dim), &mut middle, &mut resized);
    let mut output = cls.to_vec();
    output.extend(transpose(&resized, to * to));
    output
}

/// Returns the transpose `(columns, rows)` of `(rows, columns)`.
fn transpose(data: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|c| data[c..].iter().step_by(columns).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_grid_stays_constant_and_cls_is_kept() {
        let mut embedding = vec![7.0, 8.0];
        embedding.extend([1.0, -2.0].repeat(16));
        let resampled = resample(&embedding, 2, 4, 6);
        assert_eq!(resampled.len(), 2 * 37);
        assert_eq!(resampled[..2], [7.0, 8.0]);
        for row in resampled[2..].chunks_exact(2) {
            assert!((row[0] - 1.0).abs() < 1e-6 && (row[1] + 2.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_same_size_is_the_identity() {
        let embedding: Vec<f32> = (0..10).map(|i| i as f32).collect();
        assert_eq!(resample(&embedding, 2, 2, 2), embedding);
    }
}
