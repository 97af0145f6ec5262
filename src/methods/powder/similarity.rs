//! How similar slots are, and how close their classes are to classes of other slots: cosines of what their samples
//! attend to.

/// What the samples of a slot attend to: mean scores of the components of some slots, by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attention {
    /// The slots whose components were scored, by number, rising.
    pub over: Vec<u32>,
    /// `(classes, blocks, slots, components)`, row-major.
    pub means: Vec<f32>,
    /// Samples of every class.
    pub counts: Vec<u32>,
}

impl Attention {
    /// Means of a class.
    fn class(&self, class: usize) -> Vec<f64> {
        let width = self.means.len() / self.counts.len().max(1);
        let row = &self.means[class * width..(class + 1) * width];
        row.iter().map(|mean| f64::from(*mean)).collect()
    }

    /// Means of all samples.
    fn all(&self) -> Vec<f64> {
        let width = self.means.len() / self.counts.len().max(1);
        let mut sum = vec![0.0; width];
        for (class, count) in self.counts.iter().enumerate() {
            let weighted = self.class(class).into_iter().map(|mean| mean * f64::from(*count));
            sum.iter_mut().zip(weighted).for_each(|(to, v)| *to += v);
        }
        sum
    }

    /// Where the scores of a slot's components are among those of a block.
    fn place(&self, slot: u32) -> Option<usize> {
        self.over.binary_search(&slot).ok()
    }
}

/// How similarity is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// Blocks whose cosines are averaged.
    pub blocks: usize,
    /// Components of a slot.
    pub components: usize,
    /// The power of the mean cosine, which counts as 0 where it is negative.
    pub exponent: u32,
}

impl Likeness {
    /// Of two vectors over the slots that both were scored against.
    fn of(&self, (a, x): (&Attention, &[f64]), (b, y): (&Attention, &[f64])) -> f64 {
        let common: Vec<(usize, usize)> =
            a.over.iter().zip(0..).filter_map(|(slot, at)| Some((at, b.place(*slot)?))).collect();
        let mut sum = 0.0;
        for block in 0..self.blocks {
            let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
            for (in_a, in_b) in &common {
                let from_a = (block * a.over.len() + in_a) * self.components;
                let from_b = (block * b.over.len() + in_b) * self.components;
                let of_a = &x[from_a..from_a + self.components];
                let of_b = &y[from_b..from_b + self.components];
                for (x, y) in of_a.iter().zip(of_b) {
                    (xy, xx, yy) = (xy + x * y, xx + x * x, yy + y * y);
                }
            }
            let norm = (xx * yy).sqrt();
            sum += if norm > 0.0 { xy / norm } else { 0.0 };
        }
        let mean = sum / self.blocks.max(1) as f64;
        mean.clamp(0.0, 1.0).powi(self.exponent as i32)
    }

    /// `W`: a row per slot, over all slots, that sums to 1. Only slots that were `trained` lend anything to others; a slot
    /// that nobody measured is like itself alone.
    pub fn weights(&self, slots: &[Option<&Attention>], trained: &[bool]) -> Vec<Vec<f64>> {
        let all: Vec<Option<(&Attention, Vec<f64>)>> =
            slots.iter().map(|slot| slot.map(|own| (own, own.all()))).collect();
        let row = |i: usize| {
            let like = |j: usize| match (&all[i], &all[j]) {
                _ if i == j => 1.0,
                (Some((a, x)), Some((b, y))) if trained[j] => self.of((a, x), (b, y)),
                _ => 0.0,
            };
            let row: Vec<f64> = (0..slots.len()).map(like).collect();
            let sum: f64 = row.iter().sum();
            row.into_iter().map(|like| like / sum).collect()
        };
        (0..slots.len()).map(row).collect()
    }

    /// For every class of a slot, how close it is to the nearest class of another slot: its share in the row of `W`'s
    /// counterpart over the class itself and all classes of other trained slots; at most one half.
    pub fn relatives(
        &self,
        slots: &[Option<&Attention>],
        trained: &[bool],
        slot: usize,
    ) -> Option<Vec<f32>> {
        let own = slots[slot]?;
        let others = slots.iter().zip(trained).enumerate();
        let others = others.filter(|(at, (_, trained))| *at != slot && **trained);
        let others: Vec<(&Attention, Vec<f64>)> = others
            .filter_map(|(_, (other, _))| *other)
            .flat_map(|other| {
                let there = (0..other.counts.len()).filter(|class| other.counts[*class] > 0);
                there.map(move |class| (other, other.class(class)))
            })
            .collect();
        let nearest = |class: usize| {
            let vector = own.class(class);
            let like = others.iter().map(|(other, y)| self.of((own, &vector), (other, y)));
            let (sum, most) =
                like.fold((1.0, 0f64), |(sum, most), like| (sum + like, most.max(like)));
            (most / sum) as f32
        };
        Some((0..own.counts.len()).map(nearest).collect())
    }
}

/// The slots with the largest weights in a row of `W`, at most `top`, the largest first, the earlier of equals; none
/// without weight.
pub fn most_similar(row: &[f64], top: usize) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..row.len()).filter(|slot| row[*slot] > 0.0).collect();
    slots.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
    slots.truncate(top);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIKENESS: Likeness = Likeness { blocks: 1, components: 2, exponent: 30 };

    fn attention(over: &[u32], means: &[f32]) -> Attention {
        let classes = means.len() / (over.len() * 2);
        Attention { over: over.into(), means: means.into(), counts: vec![3; classes] }
    }

    /// Powder's card, invariant 2.
    #[test]
    fn rows_sum_to_one_and_equal_slots_weigh_the_same() {
        let a = attention(&[0, 1], &[0.1, 0.2, 0.3, 0.4]);
        let b = attention(&[0, 1], &[0.4, -0.3, 0.2, -0.1]);
        let slots = [Some(&a), Some(&a), Some(&b), None];
        let weights = LIKENESS.weights(&slots, &[true; 4]);
        for row in &weights {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
        }
        assert!((weights[0][0] - weights[0][1]).abs() < 1e-9 && weights[0][0] > 0.49);
        assert_eq!(weights[3], [0.0, 0.0, 0.0, 1.0]);
        // Nobody learns from a slot that has learnt nothing.
        let weights = LIKENESS.weights(&slots, &[true, false, true, false]);
        assert_eq!((weights[0][1], weights[1][1] > 0.0), (0.0, true));
        assert!(weights[1][0] > 0.49);
    }

    #[test]
    fn a_negative_cosine_is_no_similarity_though_the_power_is_even() {
        let (a, b) = (attention(&[0], &[0.1, 0.2]), attention(&[0], &[-0.1, -0.2]));
        let weights = LIKENESS.weights(&[Some(&a), Some(&b)], &[true; 2]);
        assert_eq!(weights, [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn only_slots_that_both_were_scored_against_count() {
        let (a, b) =
            (attention(&[0, 2], &[0.1, 0.2, 9.0, 9.0]), attention(&[0, 1], &[0.1, 0.2, -7.0, 3.0]));
        let weights = LIKENESS.weights(&[Some(&a), Some(&b)], &[true; 2]);
        assert!((weights[0][1] - 0.5).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn the_nearest_class_of_another_slot_counts() {
        let a = attention(&[0], &[0.1, 0.2, 0.2, -0.1]);
        let b = attention(&[0], &[0.1, 0.2]);
        let near = LIKENESS.relatives(&[Some(&a), Some(&b)], &[true; 2], 0).unwrap();
        assert!((near[0] - 0.5).abs() < 1e-6 && near[1] < 1e-6, "{near:?}");
        assert_eq!(LIKENESS.relatives(&[Some(&a), Some(&b)], &[true, false], 0).unwrap(), [0.0; 2]);
        assert_eq!(LIKENESS.relatives(&[None, Some(&b)], &[true; 2], 0), None);
    }

    #[test]
    fn the_most_similar_come_first_and_strangers_not_at_all() {
        assert_eq!(most_similar(&[0.1, 0.4, 0.0, 0.4, 0.1], 3), [1, 3, 0]);
        assert_eq!(most_similar(&[0.0, 1.0], 3), [1]);
    }
}
