//! Frames of the wire: what decodes can be encoded again.

use proptest::prelude::*;

use super::cases;
use super::damage::damaged;
use fedcast::wire::{Body, CodecPlan, FrameHeader, Kind, NamedTensor, Section, decode, encode};

fn corpus() -> Vec<Vec<u8>> {
    let tensor = |name: &str, values: &[f32]| {
        NamedTensor::f32(name, vec![values.len()], values.to_vec()).unwrap()
    };
    let sections = vec![
        Section::new(Kind::Head, vec![tensor("head.weight", &[1.0, -2.5, 3e-9])]),
        Section::new(Kind::Prompt, vec![tensor("prompt", &[0.5; 12]), tensor("keys", &[])]),
    ];
    let bodies = [Body::default(), Body::new(vec![1, 2, 3], sections)];
    let header =
        FrameHeader { sender: FrameHeader::SERVER, round: 3, task: 1, ..FrameHeader::default() };
    bodies.iter().map(|body| encode(&header, body, &CodecPlan::default()).unwrap()).collect()
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_bytes_are_a_frame_or_an_error(bytes in damaged(corpus())) {
        if let Ok((header, body)) = decode(&bytes) {
            let _ = encode(&header, &body, &CodecPlan::default());
        }
    }
}
