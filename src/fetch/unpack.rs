//! Unpacking of untrusted archives: within their folder and up to a size limit.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;

use super::FetchError;
use crate::files::{self, TarLimits};

/// Bytes that an archive may unpack to, per byte of its size; images and gzip stay far below.
const RATIO: u64 = 200;
/// Bytes that are always allowed.
const SMALL: u64 = 1 << 30;
/// Most files and folders in an archive.
const MEMBERS: u64 = 5_000_000;

/// Returns true if a file is an archive that is unpacked.
pub(super) fn is_archive(file: &str) -> bool {
    [".zip", ".tar", ".tar.gz", ".tgz"].iter().any(|suffix| file.ends_with(suffix))
}

/// Unpacks `.zip`, `.tar`, `.tar.gz` and `.tgz` into one folder; other files are moved there.
///
/// The folder is complete or does not exist.
pub(super) fn unpack(files: &[PathBuf], into: &Path) -> Result<(), FetchError> {
    let part = super::download::path_with_suffix(into, "part");
    if part.exists() {
        fs::remove_dir_all(&part).map_err(FetchError::disk(&part))?;
    }
    fs::create_dir_all(&part).map_err(FetchError::disk(&part))?;
    for file in files {
        let name = file.file_name().unwrap_or_default();
        let put = match is_archive(&name.to_string_lossy().to_lowercase()) {
            true => open(file, &part),
            false => fs::copy(file, part.join(name)).map(drop).map_err(FetchError::disk(file)),
        };
        if let Err(error) = put {
            let _ = fs::remove_dir_all(&part);
            return Err(error);
        }
    }
    fs::rename(&part, into).map_err(FetchError::disk(into))
}

fn open(archive: &Path, into: &Path) -> Result<(), FetchError> {
    let name = archive.to_string_lossy().to_lowercase();
    let file = File::open(archive).map_err(FetchError::disk(archive))?;
    let size = file.metadata().map_err(FetchError::disk(archive))?.len();
    let mut room = Room { bytes: size.saturating_mul(RATIO).max(SMALL), members: MEMBERS };
    let refused = |reason: String| FetchError::Archive { archive: archive.to_owned(), reason };
    if name.ends_with(".zip") {
        return zipped(file, into, &mut room).map_err(|error| refused(error.to_string()));
    }
    let file = io::BufReader::new(file);
    let unpacked = match name.ends_with("gz") {
        true => tarred(GzDecoder::new(file), into, &mut room),
        false => tarred(file, into, &mut room),
    };
    unpacked.map_err(|error| refused(error.to_string()))
}

/// Bytes and members that an archive may still unpack to.
struct Room {
    bytes: u64,
    members: u64,
}

impl Room {
    /// Writes a member.
    fn write(&mut self, path: &Path, mut member: impl Read) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create_new(path)?;
        let written = io::copy(&mut (&mut member).take(self.bytes + 1), &mut file)?;
        self.bytes = self.bytes.checked_sub(written).ok_or_else(|| {
            io::Error::other("it unpacks to more than an archive of its size can hold")
        })?;
        Ok(())
    }

    fn member(&mut self) -> io::Result<()> {
        self.members = self
            .members
            .checked_sub(1)
            .ok_or_else(|| io::Error::other("it has too many members"))?;
        Ok(())
    }
}

fn zipped(file: File, into: &Path, room: &mut Room) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(file)).map_err(io::Error::other)?;
    for index in 0..archive.len() {
        room.member()?;
        let member = archive.by_index(index).map_err(io::Error::other)?;
        let name = member.name().map_err(io::Error::other)?.into_owned();
        if member.is_dir() || member.is_symlink() {
            continue;
        }
        room.write(&inside(into, Path::new(&name))?, member)?;
    }
    Ok(())
}

fn tarred(stream: impl Read, into: &Path, room: &mut Room) -> io::Result<()> {
    // Headers and padding add to the members.
    let limits = TarLimits { bytes: room.bytes.saturating_mul(2), members: room.members };
    let rest = files::tar_members(stream, limits, |name, member| {
        room.write(&inside(into, &name)?, member)
    })?;
    files::finish_tar(rest)
}

/// Returns the path of a member, or an error if it would be outside of the folder.
fn inside(folder: &Path, name: &Path) -> io::Result<PathBuf> {
    let mut path = folder.to_owned();
    for part in name.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => {
                let reason =
                    format!("its member {} would be outside of its folder", name.display());
                return Err(io::Error::other(reason));
            }
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn zip_of(path: &Path, members: &[(&str, &[u8])]) {
        let mut archive = zip::ZipWriter::new(File::create(path).unwrap());
        for (name, bytes) in members {
            archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(bytes).unwrap();
        }
        archive.finish().unwrap();
    }

    #[test]
    fn both_kinds_unpack_whole() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        zip_of(&root.join("a.zip"), &[("x/1.txt", b"one"), ("2.txt", b"two")]);
        unpack(&[root.join("a.zip")], &root.join("zip")).unwrap();
        assert_eq!(fs::read(root.join("zip/x/1.txt")).unwrap(), b"one");
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            File::create(root.join("a.tgz")).unwrap(),
            flate2::Compression::fast(),
        ));
        let mut header = tar::Header::new_gnu();
        header.set_size(3);
        tar.append_data(&mut header, "x/1.txt", &b"one"[..]).unwrap();
        tar.into_inner().unwrap().finish().unwrap();
        unpack(&[root.join("a.tgz")], &root.join("tar")).unwrap();
        assert_eq!(fs::read(root.join("tar/x/1.txt")).unwrap(), b"one");
    }

    #[test]
    fn what_would_lie_elsewhere_keeps_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["../evil.txt", "/evil.txt", "x/../../evil.txt"] {
            zip_of(&root.join("a.zip"), &[("good.txt", b"good"), (name, b"evil")]);
            let error = unpack(&[root.join("a.zip")], &root.join("out")).unwrap_err().to_string();
            assert!(error.contains("outside of its folder"), "{error}");
            assert!(!root.join("out").exists() && !root.join("evil.txt").exists(), "{name}");
        }
    }

    #[test]
    fn what_unpacks_without_end_is_stopped() {
        let mut room = Room { bytes: 5, members: 1 };
        let folder = tempfile::tempdir().unwrap();
        room.write(&folder.path().join("a"), &b"12345"[..]).unwrap();
        let error = room.write(&folder.path().join("b"), io::repeat(0)).unwrap_err().to_string();
        assert!(error.contains("more than an archive"), "{error}");
        assert!(room.member().is_ok() && room.member().is_err());
    }
}
