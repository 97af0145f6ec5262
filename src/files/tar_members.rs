//! Members of a tar archive, read one after the other; only what is requested is kept in memory.
//!
//! An untrusted archive may declare a name of a gigabyte, or unpack to more than the memory: names, members and their
//! total are limited. Links and devices are skipped.

use std::io::{Error, ErrorKind, Read, Result, Take};
use std::path::PathBuf;

use tar::{Archive, Entry, EntryType, PaxExtensions};

/// Maximum length of a member's name, in bytes.
const NAME: u64 = 1 << 16;

/// Limits on an archive.
#[derive(Clone, Copy, Debug)]
pub struct TarLimits {
    /// Bytes of the whole stream.
    pub bytes: u64,
    /// Members of any kind, including those that hold long names.
    pub members: u64,
}

/// Passes every regular file of a plain tar stream to `each`, with its name.
///
/// The rest of the stream is read by [`finish_tar`].
///
/// # Errors
/// Fails with errors of the reader and of `each`, and with [`ErrorKind::FileTooLarge`] above the limits.
pub fn tar_members<R: Read>(
    stream: R,
    limits: TarLimits,
    mut each: impl FnMut(PathBuf, &mut Entry<'_, Take<R>>) -> Result<()>,
) -> Result<Take<R>> {
    let mut archive = Archive::new(stream.take(limits.bytes));
    let mut long = None;
    let mut members = 0;
    // Raw, since the library would read names of any length.
    for entry in archive.entries()?.raw(true) {
        members += 1;
        if members > limits.members {
            let text = format!("it has more than {} members", limits.members);
            return Err(Error::new(ErrorKind::FileTooLarge, text));
        }
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::GNULongName => long = Some(gnu_name(&tar_bytes(&mut entry, NAME)?)),
            EntryType::XHeader => long = pax_name(&tar_bytes(&mut entry, NAME)?)?.or(long),
            kind => {
                let name = long.take().unwrap_or(entry.path()?.into_owned());
                if kind.is_file() {
                    each(name, &mut entry)?;
                }
            }
        }
    }
    Ok(archive.into_inner())
}

/// Reads the rest of a stream, at whose end gzip compares its checksum.
///
/// # Errors
/// Fails with errors of the reader, and with [`ErrorKind::FileTooLarge`] if the stream exceeds the limit.
pub fn finish_tar<R: Read>(mut rest: Take<R>) -> Result<()> {
    std::io::copy(&mut rest, &mut std::io::sink())?;
    match rest.limit() {
        0 => Err(Error::new(ErrorKind::FileTooLarge, "the archive unpacks to more than it may")),
        _ => Ok(()),
    }
}

/// Returns the bytes of a member that has at most `limit` bytes.
///
/// # Errors
/// Fails with [`ErrorKind::FileTooLarge`] before reading, and with errors of the reader.
pub fn tar_bytes<R: Read>(entry: &mut Entry<'_, R>, limit: u64) -> Result<Vec<u8>> {
    let size = entry.size();
    if size > limit {
        let text = format!("a member has more than {limit} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    entry.take(limit).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < size { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

fn gnu_name(bytes: &[u8]) -> PathBuf {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned().into()
}

fn pax_name(bytes: &[u8]) -> Result<Option<PathBuf>> {
    for pair in PaxExtensions::new(bytes) {
        let pair = pair?;
        if pair.key_bytes() == b"path" {
            return Ok(Some(String::from_utf8_lossy(pair.value_bytes()).into_owned().into()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TarLimits = TarLimits { bytes: 1 << 20, members: 8 };

    fn read(tar: &[u8], limit: u64) -> Result<Vec<(String, usize)>> {
        let mut found = Vec::new();
        tar_members(tar, LIMITS, |name, entry| {
            found.push((name.display().to_string(), tar_bytes(entry, limit)?.len()));
            Ok(())
        })
        .and_then(finish_tar)?;
        Ok(found)
    }

    fn archive(names: &[&str]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_gnu();
            header.set_size(5);
            tar.append_data(&mut header, name, &b"12345"[..]).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn long_names_are_read_and_belong_to_the_member_behind_them() {
        let long = format!("{}/train.bin", "a".repeat(200));
        let found = read(&archive(&["x.bin", &long, "y.bin"]), 5).unwrap();
        assert_eq!(found, [("x.bin".into(), 5), (long, 5), ("y.bin".into(), 5)]);
    }

    #[test]
    fn names_and_members_without_end_are_refused_before_they_are_read() {
        let error = read(&archive(&["x.bin"]), 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        for kind in [EntryType::GNULongName, EntryType::XHeader] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(8 << 30);
            header.set_cksum();
            let endless = header.as_bytes().chain(std::io::repeat(b'a'));
            let error = tar_members(endless, LIMITS, |_, _| Ok(())).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{kind:?}");
        }
    }

    #[test]
    fn more_members_or_bytes_than_there_may_be_are_refused() {
        assert_eq!(read(&archive(&["x.bin"; 8]), 5).unwrap().len(), 8);
        let error = read(&archive(&["x.bin"; 9]), 5).unwrap_err().to_string();
        assert!(error.contains("more than 8 members"), "{error}");
        let endless = [&archive(&["x.bin"])[..], &vec![0; 2 << 20][..]].concat();
        assert_eq!(read(&endless, 5).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn an_archive_cut_short_is_no_archive() {
        let whole = archive(&["x.bin"]);
        assert_eq!(read(&whole[..514], 5).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
