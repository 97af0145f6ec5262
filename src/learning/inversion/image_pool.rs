//! Images that a server generated, as bytes, which clients receive and replay.

use std::sync::Arc;

use candle_core::Tensor;

use crate::data::{Batch, DataError, Loader, Shard, Split, TaskSequence, Transform};
use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};

/// Unit of a pool's stream keys, which no client's own samples use.
const POOL: u32 = u32::MAX;

/// Batches of images of one size, 8 bits per channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePool {
    /// Shape of an image, `[channels, height, width]`.
    shape: [usize; 3],
    /// Images in a batch.
    batch: usize,
    bytes: Vec<u8>,
}

impl ImagePool {
    /// Returns an empty pool.
    pub fn new(shape: [usize; 3], batch: usize) -> ImagePool {
        ImagePool { shape, batch, bytes: Vec::new() }
    }

    /// Returns a pool of these bytes, which hold batch after batch.
    pub fn of(shape: [usize; 3], batch: usize, bytes: Vec<u8>) -> ImagePool {
        ImagePool { shape, batch, bytes }
    }

    /// Adds a batch of images `(b, c, h, w)` with pixels from 0 to 1.
    ///
    /// A pixel `x` is stored as `floor(255 x)`, as in the files of the releases.
    ///
    /// # Errors
    /// Returns an error if the images have another size, or the batch another number of them.
    pub fn add(&mut self, images: &Tensor) -> candle_core::Result<()> {
        let [channels, height, width] = self.shape;
        if images.dims() != [self.batch, channels, height, width] {
            candle_core::bail!("{:?} for a pool of {:?}", images.shape(), self.shape);
        }
        let values = images.flatten_all()?.to_vec1::<f32>()?;
        self.bytes.extend(values.iter().map(|v| (v.clamp(0.0, 1.0) * 255.0) as u8));
        Ok(())
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.shape.iter().product::<usize>().max(1)
    }

    /// Returns the bytes in channel, row, column order, image by image.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the first `limit` images in the order of the releases' file names, `BATCH-IMAGE.png`.
    ///
    /// Names are compared as texts: batch 10 comes before batch 2.
    pub fn by_name(&self, limit: usize) -> Vec<u32> {
        let batch = self.batch.max(1);
        let name = |image: &u32| {
            let image = *image as usize;
            format!("{}-{}.png", image / batch, image % batch)
        };
        let mut images: Vec<u32> = (0..self.len() as u32).collect();
        images.sort_by_cached_key(name);
        images.truncate(limit);
        images
    }

    /// Returns the first `limit` images as a pool with batches of one.
    ///
    /// Their order is that of [`by_name`](Self::by_name).
    pub fn first_by_name(&self, limit: usize) -> ImagePool {
        let size = self.shape.iter().product::<usize>();
        let image = |at: u32| &self.bytes[at as usize * size..(at as usize + 1) * size];
        let bytes = self.by_name(limit).into_iter().flat_map(image).copied().collect();
        ImagePool { shape: self.shape, batch: 1, bytes }
    }

    /// Returns a reader of these images through a transform.
    ///
    /// # Errors
    /// Does not fail for any input of a caller.
    pub fn replay(
        &self,
        images: Vec<u32>,
        (task_sequence, transform): (&Arc<TaskSequence>, &Arc<Transform>),
    ) -> Result<PoolReplay, DataError> {
        let labels = vec![0; self.len()];
        let split =
            Split::from_buffer(self.bytes.clone(), self.shape, labels, task_sequence.classes())?;
        let (task_sequence, transform) = (Arc::clone(task_sequence), Arc::clone(transform));
        Ok(PoolReplay { split: Arc::new(split), images, task_sequence, transform })
    }
}

/// Reader of a pool in shuffled passes, through a transform. Labels have no meaning.
#[derive(Clone, Debug)]
pub struct PoolReplay {
    split: Arc<Split>,
    images: Vec<u32>,
    task_sequence: Arc<TaskSequence>,
    transform: Arc<Transform>,
}

impl PoolReplay {
    /// Returns the batch of step `step`, from 0; the last batch of a pass may be smaller.
    ///
    /// Orders are drawn at `key` by pass, augmentations by pass and image.
    ///
    /// # Errors
    /// Returns an error if the pool has no images, or the transform does not fit them.
    pub fn batch(&self, step: u64, size: usize, key: StreamKey) -> Result<Batch, DataError> {
        let size = size.max(1);
        let batches = self.images.len().div_ceil(size).max(1) as u64;
        let (pass, at) = (step / batches, (step % batches) as usize);
        let mut order = self.images.clone();
        shuffle(&mut key.domain(Domain::Shuffle).unit(POOL).step(pass).rng(), &mut order);
        let shard: Shard = order.chunks(size).nth(at).unwrap_or_default().into();
        let (split, tasks) = (Arc::clone(&self.split), Arc::clone(&self.task_sequence));
        let loader = Loader::new(split, shard, tasks, Arc::clone(&self.transform));
        let key = key.domain(Domain::Augment).unit(POOL);
        let empty = || DataError::unfit("a pool without images", "generate at least one batch");
        loader.epoch_in_order(pass, size, key).next().ok_or_else(empty)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSizes};
    use candle_core::Device;

    fn pool(batches: usize, batch: usize) -> ImagePool {
        let mut pool = ImagePool::new([1, 2, 2], batch);
        for at in 0..batches {
            let values = (0..batch * 4).map(|v| ((at * batch + v / 4) as f32 + 0.5) / 255.0);
            let values: Vec<f32> = values.collect();
            let images = Tensor::from_vec(values, (batch, 1, 2, 2), &Device::Cpu).unwrap();
            pool.add(&images).unwrap();
        }
        pool
    }

    fn replay(pool: &ImagePool, limit: usize) -> PoolReplay {
        let tasks = TaskSequence::new(4, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let through = (&Arc::new(tasks), &Arc::new(Transform::default()));
        pool.replay(pool.by_name(limit), through).unwrap()
    }

    /// LANDER card, invariant 4.
    #[test]
    fn pixels_survive_eight_bits() {
        let mut pool = ImagePool::new([1, 1, 5], 1);
        let values = [0f32, 0.999, 1.0, 0.5, 1.7];
        pool.add(&Tensor::from_slice(&values, (1, 1, 1, 5), &Device::Cpu).unwrap()).unwrap();
        assert_eq!(pool.bytes(), [0, 254, 255, 127, 255]);
        for (byte, value) in pool.bytes().iter().zip(values) {
            assert!((f32::from(*byte) / 255.0 - value.min(1.0)).abs() <= 1.0 / 255.0);
        }
        let wide = Tensor::zeros((1, 1, 1, 6), candle_core::DType::F32, &Device::Cpu).unwrap();
        assert!(pool.add(&wide).is_err());
        assert_eq!(pool.len(), 1);
        assert_eq!(ImagePool::new([1, 2, 2], 3).len(), 0);
    }

    /// 41 batches of 256 images, of which clients read 10,000: those of batches 9 and, in part, 8 are never read.
    #[test]
    fn images_are_in_the_order_of_file_names() {
        assert_eq!(pool(12, 1).by_name(20), [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(pool(1, 12).by_name(5), [0, 1, 10, 11, 2]);
        let release = ImagePool::of([1, 1, 1], 256, vec![0; 41 * 256]);
        let read = release.by_name(10_000);
        let of = |batch: u32| read.iter().filter(|image| **image / 256 == batch).count();
        assert_eq!((read.len(), of(40), of(7), of(8), of(9)), (10_000, 256, 256, 16, 0));
    }

    #[test]
    fn the_first_images_by_name_are_a_pool_of_their_own() {
        let all = pool(1, 12);
        let some = all.first_by_name(5);
        let image = |pool: &ImagePool, at: usize| pool.bytes()[4 * at..4 * at + 4].to_vec();
        assert_eq!(some.len(), 5);
        for (at, from) in [0, 1, 10, 11, 2].into_iter().enumerate() {
            assert_eq!(image(&some, at), image(&all, from));
        }
        assert_eq!(all.first_by_name(100).len(), 12);
    }

    #[test]
    fn passes_are_shuffled_and_whole() {
        let replay = replay(&pool(2, 5), 7);
        let key = StreamKey::new(3, Domain::Method).client(2);
        let values = |step| {
            let Batch::Images { pixels, shape, .. } = replay.batch(step, 3, key).unwrap() else {
                panic!("images")
            };
            assert_eq!(shape[1..], [1, 2, 2]);
            pixels.chunks(4).map(|image| (image[0] * 255.0).round() as u32).collect::<Vec<_>>()
        };
        let pass = |from: u64| -> Vec<u32> { (from..from + 3).flat_map(values).collect() };
        let (first, second) = (pass(0), pass(3));
        assert_ne!(first, second);
        for mut images in [first, second] {
            images.sort_unstable();
            assert_eq!(images, [0, 1, 2, 3, 4, 5, 6], "every image once, of the first seven");
        }
        assert_eq!(values(2).len(), 1, "the rest of a pass");
        assert_eq!(pass(0), pass(0));
        let other = replay.batch(0, 3, key.client(3)).unwrap();
        assert_ne!(other, replay.batch(0, 3, key).unwrap(), "clients draw for themselves");
        let empty = ImagePool::new([1, 2, 2], 5);
        let tasks = TaskSequence::new(4, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let through = (&Arc::new(tasks), &Arc::new(Transform::default()));
        assert!(empty.replay(Vec::new(), through).unwrap().batch(0, 3, key).is_err());
    }
}
