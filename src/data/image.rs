//! Images in memory.

use std::borrow::Cow;

/// One image: bytes, or floats, in channel, row, column order.
#[derive(Clone, Debug)]
pub struct Image<'a, P: Clone = u8> {
    /// 1 (gray) or 3 (red, green, blue).
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// `channels * height * width` values.
    pub pixels: Cow<'a, [P]>,
}
