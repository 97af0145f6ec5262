//! Tests of LwF's loss on logits. Features are unit vectors, so that a head's weights are logits.

use std::sync::Arc;

use super::*;
use crate::data::Batch;
use crate::golden::{Golden, assert_close};
use crate::learning::PackBatch;
use crate::model::ops::SampleGroups;
use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};
use crate::policy::ModelFacts;
use candle_core::{Device, Var};

/// A head whose logits of sample `s` on class `c` are `logits[s * classes + c]`.
fn head(logits: &[f32], samples: usize) -> ParameterSet {
    let classes = logits.len() / samples;
    let at = |place: usize| logits[place % samples * classes + place / samples];
    let weight = Parameter {
        shape: vec![classes, samples],
        values: (0..logits.len()).map(at).collect::<Vec<_>>().into(),
    };
    let bias = Parameter { shape: vec![classes], values: vec![0.0; classes].into() };
    [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
}

/// Logits of a student and a teacher on the samples of a batch; classes 4..8 are the task's.
pub(in crate::methods) struct Case {
    pub z: Vec<f32>,
    pub t: Vec<f32>,
    pub labels: Vec<u32>,
    pub samples: usize,
}

impl Case {
    fn classes(&self) -> usize {
        self.z.len() / self.samples
    }

    /// Returns value and gradient, `(samples, classes)`, of a distillation of the `taught` columns.
    ///
    /// The gradient is that of what `rows` learn, by the objective that is made of it.
    ///
    /// The objective is the one made of the method, on the columns `rows`.
    pub fn learn_by<O: Objective>(
        &self,
        rows: Range<usize>,
        taught: Range<usize>,
        objective: impl FnOnce(Teacher) -> O,
    ) -> (f64, Vec<f32>) {
        let Case { z, t, labels, samples } = self;
        let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: *samples, image: 1 }));
        let (student, old) = (head(z, *samples), head(t, *samples));
        let teacher = Teacher::new(&backbone, &old, taught, None).unwrap();
        let model = Classifier::trainable(&backbone, &student, rows.clone()).unwrap();
        let values = (0..samples * samples).map(|at| f32::from(u8::from(at % (samples + 1) == 0)));
        let batch = Batch::Features {
            values: values.collect(),
            shape: vec![*samples; 2],
            labels: labels.clone(),
            samples: vec![0; *samples],
        };
        let step = PackBatch { groups: SampleGroups::one(*samples), batch, steps: vec![0] };
        let pass = TrainingStep { model: &model, step: &step, device: &Device::Cpu, dropout: None };
        let losses = objective(teacher).losses(&pass).unwrap();
        assert_eq!(losses.dims(), [1]);
        let weight = model.variables().iter().find(|(name, _)| &**name == LinearHead::WEIGHT);
        let gradients = losses.sum_all().unwrap().backward().unwrap();
        let slope = gradients.get(&weight.unwrap().1).unwrap().t().unwrap();
        let slope = slope.to_vec2::<f32>().unwrap();
        let mut all = vec![0.0; z.len()];
        for (all, slope) in all.chunks_exact_mut(self.classes()).zip(slope) {
            all[rows.clone()].copy_from_slice(&slope);
        }
        (f64::from(losses.to_vec1::<f32>().unwrap()[0]), all)
    }

    /// Returns loss and gradient of `rows` by LwF while `compete` compete.
    fn learn(&self, lwf: &Lwf, rows: Range<usize>, compete: Range<usize>) -> (f64, Vec<f32>) {
        let view =
            TaskView { task: crate::quantity::TaskId(1), rows: 4..8, classes: (4..8).collect() };
        let distils = (lwf.weight, lwf.temperature, lwf.form);
        self.learn_by(rows.clone(), lwf.taught(&view), |teacher| LwfObjective {
            distils,
            rows,
            compete,
            teacher: Some(teacher),
        })
    }
}

fn softmaxed(columns: DistilledColumns, weight: f64, form: Distillation) -> Lwf {
    Lwf { columns, weight, form, ..Lwf::default() }
}

pub(in crate::methods) fn stored(golden: &Golden) -> Case {
    let narrow = |name: &str| golden.f64(name).into_iter().map(|v| v as f32).collect();
    let (z, t, labels) = (narrow("z"), narrow("t"), golden.labels("labels"));
    Case { z, t, samples: labels.len(), labels }
}

/// Rows that train, compete and are distilled, and their weights: classes 4..8 are the task's.
#[test]
fn golden_objectives_of_lwf() {
    let Some(golden) = Golden::open("losses") else { return };
    let case = stored(&golden);
    let check = |lwf: &Lwf, rows: Range<usize>, compete: Range<usize>, parts: &[(&str, f64)]| {
        let (value, slope) = case.learn(lwf, rows, compete);
        let sum = |end: &str| -> Vec<f64> {
            let part = |(name, factor): &(&str, f64)| -> Vec<f64> {
                golden.f64(&format!("{name}{end}")).iter().map(|v| factor * v).collect()
            };
            let all: Vec<_> = parts.iter().map(part).collect();
            (0..all[0].len()).map(|at| all.iter().map(|part| part[at]).sum()).collect()
        };
        let allowed = |end: &str| -> f64 {
            let of = |(name, factor): &(&str, f64)| {
                factor * golden.tolerance_f32(&format!("{name}{end}"))
            };
            parts.iter().map(of).sum()
        };
        let slope: Vec<f64> = slope.into_iter().map(f64::from).collect();
        assert_close(parts[0].0, &[value], &sum(""), allowed(""));
        assert_close(parts[0].0, &slope, &sum(".grad_z"), allowed(".grad_z"));
    };
    let cross = Distillation::CrossEntropy;
    check(&Lwf::default(), 0..8, 4..8, &[("ce_cur", 1.0), ("lwf", 0.5)]);
    check(
        &softmaxed(DistilledColumns::Old, 3.0, cross),
        0..8,
        0..8,
        &[("ce_seen", 1.0), ("lwf", 3.0)],
    );
    let kl = softmaxed(DistilledColumns::Old, 0.5, Distillation::Kl);
    check(&kl, 0..8, 4..8, &[("ce_cur", 1.0), ("kl_T2", 0.5)]);
    let current = softmaxed(DistilledColumns::Current, 0.5, cross);
    check(&current, 4..8, 4..8, &[("ce_cur", 1.0), ("lwf_current", 0.5)]);
    check(&current, 0..8, 0..8, &[("ce_seen", 1.0), ("lwf_current", 0.5)]);
}

/// Two samples of classes 4 and 7; the student differs from its teacher.
pub(in crate::methods) fn pair() -> Case {
    let z: Vec<f32> = (0..16).map(|i| 0.5 * ((i * 7 % 11) as f32 - 5.0)).collect();
    let t: Vec<f32> = (0..16).map(|i| 0.4 * ((i * 5 % 13) as f32 - 6.0)).collect();
    Case { z, t, labels: vec![4, 7], samples: 2 }
}

fn softmax(z: &[f32], temperature: f64) -> Vec<f64> {
    let powers: Vec<f64> = z.iter().map(|z| libm::exp(f64::from(*z) / temperature)).collect();
    powers.iter().map(|p| p / powers.iter().sum::<f64>()).collect()
}

/// LwF card, invariant 2: `alpha (softmax(z / T) - softmax(z_old / T)) / (T B)` on the old columns, and nothing where
/// logits differ by a constant; the new columns have the gradient of the cross-entropy alone.
#[test]
fn old_columns_are_drawn_to_the_answers_of_the_teacher() {
    let case = pair();
    let (_, slope) = case.learn(&Lwf::default(), 0..8, 4..8);
    let alone = softmaxed(DistilledColumns::Old, 0.0, Distillation::CrossEntropy);
    let (_, without) = case.learn(&alone, 0..8, 4..8);
    for sample in 0..2 {
        let row = |all: &[f32], columns: Range<usize>| all[8 * sample..][columns].to_vec();
        let (p, q) = (softmax(&row(&case.z, 0..4), 2.0), softmax(&row(&case.t, 0..4), 2.0));
        for (at, found) in row(&slope, 0..4).into_iter().enumerate() {
            let wanted = 0.5 * (p[at] - q[at]) / (2.0 * 2.0);
            assert!((f64::from(found) - wanted).abs() < 1e-7, "{sample} {at}");
        }
        assert_eq!(row(&slope, 4..8), row(&without, 4..8));
        assert_eq!(row(&without, 0..4), [0.0; 4]);
    }
    let shifted = case.z.iter().enumerate().map(|(at, z)| z + if at < 8 { 2.5 } else { -1.0 });
    let same = Case { t: shifted.collect(), ..pair() };
    let (_, slope) = same.learn(&Lwf::default(), 0..8, 4..8);
    let of_old = slope.chunks(8).flat_map(|row| row[..4].to_vec());
    assert!(of_old.into_iter().all(|g| g.abs() < 1e-7), "{slope:?}");
}

/// LwF card, invariants 3 and 6: `softmax(z)^(1/T)` made to sum to one is `softmax(z / T)`; the loss is least, the
/// teacher's entropy, where both agree.
#[test]
fn the_least_distillation_is_the_entropy_of_the_teacher() {
    let (z, t) = ([0.4f32, -1.0, 2.0], [1.5f32, 0.2, -0.3]);
    let powered = |z: &[f32]| -> Vec<f64> {
        let roots: Vec<f64> = softmax(z, 1.0).into_iter().map(f64::sqrt).collect();
        roots.iter().map(|root| root / roots.iter().sum::<f64>()).collect()
    };
    let entropy = |q: &[f64], p: &[f64]| -> f64 {
        -q.iter().zip(p).map(|(q, p)| q * libm::log(*p)).sum::<f64>()
    };
    let loss = |z: &[f32], t: &[f32]| {
        let z = Var::from_slice(z, (1, 3), &Device::Cpu).unwrap();
        let loss = distillation(&z, t, 0..3, 2.0, Distillation::CrossEntropy).unwrap();
        f64::from(loss.to_scalar::<f32>().unwrap())
    };
    assert!((loss(&z, &t) - entropy(&powered(&t), &powered(&z))).abs() < 1e-6);
    let least = entropy(&softmax(&t, 2.0), &softmax(&t, 2.0));
    assert!((loss(&t, &t) - least).abs() < 1e-6);
    for axis in 0..3 {
        for by in [-0.3, 0.3] {
            let mut other = t;
            other[axis] += by;
            assert!(loss(&other, &t) > least + 1e-3, "{axis} {by}");
        }
    }
}

/// A teacher has no rows of the current task where the head grows.
#[test]
fn current_columns_need_a_fixed_head() {
    let facts = ModelFacts {
        backbone: crate::model::VitConfig::default().into(),
        classes: 10,
        tasks: 5,
        clients: 1,
        form: crate::policy::WireForm::Full,
        auxiliary: None,
    };
    let refused = |text: &str| {
        let section = crate::scenario::MethodSection::new("lwf", text.parse().unwrap());
        crate::methods::Registry::builtin().build(&section, &facts).is_err()
    };
    assert!(refused("columns = \"current\"\nhead_form = \"growing\""));
    assert!(!refused("columns = \"current\""));
    assert!(!refused("head_form = \"growing\""));
}
