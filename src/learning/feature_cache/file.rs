//! A store in a file: written block by block, read through a memory map.
//!
//! ```text
//! header   magic, format, key, extents, checksum of all that             128 bytes
//! map      per block the checksum of its values; zeros: not yet written  32 bytes each
//! values   the blocks one behind the other, f32 little endian            from the next page on
//! ```
//! A block counts only when its values have the checksum of the map, so a process that is killed while
//! it writes leaves a block that is computed again, no more. Several processes may share a file: one
//! writes at a time (an advisory lock), and equal keys mean equal values.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use memmap2::Mmap;

use super::CacheError;
use super::blocks::Blocks;
use super::key::FORMAT;

const MAGIC: &[u8; 8] = b"fedcache";
const HEADER: usize = 128;
const SUM: usize = blake3::OUT_LEN;
const PAGE: usize = 4096;

/// The values of one store.
#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    /// One writer of this process; the lock on the file keeps other processes out.
    file: Mutex<File>,
    map: Mmap,
    /// Values per sample.
    row: usize,
    /// Where values begin.
    data: usize,
}

/// A file that is ready, and what was wrong with the one before it.
pub(super) struct Opened {
    pub file: CacheFile,
    pub notice: Option<String>,
}

impl CacheFile {
    /// Opens `folder/name`, or makes it where it is not there or not intact.
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

        // Two processes that find no file must not both make one.
        let lock = folder.join("lock");
        let guard = File::create(&lock).and_then(|file| file.lock().map(|()| file));
        let _guard = guard.map_err(CacheError::io(&lock, "lock the folder"))?;
        let found = intact(&path, length, &header).map_err(CacheError::io(&path, "read it"))?;
        let notice = match found {
            Found::Intact => None,
            Found::Nothing => {
                make(&path, length, &header)?;
                None
            }
            Found::Damaged(why) => {
                make(&path, length, &header)?;
                Some(format!("feature cache {}: {why}; it is computed anew", path.display()))
            }
        };
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(CacheError::io(&path, "open it"))?;
        // SAFETY: the file never shrinks while it lies under this name. This program replaces a
        // damaged file by another one instead of cutting it, and what other writers put into
        // the map is checked against the checksums before it is used.
        let map = unsafe { Mmap::map(&file) }.map_err(CacheError::io(&path, "map it"))?;
        let file = CacheFile { path, file: Mutex::new(file), map, row, data };
        Ok(Opened { file, notice })
    }

    /// Whether a block is written and intact.
    pub fn holds(&self, blocks: &Blocks, block: usize) -> Held {
        let sum = &self.map[HEADER + SUM * block..][..SUM];
        if sum.iter().all(|byte| *byte == 0) {
            return Held::Empty;
        }
        let values = &self.map[self.range(blocks, block)];
        if blake3::hash(values).as_bytes() == sum { Held::Whole } else { Held::Damaged }
    }

    /// Writes a block: first its values, then the checksum that makes it count.
    pub fn put(&self, blocks: &Blocks, block: usize, values: &[f32]) -> Result<(), CacheError> {
        let range = self.range(blocks, block);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bytes.len(), range.len(), "a block has its size");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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
        write().map_err(CacheError::io(&self.path, "write a block"))
    }

    /// Appends one row of a block.
    pub fn read(&self, blocks: &Blocks, block: usize, row: usize, out: &mut Vec<f32>) {
        let start = self.range(blocks, block).start + 4 * self.row * row;
        let bytes = &self.map[start..start + 4 * self.row];
        out.extend(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }

    fn range(&self, blocks: &Blocks, block: usize) -> std::ops::Range<usize> {
        let start = self.data + 4 * self.row * blocks.start(block);
        start..start + 4 * self.row * blocks.samples(block).len()
    }
}

/// The state of a block in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Empty,
    Whole,
    /// Its values are not what the checksum says.
    Damaged,
}

enum Found {
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

fn intact(path: &Path, length: usize, header: &[u8]) -> io::Result<Found> {
    use std::io::Read;
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?.len();
    if found != length as u64 {
        return Ok(Found::Damaged(format!("it has {found} bytes and should have {length}")));
    }
    let mut bytes = [0; HEADER];
    file.read_exact(&mut bytes)?;
    Ok(match bytes == *header {
        true => Found::Intact,
        false => Found::Damaged("its header is damaged".to_owned()),
    })
}

/// A new file with no block, put in place as a whole.
fn make(path: &Path, length: usize, header: &[u8]) -> Result<(), CacheError> {
    let fresh = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&fresh)?;
        file.write_all(header)?;
        file.set_len(length as u64)?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    write().map_err(CacheError::io(path, "make it"))
}

#[cfg(test)]
mod tests;
