//! Where a run writes: every operation that changes a file passes here and is counted.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handle::DiskFile;

/// What the name of a file ends with until it is whole.
pub const PART: &str = ".part";

/// The file system as a run sees it. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// For tests: how many operations are left to this process.
    left: Option<Arc<AtomicU64>>,
}

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Whole,
    /// A write comes half through; anything else does not happen.
    Half,
    /// It does not happen.
    Never,
}

impl Disk {
    /// The disk of a process that is killed in the middle of its operation `count`, from 0: that
    /// one writes a half, and those after it never happen.
    pub fn dying_after(count: u64) -> Disk {
        Disk { left: Some(Arc::new(AtomicU64::new(count + 1))) }
    }

    pub(super) fn fate(&self) -> Fate {
        let Some(left) = &self.left else { return Fate::Whole };
        // Counts down and stays at zero.
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match before {
            Ok(2..) => Fate::Whole,
            Ok(_) => Fate::Half,
            Err(_) => Fate::Never,
        }
    }

    pub(super) fn step(&self) -> io::Result<()> {
        match self.fate() {
            Fate::Whole => Ok(()),
            Fate::Half | Fate::Never => Err(gone()),
        }
    }

    /// Makes a folder and those around it.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.step()?;
        fs::create_dir_all(path)
    }

    /// A new empty file in place of whatever has this name; a link is replaced, not followed.
    pub fn create(&self, path: &Path) -> io::Result<DiskFile> {
        self.remove(path)?;
        self.step()?;
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(DiskFile::new(self.clone(), file))
    }

    /// A file to write behind what it holds.
    ///
    /// # Errors
    /// A link in its place, beside what the system says.
    pub fn append(&self, path: &Path) -> io::Result<DiskFile> {
        no_link(path)?;
        self.step()?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(DiskFile::new(self.clone(), file))
    }

    /// A file that is only there to be locked. What it holds stays.
    ///
    /// # Errors
    /// A link in its place, beside what the system says.
    pub fn lock_file(&self, path: &Path) -> io::Result<File> {
        no_link(path)?;
        self.step()?;
        OpenOptions::new().create(true).truncate(false).write(true).open(path)
    }

    /// Puts a whole file in place: a reader sees the old content or the new, and so does whoever
    /// comes after a power cut.
    pub fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() {
            self.create_folder(folder)?;
        }
        let beside = part(path);
        let mut file = self.create(&beside)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let placed = written.and_then(|()| {
            self.step()?;
            fs::rename(&beside, path)
        });
        if let Err(error) = placed {
            let _ = self.remove(&beside);
            return Err(error);
        }
        self.sync_folder(folder)
    }

    /// Removes a file, if it is there.
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

    /// Makes names of files last, where the system can.
    pub fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.step()?;
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        #[cfg(unix)]
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some file systems have no such thing.
            Err(error)
                if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
            synced => synced?,
        }
        let _ = folder;
        Ok(())
    }
}

/// Whether some process holds this file locked now; one that is not there is held by nobody. Looks without taking
/// anything away, and at what may not be written to as well.
pub fn is_locked(path: &Path) -> bool {
    let lock = File::open(path);
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether there is a link of this name.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

fn no_link(path: &Path) -> io::Result<()> {
    match is_link(path) {
        true => Err(Error::new(ErrorKind::AlreadyExists, "there is a link in its place")),
        false => Ok(()),
    }
}

/// The name of a file that is not whole yet.
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
