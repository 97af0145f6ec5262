use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::data::{TaskSequence, digits};

fn rules() -> ClientTaskRules {
    let (stages, clients, classes) = (5, 5, 20);
    let slices = SliceBy::Stage;
    ClientTaskRules {
        stages,
        clients,
        classes,
        overlap: 0,
        moving: 0.5,
        share: 0.2,
        slices,
        seed: 3,
    }
}

fn stage(number: u16) -> TaskId {
    TaskId(number)
}

#[test]
fn benchmark_moves_two_of_five_and_has_25_client_tasks() {
    let client_tasks = ClientTasks::draw(rules(), 200).unwrap();
    assert_eq!((client_tasks.count(), client_tasks.rows()), (25, 500));
    assert_eq!(client_tasks.movers(stage(0)).len(), 5);
    assert!((1..5).all(|p| client_tasks.movers(stage(p)).len() == 2));
    assert_eq!(client_tasks.started(stage(4)).count(), 5 + 4 * 2);
    for number in 0..client_tasks.count() {
        let client_task = client_tasks.client_task(number);
        assert_eq!(
            (
                client_tasks.number(client_task),
                client_tasks.client_task_of(&client_tasks.view(client_task).rows)
            ),
            (number, Some(client_task))
        );
    }
    assert_eq!(client_tasks.client_task_of(&(0..21)), None);
}

#[test]
fn other_runs_draw_other_client_tasks_and_the_same_the_same() {
    let draw = |seed| ClientTasks::draw(ClientTaskRules { seed, ..rules() }, 200).unwrap();
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1).classes, draw(2).classes);
    assert_ne!(draw(1).movers, draw(2).movers);
    // Who moves does not depend on stages that come later. Classes do, but for those of the client that draws first.
    let longer = ClientTasks::draw(ClientTaskRules { stages: 9, ..rules() }, 200).unwrap();
    let client_tasks = ClientTasks::draw(rules(), 200).unwrap();
    assert_eq!(longer.movers[..5], client_tasks.movers[..]);
    let of = |client_tasks: &ClientTasks, client: usize, stage: usize| {
        let first = (stage * 5 + client) * 20;
        client_tasks.classes[first..first + 20].to_vec()
    };
    assert!((0..5).all(|stage| of(&longer, 0, stage) == of(&client_tasks, 0, stage)));
    assert_ne!(of(&longer, 1, 0), of(&client_tasks, 1, 0));
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let refusal = |rules: ClientTaskRules| ClientTasks::draw(rules, 30).unwrap_err().to_string();
    assert!(
        refusal(ClientTaskRules { classes: 31, ..rules() }).contains("client tasks of 31 classes")
    );
    assert!(refusal(ClientTaskRules { overlap: 21, ..rules() }).contains("share 21"));
    assert!(refusal(ClientTaskRules { moving: 0.1, ..rules() }).contains("rounds down to 0"));
    assert!(refusal(ClientTaskRules { share: 0.0, ..rules() }).contains("share of 0"));
    assert!(refusal(ClientTaskRules { stages: 0, ..rules() }).contains("0 stages"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Invariants of the schedule (Powder's card): a fixed number of clients move, a client task is trained by its
    /// client alone, and every begun client task is finished exactly once.
    #[test]
    fn every_started_client_task_is_held_and_finished_once(
        clients in 1u32..40, stages in 1usize..8, moving in 0.3f64..1.0, overlap in 0usize..4, seed in 0u64..99
    ) {
        let rules = ClientTaskRules { stages, clients, classes: 4, overlap, moving, seed, ..rules() };
        let moves = rules.moving() as usize;
        prop_assume!(moves > 0);
        let client_tasks = ClientTasks::draw(rules, 11).unwrap();
        let last = stage(stages as u16 - 1);
        let mut finished = Vec::new();
        for p in 0..stages as u16 {
            prop_assert!(p == 0 || client_tasks.movers(stage(p)).len() == moves);
            for client in (0..clients).map(ClientId) {
                let held = client_tasks.held(client, stage(p));
                prop_assert!(held.client == client && held.stage <= stage(p) && client_tasks.begins(held));
                let moved = p > 0 && held != client_tasks.held(client, stage(p - 1));
                prop_assert_eq!(moved, p > 0 && client_tasks.movers(stage(p)).contains(&client));
            }
            finished.extend(client_tasks.finished(stage(p)));
        }
        let once: BTreeSet<ClientTask> = finished.iter().copied().collect();
        prop_assert_eq!(once.len(), finished.len());
        prop_assert!(once.into_iter().eq(client_tasks.started(last)));
    }

    /// All client tasks but the first share at least `overlap` classes with one drawn before it.
    ///
    /// The order is client by client, and no client task has a class twice.
    #[test]
    fn client_tasks_share_as_many_classes_as_configured(overlap in 0usize..=6, seed in 0u64..99) {
        let rules = ClientTaskRules { classes: 6, overlap, seed, clients: 3, ..rules() };
        let client_tasks = ClientTasks::draw(rules, 40).unwrap();
        let by_number: Vec<BTreeSet<u32>> = client_tasks.classes.chunks(6).map(|c| c.iter().copied().collect()).collect();
        let lists: Vec<&BTreeSet<u32>> = (0..15).map(|at| &by_number[at % 5 * 3 + at / 5]).collect();
        for (at, list) in lists.iter().enumerate() {
            prop_assert_eq!(list.len(), 6);
            let most = lists[..at].iter().map(|other| other.intersection(list).count()).max();
            prop_assert!(at == 0 || most >= Some(overlap));
            // A client task that shares everything shares it in the first stage, too.
            prop_assert!(overlap < 6 || *list == lists[0]);
        }
    }
}

#[test]
fn client_task_data_has_slices_to_train_and_all_tests() {
    let digits = digits::embedded().unwrap();
    let rules = ClientTaskRules { classes: 3, clients: 5, stages: 3, share: 0.2, ..rules() };
    let client_tasks = Arc::new(ClientTasks::draw(rules, 10).unwrap());
    let task_sequence = TaskSequence::of_client_tasks(Arc::clone(&client_tasks));
    let sizes = digits.class_sizes();
    let client_task_sizes = task_sequence.class_sizes(sizes.clone());
    let original = digits.test.by_class().iter().map(Vec::len).collect::<Vec<_>>();
    let train = Arc::clone(&digits.train);
    let data = task_sequence.dataset(digits).unwrap();
    assert_eq!((data.classes(), task_sequence.classes()), (45, 45));
    assert_eq!(data.class_sizes(), client_task_sizes);
    let tested = data.test.by_class();
    for row in 0..45 {
        let (client_task, class) =
            (client_tasks.client_task(row / 3), client_tasks.class_at(row) as usize);
        let begins = client_tasks.begins(client_task);
        assert_eq!(tested[row].len(), if begins { original[class] } else { 0 });
        let fifth = sizes[class] / 5;
        let size = client_task_sizes[row];
        assert!(
            if begins { (fifth..=fifth + 1).contains(&size) } else { size == 0 },
            "{row}: {size}"
        );
        assert_eq!(task_sequence.row_of(row as u32), row as u32);
    }
    // Five slices for three stages: who shares a class in a stage has the same images of it, and other stages
    // others.
    let held = images_by_row(&data);
    for (row, images) in held.iter().enumerate() {
        let class = client_tasks.class_at(row);
        assert!(images.iter().all(|image| train.labels()[*image as usize] == class));
        for (other, others) in held.iter().enumerate() {
            if client_tasks.class_at(other) != class || images.is_empty() || others.is_empty() {
                continue;
            }
            let one_stage = client_tasks.client_task(row / 3).stage
                == client_tasks.client_task(other / 3).stage;
            assert_eq!(one_stage, images == others, "rows {row} and {other}");
            assert!(one_stage || images.is_disjoint(others), "rows {row} and {other}");
        }
    }
    // Shards are the samples of a client's own rows; images are those of the original.
    let shards = client_tasks.shards(TaskId(0), &data);
    for (client, shard) in shards.iter().enumerate() {
        let rows = &client_tasks
            .view(ClientTask { stage: TaskId(0), client: ClientId(client as u32) })
            .rows;
        assert!(!shard.is_empty());
        for sample in shard.iter().map(|sample| *sample as usize) {
            assert!(rows.contains(&(data.train.labels()[sample] as usize)));
            let image = data.train.image(sample).unwrap().pixels.into_owned();
            let origin = data.train.origin(sample as u32) as usize;
            assert_eq!(image, train.image(origin).unwrap().pixels.into_owned());
        }
    }
}

/// Returns the images of the original data set that every head row trains on.
fn images_by_row(data: &crate::data::Dataset) -> Vec<BTreeSet<u32>> {
    let rows = data.train.by_class().iter();
    rows.map(|held| held.iter().map(|sample| data.train.origin(*sample)).collect()).collect()
}

/// Counted by client, a client has the same images of a class in all stages.
///
/// Counted by client task, number 5 of client 1 in the last of three stages comes round to the first of five slices,
/// and with enough of them no two client tasks share an image.
#[test]
fn slices_are_counted_by_client_or_by_client_task() {
    let draw = |by, share: f64, overlap| {
        let rules = ClientTaskRules { classes: 3, clients: 5, stages: 3, moving: 1.0, ..rules() };
        let rules = ClientTaskRules { slices: by, share, overlap, ..rules };
        let client_tasks = Arc::new(ClientTasks::draw(rules, 10).unwrap());
        let data = TaskSequence::of_client_tasks(Arc::clone(&client_tasks))
            .dataset(digits::embedded().unwrap())
            .unwrap();
        // All client tasks have the same classes: the rows of the first of them.
        (0..15).map(|client_task| images_by_row(&data)[client_task * 3].clone()).collect::<Vec<_>>()
    };
    let at = |stage: usize, client: usize| stage * 5 + client;
    let by_client = draw(SliceBy::Client, 0.2, 3);
    let by_client_task = draw(SliceBy::ClientTask, 0.2, 3);
    for (stage, client) in (0..3).flat_map(|stage| (0..5).map(move |client| (stage, client))) {
        assert_eq!(by_client[at(stage, client)], by_client[at(0, client)]);
        assert!(client == 0 || by_client[at(stage, client)].is_disjoint(&by_client[at(stage, 0)]));
        let number = client * 3 + stage;
        assert_eq!(
            by_client_task[at(stage, client)],
            by_client_task[at(number % 5 % 3, number % 5 / 3)]
        );
    }
    assert_eq!(by_client_task[at(2, 1)], by_client_task[at(0, 0)]);
    assert!(by_client_task[at(1, 0)].is_disjoint(&by_client_task[at(0, 0)]));
    let enough = draw(SliceBy::ClientTask, 0.06, 3);
    assert!(enough.iter().all(|images| !images.is_empty()));
    let all: BTreeSet<u32> = enough.iter().flatten().copied().collect();
    assert_eq!(all.len(), enough.iter().map(BTreeSet::len).sum::<usize>());
}

/// Outputs of a frozen network are kept per image, not per client task, and a loader finds them.
#[test]
fn client_task_samples_read_the_rows_of_the_original() {
    use crate::data::{Batch, HeldRows, Loader, Transform};
    let digits = digits::embedded().unwrap();
    let rules = ClientTaskRules { classes: 10, clients: 2, stages: 1, share: 0.5, ..rules() };
    let task_sequence =
        Arc::new(TaskSequence::of_client_tasks(Arc::new(ClientTasks::draw(rules, 10).unwrap())));
    let data = task_sequence.dataset(digits).unwrap();
    let shard: crate::data::Shard = (0..data.test.len() as u32).collect();
    let transform = Arc::new(Transform::default());
    let loader = Loader::new(data.test.clone(), shard.clone(), task_sequence, transform);
    let (base, samples) = loader.base();
    assert!(base.len() * 2 == shard.len() && samples.len() == shard.len());
    let images: Vec<u32> = (0..base.len() as u32).collect();
    let values = images.iter().map(|image| *image as f32).collect();
    let loader = loader.with_rows(Arc::new(HeldRows::new(&images, vec![1], values)));
    for batch in loader.in_order(64) {
        let Batch::Features { values, samples, labels, .. } = batch.unwrap() else { panic!() };
        for ((value, sample), label) in values.iter().zip(samples).zip(labels) {
            assert_eq!(*value as u32, data.test.origin(sample));
            assert_eq!(data.test.labels()[sample as usize], label);
        }
    }
}
