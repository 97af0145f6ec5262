//! Mean prototypes at the server: one per class, averaged over all clients (FedProto).

use std::collections::BTreeMap;

use clap::ValueEnum;

use super::{ClassMean, flagged, flags};
use crate::data::TaskView;
use crate::learning::losses::ClassPrototypes;
use crate::methods::averaging::ServerState;
use crate::policy::{Aggregate, Message, TensorSpec};
use crate::scenario::reader::Choice;
use crate::wire::{
    Body, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError,
};

/// Weight of a client's class mean in the prototype of the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum PrototypeWeighting {
    /// In proportion to the client's samples of the class.
    BySamples,
    /// Equal for all clients with at least one sample of the class.
    Uniform,
}

impl PrototypeWeighting {
    fn of(self, count: u64) -> f64 {
        match self {
            PrototypeWeighting::BySamples => count as f64,
            PrototypeWeighting::Uniform => 1.0,
        }
    }
}

/// Name of the tensor of prototypes in a download.
const PROTOTYPES: &str = "prototypes";

/// Prototypes of the current task's classes, by head row: the mean feature over all clients that report it.
#[derive(Debug, Default, PartialEq)]
pub struct MeanPrototypes {
    known: BTreeMap<u32, Vec<f32>>,
    /// Width of a feature.
    pub(in crate::methods) dim: usize,
}

impl MeanPrototypes {
    /// Updates the prototypes from the uploads of a round.
    ///
    /// Prototypes of other views are dropped. A class of this view that no client reports keeps its prototype.
    ///
    /// # Errors
    /// When an upload does not contain valid class means.
    pub(in crate::methods) fn renew(
        &mut self,
        aggregate: &Aggregate,
        view: &TaskView,
        weighting: PrototypeWeighting,
    ) -> Result<(), WireError> {
        self.known.retain(|row, _| view.rows.contains(&(*row as usize)));
        let mut reports = Vec::new();
        for upload in &aggregate.kept_uploads {
            reports.extend(ClassMean::reported(&upload.update)?);
        }
        self.take(&reports, weighting);
        Ok(())
    }

    /// Sets `p_c = sum_m w_mc p_mc / sum_m w_mc` for each class `c` that any client `m` reports.
    fn take(&mut self, reports: &[ClassMean], weighting: PrototypeWeighting) {
        let mut sums: BTreeMap<u32, (f64, Vec<f64>)> = BTreeMap::new();
        for ClassMean { row, count, mean } in reports.iter().filter(|report| report.count > 0) {
            let (total, sum) = sums.entry(*row).or_insert_with(|| (0.0, vec![0.0; mean.len()]));
            let weight = weighting.of(*count);
            *total += weight;
            sum.iter_mut().zip(mean).for_each(|(sum, value)| *sum += weight * value);
        }
        for (row, (total, sum)) in sums {
            self.known.insert(row, sum.into_iter().map(|value| (value / total) as f32).collect());
        }
    }

    /// Returns one bit per class of a view, set if the class has a prototype.
    pub(in crate::methods) fn flags(&self, view: &TaskView) -> Vec<u8> {
        flags(view, |row| self.known.contains_key(&row))
    }

    /// Returns the specification of [`section`](MeanPrototypes::section), with features of width `dim`.
    pub(in crate::methods) fn place(view: &TaskView, dim: usize) -> TensorSpec {
        TensorSpec::new(Kind::Prototypes, PROTOTYPES, &[view.rows.len(), dim], Dtype::F32)
    }

    /// Returns the tensor with all prototypes of a view, `(classes, dim)`.
    ///
    /// # Errors
    /// When a prototype does not have the width of the others.
    pub(in crate::methods) fn section(&self, view: &TaskView) -> Result<Section, WireError> {
        let shape = [view.rows.len(), self.dim];
        let table = NamedTensor::f32(PROTOTYPES, shape, self.table(view))?;
        Ok(Section::new(Kind::Prototypes, vec![table]))
    }

    /// Returns all prototypes of a view, `(classes, dim)`, with zeros for a class without one.
    fn table(&self, view: &TaskView) -> Vec<f32> {
        let of = |row: usize| self.known.get(&(row as u32)).cloned();
        view.rows.clone().flat_map(|row| of(row).unwrap_or_else(|| vec![0.0; self.dim])).collect()
    }

    /// Returns the prototypes in a download; empty if it has no such tensor.
    ///
    /// [`flags`](MeanPrototypes::flags) and [`section`](MeanPrototypes::section) write them.
    ///
    /// # Errors
    /// When flags or tensor do not fit the view.
    pub(in crate::methods) fn from_download(
        download: &Message,
        view: &TaskView,
    ) -> Result<ClassPrototypes, WireError> {
        let Some(table) = download.find(Kind::Prototypes, PROTOTYPES) else {
            return Ok(ClassPrototypes::default());
        };
        let dim = table.shape().last().copied().unwrap_or(0);
        let values = table.shaped(&[view.rows.len(), dim])?.as_f32()?;
        let class =
            |at: usize| ((view.rows.start + at) as u32, values[at * dim..(at + 1) * dim].to_vec());
        Ok(flagged(&download.control, view)?.into_iter().map(class).collect())
    }
}

impl Saved for MeanPrototypes {
    fn save(&self) -> Body {
        let rows: Vec<u32> = self.known.keys().copied().collect();
        let mut meta = MetaWriter::new();
        meta.u64(self.dim as u64).u32s(&rows);
        let values = self.known.values().flatten().copied().collect::<Vec<f32>>();
        let table = NamedTensor::f32(PROTOTYPES, [rows.len(), self.dim], values);
        let table = table.expect("prototypes of one run are of one width");
        Body::new(meta.finish(), vec![Section::new(Kind::Prototypes, vec![table])])
    }

    fn load(saved: &Body) -> Result<MeanPrototypes, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (dim, rows) = (meta.u64()? as usize, meta.u32s()?);
        meta.finish()?;
        let table = saved.tensor(Kind::Prototypes, PROTOTYPES)?.shaped(&[rows.len(), dim])?;
        let values = table.as_f32()?;
        let class = |(at, row): (usize, u32)| (row, values[at * dim..(at + 1) * dim].to_vec());
        let known = rows.into_iter().enumerate().map(class).collect();
        Ok(MeanPrototypes { known, dim })
    }
}

impl ServerState for MeanPrototypes {}

#[cfg(test)]
mod tests;
