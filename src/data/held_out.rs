//! Training samples that are held out, for validation or as auxiliary samples.

use std::sync::Arc;

use super::{DataError, Dataset, Split};
use crate::numerics::distributions::choose;
use crate::numerics::streams::{Domain, StreamKey};

/// Purpose of held-out samples. Each purpose has its own random draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Samples on which accuracies are measured.
    Validation = 1,
    /// Samples without an owner.
    Auxiliary = 2,
}

impl Purpose {
    /// Returns the scenario key that requests these samples.
    fn key(self) -> &'static str {
        match self {
            Purpose::Validation => "data.validation_fraction",
            Purpose::Auxiliary => "data.auxiliary.fraction",
        }
    }
}

impl Dataset {
    /// Divides the training samples class by class: `held` maps the size of a class to the number of its samples that
    /// are held out, drawn with `seed` and `purpose`. Returns the data set without the held-out samples, its `test`
    /// unchanged, and the held-out samples.
    ///
    /// # Errors
    /// Returns an error if a class has too few samples for both parts.
    pub fn hold_out(
        self,
        held: impl Fn(usize) -> usize,
        (seed, purpose): (u64, Purpose),
    ) -> Result<(Dataset, Arc<Split>), DataError> {
        let (mut kept, mut out) = (Vec::new(), Vec::new());
        for (class, samples) in self.train.by_class().iter().enumerate() {
            let count = held(samples.len());
            if count == 0 || count >= samples.len() {
                return Err(DataError::unfit(
                    format!(
                        "class `{}` has {} training samples, too few to hold some out",
                        self.class_names[class],
                        samples.len()
                    ),
                    format!("change {}, or use more data", purpose.key()),
                ));
            }
            let key = StreamKey::new(seed, Domain::HoldOut).step(purpose as u64);
            let key = key.task(class as u32);
            let chosen = choose(&mut key.rng(), samples.len() as u64, count as u64);
            for (place, sample) in (0..).zip(samples) {
                let part = if chosen.binary_search(&place).is_ok() { &mut out } else { &mut kept };
                part.push(*sample);
            }
        }
        let validation = self.train.part(out)?;
        Ok((Dataset { train: self.train.part(kept)?, ..self }, validation))
    }
}

impl Split {
    /// Returns some samples with their labels and owners, in the order of the split.
    pub(super) fn part(self: &Arc<Split>, mut samples: Vec<u32>) -> Result<Arc<Split>, DataError> {
        samples.sort_unstable();
        let each = |values: &[u32]| samples.iter().map(|sample| values[*sample as usize]).collect();
        let (labels, owners) = (each(self.labels()), self.owners().map(each));
        let split = Split::chosen(self, samples, labels, self.by_class().len())?;
        Ok(Arc::new(match owners {
            Some(owners) => split.with_owners(owners),
            None => split,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::data::digits;

    /// Sample numbers of the whole training data.
    fn origins(split: &Split) -> BTreeSet<u32> {
        (0..split.len() as u32).map(|sample| split.origin(sample)).collect()
    }

    #[test]
    fn both_parts_are_all_of_the_training_data_and_the_test_set_is_untouched() {
        let whole = digits::embedded().unwrap();
        let test = Arc::clone(&whole.test);
        let (sizes, all) = (whole.class_sizes(), origins(&whole.train));
        let train = Arc::clone(&whole.train);
        let (rest, validation) = whole.hold_out(|n| n / 5, (4, Purpose::Validation)).unwrap();
        assert!(Arc::ptr_eq(&rest.test, &test));
        let (kept, held) = (origins(&rest.train), origins(&validation));
        assert!(kept.is_disjoint(&held));
        assert_eq!(kept.union(&held).copied().collect::<BTreeSet<_>>(), all);
        for (class, size) in sizes.iter().enumerate() {
            assert_eq!(validation.by_class()[class].len(), size / 5);
            assert_eq!(rest.train.by_class()[class].len(), size - size / 5);
        }
        for sample in 0..validation.len() {
            let origin = validation.origin(sample as u32) as usize;
            assert_eq!(validation.labels()[sample], train.labels()[origin]);
            assert_eq!(
                validation.image(sample).unwrap().pixels,
                train.image(origin).unwrap().pixels
            );
        }
    }

    #[test]
    fn the_seed_moves_what_is_held_out() {
        let held = |seed| {
            let (_, validation) = digits::embedded()
                .unwrap()
                .hold_out(|n| n / 5, (seed, Purpose::Validation))
                .unwrap();
            origins(&validation)
        };
        assert_eq!(held(1), held(1));
        let (one, two) = (held(1), held(2));
        // By chance a fifth of them is in both.
        let both = one.intersection(&two).count() as f64 / one.len() as f64;
        assert!((0.1..0.3).contains(&both), "{both}");
    }

    #[test]
    fn a_class_that_cannot_be_divided_is_named() {
        for held in [0, 1_000] {
            let error = digits::embedded()
                .unwrap()
                .hold_out(|_| held, (1, Purpose::Auxiliary))
                .unwrap_err();
            assert!(error.to_string().contains("class `0` has"), "{error}");
        }
    }
}
