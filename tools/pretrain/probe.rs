//! Judging frozen features: what a linear head and nearest class means make of them.

use std::sync::Arc;

use candle_core::Device;
use fedcast::data::{ClassPermutation, Dataset, Loader, Split, TaskSequence, TaskSizes};
use fedcast::learning::evaluation::argmax;
use fedcast::learning::{Head, HeadLoss, HeadTraining, LearningError, Schedule};
use fedcast::model::{Adaptation, Vit};
use fedcast::numerics::distributions::shuffle;
use fedcast::numerics::streams::{Domain, StreamKey};

use crate::trainer::transform;

/// Frozen features of both splits of a data set of gray 8 x 8 images.
struct Features {
    train: (Vec<f32>, Vec<u32>),
    test: (Vec<f32>, Vec<u32>),
    dim: usize,
    classes: usize,
}

impl Features {
    fn of(network: &Vit, dataset: &Dataset) -> Result<Features, LearningError> {
        let classes = dataset.classes();
        let task_sequence =
            TaskSequence::new(classes, &ClassPermutation::Native, &TaskSizes::Even(1))?;
        let (task_sequence, transform) =
            (Arc::new(task_sequence), Arc::new(transform(network.config())));
        let read = |split: &Arc<Split>| -> Result<_, LearningError> {
            let shard = (0..split.len() as u32).collect();
            let loader =
                Loader::new(split.clone(), shard, task_sequence.clone(), transform.clone());
            let mut features = Vec::new();
            for batch in loader.in_order(256) {
                let pixels = batch?.pixels(&Device::Cpu)?;
                let found = network.features(&pixels, &Adaptation::default())?;
                features.extend(found.flatten_all()?.to_vec1::<f32>()?);
            }
            Ok((features, loader.labels()))
        };
        let (train, test) = (read(&dataset.train)?, read(&dataset.test)?);
        Ok(Features { train, test, dim: network.config().dim, classes })
    }

    fn accuracy(&self, head: &Head) -> f64 {
        let logits = head.logits(&self.test.0, 0..self.classes);
        let rows = logits.chunks_exact(self.classes).zip(&self.test.1);
        let right = rows.filter(|(z, y)| argmax(z) == Some(**y as usize)).count();
        100.0 * right as f64 / self.test.1.len().max(1) as f64
    }
}

/// Test accuracy in percent of a linear head trained centrally on frozen features (100 epochs of SGD
/// with momentum, cosine, batches of 64).
///
/// # Errors
/// When the images do not fit the network.
pub fn linear_probe(network: &Vit, dataset: &Dataset) -> Result<f64, LearningError> {
    let all = Features::of(network, dataset)?;
    let (features, labels) = &all.train;
    let key = StreamKey::new(0, Domain::Shuffle);
    let mut order: Vec<usize> = Vec::new();
    let mut head = Head::zeros(all.classes, all.dim);
    let size = labels.len().min(64);
    let training = HeadTraining {
        epochs: 100,
        rate: 0.02,
        momentum: 0.9,
        weight_decay: 1e-4,
        schedule: Schedule::Cosine,
        loss: HeadLoss::Plain,
    };
    let batches = labels.len() / size.max(1);
    training.run(&mut head, 0..all.classes, batches, size, |epoch, batch, h, y| {
        if batch == 0 {
            order = (0..labels.len()).collect();
            shuffle(&mut key.step(epoch.into()).rng(), &mut order);
        }
        for (i, h) in h.chunks_exact_mut(all.dim).enumerate() {
            let sample = order[batch * size + i];
            h.copy_from_slice(&features[sample * all.dim..(sample + 1) * all.dim]);
            y[i] = labels[sample];
        }
    })?;
    Ok(all.accuracy(&head))
}

/// Test accuracy in percent of the nearest class mean (Euclidean) of frozen features.
///
/// # Errors
/// When the images do not fit the network.
pub fn nearest_mean(network: &Vit, dataset: &Dataset) -> Result<f64, LearningError> {
    let all = Features::of(network, dataset)?;
    let mut head = Head::zeros(all.classes, all.dim);
    let mut counts = vec![0f32; all.classes];
    for (h, &y) in all.train.0.chunks_exact(all.dim).zip(&all.train.1) {
        counts[y as usize] += 1.0;
        let mean = &mut head.weight[y as usize * all.dim..(y as usize + 1) * all.dim];
        mean.iter_mut().zip(h).for_each(|(m, h)| *m += h);
    }
    // |h - m|^2 is smallest where m h - |m|^2 / 2 is largest.
    for (class, mean) in head.weight.chunks_exact_mut(all.dim).enumerate() {
        mean.iter_mut().for_each(|m| *m /= counts[class].max(1.0));
        head.bias[class] = -0.5 * mean.iter().map(|m| m * m).sum::<f32>();
    }
    Ok(all.accuracy(&head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedcast::data::digits;
    use fedcast::model::embedded_vit;

    /// The quickstart stands on this. 95.05 and 91.76 when the weights were made.
    #[test]
    fn the_embedded_network_separates_digits_that_it_never_saw() {
        let (network, digits) = (embedded_vit().unwrap(), digits::embedded().unwrap());
        let linear = linear_probe(&network, &digits).unwrap();
        let mean = nearest_mean(&network, &digits).unwrap();
        assert!(linear > 94.0 && mean > 90.5, "linear {linear}, nearest mean {mean}");
    }
}
