//! Ranks compared: in what they differ, as a table.

use super::Credentials;

/// Something in which ranks may differ.
struct Trait {
    name: &'static str,
    of: fn(&Credentials) -> String,
    /// Whether a run of level T may do with it: numbers that round otherwise, never other numbers.
    mixes: bool,
}

const TRAITS: [Trait; 8] = [
    Trait { name: "version", of: |c| c.version.clone(), mixes: false },
    Trait { name: "scenario", of: |c| short(&c.scenario), mixes: false },
    Trait { name: "data", of: |c| short(&c.data), mixes: false },
    Trait { name: "weights", of: |c| short(&c.weights), mixes: false },
    Trait { name: "program", of: |c| short(&c.program), mixes: true },
    Trait { name: "kernels", of: |c| c.machine.gemm.clone(), mixes: true },
    Trait { name: "C library", of: |c| c.c_library.clone(), mixes: true },
    Trait { name: "arithmetic", of: |c| short(&c.canary), mixes: true },
];

/// Enough to tell two apart.
fn short(digest: &str) -> String {
    digest.chars().take(8).collect()
}

/// In what ranks differ.
pub(super) struct Differences {
    traits: Vec<&'static Trait>,
}

/// Compares all ranks with the first.
pub(super) fn compare(ranks: &[Credentials]) -> Differences {
    let differs =
        |what: &&'static Trait| ranks.iter().any(|rank| (what.of)(rank) != (what.of)(&ranks[0]));
    Differences { traits: TRAITS.iter().filter(differs).collect() }
}

impl Differences {
    pub fn is_none(&self) -> bool {
        self.traits.is_empty()
    }

    /// Whether they differ in how numbers round and in nothing else.
    pub fn mix(&self) -> bool {
        self.traits.iter().all(|what| what.mixes)
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self.mix() {
            true => {
                "run the same program on machines of one kind, or go on with --mixed: events and bytes stay exact, \
                 numbers agree within a tolerance (level T)"
            }
            false => "give all ranks the same program, data and weights",
        }
    }

    /// A row per rank with everything that differs.
    pub fn table(&self, ranks: &[Credentials]) -> String {
        let head = ["rank", "host"].into_iter().chain(self.traits.iter().map(|what| what.name));
        let mut rows = vec![head.map(str::to_owned).collect::<Vec<_>>()];
        for (number, rank) in ranks.iter().enumerate() {
            let mut row = vec![number.to_string(), rank.host.clone()];
            row.extend(self.traits.iter().map(|what| (what.of)(rank)));
            rows.push(row);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> =
            (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Ranks whose machine has more cores than they and their neighbours use, in words.
pub(super) fn bound(ranks: &[Credentials]) -> Option<String> {
    let idle = ranks.iter().find_map(|rank| {
        let used: usize =
            ranks.iter().filter(|other| other.host == rank.host).map(|other| other.workers).sum();
        let bound = rank.machine.cores < rank.cores_there && used < rank.cores_there;
        bound.then_some((rank, used))
    });
    let (rank, used) = idle?;
    Some(format!(
        "the ranks on {} use {used} of its {} cores, because their launcher binds them: start one rank per machine, not \
         bound (Open MPI: --map-by ppr:1:node --bind-to none; Slurm: --ntasks-per-node=1 --cpus-per-task={}), \
         or say --workers",
        rank.host, rank.cores_there, rank.cores_there
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::machine::Machine;

    fn rank(host: &str) -> Credentials {
        Credentials {
            host: host.into(),
            version: "0.1.0".into(),
            program: "0123456789abcdef".into(),
            scenario: "11".into(),
            data: "22".into(),
            weights: "33".into(),
            c_library: "glibc 2.36".into(),
            canary: "fedcba9876543210".into(),
            workers: 1,
            devices: vec!["cpu".into()],
            pack: 1,
            cores_there: 4,
            machine: Machine { gemm: "x86-v4 (avx512f)".into(), cores: 1, ..Machine::here() },
        }
    }

    #[test]
    fn what_differs_stands_in_a_table_and_says_whether_it_can_be_mixed() {
        let (a, mut b) = (rank("node1"), rank("a-long-name"));
        assert!(compare(&[a.clone(), b.clone()]).is_none(), "hosts may differ");
        b.machine.gemm = "x86-v3 (fma)".into();
        b.c_library = "glibc 2.41".into();
        b.canary = "77".into();
        let found = compare(&[a.clone(), a.clone(), b.clone()]);
        assert!(!found.is_none() && found.mix());
        let table = found.table(&[a.clone(), a.clone(), b.clone()]);
        let expected = "  rank  host         kernels           C library   arithmetic\n  \
             0     node1        x86-v4 (avx512f)  glibc 2.36  fedcba98\n  \
             1     node1        x86-v4 (avx512f)  glibc 2.36  fedcba98\n  \
             2     a-long-name  x86-v3 (fma)      glibc 2.41  77";
        assert_eq!(table, expected);
        for change in [
            |c: &mut Credentials| c.version = "0.2.0".into(),
            |c: &mut Credentials| c.scenario = "12".into(),
            |c: &mut Credentials| c.data = "23".into(),
            |c: &mut Credentials| c.weights = "34".into(),
        ] {
            let mut other = b.clone();
            change(&mut other);
            let found = compare(&[a.clone(), other]);
            assert!(!found.is_none() && !found.mix() && !found.help().contains("--mixed"));
        }
        let program = Credentials { program: "ff".into(), ..a.clone() };
        assert!(compare(&[a, program]).mix());
    }

    #[test]
    fn cores_that_a_launcher_hides_are_told() {
        let ranks = [rank("node1"), rank("node1"), rank("node2")];
        let told = bound(&ranks).expect("four cores and two workers");
        assert!(told.contains("node1 use 2 of its 4 cores") && told.contains("--bind-to none"));
        let whole = |cores, workers| {
            let machine = Machine { cores, ..Machine::here() };
            Credentials { machine, workers, ..rank("node1") }
        };
        assert_eq!(bound(&[whole(4, 2)]), None, "as somebody asked");
        assert_eq!(bound(&vec![whole(1, 1); 4]), None, "a rank per core");
    }
}
