//! Images in memory.

use std::borrow::Cow;

/// One image: bytes in channel, row, column order.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// `channels * height * width` bytes.
    pub pixels: Cow<'a, [u8]>,
}
