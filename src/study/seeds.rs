//! `replicates` and `seeds`: seeds of the runs of every cell.

use crate::scenario::Override;
use crate::scenario::reader::{Param, TableReader};

/// Seeds of one repetition, shared by all cells so that their runs form pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicate {
    /// Label in folders and tables: the seed of the run, or a number from 1 if these are not distinct.
    pub label: u64,
    /// Seed of the run, `seed.run` of the scenario.
    pub run: u64,
    /// Seed of the partition, `seed.partition` of the scenario.
    pub partition: u64,
    /// Seed of the class order, `seed.class_order` of the scenario.
    pub class_order: u64,
}

impl Replicate {
    /// Returns the overrides that set the seeds in a scenario.
    pub(super) fn overrides(&self) -> [Override; 3] {
        let Replicate { run, partition, class_order, .. } = self;
        [("run", run), ("partition", partition), ("class_order", class_order)]
            .map(|(key, seed)| Override::new(format!("seed.{key}={seed}")))
    }

    pub(super) fn read_all(table: &mut TableReader<'_>) -> Vec<Replicate> {
        let doc =
            "number of runs of every cell, with seeds 1, 2, ... of run, partition and class order";
        let count = table.get(&Param::<u32>::new("replicates", 1, doc).at_least(1.0).at_most(1e6));
        let both = table.given("replicates");
        let listed = table.optional_table("seeds", |seeds| {
            if both {
                let help = "remove one of them: `seeds` lists the seeds, `replicates` their number";
                seeds.reject(
                    "",
                    "`replicates` and `seeds` exclude each other",
                    "together with `replicates`",
                    help,
                );
            }
            Replicate::listed(seeds)
        });
        listed.unwrap_or_else(|| {
            let all =
                |seed| Replicate { label: seed, run: seed, partition: seed, class_order: seed };
            (1..=u64::from(count)).map(all).collect()
        })
    }

    fn listed(table: &mut TableReader<'_>) -> Vec<Replicate> {
        let run = Param::required("run", vec![1, 2, 3], "seeds of the run");
        let run: Vec<u64> = table.get(&run);
        let partition = "seeds of the partition; by default those of the run";
        let given_partition: Option<Vec<u64>> =
            table.optional(&Param::unset("partition", partition));
        let class_order = "seeds of the class order; by default those of the partition";
        let given_order: Option<Vec<u64>> =
            table.optional(&Param::unset("class_order", class_order));
        let lists = [
            ("run", Some(&run)),
            ("partition", given_partition.as_ref()),
            ("class_order", given_order.as_ref()),
        ];
        let lists: Vec<(&str, &Vec<u64>)> =
            lists.into_iter().filter_map(|(name, seeds)| Some((name, seeds?))).collect();
        for (name, _) in lists.iter().filter(|(_, seeds)| seeds.is_empty()) {
            let help = format!("write `{name} = [1, 2, 3]`");
            table.reject(name, "there must be at least one seed", "empty", &help);
        }
        let n = lists.iter().map(|(_, seeds)| seeds.len()).max().unwrap_or(0);
        let longest = lists.iter().find(|(_, seeds)| seeds.len() == n).map_or("run", |list| list.0);
        for (name, seeds) in &lists {
            if seeds.len() > 1 && seeds.len() != n {
                let count = seeds.len();
                let message = format!("`seeds.{name}` has {count} seeds and `{longest}` has {n}");
                let help = "write the same number of seeds, or one for all runs";
                table.reject(name, &message, "another number", help);
            }
        }
        let partition = given_partition.as_ref().unwrap_or(&run);
        let class_order = given_order.as_ref().unwrap_or(partition);
        let at = |seeds: &[u64], index: usize| {
            seeds.get(index).or(seeds.first()).copied().unwrap_or_default()
        };
        let distinct = (0..n).all(|index| (0..index).all(|one| at(&run, one) != at(&run, index)));
        let replicate = |index: usize| Replicate {
            label: if distinct { at(&run, index) } else { index as u64 + 1 },
            run: at(&run, index),
            partition: at(partition, index),
            class_order: at(class_order, index),
        };
        let replicates: Vec<Replicate> = (0..n).map(replicate).collect();
        let same = |one: &Replicate, other: &Replicate| {
            (one.run, one.partition, one.class_order)
                == (other.run, other.partition, other.class_order)
        };
        if (0..n).any(|at| replicates[..at].iter().any(|one| same(one, &replicates[at]))) {
            let help =
                "every repetition needs a different seed: runs with equal seeds are identical";
            table.reject("run", "two repetitions have the same seeds", "the same twice", help);
        }
        replicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::read_text;

    fn read(text: &str) -> Result<Vec<[u64; 4]>, String> {
        let read = read_text(text, "example", Replicate::read_all);
        let all = |one: &Replicate| [one.label, one.run, one.partition, one.class_order];
        read.map(|read| read.iter().map(all).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn replicates_move_all_three_seeds_and_lists_pair_up() {
        assert_eq!(read("").unwrap(), [[1, 1, 1, 1]]);
        assert_eq!(read("replicates = 2").unwrap(), [[1, 1, 1, 1], [2, 2, 2, 2]]);
        let text = "seeds = { run = [5, 7], partition = [1, 2], class_order = [0] }";
        assert_eq!(read(text).unwrap(), [[5, 5, 1, 0], [7, 7, 2, 0]]);
        assert_eq!(read("seeds = { run = [5, 7] }").unwrap(), [[5, 5, 5, 5], [7, 7, 7, 7]]);
        let text = "seeds = { run = [5, 5], partition = [8, 9] }";
        assert_eq!(read(text).unwrap(), [[1, 5, 8, 8], [2, 5, 9, 9]]);
        let text = "seeds = { run = [3], partition = [5, 6], class_order = [1] }";
        assert_eq!(read(text).unwrap(), [[1, 3, 5, 1], [2, 3, 6, 1]], "one seed holds for all");
        let text = "seeds = { run = [3], partition = [5], class_order = [1, 2] }";
        assert_eq!(read(text).unwrap(), [[1, 3, 5, 1], [2, 3, 5, 2]]);
    }

    #[test]
    fn lists_of_other_lengths_are_refused_once() {
        let error = read("seeds = { run = [1, 2], partition = [5, 6, 7] }").unwrap_err();
        assert!(error.contains("`seeds.run` has 2 seeds and `partition` has 3"), "{error}");
        assert!(!error.contains("class_order"), "{error}");
    }

    #[test]
    fn seeds_that_do_not_match_are_refused() {
        for (text, hint) in [
            ("replicates = 2\nseeds = { run = [1] }", "exclude each other"),
            (
                "seeds = { run = [1, 2, 3], partition = [1, 2] }",
                "`seeds.partition` has 2 seeds and `run` has 3",
            ),
            ("seeds = { run = [1, 1] }", "have the same seeds"),
            ("seeds = { run = [] }", "at least one seed"),
            ("seeds = { run = [1], class_order = [] }", "write `class_order = [1, 2, 3]`"),
            ("replicates = 0", "at least 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
