use std::sync::Arc;

use candle_core::Tensor;

use super::*;
use crate::data::Batch;
use crate::golden::Golden;
use crate::learning::PackBatch;
use crate::methods::averaging::{Objective, TrainingStep};
use crate::model::ops::SampleGroups;
use crate::model::testing;
use crate::model::vit::golden::small_vit;
use crate::model::{Backbone, lora_name};
use crate::numerics::streams::Domain;
use crate::policy::{Message, Participant, ParticipantKind, Role};
use crate::quantity::{ClientId, ParticipantId, TaskId};

const DIM: usize = 48;

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Pairs of two tasks in the first block and ten prototypes, as the vectors have them.
fn received(golden: &Golden) -> ParameterSet {
    let mut set = ParameterSet::new();
    for (place, word) in [(LoraPlace::Q, "q"), (LoraPlace::V, "v")] {
        for (factor, letter, shape) in [(Factor::A, "A", [4, DIM]), (Factor::B, "B", [DIM, 4])] {
            let of = |task| golden.fill(&format!("pilora.{task}.{word}.{letter}"), &shape, 0.2);
            let values = [of(0), of(1)].concat().into();
            let shape = vec![2, shape[0], shape[1]];
            set.insert(lora_name(0, place, factor), Parameter { shape, values });
        }
    }
    let values = golden.fill("prototypes", &[10, DIM], 1.0).into();
    set.insert(PrototypeHead::PROTOTYPES, Parameter { shape: vec![10, DIM], values });
    set
}

/// Returns a step of a client of the second task, whose rows are these.
///
/// Loss, network and the features met are returned, too.
fn step(
    method: &Pilora,
    rows: Range<usize>,
    look: impl FnOnce(&Golden, &Classifier, &Tensor, &Tensor),
) -> Option<Vec<ClassFeatureSums>> {
    let (golden, images) = (Golden::open("lora")?, Golden::open("vit_tokens")?);
    let backbone = Arc::new(Backbone::from(small_vit(&images)));
    let received = received(&golden);
    let classes = rows.clone().map(|row| row as u32).collect();
    let view = Arc::new(TaskView { task: TaskId(1), rows: rows.clone(), classes });
    let (id, client, role, kind) =
        (ParticipantId(0), ClientId(0), Role(0), ParticipantKind::Client);
    let participant = Participant { id, client, role, dummy_client: None, kind, view };
    let (download, shard) = (Message::default(), Vec::new().into());
    let key = StreamKey::new(1, Domain::Method);
    let (state, missed) = ((), &[][..]);
    let member = PackClient {
        participant: &participant,
        download: &download,
        received,
        state,
        shard: &shard,
        key,
        missed,
    };
    let mut met = vec![ClassFeatureSums::default()];
    let device = testing::device();
    let mut objective = PiloraObjective::new(method, &member, &mut met, &device).unwrap();
    let model = Classifier::pack(&backbone, vec![member.received.clone()], rows).unwrap();
    let labels = images.labels("labels");
    let samples = (0..labels.len() as u32).collect();
    let shape = [labels.len(), 3, 32, 32];
    let batch = Batch::Images { pixels: images.f32("x"), shape, labels, samples };
    let groups = SampleGroups::one(batch.len());
    let step = PackBatch { batch, groups, steps: vec![0] };
    let pass = TrainingStep { model: &model, step: &step, device: &device, dropout: None };
    let loss = objective.losses(&pass).unwrap();
    let outputs = pass.pack_logits().unwrap();
    golden.assert_close("pilora.feature", &flat(&outputs.features));
    look(&golden, &model, &loss, &outputs.logits);
    Some(met)
}

/// Weights of the terms as the paper has them, but for these; no weight decay.
fn method(change: impl FnOnce(&mut Pilora)) -> Pilora {
    let mut method = Pilora { decay: 0.0, ..Pilora::default() };
    change(&mut method);
    method
}

#[test]
fn golden_loss_and_gradients() {
    step(&method(|_| ()), 0..10, |golden, model, loss, logits| {
        golden.assert_close("pilora.loss", &flat(loss));
        golden.assert_close("pilora.distance", &flat(&logits.neg().unwrap()));
        golden.assert_close("pilora.nearest", &logits.argmax(1).unwrap().to_vec1::<u32>().unwrap());
        let gradients = loss.sum_all().unwrap().backward().unwrap();
        let of = |name: &str| {
            let found = model.variables().iter().find(|(own, _)| &**own == name);
            flat(gradients.get(&found.expect("it trains").1).expect("a gradient"))
        };
        for (name, factor) in [("pilora.grad_a", Factor::A), ("pilora.grad_b", Factor::B)] {
            let both = [LoraPlace::Q, LoraPlace::V].map(|place| of(&lora_name(0, place, factor)));
            golden.assert_close(name, &both.concat());
        }
        golden.assert_close("pilora.grad_prototypes", &of(PrototypeHead::PROTOTYPES));
    });
}

#[test]
fn golden_terms_alone() {
    let none = |change: &dyn Fn(&mut Pilora)| {
        method(|own| {
            (own.pull, own.orthogonality, own.sparsity) = (0.0, 0.0, 0.0);
            change(own);
        })
    };
    let mut crossed = 0.0;
    step(&none(&|_| ()), 0..10, |golden, _, loss, _| {
        golden.assert_close("pilora.dce", &flat(loss));
        crossed = flat(loss)[0];
    });
    type Change<'a> = &'a dyn Fn(&mut Pilora);
    let terms: [(&str, Change<'_>); 3] = [
        ("pilora.pl", &|own| own.pull = 1.0),
        ("pilora.orth", &|own| own.orthogonality = 1.0),
        ("pilora.l1", &|own| own.sparsity = 1.0),
    ];
    for (name, change) in terms {
        step(&none(change), 0..10, |golden, _, loss, _| {
            golden.assert_close(name, &[flat(loss)[0] - crossed]);
        });
    }
    // Half of the squares of all that trains.
    step(&none(&|own| own.decay = 2e-3), 0..10, |_, model, loss, _| {
        let squares: f32 =
            model.vars().iter().map(|v| flat(&v.sqr().unwrap()).iter().sum::<f32>()).sum();
        assert!((flat(loss)[0] - crossed - 1e-3 * squares).abs() < 1e-4, "{squares}");
    });
}

/// Prototypes of other classes compete where they are to, at their own places, and do not train.
#[test]
fn who_competes_is_a_matter_of_the_key() {
    let of = |compete, rows: Range<usize>| {
        let mut found = 0.0;
        step(&method(|own| own.compete = compete), rows, |_, model, loss, _| {
            found = flat(loss)[0];
            let (_, own) =
                model.variables().iter().find(|(name, _)| name.starts_with("head")).unwrap();
            assert!(own.dim(0).unwrap() <= 10);
        });
        found
    };
    let (all, whole) = (of(Compete::All, 4..8), of(Compete::All, 0..10));
    if whole == 0.0 {
        return; // no vectors here
    }
    assert!((all - whole).abs() < 1e-5, "{all} {whole}");
    let (seen, current) = (of(Compete::Seen, 4..8), of(Compete::Current, 4..8));
    assert!(current < seen && seen < all, "{current} {seen} {all}");
    assert!((seen - of(Compete::All, 0..8)).abs() > 1e-3, "classes to come compete in one");
}

#[test]
fn mean_features_are_those_met() {
    let Some(met) = step(&method(|_| ()), 4..8, |_, _, _, _| ()) else { return };
    let rows: Vec<u32> = (4..8).collect();
    let sums = ClassFeatureSums::read(&rows, &met[0].vectors(&rows, DIM));
    assert_eq!(sums.iter().map(|class| class.count).sum::<u64>(), 4);
    let (golden, images) = (Golden::open("lora").unwrap(), Golden::open("vit_tokens").unwrap());
    let (features, labels) = (golden.f32("pilora.feature"), images.labels("labels"));
    for class in sums {
        assert_eq!(class.mean.len(), DIM);
        let own: Vec<usize> = (0..4).filter(|at| labels[*at] == class.row).collect();
        assert_eq!(class.count as usize, own.len());
        let sum: f32 = own.iter().map(|at| features[at * DIM + 7]).sum();
        assert!((class.mean[7] - f64::from(sum) / own.len().max(1) as f64).abs() < 1e-4);
    }
}

/// With the current pairs alone nothing passes through those of other tasks.
///
/// Their `A` stay, since new ones are kept apart from them.
#[test]
fn pairs_that_are_not_passed_have_no_b() {
    let Some(golden) = Golden::open("lora") else { return };
    let set = received(&golden);
    let sum = Pilora::default();
    assert_eq!(sum.passing(&set, 1), set);
    let current = Pilora { forward: Forward::Current, ..sum };
    let masked = current.passing(&set, 1);
    for (name, whole) in set.iter() {
        let now = masked.get(name).unwrap();
        match Factor::of(name) {
            Some(Factor::B) => {
                assert!(now.cut(0..1).unwrap().values.iter().all(|value| *value == 0.0));
                assert_eq!(now.cut(1..2).unwrap(), whole.cut(1..2).unwrap());
            }
            _ => assert_eq!(now, whole),
        }
    }
    assert_eq!(current.passing(&set, 0), set);
}

#[test]
fn pairs_of_the_first_task_alone_answer_where_the_key_says() {
    let Some(golden) = Golden::open("lora") else { return };
    let set = received(&golden);
    let method = Pilora { forward: Forward::Current, ..Pilora::default() };
    assert_eq!(method.answering(&set, 1), method.passing(&set, 1));
    let first = Pilora { answers: AnsweringPairs::First, ..method };
    let masked = first.answering(&set, 1);
    for (name, whole) in set.iter() {
        let now = masked.get(name).unwrap();
        match Factor::of(name) {
            Some(Factor::B) => {
                assert!(now.cut(1..2).unwrap().values.iter().all(|value| *value == 0.0));
                assert_eq!(now.cut(0..1).unwrap(), whole.cut(0..1).unwrap());
            }
            _ => assert_eq!(now, whole),
        }
    }
}

/// Logits are divided by the temperature.
#[test]
fn a_higher_temperature_evens_what_competes() {
    let loss = |temperature: f64| -> Option<f32> {
        let mut found = None;
        let plain = |method: &mut Pilora| {
            (method.pull, method.orthogonality, method.sparsity) = (0.0, 0.0, 0.0);
            method.temperature = temperature;
        };
        step(&method(plain), 0..10, |_, _, loss, logits| {
            let labels = Golden::open("vit_tokens").unwrap().labels("labels");
            let rows = logits.to_vec2::<f32>().unwrap();
            let of = |(row, label): (&Vec<f32>, u32)| {
                let scaled: Vec<f64> = row.iter().map(|z| f64::from(*z) / temperature).collect();
                scaled.iter().map(|z| z.exp()).sum::<f64>().ln() - scaled[label as usize]
            };
            let mean: f64 = rows.iter().zip(labels).map(of).sum::<f64>() / rows.len() as f64;
            let value = flat(loss)[0];
            assert!((f64::from(value) - mean).abs() < 1e-4, "{temperature}: {value} {mean}");
            found = Some(value);
        })?;
        found
    };
    if let (Some(one), Some(ten)) = (loss(1.0), loss(10.0)) {
        assert!((one - ten).abs() > 1e-2, "{one} {ten}");
    }
}
