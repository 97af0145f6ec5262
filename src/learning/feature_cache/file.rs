//! A store in a file: written block by block, read row by row.
//!
//! ```text
//! header   magic, format, key, extents, checksum of all that             128 bytes
//! map      per block the checksum of its values; zeros: not yet written  32 bytes each
//! values   the blocks one behind the other, f32 little endian            from the next page on
//! ```
//! A block is valid only if its values have the checksum in the map, so a process that is killed while it writes leaves
//! at most a block that is computed again. Several processes may share a file: one writes at a time (an advisory lock),
//! and equal keys mean equal values.
//!
//! A run reads a row many times, and other programs may change or truncate the file meanwhile. So a checksum of every
//! row stays in memory after its block was validated or written, and each row that is read is compared with it: a run
//! rather ends with an error than with wrong numbers.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::CacheError;
use super::blocks::Blocks;
use super::key::FORMAT;
use crate::data::DataError;
use crate::files::{Disk, is_link, read_at};

const MAGIC: &[u8; 8] = b"fedcache";
const HEADER: usize = 128;
const SUM: usize = blake3::OUT_LEN;
const PAGE: usize = 4096;

/// Name specific to this program, as the folder may hold other files.
const LOCK: &str = "fedcast-features.lock";

/// File with the values of one store.
#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    /// File to write to, by one thread at a time; the lock file excludes other processes.
    file: Mutex<File>,
    /// Separate handle to read from, as writing moves the position of the other one.
    source: File,
    /// CRC-32C of every row that was validated or written here, in file order.
    rows: Box<[AtomicU32]>,
    /// Number of values per sample.
    row: usize,
    /// Offset of the values in the file, in bytes.
    data: usize,
}

/// File that is ready for use, and the damage of the one it replaces.
pub(super) struct Opened {
    pub file: CacheFile,
    pub notice: Option<String>,
}

impl CacheFile {
    /// Opens `folder/name`, or creates it if it is missing or not intact.
    pub fn open(
        folder: &Path,
        name: &str,
        key: &blake3::Hash,
        blocks: &Blocks,
        row: usize,
    ) -> Result<Opened, CacheError> {
        std::fs::create_dir_all(folder).map_err(CacheError::io(folder, "make the folder"))?;
        let path = folder.join(name);
        let data = (HEADER + SUM * blocks.len()).next_multiple_of(PAGE);
        let length = data + 4 * row * blocks.total();
        let header = header(key, blocks, row);

        // Two processes that find no file must not both create one.
        let lock = folder.join(LOCK);
        let guard = Disk::default().lock_file(&lock);
        let guard = guard.and_then(|file| file.lock().map(|()| file));
        let _guard = guard.map_err(CacheError::io(&lock, "lock the folder"))?;
        let found = intact(&path, length, &header).map_err(CacheError::io(&path, "read it"))?;
        let notice = match found {
            CacheFileState::Intact => None,
            CacheFileState::Nothing => {
                make(&path, length, &header)?;
                None
            }
            CacheFileState::Damaged(why) => {
                make(&path, length, &header)?;
                Some(format!("feature cache {}: {why}; it is computed again", path.display()))
            }
        };
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(CacheError::io(&path, "open it"))?;
        let source = File::open(&path).map_err(CacheError::io(&path, "open it"))?;
        let rows = (0..blocks.total()).map(|_| AtomicU32::new(0)).collect();
        let file = CacheFile { path, file: Mutex::new(file), source, rows, row, data };
        Ok(Opened { file, notice })
    }

    /// Returns the state of a block: missing, intact or damaged.
    pub fn holds(&self, blocks: &Blocks, block: usize) -> BlockState {
        let range = self.range(blocks, block);
        let (mut sum, mut values) = ([0; SUM], vec![0; range.len()]);
        let read = read_at(&self.source, &mut sum, (HEADER + SUM * block) as u64)
            .and_then(|()| read_at(&self.source, &mut values, range.start as u64));
        match read {
            Ok(()) if sum == [0; SUM] => BlockState::Empty,
            Ok(()) if *blake3::hash(&values).as_bytes() == sum => {
                self.mark(blocks, block, &values);
                BlockState::Whole
            }
            // A truncated file is damaged, too.
            Ok(()) | Err(_) => BlockState::Damaged,
        }
    }

    /// Stores the checksums that the rows of a block must have whenever they are read.
    fn mark(&self, blocks: &Blocks, block: usize, values: &[u8]) {
        let marks = &self.rows[blocks.start(block)..];
        for (row, mark) in values.chunks_exact(4 * self.row).zip(marks) {
            mark.store(crc32c::crc32c(row), Ordering::Release);
        }
    }

    /// Writes a block: first its values, then the checksum that makes it valid.
    pub fn put(&self, blocks: &Blocks, block: usize, values: &[f32]) -> Result<(), CacheError> {
        let range = self.range(blocks, block);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes.len(), range.len(), "a block has its size");
        let mut file = self.file.lock();
        let mut write = || -> io::Result<()> {
            file.lock()?;
            let written = [
                (range.start, bytes.as_slice()),
                (HEADER + SUM * block, blake3::hash(&bytes).as_bytes().as_slice()),
            ]
            .into_iter()
            .try_for_each(|(at, bytes)| {
                file.seek(SeekFrom::Start(at as u64))?;
                file.write_all(bytes)
            });
            file.unlock()?;
            written
        };
        write().map_err(CacheError::io(&self.path, "write a block"))?;
        self.mark(blocks, block, &bytes);
        Ok(())
    }

    /// Appends one row of a valid block.
    ///
    /// # Errors
    /// Returns an error if another program has changed or truncated the file since.
    pub fn read(
        &self,
        blocks: &Blocks,
        block: usize,
        row: usize,
        out: &mut Vec<f32>,
    ) -> Result<(), DataError> {
        let start = self.range(blocks, block).start + 4 * self.row * row;
        let mut bytes = vec![0; 4 * self.row];
        let mark = self.rows[blocks.start(block) + row].load(Ordering::Acquire);
        let found = match read_at(&self.source, &mut bytes, start as u64) {
            Ok(()) if crc32c::crc32c(&bytes) == mark => {
                out.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
                return Ok(());
            }
            Ok(()) => "others".to_owned(),
            Err(error) => format!("none ({error})"),
        };
        Err(DataError::Corrupt {
            path: self.path.clone(),
            expected: "the features that this run found or wrote there".to_owned(),
            found,
            advice: "Another program changed the file meanwhile; `fedcast resume` goes on and computes them again"
                .to_owned(),
        })
    }

    fn range(&self, blocks: &Blocks, block: usize) -> std::ops::Range<usize> {
        let start = self.data + 4 * self.row * blocks.start(block);
        start..start + 4 * self.row * blocks.samples(block).len()
    }
}

/// State of a block in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockState {
    Empty,
    Whole,
    /// Values that do not match their checksum.
    Damaged,
}

enum CacheFileState {
    Nothing,
    Intact,
    Damaged(String),
}

fn header(key: &blake3::Hash, blocks: &Blocks, row: usize) -> [u8; HEADER] {
    let mut bytes = Vec::with_capacity(HEADER);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(key.as_bytes());
    for count in [blocks.total(), blocks.len(), row] {
        bytes.extend((count as u64).to_le_bytes());
    }
    bytes.extend(blake3::hash(&bytes).as_bytes());
    bytes.resize(HEADER, 0);
    bytes.try_into().expect("has the size of a header")
}

fn intact(path: &Path, length: usize, header: &[u8]) -> io::Result<CacheFileState> {
    use std::io::Read;
    if is_link(path) {
        return Ok(CacheFileState::Damaged("it is a link".to_owned()));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(CacheFileState::Nothing);
        }
        Err(error) => return Err(error),
    };
    let found = file.metadata()?.len();
    if found != length as u64 {
        return Ok(CacheFileState::Damaged(format!(
            "it has {found} bytes and should have {length}"
        )));
    }
    let mut bytes = [0; HEADER];
    file.read_exact(&mut bytes)?;
    Ok(match bytes == *header {
        true => CacheFileState::Intact,
        false => CacheFileState::Damaged("its header is damaged".to_owned()),
    })
}

/// Creates a new file without blocks, and moves it into place when it is complete.
fn make(path: &Path, length: usize, header: &[u8]) -> Result<(), CacheError> {
    let fresh = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = Disk::default().create(&fresh)?;
        file.write_all(header)?;
        file.set_len(length as u64)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    write().map_err(CacheError::io(path, "make it"))
}

#[cfg(test)]
mod tests;
