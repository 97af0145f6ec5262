//! Files that a scenario names: their paths, and the reading of small ones.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::availability::{self, AvailabilityPattern, AvailabilitySection};
use super::csv::{self, CsvFault};
use super::distribution::{Bound, DistributionSection};
use super::reader::{
    Node, ReadingReport, SourceText, TextSpan, TomlValue, ValueFault, message_and_help,
};
use super::{
    ArrivalChoice, DistributionKindSection, LinksSection, PartitionKind, Scenario, SplitSection,
    TimeSection, arrival, partition, single_task,
};
use crate::fetch::{Name, Settings};
use crate::files::{FileKind, read_text};

/// Distributions with their keys and ranges of valid values.
type Distributions<'a> = Vec<(&'static str, Bound, &'a mut DistributionSection)>;

fn distributions_of<'a>(
    time: &'a mut TimeSection,
    links: &'a mut LinksSection,
    (join, stay): (&'a mut DistributionSection, &'a mut DistributionSection),
    lag: Option<&'a mut DistributionSection>,
) -> Distributions<'a> {
    let mut distributions = vec![
        ("time.slowness", Bound::Positive, &mut time.slowness),
        ("time.jitter", Bound::Positive, &mut time.jitter),
        ("time.setup_ms", Bound::AtLeastZero, &mut time.setup_ms),
        ("links.down_mb_per_s", Bound::Positive, &mut links.down_mb_per_s),
        ("links.up_mb_per_s", Bound::Positive, &mut links.up_mb_per_s),
        ("links.jitter", Bound::Positive, &mut links.jitter),
        ("links.rtt_ms", Bound::AtLeastZero, &mut links.rtt_ms),
        ("availability.join_s", Bound::AtLeastZero, join),
        ("availability.stay_s", Bound::Positive, stay),
    ];
    distributions.extend(lag.map(|lag| ("tasks.lag_s", Bound::AtLeastZero, lag)));
    distributions
}

impl Scenario {
    /// Returns every distribution with its key and range of valid values.
    pub(super) fn distributions_mut(&mut self) -> Distributions<'_> {
        let AvailabilitySection { join_s, stay_s, .. } = &mut self.availability;
        let lag = match &mut self.tasks.arrival {
            ArrivalChoice::Lag { lag_s } => Some(lag_s),
            _ => None,
        };
        distributions_of(&mut self.time, &mut self.links, (join_s, stay_s), lag)
    }

    /// Returns every path with its key.
    pub(super) fn paths_mut(&mut self) -> Vec<(String, &mut PathBuf)> {
        let Scenario { data, tasks, partition, backbone, time, links, cache, .. } = self;
        let (availability, record) = (&mut self.availability, &mut self.record);
        let mut paths: Vec<(String, &mut PathBuf)> = Vec::new();
        paths.extend(data.path.as_mut().map(|path| ("data.path".to_owned(), path)));
        let auxiliary = data.auxiliary.as_mut().and_then(|section| section.path.as_mut());
        paths.extend(auxiliary.map(|path| ("data.auxiliary.path".to_owned(), path)));
        let lists = data.split.iter_mut().flat_map(SplitSection::files_mut);
        paths.extend(lists.map(|(key, path)| (key.to_owned(), path)));
        if let PartitionKind::File { file, .. } = &mut partition.kind {
            paths.push(("partition.file".to_owned(), file));
        }
        paths.extend(backbone.files_mut());
        paths.extend(cache.folder.as_mut().map(|path| ("cache.folder".to_owned(), path)));
        paths.extend(
            record.single_task.as_mut().map(|path| ("record.single_task".to_owned(), path)),
        );
        let AvailabilitySection { pattern, join_s, stay_s } = availability;
        if let AvailabilityPattern::Trace { file, .. } = pattern {
            paths.push(("availability.file".to_owned(), file));
        }
        let lag = match &mut tasks.arrival {
            ArrivalChoice::Lag { lag_s } => Some(lag_s),
            ArrivalChoice::File { file, .. } => {
                paths.push(("tasks.file".to_owned(), file));
                None
            }
            ArrivalChoice::Global
            | ArrivalChoice::Paced { .. }
            | ArrivalChoice::ClientTasks { .. } => None,
        };
        for (key, _, distribution) in distributions_of(time, links, (join_s, stay_s), lag) {
            if let DistributionKindSection::Empirical { file, .. } = &mut distribution.shape {
                paths.push((format!("{key}.file"), file));
            }
        }
        paths
    }

    /// Infers the architecture from the file of weights if the scenario does not state it.
    pub(super) fn infer(&mut self, root: &Node, report: &mut ReadingReport) {
        let find = |path: &Path| {
            Settings::from_env().weights_at(path).map_err(|error| {
                let text = error.to_string();
                let (message, help) = message_and_help(&text);
                let help =
                    format!("{help}, or state `architecture`: then only `run` needs the file");
                ("backbone.weights", message.to_owned(), "gives no architecture", help)
            })
        };
        if let Err((key, message, label, help)) = self.backbone.infer(find) {
            report.fault(ValueFault::new(root.nearest(key), message, label).help(help));
        }
    }

    /// Reads the CSV files of traces and distributions, and reports errors at their places.
    pub(super) fn read_files(&mut self, root: &Node, report: &mut ReadingReport) {
        if let AvailabilityPattern::Trace { file, transitions, .. } = &mut self.availability.pattern
            && let Some(lines) =
                open("availability.file", file, root, report, availability::transitions)
        {
            *transitions = lines.into();
        }
        let (clients, tasks) = (self.federation.clients, self.tasks.count());
        if let ArrivalChoice::File { file, lines } = &mut self.tasks.arrival
            && let Some(read) =
                open("tasks.file", file, root, report, |text| arrival::lines(text, clients, tasks))
        {
            *lines = read.into();
        }
        if let PartitionKind::File { file, lines, .. } = &mut self.partition.kind
            && let Some(read) =
                open("partition.file", file, root, report, |text| partition::lines(text, clients))
        {
            *lines = read.into();
        }
        if let Some(file) = &self.record.single_task {
            let read = |text: &str| single_task::lines(text, tasks, clients);
            if let Some(read) = open("record.single_task", file, root, report, read) {
                self.record.trained_alone = read.into();
            }
        }
        for (key, bound, distribution) in self.distributions_mut() {
            let DistributionKindSection::Empirical { file, column, values } =
                &mut distribution.shape
            else {
                continue;
            };
            let read = |text: &str| {
                csv::numbers(text, column.as_deref(), |v| bound.admits(v), bound.words())
            };
            if let Some(read) = open(&format!("{key}.file"), file, root, report, read) {
                *values = read.into();
            }
        }
    }
}

/// Returns true if the key is of data or weights, which may have names instead of paths.
pub(super) fn may_be_named(key: &str) -> bool {
    ["data.path", "data.auxiliary.path", "backbone.weights", "backbone.vocabulary"].contains(&key)
}

impl Scenario {
    /// Returns the names of data and weights that can be fetched.
    pub fn names(&self) -> Vec<Name> {
        let mut copy = self.clone();
        let paths = copy.paths_mut();
        let named = paths.into_iter().filter(|(key, _)| may_be_named(key));
        let names = named.filter_map(|(_, path)| Name::of_path(path)?.ok());
        self.data.name().into_iter().chain(names).collect()
    }
}

/// Reads a file that a key names.
pub(super) fn open<T>(
    key: &str,
    path: &std::path::Path,
    root: &Node,
    report: &mut ReadingReport,
    read: impl FnOnce(&str) -> Result<T, CsvFault>,
) -> Option<T> {
    let text = match read_text(path, FileKind::Table) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            let fault = ValueFault::new(root.nearest(key), message, "this file");
            report.fault(fault.help(match error.kind() {
                ErrorKind::InvalidData => "save it as UTF-8 text",
                _ => "paths are relative to the folder of the file that contains them",
            }));
            return None;
        }
    };
    match read(&text) {
        Ok(value) => Some(value),
        Err(CsvFault { start, end, message, label, help }) => {
            let shown = path.display().to_string();
            let source = report.add(SourceText::table(&shown, &text));
            let place =
                Node { value: TomlValue::Boolean(false), span: TextSpan { source, start, end } };
            report.fault(ValueFault::new(&place, message, label).help(help));
            None
        }
    }
}
