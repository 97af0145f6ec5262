//! Reading of regular files up to the size that their kind can have.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;

use crate::quantity::Bytes;

/// Kind of a file, which limits its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Scenario: 16 MB.
    Scenario,
    /// CSV table of a trace or a distribution, or list of a split: 256 MB.
    Table,
    /// Text to learn from, or vocabulary of a tokenizer: 1 GB.
    Text,
    /// Image file: 256 MB.
    Image,
    /// File of a data set, packed or not: 4 GB.
    Data,
    /// Network weights: 64 GB.
    Weights,
    /// Manifest: 16 MB.
    Manifest,
    /// Checkpoint of a run: 64 GB.
    Checkpoint,
    /// Journal, which is read line by line: 16 TB.
    Journal,
}

impl FileKind {
    /// Returns the maximum size of such a file.
    pub fn limit(self) -> Bytes {
        Bytes(match self {
            FileKind::Scenario | FileKind::Manifest => 16_000_000,
            FileKind::Table | FileKind::Image => 256_000_000,
            FileKind::Text => 1_000_000_000,
            FileKind::Data => 4_000_000_000,
            FileKind::Weights | FileKind::Checkpoint => 64_000_000_000,
            FileKind::Journal => 16_000_000_000_000,
        })
    }

    fn word(self) -> &'static str {
        match self {
            FileKind::Scenario => "a scenario",
            FileKind::Table => "a table",
            FileKind::Text => "a text",
            FileKind::Image => "an image",
            FileKind::Data => "a file of a data set",
            FileKind::Weights => "a file of weights",
            FileKind::Manifest => "a manifest",
            FileKind::Checkpoint => "a checkpoint",
            FileKind::Journal => "a journal",
        }
    }
}

/// Opens a regular file that is not too large.
///
/// # Errors
/// Fails with errors of the system, for a folder, pipe, socket or device, and for a file that is too large.
pub fn open(path: &Path, kind: FileKind) -> io::Result<File> {
    // Checked before opening: opening a pipe waits for a writer, and opening a device may have effects.
    regular(&std::fs::metadata(path)?, kind)?;
    let file = File::open(path)?;
    regular(&file.metadata()?, kind)?;
    Ok(file)
}

/// Reads the bytes of a file.
///
/// # Errors
/// See [`open`].
pub fn read(path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
    let file = open(path, kind)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    let refused = |_| Error::new(ErrorKind::OutOfMemory, format!("no memory for its {size} bytes"));
    bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX)).map_err(refused)?;
    // The file may grow while it is read.
    let limit = kind.limit().0;
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large(kind)) } else { Ok(bytes) }
}

/// Fills `bytes` from position `at` of a file, independently of other readers.
///
/// # Errors
/// Fails with errors of the system, and if the file ends earlier.
pub fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, at);
    #[cfg(not(unix))]
    {
        // On other systems two readers share one position.
        static ONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
        let _one = ONE.lock();
        let mut file = file;
        io::Seek::seek(&mut file, io::SeekFrom::Start(at))?;
        file.read_exact(bytes)
    }
}

fn regular(meta: &std::fs::Metadata, kind: FileKind) -> io::Result<()> {
    if meta.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !meta.is_file() {
        let what = "it is not a regular file but a device, pipe or socket";
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    if meta.len() > kind.limit().0 { Err(too_large(kind)) } else { Ok(()) }
}

fn too_large(kind: FileKind) -> Error {
    let what = format!("it is larger than the {} that {} can have", kind.limit(), kind.word());
    Error::new(ErrorKind::FileTooLarge, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_its_limit_and_not_a_byte_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let file = File::create(&path).unwrap();
        file.set_len(FileKind::Scenario.limit().0).unwrap();
        assert_eq!(
            read(&path, FileKind::Scenario).unwrap().len() as u64,
            FileKind::Scenario.limit().0
        );
        file.set_len(FileKind::Scenario.limit().0 + 1).unwrap();
        let error = read(&path, FileKind::Scenario).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than the 16.0 MB that a scenario can have");
        assert!(open(&path, FileKind::Table).is_ok());
    }

    #[test]
    fn folders_and_missing_files_keep_their_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |path: &Path| read(path, FileKind::Table).unwrap_err().kind();
        assert_eq!(kind(folder.path()), ErrorKind::IsADirectory);
        assert_eq!(kind(&folder.path().join("none")), ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_pipes_are_never_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [Path::new("/dev/zero"), &pipe] {
            let error = read(path, FileKind::Weights).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
        }
    }
}
