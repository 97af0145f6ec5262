//! The fixed 40 bytes at the start of every frame.

use serde::{Deserialize, Serialize};

use super::WireError;

/// Length of the header in bytes.
pub const HEADER_LENGTH: usize = 40;

/// Magic bytes `FCF` and the version of the format, 1.
const MAGIC: [u8; 4] = *b"FCF\x01";

/// Flag: the body's length exceeds u32, and the two reserved bytes hold bits 32 to 47 of it.
const LONG: u16 = 1;

/// Header of a frame: sender, receiver, and position in the run. Layout (little endian): magic and version 4, kind 2,
/// flags 2, run 8, sender 4, receiver 4, round 4, task 2, reserved 2, sequence 4, body length 4. Bodies below 4 GiB
/// have no flags and zero reserved bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameHeader {
    /// Number of the message within the method, e.g. the index of its phase.
    pub kind: u16,
    /// Seed of the run.
    pub run: u64,
    /// The sender; [`FrameHeader::SERVER`] for the server.
    pub sender: u32,
    /// The receiver; [`FrameHeader::SERVER`] for the server.
    pub receiver: u32,
    /// Round over the whole run, from 0.
    pub round: u32,
    /// Task of the stage, from 0.
    pub task: u16,
    /// Number that separates frames of one round; in a run that of the participant.
    pub sequence: u32,
}

impl FrameHeader {
    /// Address of the server, as sender or receiver.
    pub const SERVER: u32 = u32::MAX;

    /// Returns the header in front of a body of this many bytes.
    pub fn encode(&self, body: u64) -> Result<[u8; HEADER_LENGTH], WireError> {
        if body >> 48 != 0 {
            return Err(WireError::TooLarge(body));
        }
        let high = (body >> 32) as u16;
        let flags = if high == 0 { 0 } else { LONG };
        let mut bytes = [0; HEADER_LENGTH];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[6..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.run.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.sender.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.receiver.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.round.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.task.to_le_bytes());
        bytes[30..32].copy_from_slice(&high.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[36..40].copy_from_slice(&(body as u32).to_le_bytes());
        Ok(bytes)
    }

    /// Returns the header and the length of the body behind it.
    pub fn decode(bytes: &[u8]) -> Result<(FrameHeader, u64), WireError> {
        let bytes: &[u8; HEADER_LENGTH] =
            bytes.first_chunk().ok_or(WireError::Truncated("header"))?;
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from(two(at)) | u32::from(two(at + 2)) << 16;
        let eight = |at: usize| u64::from(four(at)) | u64::from(four(at + 4)) << 32;
        if bytes[..4] != MAGIC {
            return Err(WireError::Malformed("it does not begin with FCF, version 1".into()));
        }
        let (flags, high) = (two(6), two(30));
        if flags & !LONG != 0 || (flags == LONG) != (high != 0) {
            return Err(WireError::Malformed(format!("flags {flags:#x}, reserved {high:#x}")));
        }
        let header = FrameHeader {
            kind: two(4),
            run: eight(8),
            sender: four(16),
            receiver: four(20),
            round: four(24),
            task: two(28),
            sequence: four(32),
        };
        Ok((header, u64::from(four(36)) | u64::from(high) << 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind: u16, run: u64, ids: (u32, u32), round: u32, task: u16, sequence: u32,
            body in 0u64..1 << 48,
        ) {
            let (sender, receiver) = ids;
            let header = FrameHeader { kind, run, sender, receiver, round, task, sequence };
            prop_assert_eq!(FrameHeader::decode(&header.encode(body).unwrap()), Ok((header, body)));
        }
    }

    /// The format is fixed: these bytes never change.
    #[test]
    fn the_layout_is_fixed() {
        let header = FrameHeader {
            kind: 0x0102,
            run: 0x1112131415161718,
            sender: FrameHeader::SERVER,
            receiver: 7,
            round: 0x21222324,
            task: 3,
            sequence: 9,
        };
        let bytes = header.encode(0x31323334).unwrap();
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "4643460102010000181716151413121\
             1ffffffff07000000242322210300000009000000343332 31"
                .replace(' ', "")
        );
        let long = header.encode(5 << 32 | 6).unwrap();
        assert_eq!((long[6], long[30], long[36]), (1, 5, 6));
        assert_eq!(header.encode(1 << 48), Err(WireError::TooLarge(1 << 48)));
        assert!(FrameHeader::decode(&bytes[..39]).is_err());
    }
}
