//! File system of a run: every operation that changes a file passes here and is counted.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handle::DiskFile;

/// Suffix of the name of a file that is not complete.
pub const PART: &str = ".part";

/// File system as a run sees it. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Number of operations left to this process, for tests.
    left: Option<Arc<AtomicU64>>,
}

/// Effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationEffect {
    Whole,
    /// A write stops halfway; other operations have no effect.
    Half,
    /// The operation has no effect.
    Never,
}

impl Disk {
    /// Returns the disk of a process that is killed during its operation `count`, from 0.
    ///
    /// That operation writes half of its bytes, and later ones have no effect.
    pub fn dying_after(count: u64) -> Disk {
        Disk { left: Some(Arc::new(AtomicU64::new(count + 1))) }
    }

    pub(super) fn fate(&self) -> OperationEffect {
        let Some(left) = &self.left else { return OperationEffect::Whole };
        // Counts down to zero and stays there.
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match before {
            Ok(2..) => OperationEffect::Whole,
            Ok(_) => OperationEffect::Half,
            Err(_) => OperationEffect::Never,
        }
    }

    pub(super) fn step(&self) -> io::Result<()> {
        match self.fate() {
            OperationEffect::Whole => Ok(()),
            OperationEffect::Half | OperationEffect::Never => Err(gone()),
        }
    }

    /// Creates a folder and its parents.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.step()?;
        fs::create_dir_all(path).map_err(|error| match error.kind() {
            // A file of this name; "File exists" would sound as if it were in the way of a file.
            io::ErrorKind::AlreadyExists => io::ErrorKind::NotADirectory.into(),
            _ => error,
        })
    }

    /// Creates an empty file, replacing any file of this name; a link is replaced, not followed.
    pub fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.remove(path)?;
        self.step()?;
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(DiskFile::new(self.clone(), file))
    }

    /// Opens a file for appending.
    ///
    /// # Errors
    /// Fails with errors of the system, and if the path is a link.
    pub fn append(&self, path: &Path) -> io::Result<DiskFile> {
        check_no_link(path)?;
        self.step()?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(DiskFile::new(self.clone(), file))
    }

    /// Opens a file that serves as a lock; its content stays.
    ///
    /// # Errors
    /// Fails with errors of the system, and if the path is a link.
    pub fn lock_file(&self, path: &Path) -> io::Result<File> {
        check_no_link(path)?;
        self.step()?;
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    }

    /// Replaces a file atomically: readers see the old content or the new, also after a power failure.
    pub fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() {
            self.create_folder(folder)?;
        }
        let part_path = part(path);
        let mut file = self.create(&part_path)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| {
            self.step()?;
            fs::rename(&part_path, path)
        });
        if let Err(error) = placed {
            let _ = self.remove(&part_path);
            return Err(error);
        }
        self.sync_folder(folder)
    }

    /// Removes a file if it exists.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        if fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(());
        }
        self.step()?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Flushes the names of files to disk, if the system can.
    pub fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        #[cfg(unix)]
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some file systems do not support this.
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
            synced => synced?,
        }
        let _ = folder;
        Ok(())
    }
}

/// Returns true if a process holds a lock on this file now; false if it does not exist.
///
/// The check takes no lock and needs no write permission.
pub fn is_locked(path: &Path) -> bool {
    let lock = File::open(path);
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns true if the path is a link.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

fn check_no_link(path: &Path) -> io::Result<()> {
    match is_link(path) {
        true => Err(Error::new(ErrorKind::AlreadyExists, "there is a link in its place")),
        false => Ok(()),
    }
}

/// Returns the name of a file that is not complete.
fn part(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(PART);
    path.with_file_name(name)
}

pub(super) fn gone() -> Error {
    Error::other("this process is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_no_half_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/summary.json");
        let disk = Disk::default();
        disk.replace(&path, b"one").unwrap();
        disk.replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn whenever_it_dies_a_replaced_file_is_the_old_or_the_new_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let mut after = Vec::new();
        for count in 0..20 {
            Disk::default().replace(&path, b"old").unwrap();
            let done = Disk::dying_after(count).replace(&path, b"new").is_ok();
            let found = fs::read_to_string(&path).unwrap();
            assert!(found == "new" || !done, "{count}: {found}");
            after.push(found);
        }
        let news = after.iter().position(|text| text == "new").unwrap();
        assert!(news > 3 && after[..news].iter().all(|text| text == "old"), "{after:?}");
        assert!(after[news..].iter().all(|text| text == "new"), "{after:?}");
    }

    #[test]
    fn the_operation_in_which_it_dies_comes_half_through_and_none_after_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let mut file = Disk::dying_after(1).create(&path).unwrap();
        assert!(file.write_all(b"abcd").is_err());
        assert!(file.write_all(b"efgh").is_err() && file.sync_all().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"ab");
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let (victim, link) = (root.path().join("victim"), root.path().join("a"));
        fs::write(&victim, "precious").unwrap();
        let disk = Disk::default();
        for name in ["a", "a.part"] {
            let _ = fs::remove_file(root.path().join(name));
            std::os::unix::fs::symlink(&victim, root.path().join(name)).unwrap();
        }
        assert!(disk.append(&link).is_err() && disk.lock_file(&link).is_err());
        disk.replace(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&link).unwrap(), "new");
        std::os::unix::fs::symlink(&victim, root.path().join("b")).unwrap();
        disk.create(&root.path().join("b")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_lock_keeps_what_it_holds() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        fs::write(&path, "precious").unwrap();
        Disk::default().lock_file(&path).unwrap().lock().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
