//! Sizes of frames, by part and by kind, counted by the encoder itself.
//!
//! ```
//! use fedcast::wire::{BodyShape, CodecPlan, FrameSize, Kind, SectionShape, TensorShape};
//! // HGP's broadcast for ViT-B/16 and CIFAR-100: 5 prompts of (200, 768) and a head of 100 rows.
//! let prompts = (0..5).map(|j| TensorShape::f32(format!("{j}"), [200, 768])).collect();
//! let head = vec![TensorShape::f32("weight", [100, 768]), TensorShape::f32("bias", [100])];
//! let shape = BodyShape::new(
//!     0,
//!     vec![SectionShape::new(Kind::Prompt, prompts), SectionShape::new(Kind::Head, head)],
//! );
//! let size = FrameSize::of_shape(&shape, &CodecPlan::default());
//! assert_eq!(size.payload.0, 3_379_600);
//! assert_eq!(size.kinds.get(Kind::Head).0, 307_600);
//! assert_eq!(size.header.0, 40);
//! ```

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::encode::{self, Data, Outline, Sink};
use super::{Body, BodyShape, CodecPlan, Kind, WireError, header::HEADER_LENGTH};
use crate::document::{Content, Document};
use crate::quantity::Bytes;

/// Bytes of each kind; in files, a map without zero entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<Kind, Bytes>", from = "BTreeMap<Kind, Bytes>")]
pub struct KindBytes([u64; Kind::COUNT]);

impl Document for KindBytes {
    const CONTENT: Content = BTreeMap::<Kind, Bytes>::CONTENT;
}

impl KindBytes {
    /// Returns the bytes of one kind.
    pub fn get(&self, kind: Kind) -> Bytes {
        Bytes(self.0[kind.index()])
    }

    /// Adds bytes to one kind.
    pub fn add(&mut self, kind: Kind, bytes: Bytes) {
        self.0[kind.index()] += bytes.0;
    }

    /// Returns the kinds that have any, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, Bytes)> {
        Kind::all().map(|k| (k, self.get(k))).filter(|(_, b)| b.0 > 0)
    }

    /// Returns the sum over all kinds.
    pub fn total(&self) -> Bytes {
        Bytes(self.0.iter().sum())
    }
}

impl AddAssign for KindBytes {
    fn add_assign(&mut self, other: KindBytes) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

impl From<KindBytes> for BTreeMap<Kind, Bytes> {
    fn from(bytes: KindBytes) -> Self {
        bytes.iter().collect()
    }
}

impl From<BTreeMap<Kind, Bytes>> for KindBytes {
    fn from(map: BTreeMap<Kind, Bytes>) -> Self {
        let mut bytes = KindBytes::default();
        map.into_iter().for_each(|(k, b)| bytes.add(k, b));
        bytes
    }
}

/// The size of one frame: `frame = control + payload`, `control = header + meta + table`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameSize {
    /// The fixed header.
    pub header: Bytes,
    /// The fields that are not tensors, with their length.
    pub meta: Bytes,
    /// Names, types, codecs, shapes and lengths of the tensors.
    pub table: Bytes,
    /// Tensor values before the codec.
    pub raw: Bytes,
    /// Tensor values after the codec.
    pub payload: Bytes,
    /// `payload` by kind.
    pub kinds: KindBytes,
}

impl FrameSize {
    /// Returns the size of the frame of this body: runs the encoder into a counter, without touching the values.
    pub fn of(body: &Body, plan: &CodecPlan) -> FrameSize {
        FrameSize::count(body, plan)
    }

    /// Returns the size of the frame of any body with these shapes.
    pub fn of_shape(shape: &BodyShape, plan: &CodecPlan) -> FrameSize {
        FrameSize::count(shape, plan)
    }

    fn count(body: &impl Outline, plan: &CodecPlan) -> FrameSize {
        let mut counter = Counter::default();
        let header = Bytes(HEADER_LENGTH as u64);
        let counted = encode::parts(body, plan, &mut counter);
        debug_assert!(counted.is_ok(), "a counter refuses nothing");
        FrameSize { header, ..counter.size }
    }

    /// Returns the bytes of header, meta and table: the message's cost apart from its tensors.
    pub fn control(&self) -> Bytes {
        self.header + self.meta + self.table
    }

    /// Returns the bytes of the whole frame.
    pub fn frame(&self) -> Bytes {
        self.control() + self.payload
    }
}

/// Counts what the encoder writes.
#[derive(Default)]
struct Counter {
    size: FrameSize,
}

impl Sink for Counter {
    fn meta_prefix(&mut self, bytes: &[u8]) {
        self.size.meta += Bytes(bytes.len() as u64);
    }

    fn meta_fields(&mut self, length: usize) {
        self.size.meta += Bytes(length as u64);
    }

    fn table(&mut self, bytes: &[u8]) {
        self.size.table += Bytes(bytes.len() as u64);
    }

    fn data(&mut self, data: Data) -> Result<(), WireError> {
        self.size.raw += Bytes(data.raw);
        self.size.payload += Bytes(data.encoded);
        self.size.kinds.add(data.kind, Bytes(data.encoded));
        Ok(())
    }
}
