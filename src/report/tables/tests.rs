//! A journal written by hand, and the tables that it gives.

use parking_lot::Mutex;
use std::sync::Arc;

use super::*;
use crate::experiment::ClassNames;
use crate::federation::{
    ClassScore, ClosingPolicy, Direction, EndReason, Entry, EvaluationPoint, Event, EventSink,
    FrameBytes, FrameOutcome, MetricValue, Numbers, TaskScore,
};
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};

#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl SharedBuffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

fn frame(round: u32, client: u32, direction: Direction, outcome: FrameOutcome) -> Event {
    Event::FrameCharged {
        round: Round(round),
        task: TaskId(0),
        phase: 0,
        participant: ParticipantId(client),
        client: ClientId(client),
        direction,
        outcome,
        bytes: FrameBytes {
            header: 40,
            meta: 1,
            table: 9,
            raw: 200,
            payload: 100,
            kinds: [("head".to_string(), 30), ("prompt".to_string(), 70)].into(),
        }
        .into(),
        sent: if outcome == FrameOutcome::Lost { 60 } else { 150 },
        latency: 1,
        kind: ParticipantKind::Client,
        copy: client > 0,
        asset: None,
    }
}

/// Returns a journal of two rounds; client 1 is late in the first, its frame arrives in the second.
fn journal() -> Vec<Entry> {
    let (down, up) = (Direction::Down, Direction::Up);
    let (delivered, late) = (FrameOutcome::Delivered, FrameOutcome::Late);
    let task = TaskId(0);
    let opened = |round| Event::RoundOpened {
        round: Round(round),
        task,
        phase: 0,
        cohort: vec![ClientId(0), ClientId(1)],
        participants: 2,
        behind: vec![],
    };
    let trained = |round, client| Event::ClientTrained {
        round: Round(round),
        task,
        phase: 0,
        participant: ParticipantId(client),
        client: ClientId(client),
        samples: 12,
        work_ns: 500_000_000,
        state_bytes: u64::from(client) * 1_000,
    };
    let closed = |round, aggregated, missing| Event::RoundClosed {
        round: Round(round),
        task,
        phase: 0,
        aggregated,
        stale: 0,
        missing,
    };
    let events = vec![
        Event::RunStarted { format: 2, seed: 5, method: "hgp".into(), clients: 2, tasks: 1 },
        Event::TaskStarted { task, classes: vec![3, 4], switching_clients: vec![] },
        Event::PhaseStarted { task, phase: 0, name: "train".into(), rounds: 2 },
        opened(0),
        frame(0, 0, down, delivered),
        frame(0, 1, down, delivered),
        trained(0, 0),
        frame(0, 0, up, delivered),
        closed(0, 1, vec![ParticipantId(1)]),
        opened(1),
        frame(0, 1, up, late),
        frame(1, 0, down, delivered),
        frame(1, 1, down, delivered),
        trained(1, 0),
        trained(1, 1),
        frame(1, 0, up, delivered),
        frame(1, 1, up, delivered),
        closed(1, 2, vec![]),
        Event::Evaluated { round: Round(1), task, point: EvaluationPoint::Task },
        Event::TaskEnded { task },
        Event::RunEnded { reason: EndReason::Done },
    ];
    let numbers = |event: &Event| match event {
        Event::ClientTrained { client, .. } => Some(Numbers {
            metrics: [("loss".to_string(), MetricValue(0.5 + f64::from(client.0)))].into(),
            ..Numbers::default()
        }),
        Event::Evaluated { .. } => Some(Numbers {
            tasks: vec![TaskScore { task, correct: 3, total: 4 }],
            ..Numbers::default()
        }),
        _ => None,
    };
    events
        .into_iter()
        .enumerate()
        .map(|(seq, event)| Entry {
            seq: seq as u64,
            at: VirtualTime(seq as u64 * 250_000_000),
            numbers: numbers(&event),
            event,
        })
        .collect()
}

fn feed(sink: &mut dyn EventSink) {
    journal().iter().for_each(|entry| sink.record(entry).unwrap());
}

#[test]
fn a_round_with_a_straggler_waits_for_its_late_frame() {
    let buffer = SharedBuffer::default();
    feed(
        &mut RoundsTable::new(buffer.clone(), SharedBuffer::default(), ClosingPolicy::default())
            .unwrap(),
    );
    insta::assert_snapshot!(buffer.text());
}

#[test]
fn kinds_of_a_round_add_up_to_its_frames() {
    let buffer = SharedBuffer::default();
    feed(&mut BytesTable::new(buffer.clone()).unwrap());
    let text = buffer.text();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let sum: u64 = rows.iter().map(|row| row[8].parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 8 * 150, "eight frames of 150 bytes");
    assert!(
        rows.iter()
            .any(|row| row[..] == ["1", "1", "train", "1", "up", "late", "prompt", "1", "70"])
    );
}

#[test]
fn a_lost_frame_counts_what_crossed_the_link_and_delays_no_row() {
    let lost = frame(0, 1, Direction::Down, FrameOutcome::Lost);
    let mut events: Vec<Event> = journal().into_iter().map(|entry| entry.event).collect();
    let second =
        events.iter().position(|e| matches!(e, Event::RoundOpened { round: Round(1), .. }));
    events.truncate(second.unwrap() + 1);
    events[5] = lost;
    let (rounds, bytes) = (SharedBuffer::default(), SharedBuffer::default());
    let mut tables: [Box<dyn EventSink>; 2] = [
        Box::new(
            RoundsTable::new(rounds.clone(), SharedBuffer::default(), ClosingPolicy::default())
                .unwrap(),
        ),
        Box::new(BytesTable::new(bytes.clone()).unwrap()),
    ];
    for (seq, event) in events.into_iter().enumerate() {
        let entry = Entry { seq: seq as u64, at: VirtualTime(0), numbers: None, event };
        tables.iter_mut().for_each(|table| table.record(&entry).unwrap());
    }
    let text = rounds.text();
    let row: Vec<&str> = text.lines().nth(1).expect("round 1 is written").split(',').collect();
    assert_eq!(row[16..20], ["300", "150", "210", "150"]);
    let text = bytes.text();
    let all = text.lines().skip(1).filter_map(|row| row.rsplit(',').next()?.parse::<u64>().ok());
    assert_eq!(all.sum::<u64>(), 450, "whole frames, lost or not");
}

#[test]
fn clients_carry_what_they_carried() {
    let buffer = SharedBuffer::default();
    let mut table = ClientsTable::new(buffer.clone()).unwrap();
    let event = Event::ClientProfiled {
        client: ClientId(1),
        slowness: 1_500_000,
        setup_ns: 250_000_000,
        down: Some(4_300_000),
        up: None,
        round_trip: 70_000_000,
        leaves_ns: None,
    };
    table.record(&Entry { seq: 0, at: VirtualTime(0), event, numbers: None }).unwrap();
    feed(&mut table);
    insta::assert_snapshot!(buffer.text());
}

#[test]
fn the_matrix_counts_tasks_from_one() {
    let buffer = SharedBuffer::default();
    feed(&mut MatrixTable::new(buffer.clone()).unwrap());
    assert_eq!(buffer.text(), "after_task,test_task,correct,total,accuracy\n1,1,3,4,0.75\n");
}

#[test]
fn a_task_without_test_samples_has_an_empty_cell() {
    let buffer = SharedBuffer::default();
    let mut table = MatrixTable::new(buffer.clone()).unwrap();
    let score = |task, correct, total| TaskScore { task: TaskId(task), correct, total };
    let numbers = Numbers { tasks: vec![score(0, 0, 4), score(1, 0, 0)], ..Numbers::default() };
    let (task, point) = (TaskId(1), EvaluationPoint::Task);
    let event = Event::Evaluated { round: Round(3), task, point };
    table.record(&Entry { seq: 0, at: VirtualTime(0), event, numbers: Some(numbers) }).unwrap();
    assert_eq!(buffer.text(), "after_task,test_task,correct,total,accuracy\n2,1,0,4,0\n2,2,0,0,\n");
}

#[test]
fn lines_of_json_say_what_the_table_says() {
    let (table, json) = (SharedBuffer::default(), SharedBuffer::default());
    feed(&mut RoundsTable::new(table.clone(), json.clone(), ClosingPolicy::default()).unwrap());
    let table = table.text();
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    for (step, (line, object)) in (1_u64..).zip(lines.zip(json.text().lines())) {
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(object["_step"], step);
        assert_eq!(object["phase"], "train");
        assert_eq!(object.as_object().unwrap().len(), head.len() + 1);
        for (name, cell) in head.iter().zip(line.split(',')).filter(|(name, _)| **name != "phase") {
            assert_eq!(object[*name].as_f64(), cell.parse().ok(), "{name}");
        }
    }
    assert_eq!(json.text().lines().count(), 2);
}

#[test]
fn all_have_a_row_with_their_outcome_in_every_round() {
    let buffer = SharedBuffer::default();
    feed(&mut ParticipationTable::new(buffer.clone()).unwrap());
    // Client 1 is late in the first round: its row waits for its frame and has the frame's bytes.
    insta::assert_snapshot!(buffer.text());
}

#[test]
fn classes_are_named_by_their_rows_and_tasks() {
    let buffer = SharedBuffer::default();
    let names = ["a", "b", "dog", "c", "d", "emu, young"].map(String::from).to_vec();
    let mut table = ClassesTable::new(buffer.clone(), ClassNames::new(names)).unwrap();
    let started = |task, classes| Event::TaskStarted {
        task: TaskId(task),
        classes,
        switching_clients: vec![],
    };
    let tested = |point| Event::Evaluated { round: Round(3), task: TaskId(1), point };
    let events = [
        (started(0, vec![7, 2]), vec![]),
        (started(1, vec![5]), vec![]),
        (tested(EvaluationPoint::Round), vec![ClassScore(0, 9, 9)]),
        (
            tested(EvaluationPoint::Task),
            vec![ClassScore(0, 1, 4), ClassScore(1, 0, 0), ClassScore(2, 2, 2)],
        ),
    ];
    for (event, classes) in events {
        let numbers = Some(Numbers { classes, ..Numbers::default() });
        table.record(&Entry { seq: 0, at: VirtualTime(0), event, numbers }).unwrap();
    }
    // The data set has no class 7, so its name is empty.
    let rows = "after_task,task,row,class,correct,total,accuracy,name\n2,1,0,7,1,4,0.25,\n\
                2,2,2,5,2,2,1,\"emu, young\"\n";
    assert_eq!(buffer.text(), rows);
}
