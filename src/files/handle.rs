//! Open file of a [`Disk`](super::Disk).

use std::fs::File;
use std::io::{self, Write};

use super::disk::{Disk, OperationEffect, gone};

/// File open for writing.
#[derive(Debug)]
pub struct DiskFile {
    disk: Disk,
    file: File,
}

impl DiskFile {
    pub(super) fn new(disk: Disk, file: File) -> DiskFile {
        DiskFile { disk, file }
    }

    /// Sets the length of the file.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.step()?;
        self.file.set_len(length)
    }

    /// Flushes the content to disk.
    pub fn sync_data(&self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync_data()
    }

    /// Flushes the content and the metadata to disk.
    pub fn sync_all(&self) -> io::Result<()> {
        self.disk.step()?;
        self.file.sync_all()
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.disk.fate() {
            OperationEffect::Whole => self.file.write(bytes),
            OperationEffect::Half => {
                self.file.write_all(&bytes[..bytes.len() / 2])?;
                Err(gone())
            }
            OperationEffect::Never => Err(gone()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
