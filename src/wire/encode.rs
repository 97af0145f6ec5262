//! Encoder of frames: walks a body (or its shape) and passes each part to a sink.
//!
//! A writing sink makes the frame, a counting sink its size, so both agree on the content of a frame.
//!
//! After the header:
//! ```text
//! meta   length of the fields (varint), fields
//! table  sections (varint), then per section: kind (1), tensors (varint), then per tensor:
//!        name (varint length, UTF-8), dtype (1), codec (1), rank (varint), dims (varints), encoded length (varint)
//! data   encoded tensors in table order, no padding
//! ```

use super::header::HEADER_LENGTH;
use super::meta::put_varint;
use super::{Body, BodyShape, Codec, CodecPlan, Dtype, FrameHeader, FrameSize, Kind, WireError};

/// Structure of a message without its values, from which lengths and tensor table are made.
pub(super) trait Outline {
    fn meta_length(&self) -> usize;
    fn sections(&self) -> usize;
    /// Returns the kind and number of tensors of a section.
    fn section(&self, section: usize) -> (Kind, usize);
    /// Returns the name, shape and type of a tensor.
    fn tensor(&self, section: usize, tensor: usize) -> (&str, &[usize], Dtype);
}

impl Outline for Body {
    fn meta_length(&self) -> usize {
        self.meta.len()
    }
    fn sections(&self) -> usize {
        self.sections.len()
    }
    fn section(&self, section: usize) -> (Kind, usize) {
        let section = &self.sections[section];
        (section.kind, section.tensors.len())
    }
    fn tensor(&self, section: usize, tensor: usize) -> (&str, &[usize], Dtype) {
        let tensor = &self.sections[section].tensors[tensor];
        (tensor.name(), tensor.shape(), tensor.dtype())
    }
}

impl Outline for BodyShape {
    fn meta_length(&self) -> usize {
        self.meta
    }
    fn sections(&self) -> usize {
        self.sections.len()
    }
    fn section(&self, section: usize) -> (Kind, usize) {
        let section = &self.sections[section];
        (section.kind, section.tensors.len())
    }
    fn tensor(&self, section: usize, tensor: usize) -> (&str, &[usize], Dtype) {
        let tensor = &self.sections[section].tensors[tensor];
        (&tensor.name, &tensor.shape, tensor.dtype)
    }
}

/// Tensor whose encoded values come next in a frame.
pub(super) struct Data {
    pub section: usize,
    pub tensor: usize,
    pub kind: Kind,
    pub codec: Codec,
    /// Bytes before the codec.
    pub raw: u64,
    /// Bytes after the codec.
    pub encoded: u64,
}

/// Receiver of the encoder's output. Calls come in frame order.
pub(super) trait Sink {
    /// Takes the length of the meta fields, encoded.
    fn meta_prefix(&mut self, bytes: &[u8]);
    /// Takes the meta fields, which have this length in bytes.
    fn meta_fields(&mut self, length: usize);
    /// Takes a piece of the tensor table.
    fn table(&mut self, bytes: &[u8]);
    /// Takes the data of one tensor.
    fn data(&mut self, data: Data) -> Result<(), WireError>;
}

/// Passes everything after the header to `sink`, in the order of the frame.
///
/// # Errors
/// Returns the first error of the sink.
pub(super) fn parts(
    message: &impl Outline,
    plan: &CodecPlan,
    sink: &mut impl Sink,
) -> Result<(), WireError> {
    put_varint(message.meta_length() as u64, |b| sink.meta_prefix(&[b]));
    sink.meta_fields(message.meta_length());
    put_varint(message.sections() as u64, |b| sink.table(&[b]));
    for section in 0..message.sections() {
        let (kind, tensors) = message.section(section);
        sink.table(&[kind as u8]);
        put_varint(tensors as u64, |b| sink.table(&[b]));
        for tensor in 0..tensors {
            let (name, shape, dtype) = message.tensor(section, tensor);
            put_varint(name.len() as u64, |b| sink.table(&[b]));
            sink.table(name.as_bytes());
            let codec = plan.codec(kind, dtype);
            sink.table(&[dtype as u8, codec as u8]);
            put_varint(shape.len() as u64, |b| sink.table(&[b]));
            for dim in shape {
                put_varint(*dim as u64, |b| sink.table(&[b]));
            }
            let encoded = codec.encoded_length(dtype, super::tensor::shape_elements(shape));
            put_varint(encoded, |b| sink.table(&[b]));
        }
    }
    for section in 0..message.sections() {
        let (kind, tensors) = message.section(section);
        for tensor in 0..tensors {
            let (_, shape, dtype) = message.tensor(section, tensor);
            let elements = super::tensor::shape_elements(shape);
            let codec = plan.codec(kind, dtype);
            sink.data(Data {
                section,
                tensor,
                kind,
                codec,
                raw: dtype.bytes(elements),
                encoded: codec.encoded_length(dtype, elements),
            })?;
        }
    }
    Ok(())
}

/// Returns the bytes of a frame.
///
/// # Errors
/// [`WireError::NotEncodable`] when a lossy codec meets a value it cannot carry, [`WireError::TooLarge`] beyond 2^48
/// bytes.
///
/// ```
/// use fedcast::wire::{Body, CodecPlan, FrameHeader, FrameSize, Kind, NamedTensor, Section, decode, encode};
/// let tensors = vec![NamedTensor::f32("bias", [3], vec![1.0, 2.0, 3.0])?];
/// let body = Body::new(vec![], vec![Section::new(Kind::Head, tensors)]);
/// let plan = CodecPlan::default();
/// let bytes = encode(&FrameHeader::default(), &body, &plan)?;
/// assert_eq!(bytes.len() as u64, FrameSize::of(&body, &plan).frame().0);
/// let (_, received) = decode(&bytes)?;
/// assert_eq!(received.digest(), body.digest());
/// # Ok::<(), fedcast::wire::WireError>(())
/// ```
pub fn encode(header: &FrameHeader, body: &Body, plan: &CodecPlan) -> Result<Vec<u8>, WireError> {
    let length = FrameSize::of(body, plan).frame().0;
    let header = header.encode(length - HEADER_LENGTH as u64)?;
    let capacity = usize::try_from(length).map_err(|_| WireError::TooLarge(length))?;
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(&header);
    let mut writer = Writer { body, out };
    parts(body, plan, &mut writer)?;
    assert_eq!(writer.out.len() as u64, length, "the counted and the written length differ");
    Ok(writer.out)
}

/// Writes a body into a buffer.
struct Writer<'a> {
    body: &'a Body,
    out: Vec<u8>,
}

impl Sink for Writer<'_> {
    fn meta_prefix(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn meta_fields(&mut self, _length: usize) {
        self.out.extend_from_slice(&self.body.meta);
    }

    fn table(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn data(&mut self, data: Data) -> Result<(), WireError> {
        let tensor = &self.body.sections[data.section].tensors[data.tensor];
        let out = &mut self.out;
        data.codec.encode(tensor, |bytes| out.extend_from_slice(bytes))
    }
}
