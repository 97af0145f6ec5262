//! `[partition]`: which client holds which training samples of a task.
//!
//! Definitions: the HGP benchmark's "distribution-based label imbalance" and its two relatives
//! (arXiv 2406.02447 and the public framework of the same group), HePCo's three ratios, the
//! allocation of the MFCL line, and what the data themselves say (LEAF).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::csv::{self, CsvFault};
use super::reader::{Choice, Param, TableReader};

/// Who holds which samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionSection {
    /// The rule. Required.
    #[serde(flatten)]
    pub kind: PartitionKind,
    /// Samples every client must have in every task; otherwise the task is drawn again. Of a natural partition and of
    /// one from a file, samples of all tasks together; with less there is no run. Default 6, of a file 1.
    pub min_samples: u32,
    /// Draws before giving up. Default 9999.
    pub attempts: u32,
    /// Samples of a client's shard where `participation.population = "fresh"`. Required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_client: Option<u32>,
}

/// The rule of a partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PartitionKind {
    /// Per class, client shares from `Dirichlet(beta)`; every sample drawn on its own.
    Dirichlet {
        /// Concentration: small is uneven. Required.
        beta: f64,
    },
    /// As `dirichlet`, but a client that holds its even share gets nothing of further classes.
    Capped {
        /// Concentration: small is uneven. Required.
        beta: f64,
    },
    /// Every client has as many samples, in proportions of its own from `Dirichlet(alpha)`.
    Lda {
        /// Concentration: small is uneven. Default 1.
        alpha: f64,
    },
    /// As the data say: every client is somebody in it, such as a speaker of a play, those who hold most first.
    Natural {
        /// What becomes of those that are no client, because there are more of them. Default `drop`.
        rest: Leftover,
    },
    /// As a file says.
    File {
        /// A CSV file with columns `sample` and `client`. Required.
        file: PathBuf,
        /// What becomes of training samples that it does not name. Default `refuse`.
        unlisted: Unlisted,
        /// What it says; in a file of a scenario only its name stands.
        #[serde(skip)]
        lines: Arc<[OwnedSample]>,
    },
    /// Shuffled and dealt evenly.
    Iid,
    /// Every client draws so many classes of the task; a class is shared evenly by its holders.
    Quantity {
        /// Classes a client draws. Required.
        classes_per_client: u32,
    },
    /// As `dirichlet`, after every client has reserved a few samples (for many clients).
    Extended {
        /// Concentration of the samples not reserved. Required.
        beta: f64,
        /// Samples reserved per client. Default 7.
        picks: u32,
        /// Concentration of the classes of reserved samples. Default 0.05.
        picks_beta: f64,
    },
    /// HePCo's: every client of a fresh population draws a share of the task's classes and of
    /// each a share of its samples, on its own; shards may overlap.
    Ratios {
        /// Gamma: share of each held class. Default 0.1.
        split: f64,
        /// Kappa: share of the task's classes that a client holds. Default 0.6.
        category: f64,
        /// Beta: size of the last held class relative to the first; 1 is balanced. Default 1.
        imbalance: f64,
        /// Whether `imbalance` applies to the label counts that clients report and not to what they hold, but for
        /// classes of which they report none, as in three of the four long tails of HePCo's release. Default false.
        counts_only: bool,
    },
    /// Every client has consecutive slices of its own classes: for `tasks.arrival = "powder"`.
    Slices {
        /// Share of a class's training images. Default 0.2.
        share: f64,
        /// What the slice of a slot is counted by. Default `period`.
        by: SliceBy,
    },
}

/// A line of a partition's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedSample {
    /// The number of a training sample, from 0, in the order of the data set.
    pub sample: u32,
    /// Who holds it.
    pub client: u32,
    /// Where it stands in the file, from 1.
    pub line: u32,
}

/// What becomes of training samples that a partition's file does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Unlisted {
    /// There must be none.
    Refuse,
    /// Nobody holds them.
    Drop,
}

/// Which of the slices of its classes a slot has: always a number modulo how many slices there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum SliceBy {
    /// The slot's period: clients that share a class in a period hold the same images of it.
    Period,
    /// The slot's number among all, client by client: no two slots share a slice, where there are enough.
    Slot,
    /// The slot's client: it meets the same images of a class again, and shares none with others.
    Client,
}

/// What becomes of owners of data that are no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Leftover {
    /// Left out: nobody holds what they have.
    Drop,
    /// One after the other, those who hold most first, they are added to the client that holds least.
    Merge,
}

/// [`PartitionKind`] without its numbers.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Kind {
    /// Distribution-based label imbalance, by `beta`.
    Dirichlet,
    /// Dirichlet up to an even share of the task (STSA, LANDER).
    Capped,
    /// Equal sizes, proportions of every client by `alpha` (MFCL, FedHAF).
    Lda,
    /// Every client is somebody in the data (a speaker, a user, a folder), those who hold most first.
    Natural,
    /// A CSV file says who holds which sample.
    File,
    /// Shuffled and dealt evenly.
    Iid,
    /// Every client draws `classes_per_client` classes.
    Quantity,
    /// Dirichlet, after a few reserved samples per client.
    Extended,
    /// Every fresh client a share of the classes, of each a share.
    Ratios,
    /// Consecutive parts of the classes of tasks of a client's own.
    Slices,
}

impl PartitionSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> PartitionSection {
        let kind = Param::required("kind", Kind::Dirichlet, "who holds which samples");
        let beta = || Param::required("beta", 0.5, "concentration; small is uneven").at_least(1e-6);
        let kind = table.require(&kind);
        let word = kind.map_or_else(|| "?".to_owned(), |kind: Kind| kind.word());
        let kind = match kind {
            None => {
                // Nobody knows which keys belong to an unreadable kind.
                table.accept_rest();
                PartitionKind::Iid
            }
            Some(Kind::Dirichlet) => PartitionKind::Dirichlet { beta: table.get(&beta()) },
            Some(Kind::Capped) => PartitionKind::Capped { beta: table.get(&beta()) },
            Some(Kind::Lda) => {
                let alpha = Param::new("alpha", 1.0, "concentration; small is uneven");
                let alpha = alpha.source("public code of MFCL; FedHAF does not state it");
                PartitionKind::Lda { alpha: table.get(&alpha.at_least(1e-6)) }
            }
            Some(Kind::Natural) => {
                let rest = Param::new("rest", Leftover::Drop, "speakers who are no client");
                PartitionKind::Natural { rest: table.get(&rest) }
            }
            Some(Kind::File) => {
                let doc = "a CSV file with columns sample and client, relative to this file";
                let file = Param::required("file", PathBuf::from("clients.csv"), doc);
                let doc = "training samples that the file does not name";
                let unlisted = Param::new("unlisted", Unlisted::Refuse, doc);
                PartitionKind::File {
                    file: table.get(&file),
                    unlisted: table.get(&unlisted),
                    lines: Arc::default(),
                }
            }
            Some(Kind::Iid) => PartitionKind::Iid,
            Some(Kind::Quantity) => {
                let classes = Param::required("classes_per_client", 2, "classes a client draws");
                PartitionKind::Quantity { classes_per_client: table.get(&classes.at_least(1.0)) }
            }
            Some(Kind::Extended) => {
                let picks = Param::new("picks", 7, "samples reserved per client and task");
                let picks_beta = Param::new("picks_beta", 0.05, "concentration of their classes");
                PartitionKind::Extended {
                    beta: table.get(&beta()),
                    picks: table.get(&picks.source("public code of HGP").at_least(1.0)),
                    picks_beta: table.get(&picks_beta.source("public code of HGP").at_least(1e-6)),
                }
            }
            Some(Kind::Ratios) => ratios(table),
            Some(Kind::Slices) => {
                let share = Param::new("share", 0.2, "share of a class's training images");
                let share = share.source("Powder's release").above(0.0).at_most(1.0);
                let by =
                    Param::new("by", SliceBy::Period, "what the slice of a slot is counted by");
                let by =
                    by.source("Powder's release: the period on ImageNet-R, the slot on DomainNet");
                PartitionKind::Slices { share: table.get(&share), by: table.get(&by) }
            }
        };
        let of_other_kinds = [
            "alpha",
            "rest",
            "file",
            "unlisted",
            "beta",
            "classes_per_client",
            "picks",
            "picks_beta",
            "split",
            "category",
            "imbalance",
            "counts_only",
            "share",
            "by",
        ];
        table.foreign(&of_other_kinds, &format!("kind = \"{word}\""));
        let listed = matches!(kind, PartitionKind::File { .. });
        let least = if listed { 1 } else { 6 };
        let min_samples =
            Param::new("min_samples", least, "samples every client has of every task");
        let attempts = Param::new("attempts", 9_999, "draws before giving up").at_least(1.0);
        let fresh = Param::unset("samples_per_client", "shard size of a fresh population");
        PartitionSection {
            kind,
            min_samples: table.get(&min_samples.source("public code of HGP")),
            attempts: table.get(&attempts.source("public code of HGP")),
            samples_per_client: table.optional(&fresh.at_least(1.0)),
        }
    }
}

fn ratios(table: &mut TableReader<'_>) -> PartitionKind {
    let share = |name: &'static str, default: f64, what: &'static str| {
        Param::new(name, default, what).source("HePCo").above(0.0).at_most(1.0)
    };
    let counts_only = Param::new(
        "counts_only",
        false,
        "thin out what clients report; who reports none of a class holds none",
    );
    PartitionKind::Ratios {
        split: table.get(&share("split", 0.1, "share of each held class (gamma)")),
        category: table.get(&share("category", 0.6, "share of the classes held (kappa)")),
        imbalance: table.get(&share("imbalance", 1.0, "last held class against the first (beta)")),
        counts_only: table
            .get(&counts_only.source("three of the four long tails of HePCo's release")),
    }
}

/// The lines of a partition's file for so many clients: every sample at most once, every client at least once.
pub(super) fn lines(text: &str, clients: u32) -> Result<Vec<OwnedSample>, CsvFault> {
    let mut rows = csv::rows(text);
    let Some(header) = rows.next() else { return Err(csv::nothing(text, "header")) };
    let places = csv::columns(&header, ["sample", "client"]).map_err(|mut fault| {
        if header.iter().any(|cell| cell.text == "samples") {
            fault.help = "a run's partition.csv counts samples and does not name them; write a line `sample,client` \
                          per training sample"
                .to_owned();
        }
        fault
    });
    let [sample, client] = places?;
    let whole = |value: f64, end: f64| value.fract() == 0.0 && (0.0..end).contains(&value);
    let who = format!("a client below {clients}, as `federation.clients` says");
    let mut lines = Vec::new();
    let mut held = vec![false; clients as usize];
    // Lines are counted as cells are met, so that the whole text is looked through once.
    let (mut line, mut counted) = (1, 0);
    let mut first_of = BTreeMap::new();
    for row in rows {
        let cell = |place| csv::cell(&row, place, header.len());
        let (id, holder) = (cell(sample)?, cell(client)?);
        line += text[counted..row[0].start].matches('\n').count() as u32;
        counted = row[0].start;
        let number =
            csv::number(id, |id| whole(id, f64::from(u32::MAX)), "a number of a sample, from 0")?;
        let owner = csv::number(holder, |id| whole(id, f64::from(clients)), &who)?;
        let (sample, client) = (number as u32, owner as u32);
        if let Some(first) = first_of.insert(sample, line) {
            let message = format!("sample {sample} stands in line {first} already");
            let help = "let every sample have one client";
            return Err(CsvFault::at(id, message, "once more", help));
        }
        held[client as usize] = true;
        lines.push(OwnedSample { sample, client, line });
    }
    if lines.is_empty() {
        return Err(csv::nothing(text, "samples"));
    }
    if let Some(client) = held.iter().position(|held| !held) {
        let message = format!("client {client} of {clients} has no sample");
        let help = "count clients from 0 without a gap, or lower `federation.clients`";
        return Err(CsvFault::at(header[0], message, "in this file", help));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_samples_and_clients_with_their_places() {
        let read = lines("# who\nsample, client\n\n7,1\n0,0\r\n3,1", 2).unwrap();
        let of = |sample, client, line| OwnedSample { sample, client, line };
        assert_eq!(read, [of(7, 1, 4), of(0, 0, 5), of(3, 1, 6)]);
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_is() {
        let fault = |text: &str| {
            let fault = lines(text, 2).unwrap_err();
            (text[fault.start..fault.end].to_owned(), fault.message, fault.help)
        };
        let (cell, message, _) = fault("sample,client\n5,0\n6,1\n5,1\n");
        assert_eq!((cell.as_str(), message.as_str()), ("5", "sample 5 stands in line 2 already"));
        assert_eq!(fault("sample,client\n5,2\n").0, "2");
        assert!(fault("sample,client\n5,2\n").1.contains("a client below 2"));
        assert_eq!(fault("sample,client\n-5,0\n").0, "-5");
        assert_eq!(fault("sample,client\n1.5,0\n").0, "1.5");
        assert!(fault("sample,client\n5,1\n").1.contains("client 0 of 2 has no sample"));
        assert!(fault("sample,client\n").1.contains("no samples"));
        assert!(fault("task,client,class,samples\n1,0,2,30\n").2.contains("counts samples"));
    }
}
