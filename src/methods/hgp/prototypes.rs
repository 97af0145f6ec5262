//! The Gaussians themselves: what a client says about its classes, how that travels and how the
//! server keeps it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

use super::mixture;
use crate::methods::averaged::Memory;
use crate::model::ParameterSet;
use crate::numerics::gaussian::{Diagonal, Full, GaussianError, Sampler};
use crate::policy::{ClassCounts, Message, Place, PolicyError, parameters_of};
use crate::quantity::ClientId;
use crate::scenario::reader::Choice;
use crate::wire::{Body, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// What the Gaussian of a class remembers of its features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CovarianceForm {
    /// One variance per dimension.
    Diagonal,
    /// The whole matrix; no gain, says the paper.
    Full,
}

impl Choice for CovarianceForm {}

/// What one client says about one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStatistics {
    /// Head row of the class.
    pub row: u32,
    /// Of its features; from at least two samples.
    pub gaussian: ClassGaussian,
}

/// A Gaussian with a variance per dimension or a whole covariance.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassGaussian {
    /// Independent dimensions.
    Diagonal(Diagonal),
    /// Any covariance.
    Full(Full),
}

impl ClassGaussian {
    /// Of the features of a class, each of `dim` numbers.
    pub(super) fn fit(form: CovarianceForm, dim: usize, features: &[Vec<f32>]) -> ClassGaussian {
        match form {
            CovarianceForm::Diagonal => {
                ClassGaussian::Diagonal(Diagonal::fit(dim, features.iter()))
            }
            CovarianceForm::Full => ClassGaussian::Full(Full::fit(dim, features)),
        }
    }

    /// Samples it was estimated from.
    pub fn count(&self) -> f64 {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.count as f64,
            ClassGaussian::Full(gaussian) => gaussian.count as f64,
        }
    }

    /// Draws with the covariance times `scale` and a little added to the variances.
    ///
    /// # Errors
    /// When it is not finite or, in full, not positive definite.
    pub fn sampler(&self, scale: f64, added: f64) -> Result<Sampler, GaussianError> {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.sampler(scale, added),
            ClassGaussian::Full(gaussian) => gaussian.sampler(scale, added),
        }
    }
}

/// The Gaussians of one class, by client.
pub type Cells = BTreeMap<ClientId, Arc<ClassStatistics>>;

/// Every Gaussian the server holds, by class and client.
#[derive(Clone, Debug, Default)]
pub struct Prototypes {
    cells: BTreeMap<u32, Cells>,
}

impl Prototypes {
    /// Takes in what arrived in a round. Where `forget` is set, a class that anybody describes
    /// anew loses what it was described by before; a class nobody describes keeps it.
    pub fn update(&mut self, arrived: &[(ClientId, Vec<Arc<ClassStatistics>>)], forget: bool) {
        if forget {
            for class in arrived.iter().flat_map(|(_, classes)| classes) {
                self.cells.remove(&class.row);
            }
        }
        for (client, classes) in arrived {
            for class in classes {
                self.cells.entry(class.row).or_default().insert(*client, Arc::clone(class));
            }
        }
    }

    /// The Gaussians of the classes in `rows`, by class and client.
    pub fn of(&self, rows: Range<u32>) -> impl Iterator<Item = (u32, &Cells)> {
        self.cells.range(rows).map(|(row, cells)| (*row, cells))
    }

    /// All cells, by class and then by client.
    pub fn iter(&self) -> impl Iterator<Item = (ClientId, &Arc<ClassStatistics>)> {
        self.cells.values().flatten().map(|(client, cell)| (*client, cell))
    }

    /// How many Gaussians there are.
    pub fn len(&self) -> usize {
        self.cells.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing has arrived yet.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Samples behind each class of `rows` that has any Gaussian.
    pub fn totals(&self, rows: Range<u32>) -> BTreeMap<u32, f64> {
        let sum = |of: &Cells| of.values().map(|cell| cell.gaussian.count()).sum();
        self.cells.range(rows).map(|(row, clients)| (*row, sum(clients))).collect()
    }
}

impl Memory for Prototypes {
    fn save_into(&self, body: &mut Body) {
        let (mut rows, mut clients) = (Vec::new(), Vec::new());
        for (client, cell) in self.iter() {
            rows.push(cell.row);
            clients.push(client.0);
        }
        let mut meta = MetaWriter::new();
        meta.u32s(&rows).u32s(&clients);
        body.meta.extend(meta.finish());
        let cells: Vec<_> = self.iter().map(|(_, cell)| Arc::clone(cell)).collect();
        body.sections.extend(section(&cells));
    }

    fn load_from(saved: &Body) -> Result<(Prototypes, ParameterSet), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (rows, clients) = (meta.u32s()?, meta.u32s()?);
        meta.finish()?;
        let cells = read(&rows, |name| saved.tensor(Kind::Prototypes, name))?;
        let mut prototypes = Prototypes::default();
        for (client, cell) in clients.into_iter().zip(cells) {
            prototypes.cells.entry(cell.row).or_default().insert(ClientId(client), cell);
        }
        Ok((prototypes, parameters_of(saved)?))
    }
}

/// Classes a client of these counts describes: those with at least two samples.
pub(super) fn described(counts: &ClassCounts) -> Vec<u32> {
    counts.iter().filter(|(_, count)| **count >= 2).map(|(row, _)| *row).collect()
}

/// What an upload says about classes; its control fields name them.
///
/// # Errors
/// When it says something else.
pub(super) fn said(update: &Message) -> Result<Vec<Arc<ClassStatistics>>, WireError> {
    let mut control = update.fields();
    control.u64()?;
    let rows = control.u32s()?;
    control.finish()?;
    read(&rows, |name| update.tensor(Kind::Prototypes, name))
}

/// Refuses an upload with a Gaussian that cannot be drawn from: it is that client's fault, not the end of the run.
pub(super) fn drawable(update: &Message, scale: f64) -> Result<(), PolicyError> {
    for class in said(update)? {
        class.gaussian.sampler(scale, mixture::ADDED)?;
    }
    Ok(())
}

const COUNTS: &str = "counts";
const MEANS: &str = "means";
const VARIANCES: &str = "variances";
const COVARIANCES: &str = "covariances";

/// The tensors that carry these Gaussians, `(n)`, `(n, dim)` and `(n, spread)`; none for none.
/// They are of one form and dimension: one client's, or one server's.
pub(super) fn section(classes: &[Arc<ClassStatistics>]) -> Option<Section> {
    let n = classes.len();
    let (mut counts, mut means, mut spreads) = (Vec::with_capacity(n), Vec::new(), Vec::new());
    let mut name = VARIANCES;
    let narrow = |values: &[f64], to: &mut Vec<f32>| to.extend(values.iter().map(|v| *v as f32));
    for class in classes {
        match &class.gaussian {
            ClassGaussian::Diagonal(Diagonal { count, mean, variance }) => {
                counts.push(*count as u32);
                narrow(mean, &mut means);
                narrow(variance, &mut spreads);
            }
            ClassGaussian::Full(gaussian) => {
                name = COVARIANCES;
                counts.push(gaussian.count as u32);
                narrow(&gaussian.mean, &mut means);
                narrow(&gaussian.packed(), &mut spreads);
            }
        }
    }
    let (dim, spread) = (means.len().checked_div(n)?, spreads.len() / n);
    let tensors = || -> Result<Vec<NamedTensor>, WireError> {
        Ok(vec![
            NamedTensor::u32(COUNTS, [n], counts)?,
            NamedTensor::f32(MEANS, [n, dim], means)?,
            NamedTensor::f32(name, [n, spread], spreads)?,
        ])
    };
    let tensors = tensors().expect("Gaussians in one message are of one form");
    Some(Section::new(Kind::Prototypes, tensors))
}

/// The places of [`section`] for `n` classes, kept by the server.
pub(super) fn places(n: usize, dim: usize, form: CovarianceForm) -> Vec<Place> {
    let (name, spread) = match form {
        CovarianceForm::Diagonal => (VARIANCES, dim),
        CovarianceForm::Full => (COVARIANCES, dim * (dim + 1) / 2),
    };
    let place =
        |name, shape: &[usize], dtype| Place::new(Kind::Prototypes, name, shape, dtype).kept();
    match n {
        0 => Vec::new(),
        _ => vec![
            place(COUNTS, &[n], Dtype::U32),
            place(MEANS, &[n, dim], Dtype::F32),
            place(name, &[n, spread], Dtype::F32),
        ],
    }
}

/// The Gaussians that [`section`] carries, for the classes `rows` in that order; `tensor` finds its tensors.
fn read<'t>(
    rows: &[u32],
    tensor: impl Fn(&str) -> Result<&'t NamedTensor, WireError>,
) -> Result<Vec<Arc<ClassStatistics>>, WireError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let n = rows.len();
    let counts = tensor(COUNTS)?.shaped(&[n])?.as_u32()?;
    let means = tensor(MEANS)?;
    let dim = means.shape().last().copied().unwrap_or(0);
    let means = means.shaped(&[n, dim])?.as_f32()?;
    let full = tensor(VARIANCES).is_err();
    let (name, spread) = if full { (COVARIANCES, dim * (dim + 1) / 2) } else { (VARIANCES, dim) };
    let spreads = tensor(name)?.shaped(&[n, spread])?.as_f32()?;
    let widen = |values: &[f32], at: usize, width: usize| -> Vec<f64> {
        values[at * width..(at + 1) * width].iter().map(|v| f64::from(*v)).collect()
    };
    let class = |(at, row): (usize, &u32)| {
        let (count, mean) = (u64::from(counts[at]), widen(means, at, dim));
        let around = widen(spreads, at, spread);
        let gaussian = if full {
            let full = Full::from_packed(count, mean, &around);
            ClassGaussian::Full(full.ok_or_else(|| {
                WireError::Malformed("a packed covariance has another length".into())
            })?)
        } else {
            ClassGaussian::Diagonal(Diagonal { count, mean, variance: around })
        };
        Ok(Arc::new(ClassStatistics { row: *row, gaussian }))
    };
    rows.iter().enumerate().map(class).collect()
}
