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
        let partition = table.get(&Param::new("partition", run.clone(), partition));
        let class_order = "seeds of the class order; by default those of the partition";
        let class_order = table.get(&Param::new("class_order", partition.clone(), class_order));
        let n = run.len();
        if n == 0 {
            table.reject(
                "run",
                "there must be at least one seed",
                "empty",
                "write `run = [1, 2, 3]`",
            );
        }
        for (name, seeds) in [("partition", &partition), ("class_order", &class_order)] {
            if seeds.len() != n && seeds.len() != 1 {
                let message = format!("`seeds.{name}` has {} seeds and `run` has {n}", seeds.len());
                table.reject(
                    name,
                    &message,
                    "another number",
                    "write the same number of seeds, or one for all runs",
                );
            }
        }
        let distinct = (0..n).all(|index| !run[..index].contains(&run[index]));
        let at = |seeds: &[u64], index: usize| seeds.get(index).or(seeds.first()).copied();
        let replicate = |index: usize| Replicate {
            label: if distinct { run[index] } else { index as u64 + 1 },
            run: run[index],
            partition: at(&partition, index).unwrap_or(run[index]),
            class_order: at(&class_order, index).unwrap_or(run[index]),
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
    }

    #[test]
    fn seeds_that_do_not_match_are_refused() {
        for (text, hint) in [
            ("replicates = 2\nseeds = { run = [1] }", "exclude each other"),
            ("seeds = { run = [1, 2, 3], partition = [1, 2] }", "has 2 seeds and `run` has 3"),
            ("seeds = { run = [1, 1] }", "have the same seeds"),
            ("seeds = { run = [] }", "at least one seed"),
            ("replicates = 0", "at least 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
