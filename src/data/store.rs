//! Storage of a split's samples: in one buffer, in files, or in another split.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::{self, StoredForm};
use super::synthetic::DrawnRows;
use super::{DataError, Image, Split};

/// Storage of a split's samples: pixels, tokens or rows.
#[derive(Debug)]
pub(crate) enum Store {
    /// All images in one buffer, of equal size.
    Buffer { bytes: Vec<u8>, shape: [usize; 3] },
    /// All images in one buffer, of equal size, as floats.
    Floats { values: Vec<f32>, shape: [usize; 3] },
    /// Images of different sizes, concatenated.
    Ragged { bytes: Vec<u8>, shapes: Shapes },
    /// Image files, decoded and brought to their stored form at each access.
    Files { images: Vec<Encoded>, form: StoredForm },
    /// Samples of another split, possibly repeated.
    Chosen { of: Arc<Split>, samples: Vec<u32> },
    /// Token sequences of equal length, concatenated.
    Tokens { ids: Vec<u32>, length: usize },
    /// Rows of equal width, concatenated.
    Rows { values: Vec<f32>, width: usize },
    /// Rows of a synthetic data set, drawn at each access.
    Drawn { rows: Arc<DrawnRows>, samples: Vec<u32> },
}

impl Store {
    /// Returns image `i` as bytes.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or decoded, or if the samples are not images of bytes.
    pub fn image(&self, i: usize) -> Result<Image<'_>, DataError> {
        match self {
            Store::Buffer { bytes, shape } => {
                let [channels, height, width] = *shape;
                let size = channels * height * width;
                let pixels = Cow::Borrowed(&bytes[i * size..(i + 1) * size]);
                Ok(Image { channels, height, width, pixels })
            }
            Store::Floats { .. } => Err(DataError::unfit(
                "images of floats have no bytes",
                "save their pixels as bytes of 0 to 255: x.astype(\"uint8\")",
            )),
            Store::Ragged { bytes, shapes } => {
                let ([channels, height, width], place) = shapes.at(i);
                let pixels = Cow::Borrowed(&bytes[place]);
                Ok(Image { channels, height, width, pixels })
            }
            Store::Files { images, form } => folder::decode(&images[i], *form),
            Store::Chosen { of, samples } => of.image(samples[i] as usize),
            Store::Tokens { .. } => Err(DataError::unfit(
                "text has no pixels",
                "choose `backbone.kind = \"bert\"`, which reads text",
            )),
            Store::Rows { .. } | Store::Drawn { .. } => Err(DataError::unfit(
                "rows of a table have no pixels",
                "choose `backbone.kind = \"pixels\"`, which passes rows on as they are",
            )),
        }
    }

    /// Returns image `i` of float images; `None` for all other samples.
    pub fn float_image(&self, i: usize) -> Option<Image<'_, f32>> {
        match self {
            Store::Floats { values, shape } => {
                let [channels, height, width] = *shape;
                let size = channels * height * width;
                let pixels = Cow::Borrowed(&values[i * size..(i + 1) * size]);
                Some(Image { channels, height, width, pixels })
            }
            Store::Chosen { of, samples } => of.float_image(samples[i] as usize),
            Store::Buffer { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Tokens { .. }
            | Store::Rows { .. }
            | Store::Drawn { .. } => None,
        }
    }

    /// Returns the samples `kept`, in this order, in the same kind of store.
    pub fn chosen(&self, kept: &[usize]) -> Store {
        match self {
            Store::Buffer { bytes, shape } => {
                let size = shape.iter().product::<usize>();
                let images = kept.iter().flat_map(|i| &bytes[i * size..(i + 1) * size]);
                Store::Buffer { bytes: images.copied().collect(), shape: *shape }
            }
            Store::Floats { values, shape } => {
                let size = shape.iter().product::<usize>();
                let images = kept.iter().flat_map(|i| &values[i * size..(i + 1) * size]);
                Store::Floats { values: images.copied().collect(), shape: *shape }
            }
            Store::Ragged { bytes, shapes } => {
                let chosen = kept.iter().map(|&i| shapes.at(i));
                let (shapes, places): (Vec<_>, Vec<_>) = chosen.unzip();
                let bytes = places.into_iter().flat_map(|place| &bytes[place]).copied().collect();
                Store::Ragged { bytes, shapes: shapes.into() }
            }
            Store::Files { images, form } => Store::Files {
                images: kept.iter().map(|&i| images[i].clone()).collect(),
                form: *form,
            },
            Store::Chosen { of, samples } => Store::Chosen {
                of: Arc::clone(of),
                samples: kept.iter().map(|&i| samples[i]).collect(),
            },
            Store::Tokens { ids, length } => Store::Tokens {
                ids: kept.iter().flat_map(|i| &ids[i * length..][..*length]).copied().collect(),
                length: *length,
            },
            Store::Rows { values, width } => Store::Rows {
                values: kept.iter().flat_map(|i| &values[i * width..][..*width]).copied().collect(),
                width: *width,
            },
            Store::Drawn { rows, samples } => Store::Drawn {
                rows: Arc::clone(rows),
                samples: kept.iter().map(|&i| samples[i]).collect(),
            },
        }
    }

    /// Adds the content to a digest.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn digest_into(&self, hasher: &mut blake3::Hasher) -> Result<(), DataError> {
        match self {
            Store::Buffer { bytes, shape } => {
                for extent in shape {
                    hasher.update(&(*extent as u64).to_le_bytes());
                }
                hasher.update(bytes);
            }
            Store::Floats { values, shape } => {
                for extent in shape {
                    hasher.update(&(*extent as u64).to_le_bytes());
                }
                values.iter().for_each(|value| {
                    hasher.update(&value.to_le_bytes());
                });
            }
            Store::Tokens { ids, length } => {
                hasher.update(&(*length as u64).to_le_bytes());
                ids.iter().for_each(|token| {
                    hasher.update(&token.to_le_bytes());
                });
            }
            Store::Rows { values, width } => {
                hasher.update(&(*width as u64).to_le_bytes());
                values.iter().for_each(|value| {
                    hasher.update(&value.to_le_bytes());
                });
            }
            Store::Drawn { rows, samples } => {
                rows.digest_into(hasher);
                samples.iter().for_each(|sample| {
                    hasher.update(&sample.to_le_bytes());
                });
            }
            Store::Ragged { bytes, shapes } => {
                for extent in shapes.list.iter().flatten() {
                    hasher.update(&(*extent as u64).to_le_bytes());
                }
                hasher.update(bytes);
            }
            Store::Files { images, form } => {
                hasher.update(form.word().as_bytes());
                for image in images {
                    let bytes = image.bytes()?;
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

/// Encoded image, PNG or JPEG for example.
#[derive(Clone, Debug)]
pub(crate) enum Encoded {
    /// Image file.
    File(PathBuf),
    /// Row of a columnar file.
    Packed { bytes: Arc<[u8]>, table: Arc<Path>, row: u32 },
}

impl Encoded {
    /// Returns the image's place, for errors.
    pub fn place(&self) -> PathBuf {
        match self {
            Encoded::File(path) => path.clone(),
            Encoded::Packed { table, row, .. } => format!("{} row {row}", table.display()).into(),
        }
    }

    /// Returns the encoded bytes.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, DataError> {
        match self {
            Encoded::File(path) => crate::files::read(path, crate::files::FileKind::Image)
                .map(Cow::Owned)
                .map_err(|error| DataError::io(path, "an image", error)),
            Encoded::Packed { bytes, .. } => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// Shapes and positions of concatenated images of different sizes.
#[derive(Debug)]
pub(crate) struct Shapes {
    list: Vec<[usize; 3]>,
    /// Index of the first byte of each image.
    starts: Vec<usize>,
}

impl Shapes {
    /// Returns the shape of image `i` and the range of its bytes.
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
