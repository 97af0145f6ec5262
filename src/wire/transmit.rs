//! Transmission of a body: the body as its receiver gets it.

use super::{Body, CodecPlan, FrameHeader, FrameSize, NamedTensor, Section, WireError};
use super::{decode, encode};

/// Returns the body as the receiver sees it.
///
/// Values are shared if the codec is lossless (nothing is copied), and decoded if it is not.
///
/// # Errors
/// [`WireError::NotEncodable`] when a lossy codec meets a value it cannot carry.
pub fn transmit(body: &Body, plan: &CodecPlan) -> Result<Body, WireError> {
    let mut received = body.clone();
    if plan.is_lossless() {
        return Ok(received);
    }
    for Section { kind, tensors } in &mut received.sections {
        for tensor in tensors {
            let codec = plan.codec(*kind, tensor.dtype());
            if !codec.is_lossless() {
                let values = codec.round_trip(tensor)?;
                *tensor = NamedTensor::new(tensor.name().clone(), tensor.shape(), values)?;
            }
        }
    }
    Ok(received)
}

/// Transmits a body as [`transmit`] does, but through real bytes (`wire = "verify"`).
///
/// It encodes, decodes, and compares everything.
///
/// # Errors
/// Besides those of [`encode`]: [`WireError::Changed`] when the frame has another length than was counted, or something
/// arrives that is not what was sent (where the codec is lossless) or what the codec promised (where it is not).
pub fn verify(header: &FrameHeader, body: &Body, plan: &CodecPlan) -> Result<Body, WireError> {
    let bytes = encode(header, body, plan)?;
    let (received_header, received) = decode(&bytes)?;
    let expected = transmit(body, plan)?;
    let changed = |what: String| Err(WireError::Changed(what));
    if bytes.len() as u64 != FrameSize::of_shape(&body.shape(), plan).frame().0 {
        return changed("the size of the frame".into());
    }
    if received_header != *header || received.meta != expected.meta {
        return changed("the header or the meta".into());
    }
    if received.shape() != expected.shape() {
        return changed("the tensor table".into());
    }
    let pairs = received.tensors().zip(expected.tensors());
    for ((kind, got), (_, wanted)) in pairs {
        if !got.values().same_bits(wanted.values()) {
            return changed(format!("tensor {kind}/{}", got.name()));
        }
    }
    Ok(received)
}
