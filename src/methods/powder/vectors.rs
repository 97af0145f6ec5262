//! Similarities of client tasks over three stages, against the released code on the same scores.
//!
//! Its `updateweight_with_promptchoosing` numbers client tasks by task and client of three; here they are numbered as
//! they begin, which is the same order.

use candle_core::{Device, Var};

use super::*;
use crate::golden::Golden;
use crate::numerics::streams::Domain;
use crate::quantity::{ClientId, TaskId};

const CLIENTS: u32 = 3;
const CLASSES: usize = 3;
const LIKENESS: Likeness = Likeness { blocks: 2, components: 2, exponent: 4 };
const SHAPE: ClientTaskShape = ClientTaskShape {
    blocks: 0..2,
    components: 2,
    length: 2,
    dim: 4,
    top: 3,
    form: ClientTaskForm::Tokens,
};

/// Classes of the samples in the release's run, within the first client task of each stage.
const TARGETS: [u32; 4] = [2, 0, 0, 1];

fn key(client_task: u32) -> ClientTaskKey {
    ClientTaskKey {
        task: TaskId((client_task / CLIENTS) as u16),
        client: ClientId(client_task % CLIENTS),
    }
}

/// Every client task of the release, by its number there.
struct ClientTaskVectors {
    golden: Golden,
    table: ClientTaskTable,
    known: Vec<u32>,
}

impl ClientTaskVectors {
    fn place(&self, client_task: u32) -> usize {
        self.known.iter().position(|known| *known == client_task).expect("a client task that began")
    }

    fn begin(&mut self, client_task: u32) {
        let (first, init) = (client_task as usize * CLASSES, StreamKey::new(1, Domain::Init));
        let place = self.table.begin(key(client_task), first..first + CLASSES, &SHAPE, init);
        if place == self.known.len() {
            self.known.push(client_task);
        }
    }

    /// A client task is scored. The release leaves out client tasks that go on where it looks at one that is
    /// left; here they are scored, too, and must not count.
    fn look(&mut self, stage: usize, client_task: u32, left_out: &[u32]) {
        let (name, all) = (format!("look{stage}.{client_task}"), self.known.len());
        let kept: Vec<usize> = (0..all).filter(|at| !left_out.contains(&self.known[*at])).collect();
        assert_eq!(self.golden.shape(&name), [CLASSES, LIKENESS.blocks, kept.len(), 2], "{name}");
        let mut means = vec![9.0; CLASSES * LIKENESS.blocks * all * LIKENESS.components];
        let stored = self.golden.f32(&name);
        for (row, scores) in stored.chunks(kept.len() * LIKENESS.components).enumerate() {
            for (at, scores) in kept.iter().zip(scores.chunks(LIKENESS.components)) {
                let first = (row * all + at) * LIKENESS.components;
                means[first..first + LIKENESS.components].copy_from_slice(scores);
            }
        }
        let over = (0..all as u32).collect();
        let place = self.place(client_task);
        let found = Attention { over, means, counts: vec![1; CLASSES] };
        self.table.take(place, found, LIKENESS.blocks);
    }

    /// A stage opens for these client tasks.
    fn open(&mut self, stage: usize, asked: &[u32]) {
        let clients: Vec<u32> = asked.iter().map(|client_task| client_task % CLIENTS).collect();
        let goes_on: Vec<u32> =
            asked.iter().copied().filter(|client_task| self.known.contains(client_task)).collect();
        let latest = |client: &u32| {
            self.known.iter().copied().rfind(|client_task| client_task % CLIENTS == *client)
        };
        let left =
            clients.iter().filter_map(latest).filter(|client_task| !goes_on.contains(client_task));
        for client_task in left.collect::<Vec<u32>>() {
            self.look(stage, client_task, &goes_on);
        }
        asked.iter().for_each(|client_task| self.begin(*client_task));
        asked.iter().for_each(|client_task| self.look(stage, *client_task, &[]));
        let places: Vec<usize> = asked.iter().map(|client_task| self.place(*client_task)).collect();
        self.table.compare(&LIKENESS, SourceTasks::Started, &places);
    }

    fn shares(&self, client_task: u32) -> Vec<f64> {
        let alone = &self.table.entries()[self.place(client_task)].class_shares;
        batch_shares(TARGETS.iter().map(|class| alone[*class as usize]))
    }
}

/// In the second stage the first client goes on and the others move, in the third the second goes on.
#[test]
fn golden_released_comparison_of_client_tasks() {
    let golden = Golden::own("released_powder");
    let mut client_tasks =
        ClientTaskVectors { golden, table: ClientTaskTable::default(), known: Vec::new() };
    for stage in 0..3 {
        let name = |what: &str| format!("period{stage}.{what}");
        let asked = client_tasks.golden.labels(&name("asked"));
        client_tasks.open(stage, &asked);
        let golden = &client_tasks.golden;
        assert_eq!(client_tasks.known, golden.labels(&name("slots")));
        let all: Vec<f64> = (0..client_tasks.known.len())
            .flat_map(|client_task| client_tasks.table.weights(client_task))
            .collect();
        golden.assert_close(&name("weights"), &all);
        let own = |client_task: &u32| {
            client_tasks.table.entries()[client_tasks.place(*client_task)].row.clone()
        };
        let rows: Vec<Vec<f64>> = asked.iter().map(own).collect();
        golden.assert_close(&name("mixed"), &rows.concat());
        let similar = rows.iter().flat_map(|row| most_similar(row, SHAPE.top));
        let similar: Vec<u32> = similar.map(|place| client_tasks.known[place]).collect();
        golden.assert_close(&name("similar"), &similar);
        // Shares of classes are kept in f32.
        golden.assert_within(&name("shares"), &client_tasks.shares(asked[0]), 1e-7);
    }

    let shares = client_tasks.shares(client_tasks.golden.labels("period2.asked")[0]);
    let (student, teacher) =
        (client_tasks.golden.variable("ntd.student"), client_tasks.golden.f32("ntd.teacher"));
    let not_true =
        NotTrue { teacher: &teacher, labels: &TARGETS, shares: &shares, temperature: 3.0 };
    client_tasks.golden.assert_loss("ntd", &not_true.loss(&student).unwrap(), &student);
    // What the client tasks of other clients say of their classes is no part of it.
    let same = Var::from_vec(teacher.clone(), (4, CLASSES), &Device::Cpu).unwrap();
    assert_eq!(not_true.loss(&same).unwrap().to_scalar::<f32>().unwrap(), 0.0);
}
