//! IDX, the files of MNIST, Fashion-MNIST, KMNIST and EMNIST, as they are downloaded or unpacked.
//!
//! A file of images is `00 00 08 03`, then their number, rows and columns as big-endian words of four bytes, then a
//! byte per pixel; one of labels is `00 00 08 01`, their number, a byte each. Images are 28 by 28. Those of EMNIST lie
//! on their side, as published; nothing is turned. Source: <http://yann.lecun.com/exdb/mnist/> and Cohen et al.,
//! "EMNIST", 2017.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::labels::Labels;
use super::parts::{DatasetParts, Part};
use super::store::Store;
use super::{Cause, DataError, Dataset};
use crate::files::{self, FileKind};

/// Image height and width in pixels.
const SIDE: usize = 28;

/// First words (magic numbers) of `idx3` and `idx1` files.
const IMAGES: u32 = 0x0000_0803;
const LABELS: u32 = 0x0000_0801;

/// Prefixes of the files of the test part.
const TEST: [&str; 2] = ["t10k-", "test-"];
const TRAIN: [&str; 1] = ["train-"];

/// Reads the four files of a folder, or of the folders `MNIST/raw` and `raw` below it. Of a folder with several sets,
/// such as all of EMNIST, `path` names the training images of one.
///
/// # Errors
/// Returns an error if files are missing, belong to several sets, are cut short, or have another shape than they state.
pub fn open(path: &Path) -> Result<Dataset, DataError> {
    if let (true, Some(folder), Some(name)) = (path.is_file(), path.parent(), path.file_name()) {
        let name = name.to_string_lossy();
        let set = name.find("train-images").filter(|_| name.contains("ubyte"));
        let set = set.map(|end| &name[..end]).ok_or_else(|| {
            DataError::unfit(
                format!("{} is no file of training images by its name", path.display()),
                "name that one in data.path (train-images-idx3-ubyte.gz), or the folder",
            )
        })?;
        return open_set(folder, Some(set), name.trim_end_matches(".gz").to_owned());
    }
    let folder = ["raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw", "EMNIST/raw"]
        .iter()
        .map(|inner| path.join(inner))
        .find(|inner| inner.is_dir())
        .unwrap_or_else(|| path.to_owned());
    let name = path.file_name().map_or("idx".into(), |name| name.to_string_lossy().into_owned());
    open_set(&folder, None, name)
}

/// Opens the files of a set in a folder, or of the only set there if `set` is `None`. The name of a set is the part of
/// file names before `train-`, and may be empty.
fn open_set(folder: &Path, set: Option<&str>, name: String) -> Result<Dataset, DataError> {
    let names = listed(folder)?;
    let part = |part: &[&str]| {
        let images_file = the_one(folder, (&names, set), part, "images")?;
        let labels_file = the_one(folder, (&names, set), part, "labels")?;
        let (count, images) = body(&images_file, IMAGES)?;
        let (said, labels) = body(&labels_file, LABELS)?;
        if said != count {
            let found = format!("{said} labels for {count} images");
            return Err(DataError::corrupt(&labels_file, "a label for every image", found));
        }
        let labels = Labels::of_numbers(labels.into_iter().map(i64::from));
        let samples = Store::Buffer { bytes: images, shape: [1, SIDE, SIDE] };
        Ok(Part::of_file(images_file, labels, samples))
    };
    let (train, test) = (part(&TRAIN)?, part(&TEST)?);
    let notes = Vec::new();
    DatasetParts { name, train, test: Some(test), notes }.into_dataset(None)
}

/// Returns the names of the files in a folder, sorted.
fn listed(folder: &Path) -> Result<Vec<String>, DataError> {
    let failed = |e| DataError::io(folder, "a folder with the four IDX files of a data set", e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the file of a part; an unpacked file is preferred to a packed one.
fn the_one(
    folder: &Path,
    (names, set): (&[String], Option<&str>),
    part: &[&str],
    what: &str,
) -> Result<PathBuf, DataError> {
    let plain = |name: &str| name.strip_suffix(".gz").unwrap_or(name).to_owned();
    let fits = |name: &&String| {
        let stem = plain(name);
        let is_of = |part: &&str| match set {
            Some(set) => stem.starts_with(&format!("{set}{part}{what}")),
            None => stem.contains(&format!("{part}{what}")),
        };
        part.iter().any(is_of) && stem.contains("ubyte")
    };
    let found: Vec<&String> = names.iter().filter(fits).collect();
    let Some(first) = found.first() else {
        return Err(DataError::Missing {
            path: folder.join(format!("{}{}{what}-idx?-ubyte", set.unwrap_or(""), part[0])),
            expected: "the IDX files of a data set, such as train-images-idx3-ubyte.gz, \
                       train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz"
                .to_owned(),
            advice: "Put all four into the folder that data.path names".to_owned(),
        });
    };
    if let Some(other) = found.iter().find(|name| plain(name) != plain(first)) {
        return Err(DataError::unfit(
            format!("{} has the files of several data sets: {first}, {other}", folder.display()),
            format!(
                "name the training images of one: data.path = \"{}\"",
                folder.join(first).display()
            ),
        ));
    }
    Ok(folder.join(first))
}

/// Returns the number of samples of a file, and their bytes.
fn body(file: &Path, magic: u32) -> Result<(usize, Vec<u8>), DataError> {
    let bytes = unpacked(file)?;
    let word = |at: usize| {
        let word = bytes.get(4 * at..4 * at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_be_bytes).ok_or_else(|| {
            DataError::corrupt(file, "an IDX file", format!("{} bytes", bytes.len()))
        })
    };
    if word(0)? != magic {
        let (found, expected) = (word(0)?, format!("an IDX file that begins with {magic:08x}"));
        return Err(match found >> 16 {
            // An array of another type or with other dimensions.
            0 => DataError::because(Cause::OtherContent, file, expected, format!("{found:08x}")),
            _ => DataError::corrupt(file, expected, format!("{found:08x}")),
        });
    }
    let count = word(1)? as usize;
    let (head, size) = match magic {
        IMAGES => {
            let (rows, columns) = (word(2)? as usize, word(3)? as usize);
            if (rows, columns) != (SIDE, SIDE) {
                return Err(DataError::Corrupt {
                    path: file.to_owned(),
                    expected: format!("images of {SIDE}x{SIDE} pixels"),
                    found: format!("{rows}x{columns}"),
                    advice: "Write other sizes as image files (source = \"folder\") or as rows (source = \"table\")"
                        .to_owned(),
                });
            }
            (16, SIDE * SIDE)
        }
        _ => (8, 1),
    };
    if (bytes.len() - head) as u64 != count as u64 * size as u64 {
        let expected = format!("{count} samples of {size} bytes behind {head} bytes");
        return Err(DataError::corrupt(file, expected, format!("{} bytes", bytes.len())));
    }
    Ok((count, bytes[head..].to_vec()))
}

/// Returns the bytes of a file, decompressed if it is gzipped.
fn unpacked(file: &Path) -> Result<Vec<u8>, DataError> {
    let bytes =
        files::read(file, FileKind::Data).map_err(|e| DataError::io(file, "an IDX file", e))?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let (limit, mut all) = (FileKind::Data.limit().0, Vec::new());
    let read = flate2::read::GzDecoder::new(&*bytes).take(limit + 1).read_to_end(&mut all);
    read.map_err(|error| DataError::corrupt(file, "a whole gzip file", error.to_string()))?;
    match all.len() as u64 > limit {
        true => Err(DataError::corrupt(file, format!("at most {limit} bytes"), "more")),
        false => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn idx(magic: u32, extents: &[u32], body: &[u8]) -> Vec<u8> {
        let words = [&[magic], extents].concat();
        words.iter().flat_map(|word| word.to_be_bytes()).chain(body.iter().copied()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    /// Image `i` is all `i`; labels 5 and 7, in turn.
    fn files(count: u8) -> [Vec<u8>; 2] {
        let pixels: Vec<u8> = (0..count).flat_map(|i| [i; SIDE * SIDE]).collect();
        let labels: Vec<u8> = (0..count).map(|i| 7 - 2 * (i % 2)).collect();
        let count = u32::from(count);
        [idx(IMAGES, &[count, 28, 28], &pixels), idx(LABELS, &[count], &labels)]
    }

    fn sample() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write =
            |name: &str, bytes: &[u8]| std::fs::write(root.path().join(name), bytes).unwrap();
        let ([images, labels], [tests, tested]) = (files(5), files(2));
        write("train-images-idx3-ubyte.gz", &gzip(&images));
        write("train-labels-idx1-ubyte.gz", &gzip(&labels));
        write("t10k-images-idx3-ubyte", &tests);
        write("t10k-labels-idx1-ubyte", &tested);
        root
    }

    #[test]
    fn packed_and_plain_files_are_one_data_set() {
        let root = sample();
        let data = open(root.path()).unwrap();
        assert_eq!(data.class_names, ["5", "7"]);
        assert_eq!((data.train.labels(), data.test.labels()), (&[1, 0, 1, 0, 1][..], &[1, 0][..]));
        let image = data.train.image(3).unwrap();
        assert_eq!((image.channels, image.height, image.width), (1, 28, 28));
        assert_eq!(image.pixels[..], [3; SIDE * SIDE]);
        // As torchvision unpacks them next to each other: the same set.
        std::fs::write(root.path().join("train-labels-idx1-ubyte"), &files(5)[1]).unwrap();
        assert_eq!(open(root.path()).unwrap().train.len(), 5);
    }

    #[test]
    fn the_names_of_emnist_are_known_and_several_sets_are_not_mixed() {
        let root = sample();
        for (old, part) in [("train", "train"), ("t10k", "test")] {
            for (what, kind) in [("images", "idx3"), ("labels", "idx1")] {
                let ending = if part == "train" { ".gz" } else { "" };
                let name = |set: &str, part| {
                    root.path().join(format!("{set}{part}-{what}-{kind}-ubyte{ending}"))
                };
                std::fs::rename(name("", old), name("emnist-digits-", part)).unwrap();
            }
        }
        assert_eq!(open(root.path()).unwrap().test.len(), 2);
        std::fs::write(root.path().join("emnist-letters-train-images-idx3-ubyte"), "").unwrap();
        let error = open(root.path()).unwrap_err().to_string();
        assert!(
            error.contains("several data sets: emnist-digits") && error.contains("emnist-letters"),
            "{error}"
        );
    }

    #[test]
    fn a_file_names_its_set_and_no_other() {
        let root = sample();
        for (name, _) in [("train-images-idx3-ubyte.gz", 5), ("t10k-labels-idx1-ubyte", 2)] {
            let other = root.path().join(format!("emnist-{name}"));
            std::fs::copy(root.path().join(name), other).unwrap();
        }
        assert!(open(root.path()).unwrap_err().to_string().contains("several data sets"));
        // The set without a name, regardless of other files there.
        let named = root.path().join("train-images-idx3-ubyte.gz");
        assert_eq!(open(&named).unwrap().train.len(), 5);
        let error = open(&root.path().join("emnist-train-images-idx3-ubyte.gz")).unwrap_err();
        assert!(error.to_string().contains("emnist-train-labels-idx?-ubyte: not found"), "{error}");
        for other in ["t10k-images-idx3-ubyte", "train-labels-idx1-ubyte.gz"] {
            let error = open(&root.path().join(other)).unwrap_err().to_string();
            assert!(error.contains("no file of training images"), "{error}");
        }
    }

    #[test]
    fn what_is_damaged_is_named() {
        let broken = |name: &str, bytes: Vec<u8>| {
            let root = sample();
            std::fs::write(root.path().join(name), bytes).unwrap();
            open(root.path()).unwrap_err().to_string()
        };
        let [images, labels] = files(2);
        let cut = broken("t10k-images-idx3-ubyte", images[..1_000].to_vec());
        assert!(cut.contains("2 samples of 784 bytes behind 16 bytes, found 1000 bytes"), "{cut}");
        let less = broken("t10k-labels-idx1-ubyte", idx(LABELS, &[1], &[7]));
        assert!(less.contains("1 labels for 2 images"), "{less}");
        let swapped = broken("t10k-images-idx3-ubyte", labels);
        assert!(swapped.contains("begins with 00000803, found 00000801"), "{swapped}");
        let wide = broken("t10k-images-idx3-ubyte", idx(IMAGES, &[1, 32, 32], &[0; 1_024]));
        assert!(wide.contains("28x28 pixels, found 32x32"), "{wide}");
        let short = broken("t10k-images-idx3-ubyte", vec![0, 0]);
        assert!(short.contains("an IDX file, found 2 bytes"), "{short}");
        let packed = gzip(&files(5)[0]);
        let half = broken("train-images-idx3-ubyte.gz", packed[..packed.len() / 2].to_vec());
        assert!(half.contains("a whole gzip file"), "{half}");
        let strange = broken("t10k-labels-idx1-ubyte", idx(LABELS, &[2], &[7, 4]));
        assert!(strange.contains("found `4` of sample 1"), "{strange}");
        let root = sample();
        std::fs::remove_file(root.path().join("t10k-labels-idx1-ubyte")).unwrap();
        let missing = open(root.path()).unwrap_err().to_string();
        assert!(missing.contains("t10k-labels-idx?-ubyte: not found"), "{missing}");
    }
}
