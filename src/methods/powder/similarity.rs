//! Similarity of client tasks, and of their classes to classes of others: cosines of the samples' attention.

use super::cosines::{ComparedAttention, mean_cosines};

/// Attention of a client task's samples: mean scores of the components of some client tasks, by class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attention {
    /// Numbers of the client tasks whose components were scored, ascending.
    pub over: Vec<u32>,
    /// Mean scores `(classes, blocks, client tasks, components)`, row-major.
    pub means: Vec<f32>,
    /// Number of samples of every class.
    pub counts: Vec<u32>,
}

impl Attention {
    /// Returns the mean scores of a class, `(blocks, client tasks, components)`.
    pub(super) fn class(&self, class: usize) -> Vec<f64> {
        let width = self.means.len() / self.counts.len().max(1);
        let row = &self.means[class * width..(class + 1) * width];
        row.iter().map(|mean| f64::from(*mean)).collect()
    }

    /// Returns the sum over classes of their mean scores, so that all classes with samples count equally.
    pub(super) fn all(&self) -> Vec<f64> {
        let width = self.means.len() / self.counts.len().max(1);
        let mut sum = vec![0.0; width];
        for class in self.classes() {
            sum.iter_mut().zip(self.class(class)).for_each(|(to, mean)| *to += mean);
        }
        sum
    }

    /// Returns the classes that have samples.
    fn classes(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.counts.len()).filter(|class| self.counts[*class] > 0)
    }

    /// Returns the attention extended by scores `found` of the same samples, in this number of blocks.
    ///
    /// Scores of client tasks in both are replaced.
    pub fn with(&self, found: &Attention, blocks: usize) -> Attention {
        let client_tasks = |of: &'_ Attention| of.over.clone().into_iter().enumerate();
        let kept = client_tasks(self)
            .filter(|(_, client_task)| found.over.binary_search(client_task).is_err());
        let kept = kept.map(|(at, client_task)| (client_task, self, at));
        let mut all: Vec<(u32, &Attention, usize)> = kept
            .chain(client_tasks(found).map(|(at, client_task)| (client_task, found, at)))
            .collect();
        all.sort_by_key(|(client_task, ..)| *client_task);
        let mut means = Vec::with_capacity(self.means.len() + found.means.len());
        for row in 0..found.counts.len() * blocks {
            for (_, of, at) in &all {
                let width = of.means.len() / (found.counts.len() * blocks * of.over.len()).max(1);
                means.extend(&of.means[(row * of.over.len() + at) * width..][..width]);
            }
        }
        let over = all.into_iter().map(|(client_task, ..)| client_task).collect();
        Attention { over, means, counts: found.counts.clone() }
    }

    /// Returns the attention without the scores of some client tasks' components, in this number of blocks.
    pub fn without(&self, client_tasks: &[u32], blocks: usize) -> Attention {
        let stays: Vec<bool> =
            self.over.iter().map(|client_task| !client_tasks.contains(client_task)).collect();
        let width = self.means.len() / (self.counts.len() * blocks * self.over.len()).max(1);
        let of_client_tasks = self.means.chunks(width.max(1)).zip(stays.iter().cycle());
        let means = of_client_tasks.filter(|(_, stays)| **stays).flat_map(|(means, _)| means);
        let over = self.over.iter().zip(&stays).filter(|(_, stays)| **stays);
        Attention {
            over: over.map(|(client_task, _)| *client_task).collect(),
            means: means.copied().collect(),
            counts: self.counts.clone(),
        }
    }
}

/// Parameters of the similarity between client tasks or classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Likeness {
    /// Blocks whose cosines are averaged.
    pub blocks: usize,
    /// Number of components of a client task.
    pub components: usize,
    /// Exponent of the mean cosine; negative cosines count as 0.
    pub exponent: u32,
}

impl Likeness {
    /// Returns the similarities (powers of mean cosines) of each of `ours` with each of `theirs`.
    ///
    /// Only scores of client tasks that both were scored against count.
    fn of(
        &self,
        ours: &[ComparedAttention<'_>],
        theirs: &[ComparedAttention<'_>],
    ) -> Vec<Vec<f64>> {
        let mut likes = mean_cosines(ours, theirs, (self.blocks, self.components));
        for like in likes.iter_mut().flatten() {
            *like = like.clamp(0.0, 1.0).powi(self.exponent as i32);
        }
        likes
    }

    /// Returns `W`: a row per client task, over all client tasks, that sums to 1.
    ///
    /// Only client tasks with `lend` have weight in rows of others; a client task whose samples were not scored is
    /// similar only to itself.
    pub fn weights(&self, client_tasks: &[Option<&Attention>], lend: &[bool]) -> Vec<Vec<f64>> {
        let seen: Vec<usize> = (0..client_tasks.len())
            .filter(|client_task| client_tasks[*client_task].is_some())
            .collect();
        let whole: Vec<ComparedAttention<'_>> =
            client_tasks.iter().flatten().map(|own| ComparedAttention::Whole(own)).collect();
        let likes = self.of(&whole, &whole);
        let place = |client_task: usize| seen.binary_search(&client_task).ok();
        let row = |i: usize| {
            let like = |j: usize| match (place(i), place(j)) {
                _ if i == j => 1.0,
                (Some(own), Some(other)) if lend[j] => likes[own][other],
                _ => 0.0,
            };
            let row: Vec<f64> = (0..client_tasks.len()).map(like).collect();
            let sum: f64 = row.iter().sum();
            row.into_iter().map(|like| like / sum).collect()
        };
        (0..client_tasks.len()).map(row).collect()
    }

    /// Returns the share of every class of `asked` client tasks in its own row of class similarities.
    ///
    /// A row holds the class itself, with similarity 1, and the two most similar classes of other client tasks that
    /// `lend`; it is divided by its sum. So the share is 1 for a class without relatives and 1/3 for one with two equal
    /// ones. (Powder's release, `updateweight_with_promptchoosing`: classes of the same client task count 0.) A client
    /// task whose samples were not scored has no entry.
    pub fn class_shares(
        &self,
        client_tasks: &[Option<&Attention>],
        lend: &[bool],
        asked: &[usize],
    ) -> Vec<Option<Vec<f32>>> {
        let lending = client_tasks.iter().enumerate().filter(|(client_task, _)| lend[*client_task]);
        let (owners, others): (Vec<usize>, Vec<ComparedAttention<'_>>) = lending
            .filter_map(|(client_task, other)| Some((client_task, (*other)?)))
            .flat_map(|(client_task, other)| {
                other
                    .classes()
                    .map(move |class| (client_task, ComparedAttention::Class(other, class)))
            })
            .unzip();
        let own = asked.iter().filter_map(|client_task| client_tasks[*client_task]);
        let own: Vec<ComparedAttention<'_>> = own
            .flat_map(|own| {
                (0..own.counts.len()).map(move |class| ComparedAttention::Class(own, class))
            })
            .collect();
        let mut likes = self.of(&own, &others).into_iter();
        let mut share = |client_task: usize| {
            let row = likes.next().unwrap_or_default();
            let elsewhere =
                row.into_iter().zip(&owners).filter(|(_, owner)| **owner != client_task);
            let mut like: Vec<f64> = elsewhere.map(|(like, _)| like).collect();
            like.sort_by(|a, b| b.total_cmp(a));
            let relatives: f64 = like.iter().take(CLOSEST_CLASSES - 1).sum();
            (1.0 / (1.0 + relatives)) as f32
        };
        let shares = |client_task: &usize| {
            let classes = client_tasks[*client_task]?.counts.len();
            Some((0..classes).map(|_| share(*client_task)).collect())
        };
        asked.iter().map(shares).collect()
    }
}

/// Number of classes kept in a row of class similarities, the class itself included.
///
/// Powder's release calls it `topk_for_class`.
const CLOSEST_CLASSES: usize = 3;

/// Returns the client tasks with the largest positive weights in a row of `W`, at most `top`.
///
/// The largest is first; of equal ones the earlier.
pub fn most_similar(row: &[f64], top: usize) -> Vec<usize> {
    let mut client_tasks: Vec<usize> =
        (0..row.len()).filter(|client_task| row[*client_task] > 0.0).collect();
    client_tasks.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
    client_tasks.truncate(top);
    client_tasks
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
    fn rows_sum_to_one_and_equal_client_tasks_weigh_the_same() {
        let a = attention(&[0, 1], &[0.1, 0.2, 0.3, 0.4]);
        let b = attention(&[0, 1], &[0.4, -0.3, 0.2, -0.1]);
        let client_tasks = [Some(&a), Some(&a), Some(&b), None];
        let weights = LIKENESS.weights(&client_tasks, &[true; 4]);
        for row in &weights {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{row:?}");
        }
        assert!((weights[0][0] - weights[0][1]).abs() < 1e-9 && weights[0][0] > 0.49);
        assert_eq!(weights[3], [0.0, 0.0, 0.0, 1.0]);
        // No other learns from a client task that does not lend.
        let weights = LIKENESS.weights(&client_tasks, &[true, false, true, false]);
        assert_eq!((weights[0][1], weights[1][1] > 0.0), (0.0, true));
        assert!(weights[1][0] > 0.49);
    }

    /// Of three classes in two blocks: the score of a class and block on client task `s` is `100 class + 10 block + s`.
    #[test]
    fn new_similarities_are_added_to_known_ones() {
        let of = |over: &[u32], more: f32| {
            let rows =
                (0..3u16).flat_map(|class| (0..2u16).map(move |block| 100 * class + 10 * block));
            let means = rows.flat_map(|row| {
                over.iter()
                    .map(move |client_task| f32::from(row) + *client_task as f32 + more)
                    .collect::<Vec<_>>()
            });
            Attention { over: over.into(), means: means.collect(), counts: vec![1, 0, 4] }
        };
        let known = of(&[0, 2, 5], 0.0);
        assert_eq!(known.with(&of(&[3], 0.0), 2), of(&[0, 2, 3, 5], 0.0));
        assert_eq!(of(&[2], 0.0).with(&of(&[2], 0.5), 2), of(&[2], 0.5));
        assert_eq!(known.without(&[2], 2), of(&[0, 5], 0.0));
        // Of one class in two blocks, two components of a client task stay together.
        let one = |client_task, means: [f32; 4]| Attention {
            over: vec![client_task],
            means: means.into(),
            counts: vec![1],
        };
        let both = one(0, [1.0, 2.0, 3.0, 4.0]).with(&one(1, [5.0, 6.0, 7.0, 8.0]), 2);
        assert_eq!(both.means, [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0]);
        // The first class and the third, each as much as the other: the second has no samples.
        assert_eq!(known.class(2), [200.0, 202.0, 205.0, 210.0, 212.0, 215.0]);
        assert_eq!(known.all(), [200.0, 204.0, 210.0, 220.0, 224.0, 230.0]);
    }

    #[test]
    fn a_negative_cosine_is_no_similarity_though_the_power_is_even() {
        let (a, b) = (attention(&[0], &[0.1, 0.2]), attention(&[0], &[-0.1, -0.2]));
        let weights = LIKENESS.weights(&[Some(&a), Some(&b)], &[true; 2]);
        assert_eq!(weights, [[1.0, 0.0], [0.0, 1.0]]);
    }

    #[test]
    fn only_client_tasks_that_both_were_scored_against_count() {
        let (a, b) =
            (attention(&[0, 2], &[0.1, 0.2, 9.0, 9.0]), attention(&[0, 1], &[0.1, 0.2, -7.0, 3.0]));
        let weights = LIKENESS.weights(&[Some(&a), Some(&b)], &[true; 2]);
        assert!((weights[0][1] - 0.5).abs() < 1e-6, "{weights:?}");
    }

    /// A class counts once in a client task, however many samples it has.
    #[test]
    fn what_a_client_task_attends_to_is_the_mean_over_its_classes() {
        let few = Attention { counts: vec![1, 900], ..attention(&[0], &[0.2, 0.0, 0.0, 0.2]) };
        let even = attention(&[0], &[0.3, 0.3]);
        let weights = LIKENESS.weights(&[Some(&few), Some(&even)], &[true; 2]);
        assert!((weights[0][1] - 0.5).abs() < 1e-6, "{weights:?}");
    }

    /// A class has similarity 1 to itself.
    ///
    /// With twins in other client tasks it keeps a half, a third, and no less.
    #[test]
    fn a_class_shares_its_row_with_its_two_closest_relatives() {
        let a = attention(&[0], &[0.1, 0.2, 0.2, -0.1]);
        let b = attention(&[0], &[0.1, 0.2]);
        let shares = |client_tasks: &[Option<&Attention>], lend: &[bool]| {
            LIKENESS.class_shares(client_tasks, lend, &[0]).remove(0).unwrap()
        };
        let one = shares(&[Some(&a), Some(&b)], &[true; 2]);
        assert!((one[0] - 0.5).abs() < 1e-6 && (one[1] - 1.0).abs() < 1e-6, "{one:?}");
        let two = shares(&[Some(&a), Some(&b), Some(&b)], &[true; 3]);
        let three = shares(&[Some(&a), Some(&b), Some(&b), Some(&b)], &[true; 4]);
        assert!((two[0] - 1.0 / 3.0).abs() < 1e-6 && two == three, "{two:?} {three:?}");
        assert_eq!(shares(&[Some(&a), Some(&b)], &[true, false]), [1.0; 2]);
        // Classes of the same client task are no relatives.
        let twins = attention(&[0], &[0.1, 0.2, 0.1, 0.2]);
        assert_eq!(shares(&[Some(&twins), None], &[true; 2]), [1.0; 2]);
        assert_eq!(LIKENESS.class_shares(&[None, Some(&b)], &[true; 2], &[0]), [None]);
        // Every client task gets its own.
        let both = LIKENESS.class_shares(&[Some(&a), None, Some(&b)], &[true; 3], &[2, 1, 0]);
        assert_eq!(both, [Some(vec![one[0]]), None, Some(one)]);
    }

    #[test]
    fn left_out_client_tasks_vanish_in_every_class_and_block() {
        let all = Attention {
            over: vec![1, 4],
            means: (0..16).map(|at| at as f32).collect(),
            counts: vec![2, 5],
        };
        // Two classes, two blocks, two client tasks, two components.
        let left = all.without(&[4, 9], 2);
        assert_eq!(left.over, [1]);
        assert_eq!(left.means, [0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 12.0, 13.0]);
        assert_eq!((left.counts, all.without(&[7], 2)), (vec![2, 5], all));
    }

    /// Scores that were left out and are found again return to their place.
    #[test]
    fn what_is_found_later_stands_at_its_place() {
        let all = Attention {
            over: vec![1, 4, 6],
            means: (0..24).map(|at| at as f32).collect(),
            counts: vec![2, 5],
        };
        for client_tasks in [&[4][..], &[1, 6], &[1, 4, 6], &[]] {
            let others: Vec<u32> = all
                .over
                .iter()
                .copied()
                .filter(|client_task| !client_tasks.contains(client_task))
                .collect();
            let (before, found) = (all.without(client_tasks, 2), all.without(&others, 2));
            assert_eq!(before.with(&found, 2), all, "{client_tasks:?}");
        }
        let newer = Attention { means: vec![-1.0; 8], over: vec![4], ..all.clone() };
        let both = all.with(&newer, 2);
        assert_eq!(both.over, all.over);
        assert_eq!(both.means[..8], [0.0, 1.0, -1.0, -1.0, 4.0, 5.0, 6.0, 7.0]);
    }

    #[test]
    fn the_most_similar_come_first_and_strangers_not_at_all() {
        assert_eq!(most_similar(&[0.1, 0.4, 0.0, 0.4, 0.1], 3), [1, 3, 0]);
        assert_eq!(most_similar(&[0.0, 1.0], 3), [1]);
    }
}
