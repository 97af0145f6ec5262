//! Fetching data sets of the catalog: downloaded, compared, recorded, unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checksum::FileChecksums;
use super::download::{Wanted, download, place};
use super::unpack::{is_archive, unpack};
use super::{CatalogEntry, FetchError, Fetched, Remote, Settings};
use crate::files::{self, Disk, FileKind};

/// Name of the folder to which archives are unpacked.
const FILES: &str = "files";

/// Record of the files fetched under a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the data set in the catalog.
    pub name: String,
    /// Terms of use, as the owners of the data set state them.
    #[serde(rename = "licence")]
    pub license: String,
    /// Files in the order of the catalog.
    pub files: Vec<RecordedFile>,
    /// True if archives have been unpacked (and removed).
    pub unpacked: bool,
}

/// File of a [`Record`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    pub file: String,
    pub url: String,
    pub bytes: u64,
    pub sha256: String,
    /// Published checksum that was compared, or a note that none is published.
    pub checked: String,
}

/// Returns the path of the record of a name, which is outside the folder of its files.
fn record_of(entry: &CatalogEntry, settings: &Settings) -> PathBuf {
    settings.data.join(format!("{}.json", entry.name))
}

/// Returns the folder of the files of a name.
pub(super) fn folder(entry: &CatalogEntry, settings: &Settings) -> PathBuf {
    settings.data.join(entry.name)
}

/// Returns the path that `data.path` takes, or `None` if the data set is not complete.
pub(super) fn find(entry: &CatalogEntry, settings: &Settings) -> Option<PathBuf> {
    let folder = folder(entry, settings);
    is_whole(entry, &folder, &recorded(&record_of(entry, settings)))
        .then(|| folder.join(entry.path))
}

fn is_whole(entry: &CatalogEntry, folder: &Path, record: &Record) -> bool {
    let has = |remote: &Remote| record.files.iter().any(|file| file.file == remote.file);
    let there = |remote: &Remote| folder.join(remote.file).is_file();
    let files = match entry.unpacked {
        true => record.unpacked && folder.join(FILES).is_dir(),
        // Files that were put there by hand are accepted, too.
        false => entry.files.iter().all(there),
    };
    files && (!entry.unpacked || entry.files.iter().all(has)) && !entry.files.is_empty()
}

/// Downloads the missing files of an entry.
pub(super) fn fetch(entry: &CatalogEntry, settings: &Settings) -> Result<Fetched, FetchError> {
    let folder = folder(entry, settings);
    let name = entry.name.to_owned();
    if entry.files.is_empty() {
        let (why, advice) = ("no server provides it".to_owned(), entry.by_hand.to_owned());
        return Err(FetchError::ByHand { name, why, advice });
    }
    let mut notes = vec![format!("license: {} ({})", entry.license, entry.homepage)];
    let path = folder.join(entry.path);
    if find(entry, settings).is_some() {
        return Ok(Fetched { path, already: true, notes });
    }
    if let Some(why) = settings.offline {
        return Err(FetchError::Offline { name, place: settings.data.clone(), why });
    }
    fs::create_dir_all(&folder).map_err(FetchError::disk(&folder))?;
    let lock = Disk::default().lock_file(&settings.data.join(format!(".{}.lock", entry.name)));
    // Held until the end, so that two processes do not write the same files.
    let lock = lock.map_err(FetchError::disk(&folder))?;
    lock.lock().map_err(FetchError::disk(&folder))?;
    // Another process may have downloaded it meanwhile.
    if find(entry, settings).is_some() {
        return Ok(Fetched { path, already: true, notes });
    }
    let written = record_of(entry, settings);
    let mut record = recorded(&written);
    (record.name, record.license) = (name, entry.license.to_owned());
    for remote in entry.files {
        let target = folder.join(remote.file);
        let known = record.files.iter().position(|file| file.file == remote.file);
        if known.is_some() && target.is_file() {
            continue;
        }
        let before = known.map(|at| record.files[at].clone());
        let file = bring(entry, remote, &target, before.as_ref(), settings)?;
        notes.push(format!(
            "{}: {}, {}",
            file.file,
            crate::quantity::Bytes(file.bytes),
            file.checked
        ));
        match known {
            Some(at) => record.files[at] = file,
            None => record.files.push(file),
        }
        keep(&written, &record)?;
    }
    if entry.unpacked {
        let archives: Vec<PathBuf> =
            entry.files.iter().map(|file| folder.join(file.file)).collect();
        let into = folder.join(FILES);
        // Archives are unpacked to a temporary folder, so that a folder is complete or absent.
        if into.exists() {
            let why = format!("{} exists, but has no record", into.display());
            let advice = "move it away and fetch again, or use it with data.path".to_owned();
            return Err(FetchError::ByHand { name: record.name, why, advice });
        }
        unpack(&archives, &into)?;
        record.unpacked = true;
        keep(&written, &record)?;
        for archive in &archives {
            if is_archive(&archive.to_string_lossy()) {
                let _ = fs::remove_file(archive);
            }
        }
        notes.push(format!("unpacked to {}; the archives were removed", into.display()));
    }
    Ok(Fetched { path, already: false, notes })
}

/// Downloads a file, compares it and moves it to its path.
fn bring(
    entry: &CatalogEntry,
    remote: &Remote,
    target: &Path,
    before: Option<&RecordedFile>,
    settings: &Settings,
) -> Result<RecordedFile, FetchError> {
    let url = match &settings.mirror {
        Some(mirror) => format!("{mirror}/{}/{}", entry.name, remote.file),
        None => remote.url.to_owned(),
    };
    // The file may have been put there by hand.
    let part = match target.is_file() {
        true => target.to_owned(),
        false => download(&Wanted { url: &url, path: target }, settings)?,
    };
    let sums = FileChecksums::of(&part).map_err(FetchError::disk(&part))?;
    let published = remote.checksum.map(|checksum| (checksum.to_string(), sums.compare(checksum)));
    let compared = match (published, before) {
        (Some((expected, compared)), _) => compared.map_err(|found| (found, expected)),
        (None, Some(before)) if before.sha256 != sums.sha256 => {
            let expected = format!("SHA-256 {} at its first download", before.sha256);
            Err((format!("SHA-256 {}", sums.sha256), expected))
        }
        (None, _) => Ok(()),
    };
    if let Err((found, expected)) = compared {
        if part == target {
            return Err(FetchError::ByHand {
                name: entry.name.to_owned(),
                why: format!("{} exists and has {found}, expected {expected}", target.display()),
                advice: "remove it or replace it by the right file".to_owned(),
            });
        }
        let _ = fs::remove_file(&part);
        return Err(FetchError::Checksum {
            file: remote.file.into(),
            url: url.into(),
            found: found.into(),
            expected: expected.into(),
            advice: "it has been removed: fetch it again; if that does not help, its server has another version \
                     than the one published",
        });
    }
    place(&part, target)?;
    let bytes = fs::metadata(target).map_err(FetchError::disk(target))?.len();
    let checked = match remote.checksum {
        Some(checksum) => format!("as published: {checksum}"),
        None => format!("no checksum is published; recorded: SHA-256 {}", sums.sha256),
    };
    Ok(RecordedFile { file: remote.file.to_owned(), url, bytes, sha256: sums.sha256, checked })
}

/// Reads a record; an unreadable record counts as none, and its content is checked again.
fn recorded(path: &Path) -> Record {
    let text = files::read_text(path, FileKind::Manifest).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn keep(path: &Path, record: &Record) -> Result<(), FetchError> {
    let mut text = serde_json::to_vec_pretty(record).expect("a record has only string keys");
    text.push(b'\n');
    Disk::default().replace(path, &text).map_err(FetchError::disk(path))
}
