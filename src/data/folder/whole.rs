//! Wholeness of image files.
//!
//! Decoders of images fill in what a cut file lacks: the rest of a JPEG becomes gray, and a progressive one is merely
//! coarser. Training on such pixels would go unnoticed, so a file must reach the end marker of its format. Bytes behind
//! the marker are allowed.

/// Returns true if an image file reaches its end marker. Formats without one are left to their decoders.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    match bytes {
        [0xFF, 0xD8, ..] => is_whole_jpeg(bytes),
        [0x89, b'P', b'N', b'G', ..] => png_chunks(bytes).any(|(name, _)| name == *b"IEND"),
        [b'R', b'I', b'F', b'F', size @ ..] => is_whole_riff(size),
        _ => true,
    }
}

/// Returns true if the JPEG's markers lead to its end marker.
///
/// Segments give their length; within a scan, a marker is a byte pair that image data cannot contain.
fn is_whole_jpeg(bytes: &[u8]) -> bool {
    const END: u8 = 0xD9;
    let mut at = 2;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(skipped) = rest.iter().position(|byte| *byte == 0xFF) else { return false };
        match rest[skipped + 1..] {
            [END, ..] => return true,
            // A marker may be preceded by fill bytes `FF`.
            [0xFF, ..] => at += skipped + 1,
            // Stuffed bytes, restart markers and others without a segment.
            [0x00 | 0x01 | 0xD0..=0xD8, ..] => at += skipped + 2,
            [_, high, low, ..] => at += skipped + 2 + usize::from(u16::from_be_bytes([high, low])),
            [_] | [_, _] | [] => return false,
        }
    }
}

/// Returns true if a RIFF container is as long as its header says.
fn is_whole_riff(rest: &[u8]) -> bool {
    let size = rest.first_chunk().map(|size| u32::from_le_bytes(*size));
    // The size does not count itself.
    size.is_some_and(|size| rest.len() - 4 >= size as usize)
}

/// Returns the names and contents of the whole chunks of a PNG file.
pub(super) fn png_chunks(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let (name, behind) = behind.split_first_chunk()?;
        let (content, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        // A checksum ends every chunk.
        let (_, behind) = behind.split_first_chunk::<4>()?;
        rest = behind;
        Some((*name, content))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::ImageFormat;

    use super::*;
    use crate::data::folder::tests::PROGRESSIVE;

    fn encoded(format: ImageFormat) -> Vec<u8> {
        let picture = image::RgbImage::from_fn(48, 40, |x, y| {
            image::Rgb([(x * 37 + y * 11) as u8, (x * y) as u8, (x * 5) as u8 ^ (y * 13) as u8])
        });
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn every_cut_of_a_marked_format_is_noticed() {
        for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP] {
            let bytes = encoded(format);
            assert!(is_whole(&bytes), "{format:?}");
            assert!(is_whole(&[&bytes, b"and more".as_slice()].concat()), "{format:?}");
            let noticed = |end: usize| !is_whole(&bytes[..end]);
            assert!((12..bytes.len()).all(noticed), "{format:?}");
        }
        assert!(is_whole(PROGRESSIVE));
        assert!((2..PROGRESSIVE.len()).all(|end| !is_whole(&PROGRESSIVE[..end])));
    }

    #[test]
    fn a_preview_inside_does_not_end_a_jpeg() {
        let bytes = encoded(ImageFormat::Jpeg);
        let preview = [b"\xFF\xE1\x00\x08Ex".as_slice(), b"\xFF\xD9..", &bytes[2..]].concat();
        let bytes = [&bytes[..2], preview.as_slice()].concat();
        assert!(is_whole(&bytes));
        assert!(!is_whole(&bytes[..bytes.len() - 2]));
    }
}
