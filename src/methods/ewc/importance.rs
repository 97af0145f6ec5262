//! Fisher information that a server accumulates over tasks, and its messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::data::TaskView;
use crate::methods::HeadForm;
use crate::methods::averaging::{FINAL_EXCHANGE, Parameters, Rows, ServerState};
use crate::model::{HeadKind, Parameter, ParameterSet, is_buffer};
use crate::policy::{
    Aggregate, Asset, AssetSpec, Message, PolicyError, Stage, StalenessRule, TensorSpec,
};
use crate::wire::{
    Body, BodyShape, Dtype, Kind, NamedTensor, Saved, Section, SectionShape, TensorShape, WireError,
};

/// Name of the asset; the prefix below precedes the parameters' names in the tensors of reports.
const FISHER: &str = "fisher";
const PREFIX: &str = "fisher/";
/// Name of the saved description of the asset: its task, and the number of rows of each tensor.
const SENT: &str = "fisher.sent";

/// Returns names and shapes of the parameters that have Fisher information, in the order of `all`.
///
/// The head has the rows `rows`.
fn shapes(all: &Parameters, rows: Range<usize>) -> impl Iterator<Item = (&str, Vec<usize>)> {
    all.iter().filter(|parameter| !is_buffer(&parameter.name)).map(move |parameter| {
        let mut shape = parameter.shape.clone();
        if parameter.rows == Rows::Class {
            shape[0] = rows.len();
        }
        (parameter.name.as_str(), shape)
    })
}

/// Returns the specifications of the Fisher information in a client's report, which the server sums up.
pub(super) fn fisher_places(all: &Parameters, rows: Range<usize>) -> Vec<TensorSpec> {
    let place = |(name, shape): (&str, Vec<usize>)| {
        let name = format!("{PREFIX}{name}");
        TensorSpec::new(Kind::Statistics, name, &shape, Dtype::F32).summed(StalenessRule::Refuse)
    };
    shapes(all, rows).map(place).collect()
}

/// Returns the tensors specified by [`fisher_places`], cut from Fisher information in whole shapes.
pub(super) fn fisher_section(
    all: &Parameters,
    fisher: &ParameterSet,
    rows: Range<usize>,
) -> Result<Vec<NamedTensor>, PolicyError> {
    let tensor = |(name, shape): (&str, Vec<usize>)| {
        let missing = || PolicyError::Unsupported(format!("`{name}` has no Fisher information"));
        let count: usize = shape.iter().product();
        let found = fisher.get(name).and_then(|found| found.values.get(..count));
        let values = found.ok_or_else(missing)?;
        Ok(NamedTensor::f32(format!("{PREFIX}{name}"), shape, values)?)
    };
    shapes(all, rows).map(tensor).collect()
}

/// Returns the specification of the asset in a task, or `None` in the first.
pub(super) fn fisher_shape(all: &Parameters, head: HeadForm, view: &TaskView) -> Option<AssetSpec> {
    let before = view.task.0.checked_sub(1)?;
    let shapes = all.iter().filter(|parameter| !is_buffer(&parameter.name)).map(|parameter| {
        let mut shape = parameter.shape.clone();
        if parameter.rows == Rows::Class && head == HeadForm::Growing {
            shape[0] = view.rows.start;
        }
        (parameter.name.clone(), shape)
    });
    let mut shapes: Vec<(String, Vec<usize>)> = shapes.collect();
    shapes.sort();
    let tensors = shapes.into_iter().map(|(name, shape)| TensorShape::f32(name, shape)).collect();
    let body = BodyShape::new(0, vec![SectionShape::new(Kind::Statistics, tensors)]);
    Some(AssetSpec {
        name: FISHER,
        version: u32::from(before),
        body,
        renewed_in: Some(FINAL_EXCHANGE),
    })
}

/// Accumulated Fisher information `F` in whole shapes, and the part that is sent in the current task.
#[derive(Clone, Debug, Default)]
pub struct Importance {
    fisher: BTreeMap<Arc<str>, ParameterSums>,
    asset: Option<Arc<Asset>>,
}

/// Fisher information of one parameter, flat.
#[derive(Clone, Debug, PartialEq)]
struct ParameterSums {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Importance {
    /// Returns `F` from the asset that a download names, or `None` in the first task.
    ///
    /// # Errors
    /// When the values of the asset are not f32.
    pub(super) fn of(download: &Message) -> Result<Option<ParameterSet>, WireError> {
        let Some(asset) = download.asset(FISHER) else { return Ok(None) };
        let tensors = asset.body.of_kind(Kind::Statistics).map(|tensor| {
            let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
            Ok((Arc::clone(tensor.name()), Parameter { shape, values }))
        });
        tensors.collect::<Result<_, WireError>>().map(Some)
    }

    /// Computes `F <- decay F + min(sum / terms, clip)`, with the sums of all reports.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        theta: &ParameterSet,
        (terms, decay, clip): (f64, f64, f64),
    ) -> Result<(), PolicyError> {
        for (name, parameter) in theta.iter().filter(|(name, _)| !is_buffer(name)) {
            let sums = aggregate.sum(&format!("{PREFIX}{name}"))?;
            let ParameterSums { values, .. } = self.number(name, parameter);
            values.iter_mut().for_each(|value| *value *= decay);
            if terms > 0.0 {
                let new = values.iter_mut().zip(sums);
                new.for_each(|(value, sum)| *value += (sum.max(0.0) / terms).min(clip));
            }
        }
        Ok(())
    }

    fn number(&mut self, name: &Arc<str>, like: &Parameter) -> &mut ParameterSums {
        self.fisher.entry(Arc::clone(name)).or_insert_with(|| ParameterSums {
            shape: like.shape.clone(),
            values: vec![0.0; like.values.len()],
        })
    }

    /// Ends a task: prepares the asset that clients are sent in the next one.
    ///
    /// `F` is zero if no client has reported yet.
    pub(super) fn end_task(&mut self, theta: &ParameterSet, stage: &Stage, head: HeadForm) {
        for (name, parameter) in theta.iter().filter(|(name, _)| !is_buffer(name)) {
            self.number(name, parameter);
        }
        let by_row = HeadKind::of(theta).by_row();
        let rows = self.fisher.iter().map(|(name, ParameterSums { shape, .. })| {
            let all = shape.first().copied().unwrap_or(1);
            let sent = match by_row.contains(&&**name) {
                true => head.down_rows(&stage.view, all).len(),
                false => all,
            };
            sent as u32
        });
        let rows: Vec<u32> = rows.collect();
        self.asset = Some(self.made(u32::from(stage.task.0), &rows));
    }

    /// Returns the asset that clients are sent.
    pub(super) fn asset(&self) -> Option<Arc<Asset>> {
        self.asset.clone()
    }

    /// Returns the asset of `F` after a task, with these numbers of rows of its tensors, as f32.
    fn made(&self, task: u32, rows: &[u32]) -> Arc<Asset> {
        let tensors = self.fisher.iter().zip(rows).map(|((name, number), rows)| {
            let mut shape = number.shape.clone();
            if let Some(first) = shape.first_mut() {
                *first = *rows as usize;
            }
            let count = shape.iter().product();
            let values: Vec<f32> = number.values[..count].iter().map(|v| *v as f32).collect();
            NamedTensor::f32(Arc::clone(name), shape, values).expect("rows fill their shape")
        });
        let section = Section::new(Kind::Statistics, tensors.collect());
        let body = Body::new(Vec::new(), vec![section]);
        Arc::new(Asset::new(FISHER, task, Kind::Statistics, body))
    }
}

impl Saved for Importance {
    fn save(&self) -> Body {
        let number = |(name, ParameterSums { shape, values }): (&Arc<str>, &ParameterSums)| {
            let name = format!("{PREFIX}{name}");
            NamedTensor::f64(name, shape.clone(), values.clone()).expect("sums fill their shape")
        };
        let mut tensors: Vec<NamedTensor> = self.fisher.iter().map(number).collect();
        if let Some(asset) = &self.asset {
            let sent = asset.body.of_kind(Kind::Statistics);
            let rows = sent.map(|tensor| tensor.shape().first().map_or(1, |rows| *rows as u32));
            let about: Vec<u32> = std::iter::once(asset.version).chain(rows).collect();
            let about = NamedTensor::u32(SENT, [about.len()], about);
            tensors.push(about.expect("a list fills its length"));
        }
        match tensors.is_empty() {
            true => Body::default(),
            false => Body::new(Vec::new(), vec![Section::new(Kind::Statistics, tensors)]),
        }
    }

    fn load(saved: &Body) -> Result<Importance, WireError> {
        let (mut loaded, mut sent) = (Importance::default(), None);
        for tensor in saved.of_kind(Kind::Statistics) {
            if &**tensor.name() == SENT {
                let empty = || WireError::Malformed("a Fisher of no task".to_owned());
                sent = Some(tensor.as_u32()?.split_first().ok_or_else(empty)?);
            } else if let Some(name) = tensor.name().strip_prefix(PREFIX) {
                let number = ParameterSums {
                    shape: tensor.shape().to_vec(),
                    values: tensor.as_f64()?.to_vec(),
                };
                loaded.fisher.insert(name.into(), number);
            }
        }
        loaded.asset = sent.map(|(task, rows)| loaded.made(*task, rows));
        Ok(loaded)
    }
}

impl ServerState for Importance {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

    fn theta() -> ParameterSet {
        let parameter = |shape: &[usize]| Parameter {
            shape: shape.to_vec(),
            values: vec![0.0; shape.iter().product()].into(),
        };
        let all = [
            ("bn1.running_mean", parameter(&[2])),
            ("conv1.weight", parameter(&[3])),
            ("head.bias", parameter(&[4])),
            ("head.weight", parameter(&[4, 2])),
        ];
        all.into_iter().collect()
    }

    fn stage(task: u16) -> Stage {
        let rows = 2 * task as usize..2 * task as usize + 2;
        let classes = rows.clone().map(|row| row as u32).collect();
        Stage::of(Arc::new(TaskView { task: TaskId(task), rows, classes }), 2)
    }

    fn aggregate_of(value: f64) -> Aggregate {
        let sums = [("conv1.weight", 3), ("head.bias", 2), ("head.weight", 4)]
            .map(|(name, count)| (Arc::from(format!("fisher/{name}")), vec![value; count]));
        Aggregate { sums: sums.into(), ..Aggregate::default() }
    }

    /// EWC card, invariant 6: after three tasks `F` is `.81 F1 + .9 F2 + F3`, each divided by its samples. Rows that
    /// were not sent have no Fisher information.
    #[test]
    fn the_fisher_of_a_task_fades() {
        let mut all = Importance::default();
        for (sum, terms) in [(8.0, 2.0), (30.0, 10.0), (7.0, 1.0)] {
            all.add(&aggregate_of(sum), &theta(), (terms, 0.9, f64::INFINITY)).unwrap();
        }
        let wanted = 0.81 * 4.0 + 0.9 * 3.0 + 7.0;
        assert!((all.fisher["conv1.weight"].values[2] - wanted).abs() < 1e-12);
        assert_eq!(all.fisher["head.bias"].values[2..], [0.0, 0.0]);
        assert!(!all.fisher.contains_key("bn1.running_mean"));
        let mut clipped = Importance::default();
        clipped.add(&aggregate_of(8.0), &theta(), (2.0, 0.9, 0.25)).unwrap();
        assert_eq!(clipped.fisher["conv1.weight"].values, [0.25; 3]);
        assert!(all.add(&Aggregate::default(), &theta(), (1.0, 0.9, 1.0)).is_err());
    }

    #[test]
    fn what_is_sent_has_its_promised_shape_and_survives_a_checkpoint() {
        let parameters = Parameters::shared([
            ("conv1.weight".to_owned(), vec![3]),
            ("bn1.running_mean".to_owned(), vec![2]),
        ]);
        let parameters = parameters.head(HeadKind::Linear, 4, 2);
        for (head, rows) in [(HeadForm::Growing, 2), (HeadForm::Fixed, 4)] {
            let mut all = Importance::default();
            assert_eq!(all.asset().map(|asset| asset.version), None);
            all.add(&aggregate_of(3.0), &theta(), (1.0, 0.9, 9.0)).unwrap();
            all.end_task(&theta(), &stage(0), head);
            let asset = all.asset().unwrap();
            let shape = fisher_shape(&parameters, head, &stage(1).view).unwrap();
            assert_eq!((asset.body.shape(), asset.version), (shape.body, shape.version));
            let download = Message { assets: vec![Arc::clone(&asset)], ..Message::default() };
            let sent = Importance::of(&download).unwrap().unwrap();
            assert_eq!(sent.get("head.weight").unwrap().shape, [rows, 2]);
            assert_eq!(sent.get("conv1.weight").unwrap().values[..], [3.0; 3]);
            let loaded = Importance::load(&all.save()).unwrap();
            assert_eq!(loaded.fisher, all.fisher);
            assert_eq!(loaded.asset().unwrap().digest(), asset.digest());
        }
        assert_eq!(fisher_shape(&parameters, HeadForm::Fixed, &stage(0).view), None);
        assert_eq!(fisher_places(&parameters, 0..2).len(), 3);
    }
}
