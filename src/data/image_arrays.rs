//! Images in NumPy arrays: bytes from 0 to 255, or floats that networks read as they are.
//!
//! A part is a `.npz` or a folder of `.npy` with an array of images and one of labels, found like those of a
//! [`table`](super::table); one `.npz` may have both parts (`train_images`, `test_images`). Images are `(images,
//! height, width)`, `(images, channels, height, width)` or `(images, height, width, channels)`. Transforms apply to
//! floats, too, but do not divide them by 255; borders are filled with zeros.

use std::path::{Path, PathBuf};

use super::numpy::{ImageValues, NamedArrays, broken};
use super::part_files::{FileForms, PartFiles, PartPlaces, has_ending};
use super::parts::{DatasetParts, Part, PartFile};
use super::store::Store;
use super::{Cause, DataError, Dataset, TestFraction};

/// Options for reading images from arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageArrays {
    /// `[channels, height, width]` of every image.
    pub shape: [usize; 3],
    /// Name of the array of images.
    pub input: String,
    /// Name of the array of labels.
    pub label: String,
    /// Name of the array of owners.
    pub client: Option<String>,
}

/// File forms that hold arrays.
const FORMS: FileForms = FileForms {
    endings: &["npz"],
    arrays: true,
    expected: "the training part as train.npz, numbered ones such as train-00000-of-00002.npz, or arrays (.npy) in a \
               folder train",
};

/// Reads a file or a folder of arrays.
///
/// # Errors
/// Returns an error if files or arrays are missing, images have another shape or values that are no pixels, or labels
/// do not fit together.
///
/// ```
/// use fedcast::data::image_arrays::{ImageArrays, open};
/// # let root = tempfile::tempdir()?;
/// // Two gray images of one row and two columns, as numpy.save writes them, and their labels.
/// let npy = |descr: &str, shape: &str, values: &[u8]| {
///     let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}\n");
///     [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), values].concat()
/// };
/// for part in ["train", "test"] {
///     std::fs::create_dir(root.path().join(part))?;
///     let file = |name: &str| root.path().join(part).join(name);
///     std::fs::write(file("image.npy"), npy("|u1", "2, 1, 2", &[0, 255, 128, 1]))?;
///     std::fs::write(file("label.npy"), npy("|u1", "2,", &[1, 0]))?;
/// }
/// let (input, label) = ("image".to_owned(), "label".to_owned());
/// let data = open(root.path(), &ImageArrays { shape: [1, 1, 2], input, label, client: None }, None)?;
/// assert_eq!(data.train.image(1)?.pixels[..], [128, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(
    path: &Path,
    options: &ImageArrays,
    share: Option<TestFraction>,
) -> Result<Dataset, DataError> {
    let name = path.file_stem().map_or("arrays".into(), |name| name.to_string_lossy().into_owned());
    // The test part needs no owners.
    let tested = ImageArrays { client: None, ..options.clone() };
    let (train, test, notes) = match PartPlaces::at(path, &options.input, FORMS)? {
        PartPlaces::Packed { train, test } => {
            let part = |of, options| part([(path.to_owned(), of)], options);
            (part(train, options)?, Some(part(test, &tested)?), Vec::new())
        }
        PartPlaces::Files(PartFiles { train, test, notes }) => {
            let part = |files: Vec<PathBuf>, options| {
                let arrays = files.into_iter().map(|file| Ok((file.clone(), arrays_at(&file)?)));
                part(arrays.collect::<Result<Vec<_>, DataError>>()?, options)
            };
            (part(train, options)?, test.map(|test| part(test, &tested)).transpose()?, notes)
        }
    };
    DatasetParts { name, train, test, notes }.into_dataset(share)
}

fn arrays_at(file: &Path) -> Result<NamedArrays, DataError> {
    match () {
        () if file.is_dir() => Ok(NamedArrays::folder(file)),
        () if has_ending(file, "npz") => Ok(NamedArrays::packed(file)),
        () => Err(DataError::unfit(
            format!("{}: no file of NumPy's arrays by its name", file.display()),
            "give a .npz, or a folder with an array of images and one of labels (.npy)",
        )),
    }
}

/// Reads the files of a part and puts their images one behind the other.
fn part(
    arrays: impl IntoIterator<Item = (PathBuf, NamedArrays)>,
    options: &ImageArrays,
) -> Result<Part, DataError> {
    let (shape, mut files, mut joined) = (options.shape, Vec::new(), None);
    for (place, arrays) in arrays {
        let owners = options.client.as_deref().map(|client| arrays.labels(client)).transpose()?;
        let labels = arrays.labels(&options.label)?;
        let images = arrays.array(&options.input)?.images(shape);
        let images = images.map_err(|error| broken(&arrays.place(&options.input), &error))?;
        let count = images.len() / shape.iter().product::<usize>().max(1);
        for of_each in [Some(&labels), owners.as_ref()].into_iter().flatten() {
            if of_each.len() != count {
                let found = format!("{count} images and {}", of_each.len());
                let expected = "a label and an owner for every image";
                return Err(DataError::because(Cause::OtherContent, &place, expected, found));
            }
        }
        joined = Some(match joined {
            None => images,
            Some(before) => ImageValues::join(before, images).ok_or_else(|| {
                let found = "floats in one file and bytes in another";
                DataError::because(Cause::OtherContent, &place, "images of one kind", found)
            })?,
        });
        files.push(PartFile { place, labels, owners, columns: None });
    }
    let samples = match joined {
        Some(ImageValues::Floats(values)) => Store::Floats { values, shape },
        Some(ImageValues::Bytes(bytes)) => Store::Buffer { bytes, shape },
        None => Store::Buffer { bytes: Vec::new(), shape },
    };
    Ok(Part { files, samples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::numpy::tests::{floats, npy};
    use crate::data::{Kernel, Normalization, Step, Transform};

    fn options(shape: [usize; 3], client: Option<&str>) -> ImageArrays {
        let client = client.map(str::to_owned);
        ImageArrays { shape, input: "image".into(), label: "label".into(), client }
    }

    fn write(root: &Path, name: &str, bytes: &[u8]) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn opened(root: &Path, options: &ImageArrays) -> Result<Dataset, String> {
        open(root, options, None).map_err(|error| error.to_string())
    }

    /// Two gray images of two rows and two columns as floats, one in the test part.
    fn float_images(root: &Path) {
        let train = [0.5, -1.0, 2.0, 0.0, 3.0, 3.0, 3.0, 1.0];
        write(root, "train/image.npy", &npy("<f4", false, "2, 1, 2, 2", &floats(&train)));
        write(root, "train/label.npy", &npy("|u1", false, "2,", &[4, 7]));
        write(root, "train/site.npy", &npy("|u1", false, "2,", &[9, 3]));
        let test = floats(&[-8.0, 1.0, 1.0, 1.0]);
        write(root, "test/image.npy", &npy("<f4", false, "1, 1, 2, 2", &test));
        write(root, "test/label.npy", &npy("|u1", false, "1,", &[7]));
    }

    #[test]
    fn floats_pass_the_transform_unscaled() {
        let root = tempfile::tempdir().unwrap();
        float_images(root.path());
        let data = opened(root.path(), &options([1, 2, 2], Some("site"))).unwrap();
        assert_eq!((data.train.labels(), data.test.labels()), (&[0, 1][..], &[1][..]));
        assert_eq!(data.train.owners().unwrap(), [1, 0]);
        assert_eq!(data.train.image_shape(), Some([1, 2, 2]));
        assert_eq!((data.train.sample_bytes().unwrap(), data.train.has_pixels()), (16, true));
        let normalization = Normalization::Explicit { mean: vec![1.0], deviation: vec![2.0] };
        let steps = vec![Step::Flip { probability: 1.0 }];
        let mirrored = Transform { steps, normalization, channels: Some(3) };
        let stacked = data.train.pixels(&mirrored, &[1, 0]).unwrap();
        assert_eq!(stacked.shape, [2, 3, 2, 2]);
        assert_eq!(stacked.pixels[..4], [1.0, 1.0, 0.0, 1.0]);
        assert_eq!(stacked.pixels[12..16], [-1.0, -0.25, -0.5, 0.5]);
        let steps = vec![Step::Resize { side: 1, kernel: Kernel::Bilinear }];
        let shrunk = Transform { steps, ..Transform::default() };
        assert_eq!(data.test.pixels(&shrunk, &[0]).unwrap().pixels, [-1.25]);
        let prepared = data.train.prepared(&shrunk).unwrap();
        assert_eq!(prepared.image(1), data.train.pixels(&shrunk, &[1]).unwrap().pixels);
    }

    #[test]
    fn chosen_floats_are_those_of_their_samples() {
        let root = tempfile::tempdir().unwrap();
        float_images(root.path());
        let of = |data: &Dataset| data.train.digest().unwrap();
        let data = opened(root.path(), &options([1, 2, 2], None)).unwrap();
        let kept = data.train.first_of_each_class(1).unwrap();
        assert_eq!(kept.float_image(1).unwrap().pixels[..], [3.0, 3.0, 3.0, 1.0]);
        let part = data.train.part(vec![1]).unwrap();
        assert_eq!(part.float_image(0).unwrap().pixels[0], 3.0);
        let unread = data.train.image(0).unwrap_err().to_string();
        assert!(unread.contains("images of floats have no bytes"), "{unread}");
        let changed = [0.5, -1.0, 2.0, 0.0, 3.0, 3.0, 3.0, 1.5];
        write(root.path(), "train/image.npy", &npy("<f4", false, "2, 1, 2, 2", &floats(&changed)));
        assert_ne!(of(&data), of(&opened(root.path(), &options([1, 2, 2], None)).unwrap()));
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_their_place() {
        let root = tempfile::tempdir().unwrap();
        float_images(root.path());
        let options = options([1, 2, 2], None);
        write(root.path(), "train/label.npy", &npy("|u1", false, "3,", &[4, 7, 7]));
        let error = opened(root.path(), &options).unwrap_err();
        assert!(error.contains("train") && error.contains("2 images and 3"), "{error}");
        write(root.path(), "train/image.npy", &npy("|u1", false, "3, 2, 2", &[0; 12]));
        assert_eq!(opened(root.path(), &options).unwrap().train.image(2).unwrap().height, 2);
        let wide = ImageArrays { shape: [1, 2, 3], ..options.clone() };
        let error = opened(root.path(), &wide).unwrap_err();
        assert!(
            error.contains("train/image") && error.contains("data.shape = [1, 2, 2]"),
            "{error}"
        );
        let one = root.path().join("train/image.npy");
        let error = opened(&one, &options).unwrap_err();
        assert!(error.contains("no file of NumPy's arrays by its name"), "{error}");
    }

    #[test]
    fn floats_and_bytes_are_not_joined() {
        let (bytes, values) = (ImageValues::Bytes(vec![1]), ImageValues::Floats(vec![2.0]));
        assert_eq!(ImageValues::join(bytes.clone(), values.clone()), None);
        let joined = ImageValues::join(bytes.clone(), ImageValues::Bytes(vec![2]));
        assert_eq!(joined, Some(ImageValues::Bytes(vec![1, 2])));
        let joined = ImageValues::join(values.clone(), ImageValues::Floats(vec![0.5]));
        assert_eq!(joined, Some(ImageValues::Floats(vec![2.0, 0.5])));
    }
}
