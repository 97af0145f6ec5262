//! FedAvg's uploads as plain sums: a client adds `n (theta_m - theta)` and `n`, so the server needs
//! nothing but the sum of both.

use std::sync::Arc;

use super::messages::SAMPLES;
use super::{Down, FedAvg, Up};
use crate::policy::{Additive, OldMessage, ParameterAverage, PolicyError, UpMeta, kind_of};
use crate::wire::{Body, Kind, MetaReader, NamedTensor, Section, WireError};

impl Additive<FedAvg> for FedAvg {
    fn summand(&self, down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        summand(self.weight(up), down, up)
    }

    fn part(&self, sum: &Body) -> Result<ParameterAverage, PolicyError> {
        sum_of(sum)
    }
}

/// The average whose sums a body in the layout of the Up holds.
pub(in crate::methods) fn sum_of(sum: &Body) -> Result<ParameterAverage, PolicyError> {
    let mut meta = MetaReader::new(&sum.meta);
    let first_row = meta.u64()? as usize;
    meta.finish()?;
    Ok(part(sum, first_row)?)
}

/// The weighted differences of what was learnt, and the weight, in the layout of the Up.
pub(in crate::methods) fn summand(weight: f64, down: &Down, up: &Up) -> Result<Body, PolicyError> {
    let average = ParameterAverage::one(weight, &up.base(down)?, &up.parameters)?;
    let Body { meta, sections } = up.pack();
    let count = [weight];
    let adding = |section: Section| -> Result<Section, WireError> {
        let tensors = section.tensors.iter().map(|tensor| {
            let values = average.sum(tensor.name()).unwrap_or(&count);
            NamedTensor::f64(Arc::clone(tensor.name()), tensor.shape(), values)
        });
        Ok(Section::new(section.kind, tensors.collect::<Result<_, _>>()?))
    };
    let sections = sections.into_iter().map(adding).collect::<Result<_, _>>()?;
    Ok(Body::new(meta, sections))
}

/// The average whose sums a body holds; its head begins at `first_row`.
pub(in crate::methods) fn part(
    sum: &Body,
    first_row: usize,
) -> Result<ParameterAverage, WireError> {
    let weight = sum.tensor(Kind::Statistics, SAMPLES)?.shaped(&[])?.as_f64()?[0];
    let mut sums = Vec::new();
    for (kind, tensor) in sum.tensors().filter(|(kind, t)| *kind == kind_of(t.name())) {
        // A scale has no rows.
        let before = match tensor.shape() {
            [_, width @ ..] if kind == Kind::Head => first_row * width.iter().product::<usize>(),
            _ => 0,
        };
        let values = std::iter::repeat_n(0.0, before).chain(tensor.as_f64()?.iter().copied());
        sums.push((Arc::clone(tensor.name()), values.collect()));
    }
    Ok(ParameterAverage::from_sums(weight, sums))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::fedavg::FedAvgConfig;
    use crate::model::{
        BackboneConfig, CosineHead, HeadKind, LinearHead, Parameter, ParameterSet, VitConfig,
    };
    use crate::policy::{Method, ModelFacts, Part, Role, Seat, SeatKind, WireForm};
    use crate::quantity::{ClientId, Round, SeatId, TaskId};

    fn set(kind: HeadKind, rows: usize, value: impl Fn(usize) -> f32) -> ParameterSet {
        let of = |shape: Vec<usize>, first: usize| {
            let count = shape.iter().product::<usize>();
            Parameter { shape, values: (first..first + count).map(&value).collect() }
        };
        let other = match kind {
            HeadKind::Linear => (LinearHead::BIAS, of(vec![rows], 2 + 3 * rows)),
            HeadKind::Cosine => (CosineHead::SIGMA, of(vec![], 2 + 3 * rows)),
        };
        let entries =
            [("prompt.0.key", of(vec![2], 0)), (LinearHead::WEIGHT, of(vec![rows, 3], 2))];
        entries.into_iter().chain([other]).collect()
    }

    /// Summands added as numbers fold like the uploads themselves, also of a part of the head.
    #[test]
    fn the_sum_of_summands_is_the_fold_of_uploads() {
        for kind in [HeadKind::Linear, HeadKind::Cosine] {
            sums_fold_as_uploads_with(kind);
        }
    }

    fn sums_fold_as_uploads_with(kind: HeadKind) {
        let facts = ModelFacts {
            backbone: BackboneConfig::Vit(VitConfig::default()),
            classes: 5,
            tasks: 2,
            form: WireForm::Lean,
        };
        let method = FedAvg::new(FedAvgConfig::default(), &facts);
        let down = Down::from(set(kind, 5, |at| (at as f32).sin()));
        let view = crate::data::TaskView { task: TaskId(1), rows: 2..4, classes: vec![0; 4] };
        let view = Arc::new(view);
        let ups: Vec<(UpMeta, Up)> = (0..3u32)
            .map(|client| {
                let id = SeatId(client);
                let view = Arc::clone(&view);
                let (client_id, seat_kind) = (ClientId(client), SeatKind::Client);
                let seat = Seat {
                    id,
                    client: client_id,
                    role: Role(0),
                    unit: None,
                    kind: seat_kind,
                    view,
                };
                let learnt = set(kind, 5, |at| (at as f32 + client as f32).sin());
                let up = Up::cut(&learnt, 2..4, 10 + client as usize).unwrap();
                (UpMeta::timely(seat, Round(0)), up)
            })
            .collect();
        let mut sum: Vec<f64> = Vec::new();
        let mut layout = Body::default();
        for (meta, up) in &ups {
            layout = method.summand(&down, up, meta).unwrap();
            assert_eq!(layout.sketch().meta, up.pack().sketch().meta);
            let all = layout.tensors().flat_map(|(_, t)| t.as_f64().unwrap().to_vec());
            let all: Vec<f64> = all.collect();
            sum.resize(all.len(), 0.0);
            sum.iter_mut().zip(&all).for_each(|(sum, more)| *sum += more);
        }
        let mut rest = &sum[..];
        for tensor in layout.sections.iter_mut().flat_map(|section| &mut section.tensors) {
            let (mine, after) = rest.split_at(tensor.elements() as usize);
            rest = after;
            *tensor = NamedTensor::f64(Arc::clone(tensor.name()), tensor.shape(), mine).unwrap();
        }
        let summed = method.part(&layout).unwrap().apply(&down.parameters);
        let folded = ups.into_iter().map(|(meta, up)| method.lift(&down, up, &meta).unwrap());
        let folded = folded.reduce(Part::merge).unwrap().apply(&down.parameters);
        for ((name, a), (_, b)) in summed.iter().zip(folded.iter()) {
            for (a, b) in a.values.iter().zip(b.values.iter()) {
                assert!((a - b).abs() <= 1e-6 * b.abs().max(1e-3), "{name}: {a} {b}");
            }
        }
        assert!(summed != down.parameters);
    }
}
