//! Where the samples of a split are: in one buffer, in files, or in another split.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::folder::{self, StoredSize};
use super::{DataError, Image, Split};

/// Where the pixels, or the tokens, are.
#[derive(Debug)]
pub(crate) enum Store {
    /// All images in one buffer, one size.
    Buffer { bytes: Vec<u8>, shape: [usize; 3] },
    /// Images of different sizes, one behind the other.
    Ragged { bytes: Vec<u8>, shapes: Shapes },
    /// Decoded at each access, and brought to `size`.
    Files { paths: Vec<PathBuf>, size: StoredSize },
    /// Samples of another split, perhaps the same one more than once.
    Chosen { of: Arc<Split>, samples: Vec<u32> },
    /// Sequences of tokens, one behind the other, all of one length.
    Tokens { ids: Vec<u32>, length: usize },
}

impl Store {
    /// Sample `i`.
    ///
    /// # Errors
    /// A file that cannot be read or decoded; text.
    pub fn image(&self, i: usize) -> Result<Image<'_>, DataError> {
        match self {
            Store::Buffer { bytes, shape } => {
                let [channels, height, width] = *shape;
                let size = channels * height * width;
                let pixels = Cow::Borrowed(&bytes[i * size..(i + 1) * size]);
                Ok(Image { channels, height, width, pixels })
            }
            Store::Ragged { bytes, shapes } => {
                let ([channels, height, width], place) = shapes.at(i);
                let pixels = Cow::Borrowed(&bytes[place]);
                Ok(Image { channels, height, width, pixels })
            }
            Store::Files { paths, size } => folder::decode(&paths[i], *size),
            Store::Chosen { of, samples } => of.image(samples[i] as usize),
            Store::Tokens { .. } => Err(DataError::unfit(
                "text has no pixels",
                "choose `backbone.kind = \"bert\"`, which reads text",
            )),
        }
    }

    /// Some samples, in this order, of the same kind of store.
    pub fn chosen(&self, kept: &[usize]) -> Store {
        match self {
            Store::Buffer { bytes, shape } => {
                let size = shape.iter().product::<usize>();
                let images = kept.iter().flat_map(|i| &bytes[i * size..(i + 1) * size]);
                Store::Buffer { bytes: images.copied().collect(), shape: *shape }
            }
            Store::Ragged { bytes, shapes } => {
                let chosen = kept.iter().map(|&i| shapes.at(i));
                let (shapes, places): (Vec<_>, Vec<_>) = chosen.unzip();
                let bytes = places.into_iter().flat_map(|place| &bytes[place]).copied().collect();
                Store::Ragged { bytes, shapes: shapes.into() }
            }
            Store::Files { paths, size } => Store::Files {
                paths: kept.iter().map(|&i| paths[i].clone()).collect(),
                size: *size,
            },
            Store::Chosen { of, samples } => Store::Chosen {
                of: Arc::clone(of),
                samples: kept.iter().map(|&i| samples[i]).collect(),
            },
            Store::Tokens { ids, length } => Store::Tokens {
                ids: kept.iter().flat_map(|i| &ids[i * length..][..*length]).copied().collect(),
                length: *length,
            },
        }
    }

    /// Adds the content to a digest.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn digest_into(&self, hasher: &mut blake3::Hasher) -> Result<(), DataError> {
        match self {
            Store::Buffer { bytes, shape } => {
                for extent in shape {
                    hasher.update(&(*extent as u64).to_le_bytes());
                }
                hasher.update(bytes);
            }
            Store::Tokens { ids, length } => {
                hasher.update(&(*length as u64).to_le_bytes());
                ids.iter().for_each(|token| {
                    hasher.update(&token.to_le_bytes());
                });
            }
            Store::Ragged { bytes, shapes } => {
                for extent in shapes.list.iter().flatten() {
                    hasher.update(&(*extent as u64).to_le_bytes());
                }
                hasher.update(bytes);
            }
            Store::Files { paths, size } => {
                hasher.update(words_of(*size).as_bytes());
                for path in paths {
                    let bytes = crate::files::read(path, crate::files::Kind::Image)
                        .map_err(|error| DataError::io(path, "an image", error))?;
                    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes);
                }
            }
            Store::Chosen { of, samples } => {
                hasher.update(of.digest()?.as_bytes());
                samples.iter().for_each(|sample| {
                    hasher.update(&sample.to_le_bytes());
                });
            }
        }
        Ok(())
    }
}

/// The size of files in digests: of squares and originals as it always was.
fn words_of(size: StoredSize) -> String {
    match size {
        StoredSize::Original => "None".to_owned(),
        StoredSize::Square(side) => format!("Some({side})"),
        StoredSize::Shorter { .. } => format!("{size:?}"),
    }
}

/// Where images of different sizes lie, one behind the other.
#[derive(Debug)]
pub(crate) struct Shapes {
    list: Vec<[usize; 3]>,
    /// First byte of each.
    starts: Vec<usize>,
}

impl Shapes {
    /// The shape of an image and its bytes.
    fn at(&self, i: usize) -> ([usize; 3], Range<usize>) {
        let (shape, start) = (self.list[i], self.starts[i]);
        (shape, start..start + shape.iter().product::<usize>())
    }
}

impl From<Vec<[usize; 3]>> for Shapes {
    fn from(list: Vec<[usize; 3]>) -> Shapes {
        let mut end = 0;
        let starts = list.iter().map(|shape| {
            let start = end;
            end += shape.iter().product::<usize>();
            start
        });
        Shapes { starts: starts.collect(), list }
    }
}
