//! Uploads as plain sums: a client adds `n (theta_m - theta)` and `n`.

use std::sync::Arc;

use super::messages::{SAMPLES, UpMeta as Place};
use super::{Cut, Down, Owner, PromptKind, Prompted, PromptedPart, Up};
use crate::model::LinearHead;
use crate::policy::{Additive, OldMessage, ParameterAverage, PolicyError, UpMeta, kind_of};
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

impl<K: PromptKind> Additive<Prompted<K>> for Prompted<K> {
    fn summand(&self, down: &Down, up: &Up, meta: &UpMeta) -> Result<Body, PolicyError> {
        let weight = self.config.weights.of(up.samples);
        let cut = Cut { head: up.head_rows(), pool: self.up_pool(usize::from(up.task)) };
        let base = self.received(down, &meta.seat.view);
        let base = cut.of(&base, |name| self.kind.has_rows(name))?;
        let average = ParameterAverage::one(weight, &base, &up.parameters)?;
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

    fn part(&self, sum: &Body) -> Result<PromptedPart, PolicyError> {
        let Place { task, first_row } = Place::unpack(&sum.meta)?;
        let first_prompt = self.up_pool(usize::from(task)).start;
        let weight = sum.tensor(Kind::Statistics, SAMPLES)?.shaped(&[])?.as_f64()?[0];
        let (mut shared, mut prompts, mut head) = (Vec::new(), Vec::new(), Vec::new());
        for (_, tensor) in sum.tensors().filter(|(kind, t)| *kind == kind_of(t.name())) {
            let rows_before = match &**tensor.name() {
                LinearHead::WEIGHT | LinearHead::BIAS => first_row as usize,
                name if self.kind.has_rows(name) => first_prompt,
                _ => 0,
            };
            let width: usize = tensor.shape().get(1..).unwrap_or_default().iter().product();
            let before = std::iter::repeat_n(0.0, rows_before * width);
            let values = before.chain(tensor.as_f64()?.iter().copied()).collect();
            let sums = match &**tensor.name() {
                name if kind_of(name) == Kind::Head => &mut head,
                name if self.kind.has_rows(name) => &mut prompts,
                _ => &mut shared,
            };
            sums.push((Arc::clone(tensor.name()), values));
        }
        let average = |sums| ParameterAverage::from_sums(weight, sums);
        let own = [(Owner::Task(task), average(prompts)), (Owner::Head(first_row), average(head))];
        Ok(PromptedPart::one(average(shared), own))
    }
}
