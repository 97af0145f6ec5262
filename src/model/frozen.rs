//! Part of a model that never changes, and so is computed once per sample.

use candle_core::Tensor;

use super::{Adaptation, Backbone, ModelError};

/// Part of a model, from the pixels on, that is neither adapted nor trained any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrozenPart {
    /// Nothing, or nothing that is worth caching.
    Nothing,
    /// The blocks of a transformer below this one; at least 1.
    Below(usize),
    /// All layers up to the features.
    Whole,
    /// All layers up to the features of a backbone that an earlier method changed before it froze it.
    ///
    /// It has the digest of these changes.
    Adapted(u64),
}

impl FrozenPart {
    /// Returns the name in caches, such as `features` or `block-3`.
    pub fn name(self) -> String {
        match self {
            FrozenPart::Nothing => "nothing".to_owned(),
            FrozenPart::Below(block) => format!("block-{block}"),
            FrozenPart::Whole => "features".to_owned(),
            FrozenPart::Adapted(digest) => format!("adapted-{digest:016x}"),
        }
    }
}

/// Number of samples that go through a frozen part together on a CPU.
///
/// With the embedded network, 8 together take 4 % longer per sample than 32, and one alone takes 40 % longer.
pub const FROZEN_BATCH: usize = 8;

/// Applies `give` to `pixels` `(b, c, h, w)`, on a CPU in batches of [`FROZEN_BATCH`].
///
/// The last batch is padded, see [`Backbone::frozen`].
///
/// # Errors
/// Fails as `give` does, and if the pixels have no batch dimension.
pub fn in_frozen_batches<E: From<candle_core::Error>>(
    pixels: &Tensor,
    give: impl Fn(&Tensor) -> Result<Tensor, E>,
) -> Result<Tensor, E> {
    let rows = pixels.dim(0)?;
    if !pixels.device().is_cpu() || rows == 0 {
        return give(pixels);
    }
    let mut given = Vec::with_capacity(rows.div_ceil(FROZEN_BATCH));
    for first in (0..rows).step_by(FROZEN_BATCH) {
        let count = FROZEN_BATCH.min(rows - first);
        let full = pixels.narrow(0, first, count)?;
        let full = full.pad_with_same(0, 0, FROZEN_BATCH - count)?;
        given.push(give(&full)?.narrow(0, 0, count)?);
    }
    Ok(Tensor::cat(&given, 0)?)
}

impl Backbone {
    /// Returns the output of a frozen part for `pixels` `(b, c, h, w)`. It is features `(b, dim)`, or the tokens `(b,
    /// n, d)` that enter the first block above the part.
    ///
    /// A matrix product rounds a row depending on the number of rows, but not on their content. So on a CPU samples are
    /// taken [`FROZEN_BATCH`] at a time, and the last batch is padded: a sample's result has the same bits in every
    /// batch, and can be recomputed instead of stored.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit, or there are no blocks.
    pub fn frozen(&self, pixels: &Tensor, part: FrozenPart) -> Result<Tensor, ModelError> {
        match self {
            Backbone::Pixels(_) => self.give(pixels, part),
            _ => in_frozen_batches(pixels, |pixels| self.give(pixels, part)),
        }
    }

    fn give(&self, pixels: &Tensor, part: FrozenPart) -> Result<Tensor, ModelError> {
        let none = Adaptation::none();
        match (part, self.vit()) {
            (FrozenPart::Nothing, _) => Ok(pixels.clone()),
            (FrozenPart::Whole | FrozenPart::Adapted(_), _) => self.features(pixels, &none),
            (FrozenPart::Below(block), Some(vit)) => {
                vit.advance(&vit.embed(pixels)?, 0..block, &none)
            }
            (FrozenPart::Below(_), None) => Err(self.config().no_blocks_for("a stream of tokens")),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::data::digits;
    use crate::model::embedded_vit;

    fn digits_of(samples: &[u32]) -> Tensor {
        let split = digits::embedded().unwrap().train;
        let stacked = split.pixels(&crate::data::Transform::default(), samples).unwrap();
        Tensor::from_vec(stacked.pixels, stacked.shape.as_slice(), &Device::Cpu).unwrap()
    }

    fn bits(rows: &Tensor) -> Vec<Vec<u32>> {
        let rows = rows.flatten_from(1).unwrap().to_vec2::<f32>().unwrap();
        rows.into_iter().map(|row| row.into_iter().map(f32::to_bits).collect()).collect()
    }

    #[test]
    fn the_bits_of_a_sample_do_not_depend_on_its_batch() {
        let backbone = Backbone::from(embedded_vit().unwrap());
        let samples: Vec<u32> = (0..21).map(|i| 37 * i % 500).collect();
        let pixels = digits_of(&samples);
        for part in [FrozenPart::Whole, FrozenPart::Below(1), FrozenPart::Below(5)] {
            let together = bits(&backbone.frozen(&pixels, part).unwrap());
            for (first, count) in [(0, 1), (20, 1), (3, 2), (5, 7), (2, 8), (1, 13), (4, 17)] {
                let some = pixels.narrow(0, first, count).unwrap();
                let alone = bits(&backbone.frozen(&some, part).unwrap());
                assert_eq!(alone, together[first..first + count], "{part:?}: {first}, {count}");
            }
        }
    }

    #[test]
    fn parts_go_on_to_the_features() {
        let backbone = Backbone::from(embedded_vit().unwrap());
        let (pixels, none) = (digits_of(&[1, 2, 3, 4, 5, 6, 7, 8]), Adaptation::none());
        let features = bits(&backbone.features(&pixels, &none).unwrap());
        assert_eq!(bits(&backbone.frozen(&pixels, FrozenPart::Whole).unwrap()), features);
        let tokens = backbone.frozen(&pixels, FrozenPart::Below(2)).unwrap();
        assert_eq!(bits(&backbone.features_from(&tokens, 2, &none).unwrap()), features);
        let pixels_only = Backbone::Pixels(crate::model::PixelShape { channels: 1, image: 8 });
        assert!(pixels_only.frozen(&pixels, FrozenPart::Below(1)).is_err());
    }
}
