//! Cost of messages: counting, encoding, decoding, digests and lossy codecs.
//!
//! One message has the size of a linear probe (32 kB), the other that of a few prompts and a large head (6.5 MB).
//!
//! `cargo bench --bench codecs`

#![allow(clippy::disallowed_methods, reason = "benches compare with other arithmetic")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fedcast::wire::{
    Body, Codec, CodecPlan, FrameHeader, FrameSize, Kind, NamedTensor, Section, decode, encode,
    transmit,
};

/// Returns a body of ten prompt tensors with `values` f32 values together.
fn body(values: usize) -> Body {
    let tensors = (0..10).map(|t| {
        let wave = (0..values / 10).map(|i| ((i * 10 + t) as f32 * 0.37).sin());
        let wave: Vec<f32> = wave.collect();
        NamedTensor::f32(format!("prompt.{t}"), [wave.len()], wave).expect("the shape fits")
    });
    Body::new(vec![1, 2, 3], vec![Section::new(Kind::Prompt, tensors.collect())])
}

fn codecs(c: &mut Criterion) {
    let plain = CodecPlan::default();
    let header = FrameHeader::default();
    for (name, values) in [("32kB", 8_000), ("6.5MB", 1_625_000)] {
        let body = body(values);
        let frame = encode(&header, &body, &plain).expect("f32 carries everything");
        let (_, received) = decode(&frame).expect("it was just encoded");
        assert_eq!(received.digest(), body.digest());

        let mut group = c.benchmark_group("size");
        group.bench_function(BenchmarkId::new("count", name), |b| {
            b.iter(|| FrameSize::of(black_box(&body), &plain))
        });
        group.bench_function(BenchmarkId::new("transmit-lossless", name), |b| {
            b.iter(|| transmit(black_box(&body), &plain))
        });
        group.finish();

        let mut group = c.benchmark_group("bytes");
        group.throughput(Throughput::Bytes(4 * values as u64));
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| encode(&header, black_box(&body), &plain))
        });
        group.bench_function(BenchmarkId::new("decode", name), |b| {
            b.iter(|| decode(black_box(&frame)))
        });
        group.bench_function(BenchmarkId::new("digest", name), |b| {
            b.iter(|| black_box(&body).digest())
        });
        for codec in [Codec::F16, Codec::Bf16, Codec::Int8] {
            let plan = CodecPlan::new(codec);
            group.bench_function(BenchmarkId::new(format!("transmit-{codec}"), name), |b| {
                b.iter(|| transmit(black_box(&body), &plan))
            });
            group.bench_function(BenchmarkId::new(format!("encode-{codec}"), name), |b| {
                b.iter(|| encode(&header, black_box(&body), &plan))
            });
        }
        group.finish();
    }
}

criterion_group!(benches, codecs);
criterion_main!(benches);
