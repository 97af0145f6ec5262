//! `events.jsonl`: one canonical entry per line, and from time to time a seal.
//!
//! A *seal* is a line `{"seal":{"entries":..,"events":"..","numbers":".."}}` with the digests of everything above it,
//! written every 1,000 entries and at the end. A journal without its last seal was cut off; a journal whose seal
//! disagrees was changed. Both differ from a difference between two runs, which is a matter for `--verify`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::federation::{Digests, Entry, Event, Journal};
use crate::files::{self, FileKind};

/// Maximum number of bytes that wait in memory between two settlements.
const BUFFER: usize = 1 << 16;

/// Entries between two seals.
const SEAL_EVERY: u64 = 1_000;

#[derive(Serialize, Deserialize)]
struct SealLine {
    seal: Seal,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    entries: u64,
    #[serde(flatten)]
    digests: Digests,
}

/// Appends entries to a journal.
pub struct JournalWriter<W: Write> {
    out: BufWriter<W>,
    journal: Journal,
    /// Number of entries in the file; the journal counts an entry before it is written.
    written: u64,
    /// Bytes pushed, with those of seals.
    position: u64,
}

impl<W: Write> JournalWriter<W> {
    /// Returns an empty journal.
    pub fn new(out: W) -> Self {
        JournalWriter {
            out: BufWriter::with_capacity(BUFFER, out),
            journal: Journal::new(),
            written: 0,
            position: 0,
        }
    }

    /// Takes one entry. It is in the file after [`settle`](JournalWriter::settle) at the latest; the last
    /// one is sealed and settled at once.
    pub fn push(&mut self, entry: &Entry) -> io::Result<()> {
        let line = self.journal.push(entry);
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")?;
        self.position += line.len() as u64 + 1;
        let last = matches!(entry.event, Event::RunEnded { .. });
        if last || self.journal.entries().is_multiple_of(SEAL_EVERY) {
            self.seal()?;
        }
        if last { self.settle() } else { Ok(()) }
    }

    /// Puts everything taken so far into the file.
    pub fn settle(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.written = self.journal.entries();
        Ok(())
    }

    fn seal(&mut self) -> io::Result<()> {
        let seal = Seal { entries: self.journal.entries(), digests: self.journal.digests() };
        let mut line = serde_json::to_vec(&SealLine { seal })?;
        line.push(b'\n');
        self.position += line.len() as u64;
        self.out.write_all(&line)
    }

    /// Returns the number of entries written; one that could not be written does not count.
    pub fn entries(&self) -> u64 {
        self.written
    }

    /// Returns the length of the file once everything is settled, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the file that it writes to.
    pub fn file(&self) -> &W {
        self.out.get_ref()
    }

    /// Returns the digests of what was written, as long as nothing failed.
    pub fn digests(&self) -> Digests {
        self.journal.digests()
    }
}

/// Error of a journal.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Journal that cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A line is not what the program writes.
    #[error("{path}:{line}: {why}; the journal was damaged after it was written")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Problem.
        why: String,
    },
    /// The last seal is missing.
    #[error(
        "{path} ends without its seal after {entries} entries: the run was killed or the disk was full\n  \
                 help: these entries are valid; `fedcast resume` computes the rest"
    )]
    CutOff {
        /// The file.
        path: PathBuf,
        /// Whole entries found.
        entries: u64,
    },
}

impl CommandError for JournalError {
    fn exit_code(&self) -> Exit {
        Exit::Recording
    }
}

/// Lines of a journal, of limited length.
struct Lines(BufReader<File>);

/// Maximum length of an entry in bytes.
const LONGEST: u64 = 256 << 20;

impl Iterator for Lines {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = Vec::new();
        match self.0.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.len() as u64 == LONGEST {
            return Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long")));
        }
        for end in [b"\n", b"\r"] {
            if line.ends_with(end) {
                line.pop();
            }
        }
        let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "not text");
        Some(String::from_utf8(line).map_err(not_text))
    }
}

/// Reads a journal entry by entry, checking every line and every seal.
pub struct JournalReader {
    path: PathBuf,
    lines: Lines,
    line: u64,
    journal: Journal,
    ended: bool,
    sealed: bool,
}

impl JournalReader {
    /// Opens a journal.
    pub fn open(path: &Path) -> Result<JournalReader, JournalError> {
        let file = files::open(path, FileKind::Journal)
            .map_err(|source| JournalError::Read { path: path.to_path_buf(), source })?;
        Ok(JournalReader {
            path: path.to_path_buf(),
            lines: Lines(BufReader::new(file)),
            line: 0,
            journal: Journal::new(),
            ended: false,
            sealed: false,
        })
    }

    /// Reads the next entry; `None` after the last seal.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, JournalError> {
        loop {
            let Some(line) = self.lines.next() else {
                return if self.ended && self.sealed { Ok(None) } else { Err(self.cut_off()) };
            };
            self.line += 1;
            let line = match line {
                Ok(line) => line,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(self.half_a_line("not text"));
                }
                Err(source) => {
                    return Err(JournalError::Read { path: self.path.clone(), source });
                }
            };
            if line.starts_with("{\"seal\"") {
                self.check_seal(&line)?;
                continue;
            }
            return self.check_entry(&line).map(Some);
        }
    }

    /// Returns the digests of the entries read so far.
    pub fn digests(&self) -> Digests {
        self.journal.digests()
    }

    /// Returns the number of entries read so far.
    pub fn entries(&self) -> u64 {
        self.journal.entries()
    }

    fn check_entry(&mut self, line: &str) -> Result<Entry, JournalError> {
        // A line that breaks off may be the beginning of the last seal, so the check of `ended` comes later.
        let entry = match Entry::from_line(line) {
            Ok(entry) => entry,
            Err(error) if error.is_eof() => return Err(self.half_a_line("half a line")),
            Err(error) => return Err(self.damaged(&format!("not an entry ({error})"))),
        };
        if self.ended {
            return Err(self.damaged("an entry after the last one"));
        }
        if entry.seq != self.journal.entries() {
            let expected = self.journal.entries();
            return Err(self.damaged(&format!("entry {} where {expected} belongs", entry.seq)));
        }
        if self.journal.push(&entry) != line {
            return Err(self.damaged("the line is not in canonical form"));
        }
        self.ended = matches!(entry.event, Event::RunEnded { .. });
        self.sealed = false;
        Ok(entry)
    }

    fn check_seal(&mut self, line: &str) -> Result<(), JournalError> {
        let SealLine { seal } = match serde_json::from_str(line) {
            Ok(seal) => seal,
            Err(error) if error.is_eof() => return Err(self.half_a_line("half a seal")),
            Err(error) => return Err(self.damaged(&format!("not a seal ({error})"))),
        };
        let expected = Seal { entries: self.journal.entries(), digests: self.journal.digests() };
        if seal != expected {
            return Err(self.damaged("the seal disagrees with the entries above it"));
        }
        self.sealed = true;
        Ok(())
    }

    /// Returns the error for a broken line. The very last line of a killed run may break off anywhere; no other line
    /// may.
    fn half_a_line(&mut self, why: &str) -> JournalError {
        match self.lines.next() {
            None => self.cut_off(),
            Some(_) => self.damaged(why),
        }
    }

    fn cut_off(&self) -> JournalError {
        JournalError::CutOff { path: self.path.clone(), entries: self.journal.entries() }
    }

    fn damaged(&self, why: &str) -> JournalError {
        JournalError::Damaged { path: self.path.clone(), line: self.line, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::federation::{EndReason, MetricValue, Numbers};
    use crate::quantity::{Round, TaskId, VirtualTime};

    fn write(entries: u64) -> (tempfile::TempDir, PathBuf, Digests) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut writer = JournalWriter::new(File::create(&path).unwrap());
        for seq in 0..entries {
            let event = if seq + 1 == entries {
                Event::RunEnded { reason: EndReason::Done }
            } else {
                Event::FederatedBiasMeasured {
                    round: Round(seq as u32),
                    task: TaskId(0),
                    clients: 2,
                }
            };
            let figure = MetricValue(0.1 + seq as f64 / 3.0);
            let numbers = Numbers { metrics: [("a".into(), figure)].into(), ..Numbers::default() };
            let entry = Entry { seq, at: VirtualTime(seq * 7), event, numbers: Some(numbers) };
            writer.push(&entry).unwrap();
        }
        (folder, path, writer.digests())
    }

    fn read(path: &Path) -> Result<(u64, Digests), JournalError> {
        let mut reader = JournalReader::open(path)?;
        while reader.next_entry()?.is_some() {}
        Ok((reader.entries(), reader.digests()))
    }

    #[test]
    fn what_was_written_reads_back_to_the_same_digests() {
        let (_folder, path, digests) = write(2_500);
        assert_eq!(read(&path).unwrap(), (2_500, digests));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("{\"seal\"")).count(), 3);
    }

    #[test]
    fn every_cut_is_noticed() {
        let (_folder, path, _) = write(5);
        let whole = fs::read(&path).unwrap();
        // Without its last line end it is still whole.
        for cut in 0..whole.len() - 1 {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(matches!(read(&path), Err(JournalError::CutOff { .. })), "cut at {cut}");
        }
    }

    #[test]
    fn an_entry_that_was_not_written_does_not_count() {
        struct FullDisk;
        impl Write for FullDisk {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = JournalWriter::new(FullDisk);
        let event = Event::FederatedBiasMeasured { round: Round(0), task: TaskId(0), clients: 2 };
        let entry = Entry { seq: 0, at: VirtualTime(0), event, numbers: None };
        writer.push(&entry).unwrap();
        assert!(writer.settle().is_err());
        assert_eq!(writer.entries(), 0);
    }

    #[test]
    fn a_changed_digit_is_noticed() {
        let (_folder, path, _) = write(5);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"at\":14", "\"at\":15", 1)).unwrap();
        assert!(matches!(read(&path), Err(JournalError::Damaged { line: 6, .. })));
    }
}
