//! The Gaussians themselves: what a client says about its classes, how that travels and how the
//! server keeps it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::numerics::gaussian::{Diagonal, Full, GaussianError, Sampler};
use crate::quantity::ClientId;
use crate::wire::{
    Body, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch, TensorSketch,
    WireError,
};

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

    /// Adds them to a checkpoint.
    pub(super) fn save_into(&self, body: &mut Body) {
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

    /// The inverse of [`save_into`](Self::save_into).
    pub(super) fn load_from(body: &Body) -> Result<Prototypes, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let (rows, clients) = (meta.u32s()?, meta.u32s()?);
        meta.finish()?;
        let mut prototypes = Prototypes::default();
        for (client, cell) in clients.into_iter().zip(from_body(&rows, body)?) {
            prototypes.cells.entry(cell.row).or_default().insert(ClientId(client), cell);
        }
        Ok(prototypes)
    }
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

/// The shape of [`section`] for `n` classes.
pub(super) fn section_sketch(n: usize, dim: usize, full: bool) -> Option<SectionSketch> {
    let (name, spread) = if full { (COVARIANCES, dim * (dim + 1) / 2) } else { (VARIANCES, dim) };
    let tensors = vec![
        TensorSketch::new(COUNTS, [n], Dtype::U32),
        TensorSketch::f32(MEANS, [n, dim]),
        TensorSketch::f32(name, [n, spread]),
    ];
    (n > 0).then(|| SectionSketch::new(Kind::Prototypes, tensors))
}

/// The Gaussians that [`section`] put into a body, for the classes `rows` in that order.
pub(super) fn from_body(rows: &[u32], body: &Body) -> Result<Vec<Arc<ClassStatistics>>, WireError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let n = rows.len();
    let counts = body.tensor(Kind::Prototypes, COUNTS)?.shaped(&[n])?.as_u32()?;
    let means = body.tensor(Kind::Prototypes, MEANS)?;
    let dim = means.shape().last().copied().unwrap_or(0);
    let means = means.shaped(&[n, dim])?.as_f32()?;
    let full = body.tensor(Kind::Prototypes, VARIANCES).is_err();
    let (name, spread) = if full { (COVARIANCES, dim * (dim + 1) / 2) } else { (VARIANCES, dim) };
    let spreads = body.tensor(Kind::Prototypes, name)?.shaped(&[n, spread])?.as_f32()?;
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
