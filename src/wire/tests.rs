//! Properties of whole frames.

use std::sync::Arc;

use half::{bf16, f16};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn kind() -> impl Strategy<Value = Kind> {
    (0..Kind::COUNT).prop_map(|i| Kind::ALL[i])
}

fn codec() -> impl Strategy<Value = Codec> {
    (0..Codec::ALL.len()).prop_map(|i| Codec::ALL[i])
}

fn plan() -> impl Strategy<Value = CodecPlan> {
    (codec(), proptest::collection::btree_map(kind(), codec(), 0..3))
        .prop_map(|(default, kinds)| CodecPlan { default, kinds })
}

/// Values of any type; floats that every codec can carry.
fn values(dtype: Dtype, elements: usize) -> BoxedStrategy<TensorValues> {
    let n = elements;
    match dtype {
        Dtype::F32 => vec(-6e4f32..6e4, n).prop_map(|v| TensorValues::F32(v.into())).boxed(),
        Dtype::F64 => vec(any::<f64>(), n).prop_map(|v| TensorValues::F64(v.into())).boxed(),
        Dtype::F16 => vec(any::<u16>().prop_map(f16::from_bits), n)
            .prop_map(|v| TensorValues::F16(v.into()))
            .boxed(),
        Dtype::Bf16 => vec(any::<u16>().prop_map(bf16::from_bits), n)
            .prop_map(|v| TensorValues::Bf16(v.into()))
            .boxed(),
        Dtype::I8 => vec(any::<i8>(), n).prop_map(|v| TensorValues::I8(v.into())).boxed(),
        Dtype::U8 => vec(any::<u8>(), n).prop_map(|v| TensorValues::U8(v.into())).boxed(),
        Dtype::U32 => vec(any::<u32>(), n).prop_map(|v| TensorValues::U32(v.into())).boxed(),
        Dtype::U64 => vec(any::<u64>(), n).prop_map(|v| TensorValues::U64(v.into())).boxed(),
        Dtype::I64 => vec(any::<i64>(), n).prop_map(|v| TensorValues::I64(v.into())).boxed(),
        Dtype::Bits => vec(any::<u8>(), n.div_ceil(8))
            .prop_map(move |mut v| {
                if let Some(last) = v.last_mut().filter(|_| !n.is_multiple_of(8)) {
                    *last &= (1 << (n % 8)) - 1;
                }
                TensorValues::Bits(v.into())
            })
            .boxed(),
    }
}

fn tensor() -> impl Strategy<Value = NamedTensor> {
    let dtype = (0..Dtype::ALL.len()).prop_map(|i| Dtype::ALL[i]);
    ("[a-zé.]{0,9}", vec(0usize..7, 0..4), dtype).prop_flat_map(|(name, shape, dtype)| {
        values(dtype, shape.iter().product())
            .prop_map(move |v| NamedTensor::new(name.as_str(), shape.clone(), v).unwrap())
    })
}

fn body() -> impl Strategy<Value = Body> {
    let section = (kind(), vec(tensor(), 0..4)).prop_map(|(k, t)| Section::new(k, t));
    (vec(any::<u8>(), 0..200), vec(section, 0..4)).prop_map(|(meta, s)| Body::new(meta, s))
}

proptest! {
    #[test]
    fn counting_is_encoding_is_sketching(body in body(), plan in plan()) {
        let bytes = encode(&FrameHeader::default(), &body, &plan).unwrap();
        let size = FrameSize::of(&body, &plan);
        prop_assert_eq!(size.frame().0, bytes.len() as u64);
        prop_assert_eq!(size, FrameSize::of_shape(&body.shape(), &plan));
        prop_assert_eq!(size.kinds.total(), size.payload);
        let raw: u64 = body.tensors().map(|(_, t)| t.values().bytes()).sum();
        prop_assert_eq!(size.raw.0, raw);
        if plan.is_lossless() {
            prop_assert_eq!(size.raw, size.payload);
        }
    }

    #[test]
    fn the_receiver_gets_what_transmit_says(body in body(), plan in plan(), run: u64) {
        let header = FrameHeader { run, sender: 3, ..FrameHeader::default() };
        let received = verify(&header, &body, &plan).unwrap();
        prop_assert_eq!(received.digest(), transmit(&body, &plan).unwrap().digest());
        for ((kind, sent), (_, got)) in body.tensors().zip(received.tensors()) {
            if plan.codec(kind, sent.dtype()).is_lossless() {
                prop_assert!(sent.values().same_bits(got.values()));
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&bytes).is_err());
        let mut frame = FrameHeader::default().encode(bytes.len() as u64).unwrap().to_vec();
        frame.extend(bytes);
        let _ = decode(&frame);
    }

    /// An accepted frame is the one encoding of its body: no two frames mean the same message.
    #[test]
    fn damaged_frames_are_refused_or_mean_something_else(
        body in body(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut: u8,
    ) {
        let plan = CodecPlan::default();
        let mut frame = encode(&FrameHeader::default(), &body, &plan).unwrap();
        if cut < 40 {
            frame.truncate(frame.len() - 1 - cut as usize % frame.len());
            prop_assert!(decode(&frame).is_err());
            return Ok(());
        }
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        if let Ok((header, read)) = decode(&frame)
            && !uses_lossy_codec(&frame, &read)
        {
            prop_assert_eq!(encode(&header, &read, &plan).unwrap(), frame);
        }
    }
}

/// Damage may have turned a codec byte into a lossy one of the same length.
fn uses_lossy_codec(frame: &[u8], read: &Body) -> bool {
    FrameSize::of(read, &CodecPlan::default()).frame().0 != frame.len() as u64
}

#[test]
fn lossless_transmission_shares_and_lossy_changes() {
    let values: Arc<[f32]> = vec![0.1, 0.2, 0.3].into();
    let tensor = |name: &str| NamedTensor::f32(name, [3], values.clone()).unwrap();
    let body = Body::new(
        vec![1, 2],
        vec![
            Section::new(Kind::Prompt, vec![tensor("p")]),
            Section::new(Kind::Statistics, vec![tensor("gram")]),
        ],
    );
    let same = transmit(&body, &CodecPlan::default()).unwrap();
    assert!(Arc::ptr_eq(same.tensor(Kind::Prompt, "p").unwrap().as_f32().unwrap(), &values));
    let lossy = transmit(&body, &CodecPlan::new(Codec::Bf16)).unwrap();
    assert_ne!(lossy.tensor(Kind::Prompt, "p").unwrap().as_f32().unwrap()[..], values[..]);
    let gram = lossy.tensor(Kind::Statistics, "gram").unwrap().as_f32().unwrap();
    assert!(Arc::ptr_eq(gram, &values));
}

#[test]
fn a_value_that_cannot_travel_is_named() {
    let bad = |v: f32, codec| {
        let tensor = NamedTensor::f32("head.bias", [2], vec![0.0, v]).unwrap();
        let body = Body::new(vec![], vec![Section::new(Kind::Head, vec![tensor])]);
        let plan = CodecPlan::new(codec);
        let error = transmit(&body, &plan).unwrap_err();
        assert_eq!(encode(&FrameHeader::default(), &body, &plan).unwrap_err(), error);
        error.to_string()
    };
    let message = bad(f32::NAN, Codec::Int8);
    assert!(
        message.contains("`head.bias`: codec int8 cannot carry the value NaN at index 1"),
        "{message}"
    );
    assert!(bad(1e9, Codec::F16).contains("1000000000"));
    assert!(bad(f32::MAX, Codec::Bf16).contains("bf16"));
}

/// The numbers of the cards for ViT-B/16 and CIFAR-100, as payload.
#[test]
fn hgp_costs_what_its_card_says() {
    let shape = |rows: usize, classes: usize| {
        let prompts = (0..5).map(|j| TensorShape::f32(j.to_string(), [200, 768])).collect();
        let head = vec![TensorShape::f32("weight", [rows, 768]), TensorShape::f32("bias", [rows])];
        let mut sections =
            vec![SectionShape::new(Kind::Prompt, prompts), SectionShape::new(Kind::Head, head)];
        if classes > 0 {
            let gaussians = vec![
                TensorShape::new("count", [classes], Dtype::U32),
                TensorShape::f32("mean", [classes, 768]),
                TensorShape::f32("variance", [classes, 768]),
            ];
            let samples = vec![TensorShape::new("samples", [], Dtype::U32)];
            sections.push(SectionShape::new(Kind::Prototypes, gaussians));
            sections.push(SectionShape::new(Kind::Settings, samples));
        }
        BodyShape::new(0, sections)
    };
    let payload = |rows, classes, codec| {
        FrameSize::of_shape(&shape(rows, classes), &CodecPlan::new(codec)).payload.0
    };
    assert_eq!(payload(100, 0, Codec::F32), 3_379_600);
    assert_eq!(payload(10, 0, Codec::F32), 3_102_760);
    assert_eq!(payload(100, 10, Codec::F32), 3_441_084);
    assert_eq!(payload(10, 10, Codec::F32), 3_164_244);
    assert_eq!(payload(100, 0, Codec::F16), 3_379_600 / 2);
    assert_eq!(payload(100, 0, Codec::Int8), 3_379_600 / 4 + 7 * 4);
    // 10 counts and the number of samples stay 4 bytes each.
    assert_eq!(payload(100, 10, Codec::Bf16), (3_441_084 - 44) / 2 + 44);
    let size = FrameSize::of_shape(&shape(100, 10), &CodecPlan::default());
    assert!(size.control().0 < 250, "control is {}", size.control());
}
