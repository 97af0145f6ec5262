//! A data set: two splits of labeled u8 images and the names of their classes.
//!
//! Images are kept as bytes, in one buffer when they all have one size, and become floats
//! only in batches. Labels here are the *data set's* class ids; the [`TaskSequence`](super::TaskSequence)
//! maps them to head rows.
//!
//! ```
//! use fedcast::data::digits;
//! let digits = digits::embedded()?;
//! let image = digits.train.image(0)?;
//! assert_eq!((image.channels, image.height, image.width), (1, 8, 8));
//! assert_eq!(digits.train.len() + digits.test.len(), 1_797);
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use super::folder::{StoredForm, StoredSize};
use super::prepared::Prepared;
use super::store::Store;
use super::transform::Transform;
use super::{DataError, Image, Stacked};

/// Two splits over the same classes.
#[derive(Debug)]
pub struct Dataset {
    /// Name for the user: `cifar-100`, `digits`, the folder's name.
    pub name: String,
    /// Names of the classes, by class id.
    pub class_names: Vec<String>,
    /// Training samples; the shards of clients index them.
    pub train: Arc<Split>,
    /// Samples on which the server measures accuracy.
    pub test: Arc<Split>,
    /// Notes for the user: replaced and omitted samples and files.
    pub notes: Vec<String>,
}

impl Dataset {
    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.class_names.len()
    }

    /// Returns the number of training samples of each class. Partitions need nothing else for their counts.
    pub fn class_sizes(&self) -> Vec<usize> {
        self.train.by_class().iter().map(Vec::len).collect()
    }
}

/// Labelled images, in a fixed order.
#[derive(Debug)]
pub struct Split {
    labels: Vec<u32>,
    by_class: Vec<Vec<u32>>,
    store: Store,
    /// Cache of pixels after deterministic transforms. `None` for a transform that is not prepared.
    prepared: Mutex<Vec<(Transform, Option<Arc<Prepared>>)>>,
    prepared_budget: usize,
    /// Natural owner of each sample, if the data have owners.
    owners: Option<Vec<u32>>,
    /// Numbers of the samples before some were left out.
    numbers: Option<Vec<u32>>,
    /// Digest, computed on first request.
    digest: OnceLock<blake3::Hash>,
}

/// Default limit of the bytes of prepared pixels per split.
const PREPARED_BUDGET: usize = 128 << 20;

impl Split {
    /// Returns a split of images of one size. `bytes` holds them one after the other, each in channel, row, column
    /// order; `shape` is `[channels, height, width]`.
    pub fn from_buffer(
        bytes: Vec<u8>,
        shape: [usize; 3],
        labels: Vec<u32>,
        classes: usize,
    ) -> Result<Split, DataError> {
        let image = shape.iter().product::<usize>();
        if bytes.len() != image * labels.len() {
            return Err(DataError::unfit(
                format!("{} bytes for {} images of {image} bytes", bytes.len(), labels.len()),
                "give one label per image and whole images",
            ));
        }
        Split::new(Store::Buffer { bytes, shape }, labels, classes)
    }

    pub(crate) fn new(store: Store, labels: Vec<u32>, classes: usize) -> Result<Split, DataError> {
        let mut by_class = vec![Vec::new(); classes];
        for (i, &label) in labels.iter().enumerate() {
            let Some(samples) = by_class.get_mut(label as usize) else {
                return Err(DataError::unfit(
                    format!("sample {i} has label {label} but there are {classes} classes"),
                    "labels must be below the number of classes",
                ));
            };
            samples.push(i as u32);
        }
        let prepared = Mutex::new(Vec::new());
        Ok(Split {
            labels,
            by_class,
            store,
            prepared,
            prepared_budget: PREPARED_BUDGET,
            owners: None,
            numbers: None,
            digest: OnceLock::new(),
        })
    }

    /// Returns samples of another split, in this order and with new labels. Pixels are not copied.
    ///
    /// # Errors
    /// Returns an error if a label is not below the number of classes.
    pub(crate) fn chosen(
        of: &Arc<Split>,
        samples: Vec<u32>,
        labels: Vec<u32>,
        classes: usize,
    ) -> Result<Split, DataError> {
        let base = samples.iter().map(|sample| of.origin(*sample)).collect();
        Split::new(Store::Chosen { of: of.base(), samples: base }, labels, classes)
    }

    /// Returns the split that owns the pixels: this one, or the one its samples were chosen from.
    pub fn base(self: &Arc<Split>) -> Arc<Split> {
        match &self.store {
            Store::Chosen { of, .. } => Arc::clone(of),
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Rows { .. }
            | Store::Drawn { .. }
            | Store::Tokens { .. } => Arc::clone(self),
        }
    }

    /// Returns the number of a sample in [`base`](Split::base).
    pub fn origin(&self, sample: u32) -> u32 {
        match &self.store {
            Store::Chosen { samples, .. } => samples[sample as usize],
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Rows { .. }
            | Store::Drawn { .. }
            | Store::Tokens { .. } => sample,
        }
    }

    /// Returns the split with a natural owner for each sample, one number per sample.
    pub(crate) fn with_owners(self, owners: Vec<u32>) -> Split {
        Split { owners: Some(owners), ..self }
    }

    /// Returns the samples with `owners` in place of the natural owners of the data.
    pub(crate) fn owned_by(self: Arc<Split>, owners: Vec<u32>) -> Result<Arc<Split>, DataError> {
        let split = match Arc::try_unwrap(self) {
            Ok(split) => split,
            Err(shared) => {
                let samples = (0..shared.len() as u32).collect();
                Split::chosen(&shared, samples, shared.labels.clone(), shared.by_class.len())?
            }
        };
        Ok(Arc::new(split.with_owners(owners)))
    }

    /// Returns the natural owner of each sample, such as the speaker of a line, if the data have owners.
    pub fn owners(&self) -> Option<&[u32]> {
        self.owners.as_deref()
    }

    /// Returns true if its samples are text, and so have tokens instead of pixels.
    pub fn is_text(&self) -> bool {
        match &self.store {
            Store::Tokens { .. } => true,
            Store::Chosen { of, .. } => of.is_text(),
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Rows { .. }
            | Store::Drawn { .. } => false,
        }
    }

    /// Returns true if its samples are images, and so have pixels.
    pub fn has_pixels(&self) -> bool {
        match &self.store {
            Store::Tokens { .. } | Store::Rows { .. } | Store::Drawn { .. } => false,
            Store::Chosen { of, .. } => of.has_pixels(),
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. } => true,
        }
    }

    /// Returns true if its samples are images of bytes.
    pub fn has_bytes(&self) -> bool {
        match &self.store {
            Store::Buffer { .. } | Store::Ragged { .. } | Store::Files { .. } => true,
            Store::Chosen { of, .. } => of.has_bytes(),
            Store::Floats { .. }
            | Store::Tokens { .. }
            | Store::Rows { .. }
            | Store::Drawn { .. } => false,
        }
    }

    /// Returns the concatenated rows of some samples of a table, and their width. `None` for other data.
    pub fn rows(&self, samples: &[u32]) -> Option<(Vec<f32>, usize)> {
        match &self.store {
            Store::Rows { values, width } => {
                let of = |sample: &u32| &values[*sample as usize * width..][..*width];
                Some((samples.iter().flat_map(of).copied().collect(), *width))
            }
            Store::Drawn { rows, samples: drawn } => {
                let mut values = Vec::with_capacity(samples.len() * rows.width());
                samples.iter().for_each(|sample| rows.append(drawn[*sample as usize], &mut values));
                Some((values, rows.width()))
            }
            Store::Chosen { of, .. } => {
                let origins: Vec<u32> = samples.iter().map(|sample| self.origin(*sample)).collect();
                of.rows(&origins)
            }
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Tokens { .. } => None,
        }
    }

    /// Returns the concatenated tokens of some samples, equally many for each. `None` for other data.
    pub fn tokens(&self, samples: &[u32]) -> Option<Vec<u32>> {
        match &self.store {
            Store::Tokens { ids, length } => {
                let of = |sample: &u32| &ids[*sample as usize * length..][..*length];
                Some(samples.iter().flat_map(of).copied().collect())
            }
            Store::Chosen { of, .. } => {
                let origins: Vec<u32> = samples.iter().map(|sample| self.origin(*sample)).collect();
                of.tokens(&origins)
            }
            Store::Buffer { .. }
            | Store::Floats { .. }
            | Store::Ragged { .. }
            | Store::Files { .. }
            | Store::Drawn { .. }
            | Store::Rows { .. } => None,
        }
    }

    /// Returns a network's input for some samples. It is pixels `(b, c, h, w)` after a deterministic transform,
    /// tokens `(b, n)`, or rows of a table `(b, n, 1, 1)`.
    ///
    /// # Errors
    /// Returns an error if a sample cannot be read, shapes differ or the transform is random.
    pub fn input(
        &self,
        transform: &Transform,
        samples: &[u32],
        device: &Device,
    ) -> Result<Tensor, DataError> {
        if let Some(tokens) = self.tokens(samples) {
            let length = tokens.len() / samples.len().max(1);
            return Ok(Tensor::from_vec(tokens, (samples.len(), length), device)?);
        }
        let Stacked { pixels, shape } = self.pixels(transform, samples)?;
        Ok(Tensor::from_vec(pixels, shape.as_slice(), device)?)
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the data set's class id of every sample.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the samples of every class id, ascending.
    pub fn by_class(&self) -> &[Vec<u32>] {
        &self.by_class
    }

    /// Returns the samples of these class ids, ascending.
    pub fn of_classes(&self, classes: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let of_class = |class: u32| self.by_class[class as usize].iter().copied();
        let mut samples: Vec<u32> = classes.into_iter().flat_map(of_class).collect();
        samples.sort_unstable();
        samples
    }

    /// Returns image `i`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or decoded, or if the samples are not images of bytes.
    ///
    /// # Panics
    /// Panics if `i` is not below [`Split::len`].
    pub fn image(&self, i: usize) -> Result<Image<'_>, DataError> {
        self.store.image(i)
    }

    /// Returns image `i` of a split of float images; `None` for other kinds of data.
    ///
    /// # Panics
    /// Panics if `i` is not below [`Split::len`].
    pub fn float_image(&self, i: usize) -> Option<Image<'_, f32>> {
        self.store.float_image(i)
    }

    /// Returns the number of a sample in its part of the data set, from 0, whichever samples were left out.
    pub fn number(&self, sample: u32) -> u32 {
        match (&self.store, &self.numbers) {
            (Store::Chosen { of, samples }, _) => of.number(samples[sample as usize]),
            (_, Some(numbers)) => numbers[sample as usize],
            (_, None) => sample,
        }
    }

    /// Returns a split of the first `most` samples of every class, in the same order.
    pub(crate) fn first_of_each_class(&self, most: usize) -> Result<Split, DataError> {
        let mut kept: Vec<usize> =
            self.by_class.iter().flat_map(|c| c.iter().take(most)).map(|&i| i as usize).collect();
        kept.sort_unstable();
        let store = self.store.chosen(&kept);
        let labels = kept.iter().map(|&i| self.labels[i]).collect();
        let numbers = Some(kept.iter().map(|&i| self.number(i as u32)).collect());
        let split = Split { numbers, ..Split::new(store, labels, self.by_class.len())? };
        Ok(match &self.owners {
            Some(owners) => split.with_owners(kept.iter().map(|&i| owners[i]).collect()),
            None => split,
        })
    }

    /// Returns `[channels, height, width]` of every image, if they are known to agree.
    pub fn image_shape(&self) -> Option<[usize; 3]> {
        match &self.store {
            Store::Buffer { shape, .. } | Store::Floats { shape, .. } => Some(*shape),
            Store::Files { form: StoredForm { size: StoredSize::Square(side), .. }, .. } => {
                Some([3, *side as usize, *side as usize])
            }
            Store::Files { .. } | Store::Ragged { .. } => None,
            Store::Chosen { of, .. } => of.image_shape(),
            Store::Rows { width, .. } => Some([*width, 1, 1]),
            Store::Drawn { rows, .. } => Some([rows.width(), 1, 1]),
            Store::Tokens { .. } => None,
        }
    }

    /// Returns the bytes of one stored sample; if images differ in size, of the first one.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn sample_bytes(&self) -> Result<u64, DataError> {
        match &self.store {
            Store::Tokens { length, .. } => return Ok(4 * *length as u64),
            Store::Rows { width, .. } => return Ok(4 * *width as u64),
            Store::Drawn { rows, .. } => return Ok(4 * rows.width() as u64),
            Store::Chosen { of, .. } => return of.sample_bytes(),
            Store::Floats { shape, .. } => return Ok(4 * shape.iter().product::<usize>() as u64),
            Store::Buffer { .. } | Store::Ragged { .. } | Store::Files { .. } => {}
        }
        match self.image_shape() {
            Some(shape) => Ok(shape.iter().product::<usize>() as u64),
            None if self.is_empty() => Ok(0),
            None => Ok(self.image(0)?.pixels.len() as u64),
        }
    }

    /// Returns the digest of labels and images, computed once.
    ///
    /// Images in memory count with their pixels, others with the bytes of their files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub fn digest(&self) -> Result<blake3::Hash, DataError> {
        if let Some(known) = self.digest.get() {
            return Ok(*known);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.labels.len() as u64).to_le_bytes());
        for label in &self.labels {
            hasher.update(&label.to_le_bytes());
        }
        self.store.digest_into(&mut hasher)?;
        // If another thread was faster, its result is the same.
        Ok(*self.digest.get_or_init(|| hasher.finalize()))
    }

    /// Sets the limit of the bytes that [`Split::prepared`] may use; with 0 it prepares nothing.
    #[cfg(test)]
    pub(super) fn set_prepared_budget(&mut self, bytes: usize) {
        self.prepared_budget = bytes;
    }

    /// Returns the whole split after a deterministic transform, made once and then shared. `None` when the transform
    /// draws or only turns bytes into floats (which costs less than the memory of four times the bytes), an image
    /// fails, or the result would not fit the budget.
    ///
    /// Evaluation and frozen-feature passes read the same pixels again and again; the first thread to request them
    /// prepares them while others wait.
    ///
    /// If samples were chosen from another split, this is that split as a whole: index it by [`origin`](Split::origin).
    pub fn prepared(&self, transform: &Transform) -> Option<Arc<Prepared>> {
        if let Store::Chosen { of, .. } = &self.store {
            return of.prepared(transform);
        }
        if !transform.is_deterministic() || transform.steps.is_empty() || self.is_empty() {
            return None;
        }
        // A panic elsewhere cannot leave the list inconsistent: it is only pushed to.
        let mut known = self.prepared.lock();
        if let Some((_, found)) = known.iter().find(|(t, _)| t == transform) {
            return found.clone();
        }
        let used: usize = known.iter().flat_map(|(_, p)| p).map(|p| p.bytes()).sum();
        let left = self.prepared_budget.saturating_sub(used);
        let made = Prepared::make(self, transform, left).map(Arc::new);
        known.push((transform.clone(), made.clone()));
        made
    }
}
