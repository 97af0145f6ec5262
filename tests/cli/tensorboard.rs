//! Promise: with record.tensorboard and record.parquet a run writes files that other programs read, with the numbers of its
//! tables, and a replay writes them again byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::{read, run_fedcast, tiny_run};

const BOTH: &[&str] = &["--set", "record.tensorboard=true", "--set", "record.parquet=true"];

/// One scalar: tag, step, wall time, value.
type Scalar = (String, u64, f64, f32);

/// Reads frames and checks every checksum, with a separate CRC: bit by bit.
fn scalars(bytes: &[u8]) -> Vec<Scalar> {
    let (mut rest, mut all, mut first) = (bytes, Vec::new(), true);
    while !rest.is_empty() {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let sum = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
        let data = &rest[12..12 + length];
        assert_eq!(sum(8), masked(&rest[..8]));
        assert_eq!(sum(12 + length), masked(data));
        match first {
            true => assert!(data.ends_with(b"brain.Event:2")),
            false => all.extend(event(data)),
        }
        first = false;
        rest = &rest[16 + length..];
    }
    all
}

fn masked(data: &[u8]) -> u32 {
    let crc = data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    });
    let crc = !crc;
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Fields of a message: number and raw value; of a varint its little-endian bytes.
fn fields(mut data: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    while !data.is_empty() {
        let key = varint(&mut data);
        let value = match key & 7 {
            0 => varint(&mut data).to_le_bytes().to_vec(),
            1 => take(&mut data, 8),
            2 => {
                let length = varint(&mut data) as usize;
                take(&mut data, length)
            }
            5 => take(&mut data, 4),
            other => panic!("wire type {other}"),
        };
        all.push((key >> 3, value));
    }
    all
}

fn varint(data: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let byte = take(data, 1)[0];
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take(data: &mut &[u8], length: usize) -> Vec<u8> {
    let (taken, rest) = data.split_at(length);
    *data = rest;
    taken.to_vec()
}

fn event(data: &[u8]) -> Vec<Scalar> {
    let fields_of = fields(data);
    let field = |number: u64| &fields_of.iter().find(|(n, _)| *n == number).unwrap().1;
    let wall = f64::from_le_bytes(field(1)[..].try_into().unwrap());
    let step = u64::from_le_bytes(field(2)[..].try_into().unwrap());
    let values = fields(field(5)).into_iter().map(|(_, value)| {
        let parts: BTreeMap<u64, Vec<u8>> = fields(&value).into_iter().collect();
        let tag = String::from_utf8(parts[&1].clone()).unwrap();
        (tag, step, wall, f32::from_le_bytes(parts[&2][..].try_into().unwrap()))
    });
    values.collect()
}

fn column(path: &Path, name: &str) -> Vec<f64> {
    let text = read(path);
    let place = text.lines().next().unwrap().split(',').position(|n| n == name).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(place).unwrap().parse().unwrap()).collect()
}

#[test]
fn scalars_are_the_numbers_of_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), &[BOTH, &["--set", "federation.rounds=2"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let run = folder.path().join("run");
    let files: Vec<_> =
        fs::read_dir(run.join("tensorboard")).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 1);
    assert!(files[0].file_name().to_str().unwrap().contains("tfevents"));
    let all = scalars(&fs::read(files[0].path()).unwrap());
    let of = |tag: &str| -> Vec<(u64, f32)> {
        let own = all.iter().filter(|(name, ..)| name == tag);
        own.map(|(_, step, _, value)| (*step, *value)).collect()
    };
    let rounds = run.join("rounds.csv");
    let steps = |values: Vec<f64>| -> Vec<(u64, f32)> {
        (1..).zip(values.into_iter().map(|value| value as f32)).collect()
    };
    for (tag, name) in [
        ("round/loss", "loss"),
        ("round/accuracy_seen", "accuracy_seen"),
        ("round/bytes_up", "bytes_up"),
        ("round/bytes_down", "bytes_down"),
        ("round/aggregated", "aggregated"),
        ("total/virtual_s", "closed_s"),
    ] {
        assert_eq!(of(tag), steps(column(&rounds, name)), "{tag}");
    }
    let up = column(&rounds, "bytes_up");
    let so_far = up.iter().scan(0.0, |sum, bytes| {
        *sum += bytes;
        Some(*sum)
    });
    assert_eq!(of("total/bytes_up"), steps(so_far.collect()));
    // Rows of the matrix: (1, 1), (2, 1), (2, 2).
    let matrix = column(&run.join("matrix.csv"), "accuracy");
    assert_eq!(of("task/accuracy_of_01"), [(1, matrix[0] as f32), (2, matrix[1] as f32)]);
    assert_eq!(of("task/accuracy_of_02"), [(2, matrix[2] as f32)]);
    assert_eq!(of("task/average_accuracy")[1], (2, ((matrix[1] + matrix[2]) / 2.0) as f32));
    // After the first task there is nothing to forget.
    let [(2, last)] = of("task/forgetting_from_best")[..] else { panic!("one value") };
    assert!((f64::from(last) - (matrix[0] - matrix[1]).max(0.0)).abs() < 1e-6, "{last}");
    for tag in ["round/aggregated", "task/virtual_s"] {
        let own = all.iter().filter(|(name, ..)| name == tag);
        let walls: Vec<f64> = own.map(|(_, _, wall, _)| *wall).collect();
        assert!(walls.is_sorted() && walls[0] > 0.0, "virtual seconds of {tag}: {walls:?}");
    }
}

#[test]
fn late_frames_count_for_their_own_round() {
    let folder = tempfile::tempdir().unwrap();
    let late = [
        "--set",
        "federation.rounds=3",
        "--set",
        "round={close=\"quorum\",quorum=0.5}",
        "--set",
        "record.evaluate=\"task\"",
    ];
    let output = tiny_run(folder.path(), &[BOTH, &late].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let run = folder.path().join("run");
    let rounds = run.join("rounds.csv");
    assert!(column(&rounds, "late").iter().sum::<f64>() > 0.0, "{}", read(&rounds));
    let all = scalars(&fs::read(run.join("tensorboard/events.out.tfevents.0.fedcast")).unwrap());
    let of = |tag: &str| -> Vec<f32> {
        all.iter().filter(|(name, ..)| name == tag).map(|(.., value)| *value).collect()
    };
    for name in ["bytes_up", "bytes_down", "loss", "failed"] {
        let column: Vec<f32> = column(&rounds, name).iter().map(|value| *value as f32).collect();
        assert_eq!(of(&format!("round/{name}")), column, "{name}");
    }
    let up: f64 = column(&rounds, "bytes_up").iter().sum();
    assert_eq!(of("total/bytes_up").last(), Some(&(up as f32)));
    // Evaluated after tasks only: a point for the last round of each task, as in the table.
    assert_eq!(of("round/accuracy_seen").len(), 2);
}

#[test]
fn a_replay_writes_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), BOTH).code, 0);
    let output = run_fedcast(folder.path(), &["replay", "run", "-o", "again"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let file = |of: &str, name: &str| fs::read(folder.path().join(of).join(name)).unwrap();
    let mut same = 0;
    for table in fs::read_dir(folder.path().join("run")).unwrap() {
        let name = table.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".parquet") && name != "wall.parquet" {
            assert!(file("run", &name) == file("again", &name), "{name}");
            same += 1;
        }
    }
    assert!(same >= 7, "{same} tables");
    let events = "tensorboard/events.out.tfevents.0.fedcast";
    assert!(file("run", events) == file("again", events));

    // Who does not ask for them has neither, and the same digests and hash.
    let manifest = |of: &str| -> serde_json::Value {
        serde_json::from_str(&read(folder.path().join(of).join("manifest.json"))).unwrap()
    };
    let with = manifest("run");
    assert_eq!(
        tiny_run(folder.path(), &["--force"]).code,
        0,
        "a run replaces another of its scenario"
    );
    let without = manifest("run");
    assert_eq!(with["digests"], without["digests"]);
    assert_eq!(with["scenario"]["hash"], without["scenario"]["hash"]);
    for name in ["tensorboard", "rounds.parquet", "wall.parquet"] {
        assert!(!folder.path().join("run").join(name).exists(), "{name} goes with its run");
    }
}
