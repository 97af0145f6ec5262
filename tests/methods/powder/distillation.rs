//! Distillation: outputs, times, and weights of samples.

use std::sync::Arc;

use fedcast::data::Shard;
use fedcast::methods::powder::{ClientTaskDownload, Powder};
use fedcast::model::LinearHead;
use fedcast::policy::Member;
use fedcast::quantity::{ClientId, Round};

use super::{context, downs, powder_with, small, task, uploads, values};
use crate::toys::facts;
use crate::{engine, far};

/// The received model teaches in every round but the run's first, also a new client task that is not trained yet.
#[test]
fn client_task_is_distilled_in_all_rounds_but_the_first() {
    let runs = [1.0, 0.0].map(|weight| {
        // Three classes a task: two of them can be wrong.
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 1);
        task(&mut run, 1, 1, 1);
        let taught = downs(&run, "train")
            .map(|download| ClientTaskDownload::read(&download).unwrap().distills);
        assert_eq!(taught.collect::<Vec<_>>(), [false, true]);
        uploads(&run)
    });
    assert_eq!(runs[0][0], runs[1][0]);
    assert_ne!(runs[0][1], runs[1][1]);
    let runs = [1.0, 0.0, 1e-9].map(|weight| {
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 2);
        uploads(&run)
    });
    assert_eq!(runs[0][0], runs[1][0]);
    assert_ne!(runs[0][1], runs[1][1]);
    // Little of it is little.
    let [whole, none, little] = runs.map(|run| values(&run[1], "prompt.00.key").to_vec());
    assert!(far(&little, &none) < 0.01 * far(&whole, &none));
}

/// Distillation holds a client task near its start: the larger its weight, the less a round moves scores of wrong
/// classes.
#[test]
fn distillation_holds_a_client_task_where_it_was() {
    let moved = [0.0, 2.0, 8.0].map(|weight| {
        let mut run = engine(powder_with(|c| c.kd_weight = weight), 2);
        task(&mut run, 0, 1, 2);
        let [before, after] = [0, 1].map(|round| {
            let sent = &uploads(&run)[round];
            values(sent, LinearHead::WEIGHT).to_vec()
        });
        after.iter().zip(&before).map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt()
    });
    assert!(moved[2] < moved[1] && moved[1] < moved[0], "{moved:?}");
}

/// Samples of classes with relatives are distilled more, where anything teaches at all.
#[test]
fn shares_of_classes_weigh_their_own_samples() {
    let mut run = engine(powder_with(|_| ()), 2);
    task(&mut run, 0, 1, 1);
    let download = downs(&run, "train").next().unwrap();
    let shape = Powder::new(small(), &facts()).shape;
    let (view, phase) = (run.view(0), 1);
    let participants = run.method.participants(&context(&run, 0, phase), &[ClientId(0)]);
    // Of the client task's three classes the client has two.
    let by_class = run.ctx.dataset.train.by_class();
    let two = view.classes[..2].iter().flat_map(|class| &by_class[*class as usize][..4]);
    let shard: Shard = two.copied().collect();
    let trained = |distills: bool, class_shares: [f32; 3]| {
        let download = ClientTaskDownload::read(&download).unwrap();
        let download =
            ClientTaskDownload { distills, class_shares: class_shares.into(), ..download };
        let mut member = Member {
            phase,
            download: Arc::new(download.write(&shape).unwrap()),
            state: Default::default(),
            shard: shard.clone(),
            key: participants[0].key(5, Round(9)),
            missed: Vec::new(),
            participant: participants[0].clone(),
        };
        let members = std::slice::from_mut(&mut member);
        run.method.train(members, &run.ctx).remove(0).unwrap().upload.body().digest()
    };
    let even = trained(true, [1.0; 3]);
    let (first, second) = (trained(true, [0.3, 1.0, 1.0]), trained(true, [1.0, 0.3, 1.0]));
    assert!(even != first && even != second && first != second);
    assert_eq!(trained(true, [1.0, 1.0, 0.3]), even);
    assert_eq!(trained(false, [0.3, 1.0, 1.0]), trained(false, [1.0; 3]));
}
