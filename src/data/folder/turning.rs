//! Turning of images upright, by the orientation that a camera recorded.

use image::metadata::Orientation as Turn;
use image::{ImageDecoder, ImageResult};

use super::Orientation;
use super::whole::png_chunks;

/// Returns the turn that makes an image upright.
pub(super) fn turn(
    orientation: Orientation,
    decoder: &mut impl ImageDecoder,
    bytes: &[u8],
) -> ImageResult<Turn> {
    let exif = match orientation {
        Orientation::Ignored => None,
        Orientation::Exif => decoder.exif_metadata()?.or_else(|| late_chunk(bytes)),
    };
    // Some writers put the `Exif` prefix of JPEG files in front of the data.
    let exif = exif.as_deref().map(|exif| exif.strip_prefix(b"Exif\0\0").unwrap_or(exif));
    Ok(exif.and_then(Turn::from_exif_chunk).unwrap_or(Turn::NoTransforms))
}

/// Returns rows and columns after turning.
pub(super) fn turned(turn: Turn, (height, width): (usize, usize)) -> (usize, usize) {
    match turn {
        Turn::Rotate90 | Turn::Rotate270 | Turn::Rotate90FlipH | Turn::Rotate270FlipH => {
            (width, height)
        }
        Turn::NoTransforms | Turn::Rotate180 | Turn::FlipHorizontal | Turn::FlipVertical => {
            (height, width)
        }
    }
}

/// Returns the EXIF data behind the pixels of a PNG file, where the decoder does not look.
fn late_chunk(bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.starts_with(b"\x89PNG") {
        return None;
    }
    png_chunks(bytes).find(|(name, _)| name == b"eXIf").map(|(_, content)| content.to_vec())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::ImageFormat;

    use crate::data::folder::{Orientation, StoredForm, StoredSize, decode, store};
    use crate::data::store::Encoded;

    /// EXIF data that say nothing but an orientation.
    fn exif(orientation: u8) -> Vec<u8> {
        let entry = [0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0];
        [b"II*\0\x08\0\0\0\x01\0".as_slice(), &entry, &[0; 4]].concat()
    }

    /// Returns a PNG file of one row, black, red and white, with EXIF data before or behind its pixels.
    fn png(orientation: u8, late: bool) -> Vec<u8> {
        let row = [[0, 0, 0], [255, 0, 0], [255, 255, 255]];
        let picture = image::RgbImage::from_fn(3, 1, |x, _| image::Rgb(row[x as usize]));
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let bytes = bytes.into_inner();
        let named = [b"eXIf".as_slice(), &exif(orientation)].concat();
        let mut sum = flate2::Crc::new();
        sum.update(&named);
        let length = (named.len() as u32 - 4).to_be_bytes();
        let chunk = [length.as_slice(), &named, &sum.sum().to_be_bytes()].concat();
        // Behind the signature and the head, or before the last chunk.
        let place = if late { bytes.len() - 12 } else { 8 + 25 };
        [&bytes[..place], chunk.as_slice(), &bytes[place..]].concat()
    }

    fn packed(bytes: Vec<u8>) -> Encoded {
        let table = std::path::Path::new("a.parquet").into();
        Encoded::Packed { bytes: bytes.into(), table, row: 0 }
    }

    fn form(orientation: Orientation) -> StoredForm {
        StoredForm { size: StoredSize::Original, orientation }
    }

    #[test]
    fn all_eight_orientations_are_as_exif_defines_them() {
        // Two rows of three: a b c, d e f.
        let picture =
            image::GrayImage::from_fn(3, 2, |x, y| image::Luma([(40 * (3 * y + x)) as u8]));
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::WebP).unwrap();
        let plain = bytes.into_inner();
        let seen = [
            "abc/def", "cba/fed", "fed/cba", "def/abc", "ad/be/cf", "da/eb/fc", "fc/eb/da",
            "cf/be/ad",
        ];
        for (orientation, expected) in (1..).zip(seen) {
            for name in [b"".as_slice(), b"Exif\0\0"] {
                let image = packed(extended(&plain, &[name, &exif(orientation)].concat()));
                let image = decode(&image, form(Orientation::Exif)).unwrap();
                let letter = |value: &u8| char::from(b'a' + value / 40);
                let rows = image.pixels[..6].chunks(image.width);
                let rows: Vec<String> = rows.map(|row| row.iter().map(letter).collect()).collect();
                assert_eq!(rows.join("/"), expected, "orientation {orientation}");
            }
        }
    }

    /// Returns a lossless WebP file of 3 x 2 pixels with EXIF data.
    fn extended(plain: &[u8], exif: &[u8]) -> Vec<u8> {
        let chunk = |name: &[u8], content: &[u8]| {
            let pad = vec![0; content.len() % 2];
            [name, &(content.len() as u32).to_le_bytes(), content, &pad].concat()
        };
        let head = chunk(b"VP8X", &[0x08, 0, 0, 0, 2, 0, 0, 1, 0, 0]);
        let body = [b"WEBP".as_slice(), &head, &plain[12..], &chunk(b"EXIF", exif)].concat();
        chunk(b"RIFF", &body)
    }

    #[test]
    fn an_image_is_turned_where_it_is_asked_for_only() {
        for late in [false, true] {
            let image = packed(png(6, late));
            let ignored = decode(&image, form(Orientation::Ignored)).unwrap();
            assert_eq!((ignored.height, ignored.width), (1, 3));
            let turned = decode(&image, form(Orientation::Exif)).unwrap();
            assert_eq!((turned.height, turned.width), (3, 1), "late: {late}");
            assert_eq!(turned.pixels[3..6], [0, 0, 255], "green of black, red, white");
            // Kept in memory they have the same shape and pixels.
            let kept = store(vec![image], form(Orientation::Exif), 1 << 20).unwrap();
            let kept = kept.image(0).unwrap();
            assert_eq!((kept.height, kept.width, &kept.pixels), (3, 1, &turned.pixels));
        }
    }

    #[test]
    fn digests_of_files_distinguish_orientations() {
        let digest = |orientation| {
            let mut hasher = blake3::Hasher::new();
            let store = store(vec![packed(png(6, false))], form(orientation), 0).unwrap();
            store.digest_into(&mut hasher).unwrap();
            hasher.finalize()
        };
        assert_ne!(digest(Orientation::Exif), digest(Orientation::Ignored));
    }
}
