//! File format: frames with masked checksums around small protobuf messages.
//!
//! A frame is the length of its data (u64), the masked CRC-32C of those eight bytes, the data, and the masked CRC-32C
//! of the data, all little-endian. The data is an `Event`: `wall_time` (field 1, double), `step` (2, int64), and either
//! `file_version` (3, string) or `summary` (5), a list (1) of values with `tag` (1, string) and `simple_value` (2,
//! float).

/// Number with a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    pub tag: String,
    pub value: f32,
}

/// Returns the first frame of a file.
pub(super) fn version() -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, 0.0);
    bytes(&mut event, 3, b"brain.Event:2");
    frame(&event)
}

/// Returns a frame with scalars of one step.
pub(super) fn scalars(wall_time: f64, step: u64, values: &[Scalar]) -> Vec<u8> {
    let mut summary = Vec::new();
    for Scalar { tag, value } in values {
        let mut message = Vec::new();
        bytes(&mut message, 1, tag.as_bytes());
        key(&mut message, 2, 5);
        message.extend(value.to_le_bytes());
        bytes(&mut summary, 1, &message);
    }
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    key(&mut event, 2, 0);
    varint(&mut event, step);
    bytes(&mut event, 5, &summary);
    frame(&event)
}

fn frame(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut frame = Vec::with_capacity(data.len() + 16);
    frame.extend(length);
    frame.extend(masked(&length).to_le_bytes());
    frame.extend(data);
    frame.extend(masked(data).to_le_bytes());
    frame
}

/// Returns the masked checksum, which may be part of checked data.
fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(out, field << 3 | wire_type);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    key(out, field, 1);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(out, field, 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

/// Appends a varint: seven bits per byte, the lowest first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first record of every event file that TensorFlow writes, but for its time: known bytes.
    #[test]
    fn the_first_frame_has_the_checksums_of_the_format() {
        let frame = version();
        assert_eq!(frame[..8], 24_u64.to_le_bytes());
        // The length 24 has the same checksum in every file.
        assert_eq!(frame[8..12], [0xa3, 0x7f, 0x4b, 0x22]);
        assert_eq!(&frame[12..21], [9, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&frame[21..36], b"\x1a\x0dbrain.Event:2");
        assert_eq!(frame.len(), 8 + 4 + 24 + 4);
    }

    #[test]
    fn long_numbers_take_several_bytes() {
        for (value, expected) in [(0, vec![0]), (127, vec![127]), (300, vec![0xac, 2])] {
            let mut out = Vec::new();
            varint(&mut out, value);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_scalar_is_a_value_with_a_tag_at_a_step() {
        let frame = scalars(1.5, 300, &[Scalar { tag: "a/b".into(), value: 0.25 }]);
        let event = [
            &[9][..],
            &1.5f64.to_le_bytes(),
            &[16, 0xac, 2, 42, 12, 10, 10, 10, 3],
            b"a/b",
            &[21],
            &0.25f32.to_le_bytes(),
        ]
        .concat();
        assert_eq!(&frame[12..frame.len() - 4], event);
    }
}
