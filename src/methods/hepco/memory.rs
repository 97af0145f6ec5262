//! Memory of HePCo's server in addition to pools and head: label counts, and the server at the end of the last task.
//!
//! Generators live for a round only.

use std::sync::Arc;

use super::consolidation::{Local, Previous};
use crate::methods::averaging;
use crate::model::{Parameter, ParameterSet};
use crate::policy::{parameter_sections, parameters_of};
use crate::wire::{Body, MetaReader, MetaWriter, Saved, WireError};

/// Prefix of the names of the previous server's parameters in a saved state.
const PREVIOUS: &str = "previous.";

/// Label counts and the previous server.
#[derive(Debug, Default)]
pub struct HepcoMemory {
    /// Samples reported in all rounds so far, by head row.
    pub counts: Vec<u64>,
    /// Previous server, from the second task on.
    pub previous: Option<Previous>,
}

impl HepcoMemory {
    /// Adds the label counts of a round.
    pub(super) fn count(&mut self, teachers: &[Local]) {
        for teacher in teachers {
            let counts = self.counts.iter_mut().zip(&teacher.counts);
            counts.for_each(|(sum, count)| *sum += u64::from(*count));
        }
    }
}

impl averaging::ServerState for HepcoMemory {
    /// Excludes the previous server's parameters, which are stored next to the current ones.
    fn server_parameters(saved: &Body) -> Result<ParameterSet, WireError> {
        Ok(parameters_of(saved)?.filter(|name| !name.starts_with(PREVIOUS)))
    }
}

impl Saved for HepcoMemory {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        put(&mut meta, &self.counts);
        put(&mut meta, self.previous.as_ref().map_or(&[], |previous| &previous.counts));
        let Some(previous) = &self.previous else { return Body::new(meta.finish(), Vec::new()) };
        let renamed = |(name, parameter): (&Arc<str>, &Parameter)| {
            (format!("{PREVIOUS}{name}"), parameter.clone())
        };
        let renamed: ParameterSet = previous.parameters.iter().map(renamed).collect();
        Body::new(meta.finish(), parameter_sections(&renamed))
    }

    fn load(saved: &Body) -> Result<HepcoMemory, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (counts, before) = (counts_in(&mut meta)?, counts_in(&mut meta)?);
        meta.finish()?;
        let all = parameters_of(saved)?;
        let own = |(name, parameter): (&Arc<str>, &Parameter)| {
            Some((name.strip_prefix(PREVIOUS)?.to_owned(), parameter.clone()))
        };
        let previous = (!before.is_empty())
            .then(|| Previous { parameters: all.iter().filter_map(own).collect(), counts: before });
        Ok(HepcoMemory { counts, previous })
    }
}

fn put(meta: &mut MetaWriter, counts: &[u64]) {
    meta.u64(counts.len() as u64);
    counts.iter().for_each(|count| {
        meta.u64(*count);
    });
}

fn counts_in(meta: &mut MetaReader<'_>) -> Result<Vec<u64>, WireError> {
    let rows = meta.u64()?;
    (0..rows).map(|_| meta.u64()).collect()
}
