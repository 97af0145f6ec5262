//! Images in an array with their channels on the second or the last axis.

use super::{Array, ArrayError};

/// Pixels of several images, concatenated, each in channel, row, column order.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data) enum ImageValues {
    /// Values from 0 to 255.
    Bytes(Vec<u8>),
    /// Values as in the array.
    Floats(Vec<f32>),
}

impl ImageValues {
    /// Returns the number of values of all images together.
    pub fn len(&self) -> usize {
        match self {
            ImageValues::Bytes(bytes) => bytes.len(),
            ImageValues::Floats(values) => values.len(),
        }
    }

    /// Appends more images; `None` if one holds bytes and the other floats.
    pub fn join(self, more: ImageValues) -> Option<ImageValues> {
        match (self, more) {
            (ImageValues::Bytes(mut bytes), ImageValues::Bytes(more)) => {
                bytes.extend(more);
                Some(ImageValues::Bytes(bytes))
            }
            (ImageValues::Floats(mut values), ImageValues::Floats(more)) => {
                values.extend(more);
                Some(ImageValues::Floats(values))
            }
            _ => None,
        }
    }
}

/// Axes of an image in the array; gray images may lack a channel axis.
#[derive(Clone, Copy, Debug)]
struct ImageAxes {
    channel: Option<usize>,
    row: usize,
    column: usize,
}

/// `(images, height, width)`.
const GRAY: ImageAxes = ImageAxes { channel: None, row: 1, column: 2 };
/// `(images, channels, height, width)`, as networks read them.
const CHANNELS_FIRST: ImageAxes = ImageAxes { channel: Some(1), row: 2, column: 3 };
/// `(images, height, width, channels)`, as image files are decoded.
const CHANNELS_LAST: ImageAxes = ImageAxes { channel: Some(3), row: 1, column: 2 };

impl ImageAxes {
    fn fits(self, found: &[usize], [channels, height, width]: [usize; 3]) -> bool {
        let channels_fit = self.channel.map_or(channels == 1, |axis| found[axis] == channels);
        channels_fit && found[self.row] == height && found[self.column] == width
    }
}

impl Array {
    /// Returns the array as images of `[channels, height, width]`. If the shape fits both orders of axes, bytes are
    /// taken as channels last and floats as channels first.
    ///
    /// # Errors
    /// Returns an error if the shape does not fit, or if values are neither unsigned bytes nor floats, or are not
    /// finite.
    pub fn images(&self, shape: [usize; 3]) -> Result<ImageValues, ArrayError> {
        match (self.kind, self.size) {
            (b'u', 1) => Ok(ImageValues::Bytes(self.gathered(shape, |place| self.values[place])?)),
            (b'f', _) => {
                let values = self.gathered(shape, |place| self.number(place) as f32)?;
                let image = shape.iter().product::<usize>().max(1);
                match values.iter().position(|value| !value.is_finite()) {
                    None => Ok(ImageValues::Floats(values)),
                    Some(at) => {
                        Err(ArrayError::Infinite { value: f64::from(values[at]), row: at / image })
                    }
                }
            }
            (kind, size) => Err(ArrayError::ImageKind(format!("{}{}", char::from(kind), 8 * size))),
        }
    }

    /// Returns the values in channel, row, column order; `value` reads the one at an index of the array.
    fn gathered<T>(
        &self,
        shape: [usize; 3],
        value: impl Fn(usize) -> T,
    ) -> Result<Vec<T>, ArrayError> {
        let axes = self.axes(shape)?;
        let strides = self.strides();
        let [channels, height, width] = shape;
        let of_channel = axes.channel.map_or(0, |axis| strides[axis]);
        let mut values = Vec::with_capacity(self.shape[0] * channels * height * width);
        for image in 0..self.shape[0] {
            for channel in 0..channels {
                for row in 0..height {
                    let line = image * strides[0] + channel * of_channel + row * strides[axes.row];
                    let places = (0..width).map(|column| line + column * strides[axes.column]);
                    values.extend(places.map(&value));
                }
            }
        }
        Ok(values)
    }

    fn axes(&self, shape: [usize; 3]) -> Result<ImageAxes, ArrayError> {
        let candidates: &[ImageAxes] = match (self.shape.len(), self.kind) {
            (3, _) => &[GRAY],
            (4, b'u') => &[CHANNELS_LAST, CHANNELS_FIRST],
            (4, _) => &[CHANNELS_FIRST, CHANNELS_LAST],
            _ => &[],
        };
        let fitting = candidates.iter().find(|axes| axes.fits(&self.shape, shape));
        fitting.copied().ok_or_else(|| {
            // Images have few channels and many pixels, so the likely one has the smallest channel axis.
            let likely = candidates
                .iter()
                .min_by_key(|axes| axes.channel.map_or(1, |axis| self.shape[axis]))
                .map(|axes| {
                    let channels = axes.channel.map_or(1, |axis| self.shape[axis]);
                    [channels, self.shape[axes.row], self.shape[axes.column]]
                });
            ArrayError::ImageShape { found: self.shape.clone(), expected: shape, likely }
        })
    }

    /// Returns the stride of each axis, in values.
    fn strides(&self) -> Vec<usize> {
        let count = self.shape.len();
        let mut strides = vec![1; count];
        for at in 1..count {
            match self.by_column {
                true => strides[at] = strides[at - 1] * self.shape[at - 1],
                false => strides[count - 1 - at] = strides[count - at] * self.shape[count - at],
            }
        }
        strides
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::numpy::tests::{floats, npy};

    fn images(bytes: &[u8], shape: [usize; 3]) -> Result<ImageValues, ArrayError> {
        Array::read(bytes, 1 << 20)?.images(shape)
    }

    /// Two images of two channels, one row and three columns, channels first.
    const VALUES: [u8; 12] = [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112];

    #[test]
    fn channels_may_be_the_second_or_the_last_axis() {
        let expected = ImageValues::Bytes(VALUES.to_vec());
        let last = [0, 10, 1, 11, 2, 12, 100, 110, 101, 111, 102, 112];
        assert_eq!(images(&npy("|u1", false, "2, 1, 3, 2", &last), [2, 1, 3]).unwrap(), expected);
        let first = npy("|u1", false, "2, 2, 1, 3", &VALUES);
        assert_eq!(images(&first, [2, 1, 3]).unwrap(), expected);
        // The first axis varies fastest.
        let turned = [0, 100, 10, 110, 1, 101, 11, 111, 2, 102, 12, 112];
        assert_eq!(images(&npy("|u1", true, "2, 2, 1, 3", &turned), [2, 1, 3]).unwrap(), expected);
        let gray = npy("|u1", false, "4, 1, 3", &VALUES);
        assert_eq!(images(&gray, [1, 1, 3]).unwrap(), expected);
    }

    #[test]
    fn where_both_orders_fit_bytes_have_channels_last() {
        let cube: Vec<u8> = (0..8).collect();
        let bytes = images(&npy("|u1", false, "1, 2, 2, 2", &cube), [2, 2, 2]).unwrap();
        assert_eq!(bytes, ImageValues::Bytes(vec![0, 2, 4, 6, 1, 3, 5, 7]));
        let values: Vec<f32> = cube.iter().map(|value| f32::from(*value) - 0.5).collect();
        let read = images(&npy("<f4", false, "1, 2, 2, 2", &floats(&values)), [2, 2, 2]).unwrap();
        assert_eq!(read, ImageValues::Floats(values));
    }

    #[test]
    fn other_shapes_and_kinds_are_refused_with_advice() {
        let of = |bytes: &[u8]| {
            let error = images(bytes, [3, 2, 2]).unwrap_err();
            (error.to_string(), error.advice())
        };
        let (said, advice) = of(&npy("|u1", false, "1, 2, 4, 1", &[0; 8]));
        assert_eq!(said, "images of shape [1, 2, 4, 1] instead of [3, 2, 2] each");
        assert!(advice.starts_with("Set data.shape = [1, 2, 4]"), "{advice}");
        let (_, advice) = of(&npy("<f4", false, "1, 1, 2, 4", &[0; 32]));
        assert!(advice.starts_with("Set data.shape = [1, 2, 4]"), "{advice}");
        let (_, advice) = of(&npy("|u1", false, "2, 4", &[0; 8]));
        assert!(advice.contains("(images, height, width)"), "{advice}");
        let (said, advice) = of(&npy("<i4", false, "1, 2, 2, 3", &[0; 48]));
        assert_eq!(said, "images of the kind i32");
        assert!(advice.contains("uint8"), "{advice}");
        let mut values = [0.0; 24];
        values[13] = f32::INFINITY;
        let (said, _) = of(&npy("<f4", false, "2, 3, 2, 2", &floats(&values)));
        assert_eq!(said, "inf in row 1");
    }
}
