//! Reductions whose result does not depend on the order in which parts arrive.
//!
//! A [`FoldTree`] has one leaf per seat of a round. Two neighbours merge as soon as both are known, so memory
//! holds what is in flight and a logarithm more; a leaf may be absent (its client failed or was late).
//! Which merges happen depends only on which leaves are present: floating-point sums keep their bits.
//!
//! ```
//! use fedcast::numerics::sums::FoldTree;
//! let mut tree = FoldTree::new(4, |a: String, b: String| format!("({a}{b})"));
//! for (seat, name) in [(3, "d"), (0, "a"), (1, "b")] {
//!     tree.insert(seat, name.to_string());
//! }
//! tree.absent(2);
//! assert_eq!(tree.finish().as_deref(), Some("((ab)d)"));
//! ```

use std::collections::BTreeMap;

/// A fixed binary tree over `0..leaves`, merged from the leaves as they become known.
pub struct FoldTree<P> {
    leaves: usize,
    known: usize,
    merge: fn(P, P) -> P,
    /// Finished nodes that wait for their sibling, by (level, index); `None` covers absent leaves only.
    waiting: BTreeMap<(u32, usize), Option<P>>,
}

impl<P> FoldTree<P> {
    /// A tree whose leaves are all unknown. `merge` takes the part of the earlier leaves first.
    pub fn new(leaves: usize, merge: fn(P, P) -> P) -> Self {
        FoldTree { leaves, known: 0, merge, waiting: BTreeMap::new() }
    }

    /// The part of a leaf. Each leaf is told once; telling it twice is a broken invariant and panics.
    pub fn insert(&mut self, index: usize, part: P) {
        self.settle(index, Some(part));
    }

    /// This leaf will never have a part.
    pub fn absent(&mut self, index: usize) {
        self.settle(index, None);
    }

    /// Leaves that are neither present nor absent yet.
    pub fn unknown(&self) -> usize {
        self.leaves - self.known
    }

    /// Parts held at this moment, for memory bounds.
    pub fn held(&self) -> usize {
        self.waiting.values().filter(|p| p.is_some()).count()
    }

    /// The merge of all parts, leaves still unknown counting as absent; `None` when no leaf has a part.
    pub fn finish(mut self) -> Option<P> {
        // What is waiting, level by level: nodes of one level are in order of their leaves.
        while let Some(((level, index), part)) = self.waiting.pop_first() {
            if self.is_root(level) {
                return part;
            }
            let sibling = self.waiting.remove(&(level, index ^ 1)).flatten();
            let node = self.join(index, part, sibling);
            self.waiting.insert((level + 1, index / 2), node);
        }
        None
    }

    fn settle(&mut self, index: usize, part: Option<P>) {
        assert!(index < self.leaves, "leaf {index} of a tree with {} leaves", self.leaves);
        self.known += 1;
        let (mut level, mut index, mut part) = (0, index, part);
        while !self.is_root(level) {
            let sibling = index ^ 1;
            // A sibling beyond the last leaf has nothing to wait for.
            if sibling << level < self.leaves {
                match self.waiting.remove(&(level, sibling)) {
                    Some(other) => part = self.join(index, part, other),
                    None => break,
                }
            }
            level += 1;
            index /= 2;
        }
        let before = self.waiting.insert((level, index), part);
        assert!(before.is_none(), "a leaf was told twice");
    }

    fn join(&self, index: usize, part: Option<P>, sibling: Option<P>) -> Option<P> {
        let (left, right) = if index.is_multiple_of(2) { (part, sibling) } else { (sibling, part) };
        match (left, right) {
            (Some(left), Some(right)) => Some((self.merge)(left, right)),
            (one, other) => one.or(other),
        }
    }

    fn is_root(&self, level: u32) -> bool {
        1usize << level >= self.leaves
    }
}

/// The sum of floats as a fixed binary tree over their order, exact to about `log2(n)` roundings.
pub fn pairwise_sum(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        [one] => *one,
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            pairwise_sum(left) + pairwise_sum(right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fold(order: &[usize], leaves: &[Option<f64>]) -> Option<f64> {
        let mut tree = FoldTree::new(leaves.len(), |a, b| a + b);
        for &i in order {
            match leaves[i] {
                Some(part) => tree.insert(i, part),
                None => tree.absent(i),
            }
        }
        tree.finish()
    }

    proptest! {
        #[test]
        fn arrival_order_changes_no_bit(
            (leaves, order) in proptest::collection::vec(
                proptest::option::weighted(0.8, -1e9f64..1e9), 0..40,
            ).prop_flat_map(|leaves| {
                let order: Vec<usize> = (0..leaves.len()).collect();
                (Just(leaves), Just(order).prop_shuffle())
            }),
        ) {
            let in_order: Vec<usize> = (0..leaves.len()).collect();
            let want = fold(&in_order, &leaves).map(f64::to_bits);
            prop_assert_eq!(fold(&order, &leaves).map(f64::to_bits), want);
            // Leaves nobody spoke of are absent.
            let told: Vec<usize> =
                order.iter().copied().filter(|i| leaves[*i].is_some()).collect();
            prop_assert_eq!(fold(&told, &leaves).map(f64::to_bits), want);
            if leaves.iter().all(Option::is_some) {
                let all: Vec<f64> = leaves.iter().copied().flatten().collect();
                prop_assert_eq!(want.unwrap_or(0.0f64.to_bits()), pairwise_sum(&all).to_bits());
            }
        }

        #[test]
        fn parts_keep_their_order(leaves in 1usize..40, skip in 0usize..40) {
            let join = |mut a: Vec<usize>, b: Vec<usize>| { a.extend(b); a };
            let mut tree = FoldTree::new(leaves, join);
            (0..leaves).rev().filter(|i| *i != skip).for_each(|i| tree.insert(i, vec![i]));
            let want: Vec<usize> = (0..leaves).filter(|i| *i != skip).collect();
            prop_assert_eq!(tree.finish().unwrap_or_default(), want);
        }
    }

    #[test]
    fn parts_merge_as_soon_as_both_neighbours_are_known() {
        let mut tree = FoldTree::new(1000, |a: u64, b| a + b);
        let mut most = 0;
        for i in 0..1000 {
            tree.insert(i, i as u64);
            most = most.max(tree.held());
        }
        assert!(most <= 10, "held {most} parts");
        assert_eq!((tree.unknown(), tree.finish()), (0, Some(499_500)));
        assert_eq!(FoldTree::<u64>::new(0, |a, _| a).finish(), None);
    }

    #[test]
    #[should_panic(expected = "told twice")]
    fn a_leaf_speaks_once() {
        let mut tree = FoldTree::new(8, |a: u64, _| a);
        tree.insert(2, 1);
        tree.insert(2, 1);
    }
}
