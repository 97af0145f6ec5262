//! Comparison of ranks: a table of the fields in which they differ.

use super::RankFingerprint;

/// Something in which ranks must not differ.
struct FingerprintField {
    name: &'static str,
    of: fn(&RankFingerprint) -> String,
}

const TRAITS: [FingerprintField; 5] = [
    FingerprintField { name: "version", of: |c| c.version.clone() },
    FingerprintField { name: "arithmetic", of: |c| c.machine.arithmetic.clone() },
    FingerprintField { name: "scenario", of: |c| short(&c.scenario) },
    FingerprintField { name: "data", of: |c| short(&c.data) },
    FingerprintField { name: "weights", of: |c| short(&c.weights) },
];

/// Shortens a digest to a length that still distinguishes digests.
fn short(digest: &str) -> String {
    digest.chars().take(8).collect()
}

/// Fields in which ranks differ.
pub(super) struct RankDifferences {
    traits: Vec<&'static FingerprintField>,
}

/// Compares all ranks with the first.
pub(super) fn compare(ranks: &[RankFingerprint]) -> RankDifferences {
    let differs = |what: &&'static FingerprintField| {
        ranks.iter().any(|rank| (what.of)(rank) != (what.of)(&ranks[0]))
    };
    RankDifferences { traits: TRAITS.iter().filter(differs).collect() }
}

impl RankDifferences {
    pub fn is_none(&self) -> bool {
        self.traits.is_empty()
    }

    /// Returns a row per rank with everything that differs.
    pub fn table(&self, ranks: &[RankFingerprint]) -> String {
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

/// Ranks whose machine has more cores than they and their neighbors use, in words.
pub(super) fn bound(ranks: &[RankFingerprint]) -> Option<String> {
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
         or set --workers",
        rank.host, rank.cores_there, rank.cores_there
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::machine::{ARITHMETIC, Machine};

    fn rank(host: &str) -> RankFingerprint {
        RankFingerprint {
            host: host.into(),
            version: "0.1.0".into(),
            scenario: "11".into(),
            data: "22".into(),
            weights: "33".into(),
            workers: 1,
            devices: vec!["cpu".into()],
            pack: 1,
            cores_there: 4,
            machine: Machine { cores: 1, ..Machine::here() },
        }
    }

    #[test]
    fn machines_may_differ_in_all_but_arithmetic() {
        let (a, mut b) = (rank("node1"), rank("node2"));
        b.machine = Machine {
            cpu: "another".into(),
            vectors: "portable".into(),
            features: Vec::new(),
            platform: "linux-aarch64".into(),
            ..b.machine
        };
        (b.cores_there, b.workers, b.pack) = (64, 64, 8);
        assert!(compare(&[a.clone(), b.clone()]).is_none());
        b.machine.arithmetic = "fixed-0".into();
        assert!(!compare(&[a, b]).is_none());
    }

    #[test]
    fn differences_stand_in_a_table() {
        let (a, mut b) = (rank("node1"), rank("a-long-name"));
        b.version = "0.1.0 (89abcdef)".into();
        b.machine.arithmetic = "fixed-0".into();
        let ranks = [a.clone(), a.clone(), b];
        let expected = format!(
            "  rank  host         version           arithmetic\n  \
             0     node1        0.1.0             {ARITHMETIC}\n  \
             1     node1        0.1.0             {ARITHMETIC}\n  \
             2     a-long-name  0.1.0 (89abcdef)  fixed-0"
        );
        assert_eq!(compare(&ranks).table(&ranks), expected);
        type Change = (&'static str, fn(&mut RankFingerprint));
        let changes: [Change; 3] = [
            ("scenario", |c| c.scenario = "12".into()),
            ("data", |c| c.data = "23".into()),
            ("weights", |c| c.weights = "34".into()),
        ];
        for (name, change) in changes {
            let mut other = a.clone();
            change(&mut other);
            let ranks = [a.clone(), other];
            let head = format!("  rank  host   {name}\n");
            assert!(compare(&ranks).table(&ranks).starts_with(&head), "{name}");
        }
    }

    #[test]
    fn cores_that_a_launcher_hides_are_reported() {
        let ranks = [rank("node1"), rank("node1"), rank("node2")];
        let warning = bound(&ranks).expect("four cores and two workers");
        assert!(
            warning.contains("node1 use 2 of its 4 cores") && warning.contains("--bind-to none")
        );
        let whole = |cores, workers| {
            let machine = Machine { cores, ..Machine::here() };
            RankFingerprint { machine, workers, ..rank("node1") }
        };
        assert_eq!(bound(&[whole(4, 2)]), None, "as requested");
        assert_eq!(bound(&vec![whole(1, 1); 4]), None, "a rank per core");
    }
}
