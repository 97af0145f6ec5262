//! A test part for data that nobody has divided: of every class a share, drawn.

use super::DataError;
use crate::numerics::distributions::choose;
use crate::numerics::share::floor;
use crate::numerics::streams::{Domain, StreamKey};
pub use crate::scenario::TestShare;

/// Tells this draw from other ones that hold samples out.
const STEP: u64 = 3;

impl TestShare {
    /// Numbers of the samples that are trained on, and of those that are tested, both ascending: of every class the
    /// share, rounded down, one at least and never all. The draw of a class depends on nothing but the seed, its number
    /// and how many samples it has.
    ///
    /// # Errors
    /// A class with one sample.
    pub(super) fn divide(
        self,
        by_class: &[Vec<u32>],
        class_names: &[String],
    ) -> Result<(Vec<u32>, Vec<u32>), DataError> {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (class, samples) in by_class.iter().enumerate() {
            if samples.len() < 2 {
                return Err(DataError::unfit(
                    format!(
                        "class `{}` has {} samples, too few to train on some and test others",
                        class_names[class],
                        samples.len()
                    ),
                    "add samples or take the class away; data.test_share divides every class",
                ));
            }
            let count = floor(self.share * samples.len() as f64).clamp(1, samples.len() - 1);
            let key = StreamKey::new(self.seed, Domain::HoldOut).step(STEP).task(class as u32);
            let chosen = choose(&mut key.rng(), samples.len() as u64, count as u64);
            for (place, sample) in (0..).zip(samples) {
                let part =
                    if chosen.binary_search(&place).is_ok() { &mut test } else { &mut train };
                part.push(*sample);
            }
        }
        train.sort_unstable();
        test.sort_unstable();
        Ok((train, test))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(share: f64, seed: u64, sizes: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let mut next = 0;
        let of = |size: &u32| {
            next += size;
            (next - size..next).collect()
        };
        let by_class: Vec<Vec<u32>> = sizes.iter().map(of).collect();
        let names: Vec<String> = (0..sizes.len()).map(|class| class.to_string()).collect();
        TestShare { share, seed }.divide(&by_class, &names).unwrap()
    }

    #[test]
    fn every_class_gives_its_share_and_every_sample_is_in_one_part() {
        let (train, test) = divide(0.25, 0, &[40, 9, 2]);
        let of_class = |part: &[u32], range: std::ops::Range<u32>| {
            part.iter().filter(|sample| range.contains(sample)).count()
        };
        // A quarter of 40; of 9 rounded down; of 2 one at least.
        assert_eq!(
            [of_class(&test, 0..40), of_class(&test, 40..49), of_class(&test, 49..51)],
            [10, 2, 1]
        );
        let mut all = [train.clone(), test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..51).collect::<Vec<_>>());
        assert!(train.is_sorted() && test.is_sorted());
        assert_eq!(divide(0.99, 0, &[3]).1.len(), 2, "never all");
    }

    #[test]
    fn the_seed_moves_it_and_other_classes_do_not() {
        assert_ne!(divide(0.25, 0, &[40]).1, divide(0.25, 1, &[40]).1);
        let (one, two) = (divide(0.25, 0, &[40, 9]).1, divide(0.25, 0, &[40, 30]).1);
        assert_eq!(one[..10], two[..10]);
    }

    #[test]
    fn a_class_of_one_sample_is_named() {
        let named = ["cat".to_owned(), "emu".to_owned()];
        let error =
            TestShare { share: 0.5, seed: 0 }.divide(&[vec![0, 1], vec![2]], &named).unwrap_err();
        assert!(error.to_string().contains("class `emu` has 1 samples"), "{error}");
    }
}
