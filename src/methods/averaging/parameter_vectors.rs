//! Vectors with the shapes of parameters (control variates, drifts), and their rows in messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::Var;

use super::row_selection::RowSelection;
use super::{Parameters, RowPurpose, Rows};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::methods::parts::SharedModel;
use crate::model::{ModelError, Parameter, ParameterSet, is_buffer};
use crate::policy::{Aggregate, ModelFacts, PolicyError, TensorSpec, vector_places};

/// Vectors that messages in one direction carry, one per trained parameter and of its shape.
///
/// Buffers (running statistics) have none.
pub(in crate::methods) struct ParameterVectors {
    all: Parameters,
    cut: RowSelection,
    places: Vec<TensorSpec>,
}

impl ParameterVectors {
    /// Creates the selection of vectors for a client with this view.
    pub fn of(
        shared: &SharedModel<'_>,
        model: &ModelFacts,
        view: &TaskView,
        direction: RowPurpose,
    ) -> ParameterVectors {
        let (adaptation, query) = (shared.adaptation, shared.query(model, view, direction));
        let takes_part = |name: &str| !is_buffer(name) && adaptation.takes_part(&query, name);
        let all = adaptation.parameters(model).filter(takes_part);
        let cut = shared.cut(model, view, direction);
        let places = cut.places(&all, view, &|_| true, &|place, _, _| place);
        ParameterVectors { all, cut, places }
    }

    /// Returns the specifications of the vectors of the set `name`.
    pub fn places(&self, name: &str) -> Vec<TensorSpec> {
        vector_places(name, &self.places)
    }

    /// Returns the rows of `whole` that messages carry.
    ///
    /// # Errors
    /// When a vector is missing or has too few rows.
    pub fn take(&self, whole: &ParameterSet) -> Result<ParameterSet, ModelError> {
        self.cut.take(&self.all, whole, &|_| true)
    }

    /// Returns vectors with rows at their indices in whole vectors: zeros before the first.
    pub fn padded(&self, part: &ParameterSet) -> ParameterSet {
        self.cut.padded(&self.all, part)
    }

    /// Returns whole vectors (or parameters) with their transmitted rows replaced by `part`.
    ///
    /// # Errors
    /// When `part` does not fit.
    pub fn put(
        &self,
        whole: &ParameterSet,
        part: &ParameterSet,
    ) -> Result<ParameterSet, ModelError> {
        self.cut.put(&self.all, whole, part)
    }

    /// Returns the sums of the vectors of the set `name` over the uploads of an aggregate.
    ///
    /// # Errors
    /// When no upload had such vectors.
    pub fn sums(&self, name: &str, aggregate: &Aggregate) -> Result<VectorSums, PolicyError> {
        let vectors = vector_places(name, &self.places);
        let mut places: Vec<&TensorSpec> = self.places.iter().collect();
        places.sort_by(|a, b| a.name.cmp(&b.name));
        let sum = |(of, vector): (&TensorSpec, &TensorSpec)| {
            Ok((of.name.to_string(), aggregate.sum(&vector.name)?.to_vec()))
        };
        places
            .into_iter()
            .zip(&vectors)
            .map(sum)
            .collect::<Result<_, PolicyError>>()
            .map(VectorSums)
    }

    /// Returns the weighted sums of parameter changes; plain sums if every upload has weight one.
    pub fn moved(&self, aggregate: &Aggregate) -> VectorSums {
        let mut sums = VectorSums::default();
        for place in &self.places {
            let first = place.first_row * width(&place.shape);
            for mean in aggregate.means.values() {
                let Some(sum) = mean.sum(&place.name).and_then(|sum| sum.get(first..)) else {
                    continue;
                };
                sums.0.insert(place.name.to_string(), sum.to_vec());
            }
        }
        sums
    }

    /// Adds `times` the sums to the transmitted rows of whole vectors.
    pub fn add(&self, whole: &mut ParameterSet, sums: &VectorSums, times: f64) {
        for place in &self.places {
            let Some(sum) = sums.0.get(&*place.name) else { continue };
            let Some(Parameter { shape, values }) = whole.get(&place.name).cloned() else {
                continue;
            };
            let first = place.first_row * width(&shape);
            let mut values = values.to_vec();
            for (value, sum) in values[first..].iter_mut().zip(sum) {
                *value = (f64::from(*value) + times * sum) as f32;
            }
            whole.insert(&*place.name, Parameter { shape, values: values.into() });
        }
    }

    /// Returns `old` with every trained element computed by `step` from the elements of `sets`.
    ///
    /// Trained are the head's rows `rows`, and all elements of other parameters. `step` gets the parameter's name and
    /// returns the function of the elements. All sets have the shapes of `old`.
    pub fn renewed<const N: usize, F: Fn([f64; N]) -> f64>(
        &self,
        old: &ParameterSet,
        rows: &Range<usize>,
        sets: [&ParameterSet; N],
        step: impl Fn(&str) -> F,
    ) -> ParameterSet {
        let mut new = old.clone();
        for parameter in self.all.iter() {
            let name = parameter.name.as_str();
            let Some(Parameter { shape, values }) = old.get(name) else { continue };
            let sets = sets.map(|set| set.get(name).map(|p| &p.values[..]).unwrap_or_default());
            let width = width(shape);
            let trains = match parameter.rows {
                Rows::Class => rows.start * width..rows.end * width,
                Rows::Shared | Rows::Task => 0..values.len(),
            };
            let (mut values, step) = (values.to_vec(), step(name));
            for at in trains {
                values[at] = step(sets.map(|set| f64::from(set[at]))) as f32;
            }
            new.insert(name, Parameter { shape: shape.clone(), values: values.into() });
        }
        new
    }
}

/// Returns the number of elements in a row: the product of all dimensions but the first.
fn width(shape: &[usize]) -> usize {
    shape.get(1..).unwrap_or_default().iter().product()
}

/// Sums of vectors over clients, by parameter, in f64.
#[derive(Clone, Debug, Default)]
pub(in crate::methods) struct VectorSums(BTreeMap<String, Vec<f64>>);

impl VectorSums {
    /// Adds the vectors of a client.
    pub fn add(&mut self, vectors: &ParameterSet) {
        for (name, vector) in vectors.iter() {
            let sum = self.0.entry(name.to_string()).or_default();
            sum.resize(vector.values.len().max(sum.len()), 0.0);
            sum.iter_mut().zip(vector.values.iter()).for_each(|(sum, own)| *sum += f64::from(*own));
        }
    }
}

/// Returns zeros in the shapes of these parameters, without buffers.
pub(in crate::methods) fn zeros_like(parameters: &ParameterSet) -> ParameterSet {
    fitted(None, parameters)
}

/// Returns `vectors` in the shapes of the parameters `like`, without buffers.
///
/// Vectors that are missing are zero, as are rows by which a head has grown.
pub(in crate::methods) fn fitted(
    vectors: Option<&ParameterSet>,
    like: &ParameterSet,
) -> ParameterSet {
    let trained = like.iter().filter(|(name, _)| !is_buffer(name));
    let one = |(name, like): (&Arc<str>, &Parameter)| {
        let vector = match vectors.and_then(|vectors| vectors.get(name)) {
            Some(vector) if vector.shape == like.shape => vector.clone(),
            known => {
                let known = known.map(|vector| &vector.values[..]).unwrap_or_default();
                let zeros = std::iter::repeat(0.0);
                let values = known.iter().copied().chain(zeros).take(like.values.len()).collect();
                Parameter { shape: like.shape.clone(), values }
            }
        };
        (Arc::clone(name), vector)
    };
    trained.map(one).collect()
}

/// Returns the elements of a pack's sets by variable of its network: each member's values, one after another.
///
/// Of the head only `rows` are taken.
///
/// # Errors
/// When a set lacks a variable, or rows of one.
pub(in crate::methods) fn per_variable(
    network: &Classifier,
    sets: &[ParameterSet],
    rows: &Range<usize>,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let of_variable = |(name, variable): &(Arc<str>, Var)| {
        let own = variable.elem_count() / sets.len().max(1);
        let mut all = Vec::with_capacity(variable.elem_count());
        for set in sets {
            let missing =
                || ModelError::Input { reason: format!("no vector for parameter `{name}`") };
            let vector = set.get(name).ok_or_else(missing)?;
            match vector.values.len() == own {
                true => all.extend_from_slice(&vector.values),
                false => all.extend_from_slice(&vector.cut(rows.clone())?.values),
            }
        }
        Ok(all)
    };
    network.variables().iter().map(of_variable).collect()
}
