//! `[partition]`: division of a task's training samples among clients.
//!
//! Sources: the HGP benchmark's "distribution-based label imbalance" and its two relatives (arXiv 2406.02447 and the
//! public framework of the same group), HePCo's three ratios, the allocation of MFCL and its successors, and owners
//! named in the data (LEAF).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::csv::{self, CsvFault};
use super::reader::{Choice, Keys};

/// Division of training samples among clients.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(required)]
pub struct PartitionSection {
    /// Rule of the division. Required.
    #[key(flatten)]
    #[serde(flatten)]
    pub kind: PartitionKind,
    /// Samples that every client must have of every task; otherwise the task is drawn again.
    ///
    /// For a natural partition and one from a file, samples of all tasks together; with fewer the run is refused.
    #[key(default = kind.usual_samples(), source = "public code of HGP")]
    pub min_samples: u32,
    /// Largest number of draws of a task.
    #[key(default = 9_999, at_least = 1.0, source = "public code of HGP")]
    pub attempts: u32,
    /// Shard size of a fresh population.
    ///
    /// Required with `participation.population = "fresh"`, and only valid there.
    #[key(at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_client: Option<u32>,
}

/// Rule by which samples are divided among clients.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", example = Dirichlet, unreadable = PartitionKind::Iid)]
pub enum PartitionKind {
    /// Distribution-based label imbalance, by `beta`.
    ///
    /// Per class, client fractions from `Dirichlet(beta)`; every sample is drawn independently.
    Dirichlet {
        /// Concentration of the Dirichlet distribution; small is uneven.
        #[key(example = 0.5, at_least = 1e-6)]
        beta: f64,
    },
    /// Dirichlet, up to an even part of the task per client (STSA, LANDER).
    ///
    /// A client that holds its even part gets nothing of further classes.
    Capped {
        /// Concentration of the Dirichlet distribution; small is uneven.
        #[key(example = 0.5, at_least = 1e-6)]
        beta: f64,
    },
    /// Equal sizes, with class proportions per client by `alpha` (MFCL, FedHAF).
    ///
    /// Every client has its own proportions from `Dirichlet(alpha)`.
    Lda {
        /// Concentration of the Dirichlet distribution; small is uneven.
        #[key(
            default = 1.0,
            at_least = 1e-6,
            source = "public code of MFCL; FedHAF does not state it"
        )]
        alpha: f64,
    },
    /// Owners named in the data (speakers, users, folders) as clients, largest first.
    Natural {
        /// Rule for owners that are not clients, if there are more owners than clients.
        #[key(default = Leftover::Drop)]
        leftover: Leftover,
    },
    /// Owners of samples from a CSV file.
    File {
        /// CSV file with columns sample and client, relative to this file.
        #[key(example = PathBuf::from("clients.csv"))]
        file: PathBuf,
        /// Rule for training samples that the file does not name.
        #[key(default = Unlisted::Refuse)]
        unlisted: Unlisted,
        /// Content of the file; a scenario only holds its name.
        #[key(value = Arc::default())]
        #[serde(skip)]
        lines: Arc<[OwnedSample]>,
    },
    /// Shuffled and dealt evenly.
    Iid,
    /// `classes_per_client` classes for every client.
    ///
    /// The holders of a class share it evenly.
    Quantity {
        /// Classes that a client draws.
        #[key(example = 2, at_least = 1.0)]
        classes_per_client: u32,
    },
    /// Dirichlet, after a few reserved samples per client.
    ///
    /// For many clients.
    Extended {
        /// Concentration of the Dirichlet distribution, for samples not reserved; small is uneven.
        #[key(example = 0.5, at_least = 1e-6)]
        beta: f64,
        /// Samples reserved per client and task.
        #[key(default = 7, at_least = 1.0, source = "public code of HGP")]
        reserved_samples: u32,
        /// Concentration of the classes of reserved samples.
        #[key(default = 0.05, at_least = 1e-6, source = "public code of HGP")]
        reserved_beta: f64,
    },
    /// Fraction of the classes for every fresh client, and a fraction of each.
    ///
    /// HePCo's rule: drawn client by client; shards may overlap.
    Ratios {
        /// Fraction of each held class (gamma).
        #[key(default = 0.1, above = 0.0, at_most = 1.0, source = "HePCo")]
        split: f64,
        /// Fraction of the task's classes that a client holds (kappa).
        #[key(default = 0.6, above = 0.0, at_most = 1.0, source = "HePCo")]
        category: f64,
        /// Size of the last held class as a fraction of the first (beta); 1 is balanced.
        #[key(default = 1.0, above = 0.0, at_most = 1.0, source = "HePCo")]
        imbalance: f64,
        /// Imbalance of the reported label counts only; a client that reports none of a class has none.
        ///
        /// `imbalance` applies to the counts and not to the samples that clients hold.
        #[key(default = false, source = "three of the four long tails of HePCo's release")]
        counts_only: bool,
    },
    /// Consecutive slices of the classes of client tasks.
    ///
    /// For `tasks.arrival = "client-tasks"`.
    Slices {
        /// Fraction of a class's training images in a slice.
        #[key(default = 0.2, above = 0.0, at_most = 1.0, source = "Powder's release")]
        fraction: f64,
        /// Number that chooses the slice of a client task.
        #[key(
            default = SliceBy::Stage,
            source = "Powder's release: stage on ImageNet-R, client-task on DomainNet"
        )]
        by: SliceBy,
    },
}

impl PartitionKind {
    /// Returns the default of `min_samples`; a file may give a client a single sample.
    fn usual_samples(&self) -> u32 {
        match self {
            PartitionKind::File { .. } => 1,
            _ => 6,
        }
    }
}

/// Line of a partition's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedSample {
    /// Index of a training sample, from 0, in the order of the data set.
    pub sample: u32,
    /// Client that holds it.
    pub client: u32,
    /// Line number in the file, from 1.
    pub line: u32,
}

/// Rule for training samples that a partition's file does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Unlisted {
    /// Refused: the file must name every sample.
    Refuse,
    /// Dropped: no client holds them.
    Drop,
}

/// Number that chooses the slice of a client task, modulo the number of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum SliceBy {
    /// Stage of the client task: clients with a class in the same stage hold the same images of it.
    Stage,
    /// Index of the client task, client by client: no two share a slice if there are enough slices.
    ClientTask,
    /// Client of the client task: it sees the same images of a class again, and shares none.
    Client,
}

/// Rule for owners in the data that are not clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Leftover {
    /// Dropped: no client holds their samples.
    Drop,
    /// Merged: each owner, largest first, is added to the client that holds least.
    Merge,
}

/// Reads the lines of a partition's file: every sample at most once, every client at least once.
pub(super) fn lines(text: &str, clients: u32) -> Result<Vec<OwnedSample>, CsvFault> {
    let mut rows = csv::rows(text);
    let Some(header) = rows.next() else { return Err(csv::nothing(text, "header")) };
    let places = csv::columns(&header, ["sample", "client"]).map_err(|mut fault| {
        if header.iter().any(|cell| cell.text == "samples") {
            fault.help = "a run's partition.csv only counts samples; write a line `sample,client` per training sample"
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
            csv::number(id, |id| whole(id, f64::from(u32::MAX)), "the index of a sample, from 0")?;
        let owner = csv::number(holder, |id| whole(id, f64::from(clients)), &who)?;
        let (sample, client) = (number as u32, owner as u32);
        if let Some(first) = first_of.insert(sample, line) {
            let message = format!("sample {sample} is already in line {first}");
            let help = "give every sample one client";
            return Err(CsvFault::at(id, message, "once more", help));
        }
        held[client as usize] = true;
        lines.push(OwnedSample { sample, client, line });
    }
    if lines.is_empty() {
        return Err(csv::nothing(text, "samples"));
    }
    if let Some(client) = held.iter().position(|held| !held) {
        let message = format!("client {client} of {clients} has no samples");
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
        assert_eq!((cell.as_str(), message.as_str()), ("5", "sample 5 is already in line 2"));
        assert_eq!(fault("sample,client\n5,2\n").0, "2");
        assert!(fault("sample,client\n5,2\n").1.contains("a client below 2"));
        assert_eq!(fault("sample,client\n-5,0\n").0, "-5");
        assert_eq!(fault("sample,client\n1.5,0\n").0, "1.5");
        assert!(fault("sample,client\n5,1\n").1.contains("client 0 of 2 has no samples"));
        assert!(fault("sample,client\n").1.contains("no samples"));
        assert!(fault("task,client,class,samples\n1,0,2,30\n").2.contains("counts samples"));
    }
}
