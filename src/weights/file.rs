//! Open file of weights, with its tensors by name regardless of the container.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};

use super::format::Magic;
use super::numpy::NumpyFile;
use super::safetensors_file::{self, SafetensorsFile};
use super::shards::{self, Shards};
use super::torch::TorchFile;
use super::{FileTensor, Format, Line, Listing, WeightsError, part};
use crate::files::{self, FileKind};

/// Number of first bytes that identify the format of a file.
const HEAD: u64 = 4_096;

/// Open file of weights whose index has been read.
pub struct WeightsFile<'a> {
    /// Name of the file in errors.
    origin: String,
    listing: Listing,
    container: Container<'a>,
    /// Prefix of its tensors' names including the dot, if they are one of several sets.
    below: String,
}

/// Sets of weights in a file, by the keys that lead to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Key of the set that is read; `None` if its tensors are outermost.
    pub read: Option<String>,
    /// Keys of the sets that are not read.
    pub others: Vec<String>,
}

enum Container<'a> {
    Safetensors(SafetensorsFile<'a>),
    Torch(TorchFile),
    Numpy(NumpyFile),
    Several(Shards),
}

impl WeightsFile<'static> {
    /// Opens a file and reads its index.
    ///
    /// # Errors
    /// Returns a [`WeightsError`] if the file cannot be read, is damaged or is of another kind.
    pub fn open(path: &Path) -> Result<WeightsFile<'static>, WeightsError> {
        WeightsFile::called(path, &path.display().to_string(), None)
    }

    /// Returns the listing of a file, or of a part of it, without reading tensors; errors name it `origin`.
    ///
    /// # Errors
    /// Fails as [`WeightsFile::open`] does, and if the part does not exist.
    pub fn index(path: &Path, origin: &str, part: Option<&str>) -> Result<Listing, WeightsError> {
        match (open_start(path, origin)?, part) {
            ((_, Magic::Several, _), part) => {
                part::below(origin, shards::listing(path, origin)?, part)
                    .map(|(listing, _)| listing)
            }
            ((file, Magic::Zip, length), part) => {
                Ok(zipped(origin, path, file, length, part)?.of_part(part)?.listing)
            }
            ((_, Magic::Other, _), part) => {
                let listing = WeightsFile::index_of_single(path, origin)?;
                part::below(origin, listing, part).map(|(listing, _)| listing)
            }
        }
    }

    /// Returns the sets of a file, and which of them is read, without reading tensors.
    ///
    /// # Errors
    /// Fails as [`WeightsFile::index`] does.
    pub fn sets(path: &Path, origin: &str, part: Option<&str>) -> Result<Sets, WeightsError> {
        let (file, Magic::Zip, length) = open_start(path, origin)? else {
            return Ok(Sets { read: part.map(str::to_owned), others: Vec::new() });
        };
        let file = zipped(origin, path, file, length, part)?.of_part(part)?;
        let own = file.below.strip_suffix('.').or(file.part());
        Ok(Sets { read: own.map(str::to_owned), others: file.others() })
    }

    /// Returns the listing of a file that is not an index of other files.
    pub(super) fn index_of_single(path: &Path, origin: &str) -> Result<Listing, WeightsError> {
        match open_start(path, origin)? {
            (_, Magic::Several, _) => Err(nested(origin)),
            (file, Magic::Zip, length) => Ok(zipped(origin, path, file, length, None)?.listing),
            (file, Magic::Other, length) => safetensors_file::index(origin, &file, length),
        }
    }

    /// Opens a file, or one part of it, that errors name `origin`.
    ///
    /// Parts are for example `state_dict_ema` or `teacher`.
    ///
    /// # Errors
    /// Fails as [`WeightsFile::open`] does, and if the part does not exist.
    pub fn called(
        path: &Path,
        origin: &str,
        part: Option<&str>,
    ) -> Result<WeightsFile<'static>, WeightsError> {
        let file = match open_start(path, origin)? {
            (_, Magic::Several, _) => {
                let (listing, shards) = Shards::open(path, origin)?;
                WeightsFile::of(origin, listing, Container::Several(shards))
            }
            (file, Magic::Zip, length) => zipped(origin, path, file, length, part)?,
            (_, Magic::Other, _) => WeightsFile::single(path, origin)?,
        };
        file.of_part(part)
    }

    /// Opens a file that is not an index of other files.
    pub(super) fn single(path: &Path, origin: &str) -> Result<WeightsFile<'static>, WeightsError> {
        match open_start(path, origin)? {
            (_, Magic::Several, _) => Err(nested(origin)),
            (file, Magic::Zip, length) => zipped(origin, path, file, length, None),
            (_, Magic::Other, _) => {
                let bytes = files::read(path, FileKind::Weights);
                let bytes = bytes.map_err(|source| unreadable(origin, source))?;
                WeightsFile::from_bytes(origin, Cow::Owned(bytes))
            }
        }
    }
}

impl<'a> WeightsFile<'a> {
    /// Opens the bytes of a safetensors file that comes from `origin`.
    ///
    /// # Errors
    /// Fails as [`WeightsFile::open`] does.
    pub fn from_bytes(origin: &str, bytes: Cow<'a, [u8]>) -> Result<WeightsFile<'a>, WeightsError> {
        Format::of(origin, bytes.get(..HEAD as usize).unwrap_or(&bytes), bytes.len() as u64)?;
        let (listing, file) = SafetensorsFile::open(origin, bytes)?;
        Ok(WeightsFile::of(origin, listing, Container::Safetensors(file)))
    }

    fn of(origin: &str, listing: Listing, container: Container<'a>) -> WeightsFile<'a> {
        WeightsFile { origin: origin.to_owned(), listing, container, below: String::new() }
    }

    /// Returns the file with the tensors below `part` in their names, unless the container has that key.
    fn of_part(self, part: Option<&str>) -> Result<WeightsFile<'a>, WeightsError> {
        let part = part.filter(|part| self.part() != Some(part));
        let WeightsFile { origin, listing, container, .. } = self;
        let (listing, below) = match (part, &container) {
            (Some(asked), Container::Torch(file)) => {
                let keys: Vec<&str> = file
                    .part()
                    .into_iter()
                    .chain(file.others().iter().map(String::as_str))
                    .collect();
                part::below_or(&origin, listing, asked, &keys)?
            }
            _ => part::below(&origin, listing, part)?,
        };
        Ok(WeightsFile { origin, listing, container, below })
    }

    /// Returns the container.
    pub fn format(&self) -> Format {
        match &self.container {
            Container::Safetensors(_) => Format::Safetensors,
            Container::Torch(_) => Format::Torch,
            Container::Numpy(_) => Format::Numpy,
            Container::Several(_) => Format::Several,
        }
    }

    /// Returns the keys of its tensors within a larger file, such as `state_dict` or `teacher`.
    pub fn part(&self) -> Option<&str> {
        match &self.container {
            Container::Torch(file) => file.part(),
            _ => None,
        }
    }

    /// Returns the keys of other sets of tensors in a larger file.
    pub fn others(&self) -> Vec<String> {
        match &self.container {
            Container::Torch(file) => file.others().to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns all tensors without their values.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Returns the name that errors use.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Reads a tensor with its values.
    ///
    /// # Errors
    /// Returns an error if bytes are missing, the type is no weight, or a value is NaN or infinite.
    pub fn read(&mut self, name: &str) -> Result<FileTensor, WeightsError> {
        let name = &format!("{}{name}", self.below);
        match &mut self.container {
            Container::Safetensors(file) => file.read(&self.origin, name),
            Container::Torch(file) => file.read(&self.origin, name),
            Container::Numpy(file) => file.read(&self.origin, name),
            Container::Several(files) => files.read(name),
        }
    }

    /// Reads the tensors that a line of a [`NameMap`](super::NameMap) names, as one of our tensors.
    ///
    /// # Errors
    /// Fails as [`WeightsFile::read`] does.
    pub fn made(&mut self, line: &Line) -> Result<FileTensor, WeightsError> {
        let parts = line.from.iter().map(|name| self.read(name)).collect::<Result<Vec<_>, _>>()?;
        let made = line.layout.apply(&parts, line.shape.clone());
        match &line.scale {
            None => Ok(made),
            Some(name) => Ok(made.with_rows_scaled(&self.read(name)?)),
        }
    }
}

/// Opens a file and detects its format from its first bytes.
fn open_start(path: &Path, origin: &str) -> Result<(File, Magic, u64), WeightsError> {
    let read = || -> std::io::Result<(File, Vec<u8>, u64)> {
        let mut file = files::open(path, FileKind::Weights)?;
        let length = file.metadata()?.len();
        let mut head = Vec::new();
        (&mut file).take(HEAD).read_to_end(&mut head)?;
        file.seek(SeekFrom::Start(0))?;
        Ok((file, head, length))
    };
    let (file, head, length) = read().map_err(|source| unreadable(origin, source))?;
    Ok((file, Format::of(origin, &head, length)?, length))
}

/// Returns the error for an index that names another index, or itself.
fn nested(origin: &str) -> WeightsError {
    WeightsError::malformed(origin, "file of weights", "an index names it, and it is one itself")
}

fn unreadable(origin: &str, source: std::io::Error) -> WeightsError {
    WeightsError::Unreadable { file: origin.to_owned(), source }
}

fn zipped(
    origin: &str,
    path: &Path,
    file: File,
    length: u64,
    part: Option<&str>,
) -> Result<WeightsFile<'static>, WeightsError> {
    let archive = zip::ZipArchive::new(std::io::BufReader::new(file)).map_err(|error| {
        WeightsError::malformed(origin, "PyTorch or NumPy file (a zip archive)", error.to_string())
    })?;
    let names: Vec<String> =
        archive.file_names().filter_map(|name| name.ok().map(Cow::into_owned)).collect();
    let (listing, container) = if names.iter().any(|name| name.ends_with("data.pkl")) {
        let (listing, file) = TorchFile::open(origin, archive, &names, part)?;
        (listing, Container::Torch(file))
    } else if names.iter().any(|name| name.ends_with(".npy")) {
        let (listing, file) = NumpyFile::open(origin, path, length)?;
        (listing, Container::Numpy(file))
    } else {
        let (file, what) = (origin.to_owned(), "is a zip archive without tensors".to_owned());
        let advice =
            "unpack it; a file of weights ends with safetensors, pth, bin or npz".to_owned();
        return Err(WeightsError::Foreign { file, what, advice });
    };
    Ok(WeightsFile::of(origin, listing, container))
}

/// Returns the row-major little-endian values of a type as f32, all of them finite.
pub(super) fn widened(
    file: &str,
    name: &str,
    kind: &str,
    shape: &[usize],
    data: &[u8],
) -> Result<FileTensor, WeightsError> {
    let values: Arc<[f32]> = match kind {
        "F32" => collect(data, f32::from_le_bytes),
        "F64" => collect(data, |b| f64::from_le_bytes(b) as f32),
        "F16" => collect(data, |b| f16::from_le_bytes(b).to_f32()),
        "BF16" => collect(data, |b| bf16::from_le_bytes(b).to_f32()),
        // Counters, such as the number of batches of a batch norm.
        "I64" if shape.is_empty() => collect(data, |b| i64::from_le_bytes(b) as f32),
        other => {
            let (file, name, kind) = (file.to_owned(), name.to_owned(), other.to_owned());
            return Err(WeightsError::Type { file, name, kind });
        }
    };
    finite(file, name, FileTensor { shape: shape.to_vec(), values })
}

/// Returns the values if all of them are finite.
pub(super) fn finite(
    file: &str,
    name: &str,
    tensor: FileTensor,
) -> Result<FileTensor, WeightsError> {
    match tensor.values.iter().position(|value| !value.is_finite()) {
        None => Ok(tensor),
        Some(index) => Err(WeightsError::NotFinite {
            file: file.to_owned(),
            name: name.to_owned(),
            index,
            value: tensor.values[index],
        }),
    }
}

fn collect<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Arc<[f32]> {
    data.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_widened() {
        let read = |kind: &str, bytes: &[u8]| widened("f", "norm.bias", kind, &[1], bytes).unwrap();
        assert_eq!(&*read("BF16", &bf16::from_f32(1.5).to_le_bytes()).values, [1.5]);
        assert_eq!(&*read("F16", &f16::from_f32(-0.25).to_le_bytes()).values, [-0.25]);
    }

    #[test]
    fn a_counter_is_read_and_other_integers_are_refused() {
        let bytes = [7i64.to_le_bytes(), 8i64.to_le_bytes()].concat();
        let counter = widened("f", "bn1.num_batches_tracked", "I64", &[], &bytes[..8]).unwrap();
        assert_eq!((&*counter.values, counter.shape.len()), (&[7.0f32][..], 0));
        assert!(matches!(widened("f", "x", "I64", &[2], &bytes), Err(WeightsError::Type { .. })));
    }

    #[test]
    fn other_zip_archives_and_truncated_ones_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pth");
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        archive.start_file("readme.txt", zip::write::SimpleFileOptions::default()).unwrap();
        let bytes = archive.finish().unwrap().into_inner();
        let refusal = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            WeightsFile::open(&path).err().unwrap().to_string()
        };
        assert!(refusal(&bytes).contains("zip archive without tensors"));
        assert!(refusal(&bytes[..bytes.len() - 9]).contains("not an intact PyTorch or NumPy file"));
    }
}
