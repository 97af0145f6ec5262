//! Input of a training step or an evaluation pass: pixels, tokens or features, and labels as head rows.

use candle_core::{Device, Tensor};

use super::DataError;

/// One batch in host memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// Images of one size, with their pixels.
    Images {
        /// `(batch, channels, height, width)`, row-major.
        pixels: Vec<f32>,
        /// The four extents of `pixels`.
        shape: [usize; 4],
        /// Head row of each image, `(batch)`.
        labels: Vec<u32>,
        /// Index of each image in its split, `(batch)`: the key of feature caches.
        samples: Vec<u32>,
    },
    /// Features that a frozen network computed once for each image, see `learning::feature_cache`.
    Features {
        /// One row per image, row-major.
        values: Vec<f32>,
        /// `[batch, dim]` of features, `[batch, tokens, dim]` of a stream of tokens.
        shape: Vec<usize>,
        /// Head row of each image, `(batch)`.
        labels: Vec<u32>,
        /// Index of each image in its split, `(batch)`.
        samples: Vec<u32>,
    },
    /// Samples with their queries: features of the frozen network without prompts, by which prompts are selected.
    Queried {
        /// The samples; never itself [`Batch::Queried`].
        inputs: Box<Batch>,
        /// One query per sample, row-major.
        queries: Vec<f32>,
    },
    /// Token sequences, padded to one length.
    Tokens {
        /// `(batch, length)`, row-major.
        tokens: Vec<u32>,
        /// The two extents of `tokens`.
        shape: [usize; 2],
        /// Head row of each sequence, `(batch)`.
        labels: Vec<u32>,
        /// Index of each sequence in its split, `(batch)`.
        samples: Vec<u32>,
    },
}

impl Batch {
    /// Returns the number of samples in the batch.
    pub fn len(&self) -> usize {
        self.labels().len()
    }

    /// Returns true if it holds no sample; loaders never give such a batch.
    pub fn is_empty(&self) -> bool {
        self.labels().is_empty()
    }

    /// Returns the head rows of the samples, `(batch)`.
    pub fn labels(&self) -> &[u32] {
        match self {
            Batch::Images { labels, .. }
            | Batch::Features { labels, .. }
            | Batch::Tokens { labels, .. } => labels,
            Batch::Queried { inputs, .. } => inputs.labels(),
        }
    }

    /// Returns the indices of the samples in their split, `(batch)`.
    pub fn samples(&self) -> &[u32] {
        match self {
            Batch::Images { samples, .. }
            | Batch::Features { samples, .. }
            | Batch::Tokens { samples, .. } => samples,
            Batch::Queried { inputs, .. } => inputs.samples(),
        }
    }

    /// Returns the samples without their queries.
    pub fn inputs(&self) -> &Batch {
        match self {
            Batch::Queried { inputs, .. } => inputs,
            plain => plain,
        }
    }

    /// Returns the queries on a device, f32 `(batch, dim)`, where the loader brought them.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn queries(&self, device: &Device) -> Result<Option<Tensor>, DataError> {
        let Batch::Queried { queries, .. } = self else { return Ok(None) };
        let shape = (self.len(), queries.len() / self.len().max(1));
        Ok(Some(Tensor::from_slice(queries, shape, device)?))
    }

    /// Concatenates batches in their order.
    ///
    /// # Errors
    /// Returns an error if there is no batch, or if they differ in kind or in the shape of a sample.
    pub fn join(batches: impl IntoIterator<Item = Batch>) -> Result<Batch, DataError> {
        let mut batches = batches.into_iter();
        let mut joined = batches.next().ok_or_else(cannot_join)?;
        batches.try_for_each(|batch| joined.append(batch))?;
        Ok(joined)
    }

    fn append(&mut self, more: Batch) -> Result<(), DataError> {
        match (self, more) {
            (
                Batch::Images { pixels, shape, labels, samples },
                Batch::Images { pixels: p, shape: its, labels: l, samples: s },
            ) if shape[1..] == its[1..] => {
                shape[0] += its[0];
                pixels.extend(p);
                labels.extend(l);
                samples.extend(s);
            }
            (
                Batch::Features { values, shape, labels, samples },
                Batch::Features { values: v, shape: its, labels: l, samples: s },
            ) if shape[1..] == its[1..] => {
                shape[0] += its[0];
                values.extend(v);
                labels.extend(l);
                samples.extend(s);
            }
            (
                Batch::Tokens { tokens, shape, labels, samples },
                Batch::Tokens { tokens: t, shape: its, labels: l, samples: s },
            ) if shape[1] == its[1] => {
                shape[0] += its[0];
                tokens.extend(t);
                labels.extend(l);
                samples.extend(s);
            }
            (Batch::Queried { inputs, queries }, Batch::Queried { inputs: its, queries: q }) => {
                inputs.append(*its)?;
                queries.extend(q);
            }
            _ => return Err(cannot_join()),
        }
        Ok(())
    }

    /// Returns a network's input on a device. It is pixels, f32 `(batch, channels, height, width)`, or the tokens of
    /// sequences, u32 `(batch, length)`.
    ///
    /// # Errors
    /// Returns an error if the batch holds features, or the device has no room.
    pub fn pixels(&self, device: &Device) -> Result<Tensor, DataError> {
        match self {
            Batch::Images { pixels, shape, .. } => {
                Ok(Tensor::from_slice(pixels, shape.as_slice(), device)?)
            }
            Batch::Queried { inputs, .. } => inputs.pixels(device),
            Batch::Features { .. } => Err(DataError::unfit(
                "a batch of features has no pixels",
                "use the loader of images if pixels are needed",
            )),
            Batch::Tokens { tokens, shape, .. } => {
                Ok(Tensor::from_slice(tokens, shape.as_slice(), device)?)
            }
        }
    }
}

fn cannot_join() -> DataError {
    DataError::unfit(
        "batches of different shapes cannot be joined",
        "end the transform with a crop, or give the data set a stored size",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(labels: &[u32], side: usize) -> Batch {
        Batch::Images {
            pixels: labels.iter().flat_map(|l| vec![*l as f32; side * side]).collect(),
            shape: [labels.len(), 1, side, side],
            labels: labels.to_vec(),
            samples: labels.iter().map(|l| 10 * l).collect(),
        }
    }

    #[test]
    fn joined_batches_lie_one_behind_the_other() -> Result<(), DataError> {
        let joined = Batch::join([images(&[3], 2), images(&[1, 2], 2)])?;
        assert_eq!(joined, images(&[3, 1, 2], 2));
        let features = |labels: &[u32], dim: usize| Batch::Features {
            values: labels.iter().flat_map(|l| vec![*l as f32; dim]).collect(),
            shape: vec![labels.len(), dim],
            labels: labels.to_vec(),
            samples: labels.to_vec(),
        };
        assert_eq!(
            Batch::join([features(&[3], 5), features(&[1, 2], 5)])?,
            features(&[3, 1, 2], 5)
        );
        assert!(Batch::join([features(&[3], 5), features(&[1], 4)]).is_err());
        assert!(Batch::join([features(&[3], 4), images(&[1], 2)]).is_err());
        assert!(Batch::join([images(&[3], 2), images(&[1], 4)]).is_err());
        assert!(Batch::join([]).is_err());
        Ok(())
    }
}
