//! Finished tasks at the server: their pairs, and the products of these with the clients' input moments.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::methods::averaging::ServerState;
use crate::methods::regression::{InputStatistics, Layer};
use crate::model::{Factor, LoraPlace, ModelError, Parameter, ParameterSet, lora_name};
use crate::numerics::regression_mean::{NotFinite, SecondMoments, regression_mean};
use crate::numerics::symmetric::Symmetric;
use crate::policy::{Asset, parameter_sections};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError};

/// Name of the asset that holds the pairs of earlier tasks.
pub(super) const EARLIER: &str = "earlier";

/// Finished tasks at the server.
#[derive(Debug, Default)]
pub struct Tasks {
    latest_task: Option<usize>,
    /// LoRA pairs of every finished task.
    pairs: Vec<ParameterSet>,
    /// Products `A_s G_s` of every task, by name of weight; `None` for a task without reports.
    products: Vec<Option<BTreeMap<String, Vec<f64>>>>,
    /// Sums of input moments `sum_s G_s`, by name of weight.
    total: BTreeMap<String, SecondMoments>,
    /// Asset with the pairs of the tasks before the current one.
    earlier: Option<Arc<Asset>>,
}

/// Stacks the pairs of several tasks along a new first axis; `B` is multiplied by `scale`.
///
/// # Errors
/// When pairs differ in shape.
pub(super) fn stacked(pairs: &[ParameterSet], scale: f32) -> Result<ParameterSet, ModelError> {
    let mut stack = ParameterSet::new();
    let Some(first) = pairs.first() else { return Ok(stack) };
    for (name, one) in first.iter() {
        let factor = if Factor::of(name) == Some(Factor::B) { scale } else { 1.0 };
        let mut values = Vec::with_capacity(pairs.len() * one.values.len());
        for set in pairs {
            let own = set.get(name).filter(|own| own.shape == one.shape);
            let reason = format!("a task lacks `{name}`");
            let own = own.ok_or(ModelError::Input { reason })?;
            values.extend(own.values.iter().map(|value| factor * value));
        }
        let shape = [&[pairs.len()], one.shape.as_slice()].concat();
        stack.insert(Arc::clone(name), Parameter { shape, values: values.into() });
    }
    Ok(stack)
}

/// Splits a set that [`stacked`] made into the pairs of each task.
///
/// # Errors
/// When a parameter has no axis of tasks.
pub(super) fn by_task(stack: &ParameterSet) -> Result<Vec<ParameterSet>, ModelError> {
    let tasks = stack.iter().next().map_or(0, |(_, parameter)| parameter.rows());
    let of = |task: usize| {
        let pair = |(name, parameter): (&Arc<str>, &Parameter)| {
            let Parameter { mut shape, values } = parameter.cut(task..task + 1)?;
            shape.remove(0);
            Ok((Arc::clone(name), Parameter { shape, values }))
        };
        stack.iter().map(pair).collect()
    };
    (0..tasks).map(of).collect()
}

impl Tasks {
    /// Returns true if the current task is over.
    pub fn is_over(&self) -> bool {
        self.pairs.len() > self.latest_task.unwrap_or(0)
    }

    /// Returns the number of finished tasks.
    pub fn finished(&self) -> usize {
        self.pairs.len()
    }

    /// Returns the pairs of the tasks before the current one.
    pub fn earlier(&self) -> &[ParameterSet] {
        &self.pairs[..self.pairs.len().min(self.latest_task.unwrap_or(0))]
    }

    /// Returns the asset that clients of the current task need.
    pub fn asset(&self) -> Option<&Arc<Asset>> {
        self.earlier.as_ref()
    }

    /// Adds the reports of the current task: name, `A_t G_t` and `G_t` of every layer.
    pub fn report(&mut self, layers: impl IntoIterator<Item = (String, Vec<f64>, SecondMoments)>) {
        let mut products = BTreeMap::new();
        for (weight, product, moments) in layers {
            match self.total.get_mut(&weight) {
                Some(total) => total.add(&moments),
                None => drop(self.total.insert(weight.clone(), moments)),
            }
            products.insert(weight, product);
        }
        self.products.resize(self.latest_task.unwrap_or(0), None);
        self.products.push(Some(products));
    }

    /// Ends the current task with these pairs.
    pub fn finish(&mut self, pairs: ParameterSet) {
        let task = self.latest_task.unwrap_or(0);
        if self.pairs.len() == task {
            self.pairs.push(pairs);
            self.products.resize(task + 1, None);
        }
    }

    /// Returns the merged network after the last task: `B_s` and `A_s G_s V^+` of every task, which add up to `U V^+`.
    ///
    /// `None` if a task had no reports.
    ///
    /// # Errors
    /// When a sum is not finite.
    pub(super) fn merged(
        &self,
        statistics: &InputStatistics,
        layers: &[(usize, LoraPlace, Layer)],
    ) -> Result<Option<Vec<ParameterSet>>, NotFinite> {
        let mut tasks = Vec::with_capacity(self.pairs.len());
        for (pairs, products) in self.pairs.iter().zip(&self.products) {
            let (Some(products), mut merged) = (products, pairs.clone()) else { return Ok(None) };
            for (block, place, layer) in layers {
                let found = (products.get(&layer.weight), self.total.get(&layer.weight));
                let (Some(product), Some(total)) = found else { return Ok(None) };
                let name = lora_name(*block, *place, Factor::A);
                let Some(shape) = pairs.get(&name).map(|a| a.shape.clone()) else {
                    return Ok(None);
                };
                let rounding = total.rounding(statistics.precision(layer));
                let values = regression_mean(product, total, rounding)?;
                let values = values.into_iter().map(|value| value as f32).collect();
                merged.insert(name, Parameter { shape, values });
            }
            tasks.push(merged);
        }
        Ok(Some(tasks))
    }

    /// Creates the asset of the current task from the pairs of finished ones.
    fn make_asset(&mut self) {
        let task = self.latest_task.unwrap_or(0);
        let earlier = stacked(self.earlier(), 1.0);
        let earlier = earlier.ok().filter(|set| !set.is_empty());
        self.earlier = earlier.map(|set| {
            let body = Body::new(Vec::new(), parameter_sections(&set));
            Arc::new(Asset::new(EARLIER, task as u32, Kind::Weights, body))
        });
    }
}

const PAIR: &str = "pair";
const PRODUCT: &str = "product";
const TOTAL: &str = "total";

impl Saved for Tasks {
    fn save(&self) -> Body {
        let reported: Vec<u32> = self.products.iter().map(|own| u32::from(own.is_some())).collect();
        let mut meta = MetaWriter::new();
        meta.u64(self.latest_task.map_or(0, |task| task as u64 + 1));
        meta.u64(self.pairs.len() as u64).u32s(&reported);
        let mut tensors = Vec::new();
        let fills = "a tensor fills its shape";
        for (task, pairs) in self.pairs.iter().enumerate() {
            for (name, Parameter { shape, values }) in pairs.iter() {
                let name = format!("{PAIR}/{task}/{name}");
                tensors.push(NamedTensor::f32(name, &**shape, Arc::clone(values)).expect(fills));
            }
        }
        let vector = |name: String, values: &[f64]| {
            NamedTensor::f64(name, [values.len()], values.to_vec()).expect(fills)
        };
        for (task, products) in self.products.iter().enumerate() {
            for (weight, product) in products.iter().flatten() {
                tensors.push(vector(format!("{PRODUCT}/{task}/{weight}"), product));
            }
        }
        for (weight, total) in &self.total {
            let (form, values) = match total {
                SecondMoments::Diagonal(diagonal) => ("diagonal", diagonal.as_slice()),
                SecondMoments::Full(matrix) => ("full", matrix.packed()),
            };
            tensors.push(vector(format!("{TOTAL}/{form}/{weight}"), values));
        }
        Body::new(meta.finish(), vec![Section::new(Kind::Statistics, tensors)])
    }

    fn load(saved: &Body) -> Result<Tasks, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (latest_task, pairs, reported) = (meta.u64()?, meta.u64()? as usize, meta.u32s()?);
        meta.finish()?;
        let mut tasks = Tasks {
            latest_task: latest_task.checked_sub(1).map(|task| task as usize),
            pairs: vec![ParameterSet::new(); pairs],
            products: reported.iter().map(|is| (*is == 1).then(BTreeMap::new)).collect(),
            ..Tasks::default()
        };
        let strange = |name: &str| WireError::Malformed(format!("a saved server holds `{name}`"));
        for tensor in saved.of_kind(Kind::Statistics) {
            let name = &**tensor.name();
            let mut parts = name.splitn(3, '/');
            let (Some(what), Some(which), Some(of)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(strange(name));
            };
            let task = || which.parse::<usize>().map_err(|_| strange(name));
            match what {
                PAIR => {
                    let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
                    let pairs = tasks.pairs.get_mut(task()?).ok_or_else(|| strange(name))?;
                    pairs.insert(of, Parameter { shape, values });
                }
                PRODUCT => {
                    let own = tasks.products.get_mut(task()?).and_then(Option::as_mut);
                    let own = own.ok_or_else(|| strange(name))?;
                    own.insert(of.to_owned(), tensor.as_f64()?.to_vec());
                }
                TOTAL => {
                    let values = tensor.as_f64()?.to_vec();
                    let total = match which {
                        "diagonal" => SecondMoments::Diagonal(values),
                        _ => full_of(values).ok_or_else(|| strange(name))?,
                    };
                    tasks.total.insert(of.to_owned(), total);
                }
                _ => return Err(strange(name)),
            }
        }
        tasks.make_asset();
        Ok(tasks)
    }
}

impl ServerState for Tasks {
    fn is_new_task(&mut self, task: usize) -> bool {
        let new = self.latest_task.replace(task) != Some(task);
        if new {
            self.make_asset();
        }
        new
    }

    fn task(&self) -> usize {
        self.latest_task.unwrap_or(0)
    }
}

/// Returns a zero matrix whose triangle has this number of entries.
fn full_of(packed: Vec<f64>) -> Option<SecondMoments> {
    let order = (((8 * packed.len() + 1) as f64).sqrt() as usize).saturating_sub(1) / 2;
    Symmetric::from_packed(order, packed).map(SecondMoments::Full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::numerics::symmetric::Gram;

    fn of(gamma: f64) -> InputStatistics {
        InputStatistics { gamma_backbone: gamma, gamma_head: 0.5, symmetric: false }
    }

    /// Three tasks of a layer of eight inputs and six outputs, at rank 2.
    #[test]
    fn golden_tasks_are_merged_by_what_was_reported() {
        let Some(golden) = Golden::open("statistics") else { return };
        let part = |name: &str, task: usize| {
            let all = golden.f64(name);
            let width = all.len() / 3;
            all[task * width..(task + 1) * width].to_vec()
        };
        let (x, rows) = (golden.f64("reg.X"), golden.i64("reg.rows"));
        let place = LoraPlace::Proj;
        let layers =
            [(0, place, Layer { weight: "w".to_owned(), inputs: 8, outputs: 6, tokens: 1 })];
        let [a, b] = [Factor::A, Factor::B].map(|factor| lora_name(0, place, factor));
        for (name, gamma) in [("lorm.tasks_full", 1.0), ("lorm.tasks_diag", 0.0)] {
            let (mut tasks, mut rest) = (Tasks::default(), x.as_slice());
            for (task, rows) in rows.iter().enumerate() {
                let (own, others) = rest.split_at(8 * *rows as usize);
                rest = others;
                let mut gram = Gram::new(8);
                gram.add(own);
                let moments = SecondMoments::Full(gram.finish()).shrunk(gamma);
                let mut pair = ParameterSet::new();
                for (name, values, shape) in
                    [(&a, part("lorm.A", task), vec![2, 8]), (&b, part("lorm.B", task), vec![6, 2])]
                {
                    let values = values.into_iter().map(|value| value as f32).collect();
                    pair.insert(name.as_str(), Parameter { shape, values });
                }
                tasks.is_new_task(task);
                let product = moments.after(&part("lorm.A", task));
                tasks.report([("w".to_owned(), product, moments)]);
                tasks.finish(pair);
            }
            let mut network = vec![0f32; 48];
            for pair in tasks.merged(&of(gamma), &layers).unwrap().unwrap() {
                let (a, b) = (&pair.get(&a).unwrap().values, &pair.get(&b).unwrap().values);
                for (at, value) in network.iter_mut().enumerate() {
                    let (row, column) = (at / 8, at % 8);
                    *value += b[2 * row] * a[column] + b[2 * row + 1] * a[8 + column];
                }
            }
            golden.assert_close_f32(name, &network);
        }
    }

    /// Two tasks of equal pairs and moments share every direction, however little energy it has.
    ///
    /// Without shrinking a direction with so little energy is a rounding error of f32.
    #[test]
    fn small_directions_of_shrunk_moments_of_tasks_count() {
        let place = LoraPlace::Proj;
        let layers =
            [(0, place, Layer { weight: "w".to_owned(), inputs: 2, outputs: 1, tokens: 1 })];
        let a = lora_name(0, place, Factor::A);
        let second_column = |gamma: f64| {
            let mut tasks = Tasks::default();
            for task in 0..2 {
                let whole = Symmetric::from_packed(2, vec![1.0, 3e-5, 1e-9]).unwrap();
                let moments = SecondMoments::Full(whole).shrunk(gamma);
                let one = Parameter { shape: vec![1, 2], values: [0.25, -2.0].into() };
                tasks.is_new_task(task);
                tasks.report([("w".to_owned(), moments.after(&[0.25, -2.0]), moments)]);
                tasks.finish([(a.as_str(), one)].into_iter().collect());
            }
            let merged = tasks.merged(&of(gamma), &layers).unwrap().unwrap();
            merged.iter().map(|pair| pair.get(&a).unwrap().values[1]).collect::<Vec<f32>>()
        };
        assert!(second_column(0.5).iter().all(|value| (value + 1.0).abs() < 1e-5));
        assert!(second_column(1.0).iter().all(|value| value.abs() < 1e-3));
    }

    /// With matrices of moments and with diagonals, and a task without reports.
    #[test]
    fn tasks_are_read_back_from_what_was_saved() {
        let mut gram = Gram::new(3);
        gram.add(&[1.0, 2.0, 3.0, 0.5, -1.0, 2.5]);
        let full = SecondMoments::Full(gram.finish());
        let name = lora_name(0, LoraPlace::Proj, Factor::A);
        let pair = |value: f32| {
            let one = Parameter { shape: vec![1, 3], values: [value; 3].into() };
            [(name.as_str(), one)].into_iter().collect::<ParameterSet>()
        };
        for moments in [full, SecondMoments::Diagonal(vec![1.0, 4.0, 9.0])] {
            let mut tasks = Tasks::default();
            tasks.is_new_task(0);
            tasks.report([("w".to_owned(), vec![0.5, 0.25], moments)]);
            tasks.finish(pair(2.0));
            tasks.is_new_task(1);
            tasks.report(Vec::new());
            tasks.finish(pair(3.0));
            let body = tasks.save();
            let read = Tasks::load(&body).unwrap();
            assert_eq!(read.save().digest(), body.digest());
            assert_eq!((read.total, read.products), (tasks.total, tasks.products));
        }
    }

    /// `B` alone is scaled, whichever task it is of.
    #[test]
    fn a_stack_scales_what_goes_up_again() {
        let [a, b] = [Factor::A, Factor::B].map(|factor| lora_name(0, LoraPlace::Proj, factor));
        let pair = |value: f32| {
            let of = |value| Parameter { shape: vec![1, 2], values: [value; 2].into() };
            let both = [(a.as_str(), of(value)), (b.as_str(), of(10.0 * value))];
            both.into_iter().collect::<ParameterSet>()
        };
        let stack = stacked(&[pair(1.0), pair(2.0)], 0.5).unwrap();
        assert_eq!(stack.get(&a).unwrap().shape, [2, 1, 2]);
        assert_eq!(stack.get(&a).unwrap().values[..], [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(stack.get(&b).unwrap().values[..], [5.0, 5.0, 10.0, 10.0]);
    }
}
