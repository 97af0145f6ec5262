//! Test part of data without a division: a random fraction of every class, or of all samples together.

use super::DataError;
use crate::numerics::distributions::{choose, shuffle};
use crate::numerics::share::floor;
use crate::numerics::streams::{Domain, StreamKey};
use crate::scenario::TestDraw;
pub use crate::scenario::TestFraction;

/// Training and test samples, each ascending.
type Divided = (Vec<u32>, Vec<u32>);

/// Stream step of the draw within a class; other steps hold samples out for other purposes.
const STEP: u64 = 3;

impl TestFraction {
    /// Divides samples into training and test samples, each ascending.
    ///
    /// # Errors
    /// Returns an error if a class would have no training samples or, when drawn by class, no test samples.
    pub(super) fn divide(
        self,
        by_class: &[Vec<u32>],
        class_names: &[String],
    ) -> Result<Divided, DataError> {
        match self.drawn {
            TestDraw::ByClass => self.of_every_class_of(by_class, class_names),
            TestDraw::Together => self.of_all(by_class, class_names),
        }
    }

    /// Shuffles all samples; the first of them, rounded down in number, are trained on.
    ///
    /// HePCo's release draws like this, but from another stream, so that the samples differ.
    fn of_all(self, by_class: &[Vec<u32>], class_names: &[String]) -> Result<Divided, DataError> {
        let mut order: Vec<u32> = by_class.concat();
        order.sort_unstable();
        shuffle(&mut StreamKey::new(self.seed, Domain::HoldOut).rng(), &mut order);
        let trained = floor((1.0 - self.fraction) * order.len() as f64);
        let mut test = order.split_off(trained.min(order.len()));
        let mut train = order;
        train.sort_unstable();
        test.sort_unstable();
        let is_there = |sample: &u32| train.binary_search(sample).is_ok();
        if let Some(class) = by_class.iter().position(|of| !of.iter().any(is_there)) {
            return Err(DataError::unfit(
                format!("no sample of class `{}` is trained on in this draw", class_names[class]),
                "choose another data.test_seed or data.test_fraction, or draw by class",
            ));
        }
        Ok((train, test))
    }

    /// Draws the test samples of every class.
    ///
    /// The draw depends only on the seed, the class's number and its number of samples.
    fn of_every_class_of(
        self,
        by_class: &[Vec<u32>],
        class_names: &[String],
    ) -> Result<Divided, DataError> {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (class, samples) in by_class.iter().enumerate() {
            if samples.len() < 2 {
                return Err(DataError::unfit(
                    format!(
                        "class `{}` has {} samples, too few to train on some and test others",
                        class_names[class],
                        samples.len()
                    ),
                    "add samples or take the class away; data.test_fraction divides every class",
                ));
            }
            let count = floor(self.fraction * samples.len() as f64).clamp(1, samples.len() - 1);
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
        TestFraction { seed, ..TestFraction::of_every_class(share) }
            .divide(&by_class, &names)
            .unwrap()
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
            TestFraction::of_every_class(0.5).divide(&[vec![0, 1], vec![2]], &named).unwrap_err();
        assert!(error.to_string().contains("class `emu` has 1 samples"), "{error}");
    }
    #[test]
    fn a_share_of_all_samples_is_not_one_of_every_class() {
        let named = ["cat".to_owned(), "emu".to_owned()];
        let by_class = [(0..40).collect(), (40..100).collect::<Vec<u32>>()];
        let divided = |seed| {
            let share = TestFraction { fraction: 0.2, drawn: TestDraw::Together, seed };
            share.divide(&by_class, &named).unwrap()
        };
        let (train, test) = divided(0);
        assert_eq!((train.len(), test.len()), (80, 20));
        let mut all = [train.clone(), test.clone()].concat();
        all.sort_unstable();
        assert!(train.is_sorted() && test.is_sorted() && all == (0..100).collect::<Vec<_>>());
        let cats = |seed| divided(seed).1.iter().filter(|sample| **sample < 40).count();
        assert!((0..20).map(cats).collect::<std::collections::BTreeSet<_>>().len() > 2);
    }

    #[test]
    fn a_draw_of_all_samples_may_leave_a_class_untested() {
        let named = ["cat".to_owned(), "emu".to_owned()];
        let by_class = [(0..40).collect(), vec![40, 41]];
        let divided = |seed| {
            let share = TestFraction { fraction: 0.2, drawn: TestDraw::Together, seed };
            share.divide(&by_class, &named)
        };
        let parts: Vec<_> = (0..60).map(divided).collect();
        let emus = |part: &[u32]| part.iter().filter(|sample| **sample >= 40).count();
        let of = |parts: &Result<Divided, DataError>| parts.as_ref().ok().map(|p| emus(&p.1));
        let emus: std::collections::BTreeSet<_> = parts.iter().map(of).collect();
        // None tested is a result; none trained on is refused.
        assert!(emus.contains(&Some(0)) && emus.contains(&Some(1)) && emus.contains(&None));
        assert!(!emus.contains(&Some(2)), "{emus:?}");
    }
}
