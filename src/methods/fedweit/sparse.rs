//! Sparse messages: units with small masks and small adaptive values are left out.

use crate::wire::WireError;

/// Returns true for every unit that is sent.
///
/// A unit is sent if the absolute value of its mask exceeds the entry at `floor(dropped n)` of the `n` sorted absolute
/// values; the unit at the limit and its equals are left out. Masks are logits: a unit that is certainly masked out is
/// sent like one that is certainly not.
pub(super) fn sent_units(mask: &[f32], dropped: f64) -> Vec<bool> {
    let mut sizes: Vec<f32> = mask.iter().map(|value| value.abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let Some(limit) = sizes.get(dropped_units(mask.len(), dropped)).copied() else {
        return vec![false; mask.len()];
    };
    mask.iter().map(|value| value.abs() > limit).collect()
}

/// Returns the index of the limit among the sorted absolute values.
fn dropped_units(units: usize, dropped: f64) -> usize {
    (units as f64 * dropped).floor() as usize
}

/// Returns the largest number of units that are sent, which is the number if all masks differ.
pub(super) fn most_sent(units: usize, dropped: f64) -> usize {
    units.saturating_sub(dropped_units(units, dropped) + 1)
}

/// Returns the values whose absolute value exceeds a limit, and zeros in place of the others.
pub(super) fn thresholded(values: &[f32], limit: f64) -> Vec<f32> {
    let keep = |value: &f32| if f64::from(value.abs()) > limit { *value } else { 0.0 };
    values.iter().map(keep).collect()
}

/// Returns bits packed into bytes, the first in the lowest bit.
pub(super) fn bytes_of(bits: impl IntoIterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, bit) in bits.into_iter().enumerate() {
        if at.is_multiple_of(8) {
            bytes.push(0);
        }
        if let (true, Some(last)) = (bit, bytes.last_mut()) {
            *last |= 1 << (at % 8);
        }
    }
    bytes
}

/// Returns the first `count` bits of packed bytes.
///
/// # Errors
/// When the number of bytes is not that of `count` bits.
pub(super) fn bits_of(bytes: &[u8], count: usize) -> Result<Vec<bool>, WireError> {
    if bytes.len() != count.div_ceil(8) {
        let bytes = bytes.len();
        return Err(WireError::Malformed(format!("{bytes} bytes for {count} bits")));
    }
    Ok((0..count).map(|at| bytes[at / 8] & (1 << (at % 8)) != 0).collect())
}

/// Returns the values at the positions of set bits, and zeros elsewhere.
///
/// # Errors
/// When there are not as many values as set bits.
pub(super) fn spread(bits: &[bool], values: &[f32]) -> Result<Vec<f32>, WireError> {
    let set = bits.iter().filter(|bit| **bit).count();
    if set != values.len() {
        let values = values.len();
        return Err(WireError::Malformed(format!("{values} numbers for {set} places")));
    }
    let mut values = values.iter().copied();
    Ok(bits.iter().map(|bit| if *bit { values.next().unwrap_or(0.0) } else { 0.0 }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_at_the_limit_is_dropped_too() {
        let mask = [0.5, -4.0, 0.1, 2.0, -0.2, 3.0, 1.0];
        // floor(0.3 * 7) = 2, so the limit is 0.5.
        let sent = sent_units(&mask, 0.3);
        assert_eq!(sent, [false, true, false, true, false, true, true]);
        // Card, invariant 5.
        for units in [1usize, 2, 5, 10, 11, 64] {
            let mask: Vec<f32> = (0..units).map(|at| (at as f32 + 0.5) * 0.1).collect();
            let sent = sent_units(&mask, 0.3).into_iter().filter(|sent| *sent).count();
            let dropped = (units as f64 * 0.3).floor() as usize;
            assert_eq!((sent, most_sent(units, 0.3)), (units - dropped - 1, sent));
        }
        assert_eq!(sent_units(&[1.0, 1.0, -1.0], 0.3), [false; 3], "equals are left out");
        assert!(sent_units(&[], 0.3).is_empty());
    }

    #[test]
    fn numbers_come_back_to_their_places() {
        let values = [0.0f32, 2.0, -0.05, 0.0, -3.0, 0.0, 0.051, 0.0, 0.0, 7.0];
        let kept = thresholded(&values, f64::from(0.05f32));
        assert_eq!(kept, [0.0, 2.0, 0.0, 0.0, -3.0, 0.0, 0.051, 0.0, 0.0, 7.0]);
        let bytes = bytes_of(kept.iter().map(|value| *value != 0.0));
        assert_eq!(bytes, [0b0101_0010, 0b10]);
        let bits = bits_of(&bytes, kept.len()).unwrap();
        let sent: Vec<f32> = kept.iter().copied().filter(|value| *value != 0.0).collect();
        assert_eq!(spread(&bits, &sent).unwrap(), kept);
        assert!(bits_of(&bytes, 17).is_err() && spread(&bits, &sent[1..]).is_err());
    }
}
