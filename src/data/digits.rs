//! Embedded data set: 1,797 handwritten digits of 8x8 gray pixels (UCI, CC BY 4.0).
//!
//! It needs no download. Source, license and format are in the README of the asset (`scenarios/data/`). The split is
//! fixed: of every class, in file order, the first 80 % (rounded down) are training samples and the rest test
//! samples.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::{DataError, Dataset, Split};

const ASSET: &[u8] = include_bytes!("../../scenarios/data/digits.bin.gz");
const SIDE: usize = 8;
const CLASSES: usize = 10;
const RECORD: usize = 1 + SIDE * SIDE;

/// Returns the digits: ten classes named `0` to `9`, images of shape `[1, 8, 8]`.
///
/// # Errors
/// Returns an error only if the binary itself is damaged.
pub fn embedded() -> Result<Dataset, DataError> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(ASSET)
        .read_to_end(&mut bytes)
        .map_err(|e| DataError::io(Path::new("(embedded)/digits.bin.gz"), "the digits", e))?;
    let mut totals = [0usize; CLASSES];
    bytes.chunks_exact(RECORD).for_each(|r| totals[usize::from(r[0]) % CLASSES] += 1);
    let mut taken = [0usize; CLASSES];
    let mut splits = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for record in bytes.chunks_exact(RECORD) {
        let class = usize::from(record[0]) % CLASSES;
        let (pixels, labels) = &mut splits[usize::from(taken[class] >= totals[class] * 4 / 5)];
        taken[class] += 1;
        labels.push(class as u32);
        // 0..=16 ink cells become 0..=255, rounded.
        pixels.extend(record[1..].iter().map(|&v| ((u16::from(v) * 255 + 8) / 16) as u8));
    }
    let [train, test] = splits;
    let split = |(pixels, labels)| Split::from_buffer(pixels, [1, SIDE, SIDE], labels, CLASSES);
    Ok(Dataset {
        name: "digits".to_owned(),
        class_names: (0..CLASSES).map(|c| c.to_string()).collect(),
        train: Arc::new(split(train)?),
        test: Arc::new(split(test)?),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_the_published_ones() {
        let digits = embedded().unwrap();
        let per_class = |split: &Split| split.by_class().iter().map(Vec::len).collect::<Vec<_>>();
        let (train, test) = (per_class(&digits.train), per_class(&digits.test));
        // Class sizes as scikit-learn's description of the set gives them.
        let published = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];
        for class in 0..CLASSES {
            assert_eq!(train[class] + test[class], published[class]);
            assert_eq!(train[class], published[class] * 4 / 5);
        }
        // The first image of the file, a zero: its first row is 0 0 5 13 9 1 0 0 of 16.
        let first = digits.train.image(0).unwrap();
        assert_eq!(digits.train.labels()[0], 0);
        assert_eq!(first.pixels[..8], [0, 0, 80, 207, 143, 16, 0, 0]);
    }
}
