//! A packet as bytes: an index, and frames in the format of the wire that the index numbers.
//!
//! ```text
//! length of the index   8
//! number of frames      8
//! length of each frame  8 each
//! index                 JSON
//! frames                lossless, one after the other
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{self, Body, CodecPlan, FrameHeader, WireError};

/// Returns the bytes of a packet.
///
/// # Errors
/// Returns an error if a body is too large for a frame.
pub(super) fn seal(index: &impl Serialize, bodies: &[Body]) -> Result<Vec<u8>, WireError> {
    let index = serde_json::to_vec(index);
    let index = index.map_err(|error| WireError::Malformed(error.to_string()))?;
    let (header, plan) = (FrameHeader::default(), CodecPlan::default());
    let frames: Vec<Vec<u8>> = bodies
        .iter()
        .map(|body| wire::encode(&header, body, &plan))
        .collect::<Result<_, WireError>>()?;
    let lengths = [index.len(), frames.len()].into_iter().chain(frames.iter().map(Vec::len));
    let lengths: Vec<u8> = lengths.flat_map(|length| (length as u64).to_le_bytes()).collect();
    let parts = [&lengths, &index].into_iter().chain(&frames);
    Ok(parts.map(Vec::as_slice).collect::<Vec<_>>().concat())
}

/// Frames of a packet that were not read yet.
pub(super) struct Frames {
    lengths: Vec<u64>,
    /// All bytes of the packet.
    bytes: Vec<u8>,
    /// Position of the first frame.
    start: usize,
}

/// Returns the arguments of [`seal`]: the index, and the frames to be [read](Frames::read).
///
/// # Errors
/// Returns a description if the bytes are no packet of this kind.
pub(super) fn open<T: DeserializeOwned>(bytes: Vec<u8>) -> Result<(T, Frames), String> {
    let mut rest = &bytes[..];
    let (length, frames) = (number(&mut rest)?, number(&mut rest)?);
    let (lengths, _) = take(&mut rest, frames.saturating_mul(8))?.as_chunks();
    let lengths = lengths.iter().map(|length| u64::from_le_bytes(*length)).collect();
    let index = serde_json::from_slice(take(&mut rest, length)?);
    let index = index.map_err(|error| error.to_string())?;
    let start = bytes.len() - rest.len();
    Ok((index, Frames { lengths, bytes, start }))
}

impl Frames {
    /// Returns the bodies of the frames, in order.
    ///
    /// # Errors
    /// Returns a description if the bytes are no frames, or hold more than frames.
    pub fn read(&self) -> Result<Vec<Body>, String> {
        let mut rest = &self.bytes[self.start..];
        let body = |length: &u64| {
            let decoded = wire::decode(take(&mut rest, *length)?);
            decoded.map(|(_, body)| body).map_err(|error| error.to_string())
        };
        let bodies = self.lengths.iter().map(body).collect::<Result<_, String>>()?;
        match rest.is_empty() {
            true => Ok(bodies),
            false => Err(format!("{} bytes follow the last frame", rest.len())),
        }
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, String> {
    let bytes = take(rest, 8)?.first_chunk().ok_or("a packet is cut off")?;
    Ok(u64::from_le_bytes(*bytes))
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], String> {
    let whole = *rest;
    let split = usize::try_from(length).ok().and_then(|length| whole.split_at_checked(length));
    let (taken, left) = split.ok_or("a packet is cut off")?;
    *rest = left;
    Ok(taken)
}
