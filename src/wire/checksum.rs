//! Checksum over whole frames.
//!
//! A receiver compares it to detect damage in transit; it is not among the frame's bytes.

/// Returns the first eight bytes of the BLAKE3 hash of a frame.
///
/// ```
/// use fedcast::wire::checksum;
/// assert_ne!(checksum(&[0, 1]), checksum(&[0, 3]));
/// ```
pub fn checksum(frame: &[u8]) -> u64 {
    let hash = blake3::hash(frame);
    let (first, _) = hash.as_bytes().split_at(8);
    first.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
