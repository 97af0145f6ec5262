//! Published checksums of files.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use md5::Md5;
use sha2::{Digest, Sha256};

/// Published checksum, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// MD5, 32 digits.
    Md5(&'static str),
    /// SHA-256, 64 digits.
    Sha256(&'static str),
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Checksum::Md5(hex) => write!(f, "MD5 {hex}"),
            Checksum::Sha256(hex) => write!(f, "SHA-256 {hex}"),
        }
    }
}

/// Checksums and size of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileChecksums {
    pub md5: String,
    pub sha256: String,
}

impl FileChecksums {
    /// Computes the checksums of a file.
    pub fn of(path: &Path) -> io::Result<FileChecksums> {
        let mut file = std::fs::File::open(path)?;
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        let mut buffer = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(FileChecksums {
                    md5: hex(&md5.finalize()),
                    sha256: hex(&sha256.finalize()),
                });
            }
            md5.update(&buffer[..read]);
            sha256.update(&buffer[..read]);
        }
    }

    /// Compares with a published checksum.
    ///
    /// # Errors
    ///
    /// Returns the file's own checksum if they differ.
    pub fn compare(&self, expected: Checksum) -> Result<(), String> {
        let (own, wanted, word) = match expected {
            Checksum::Md5(hex) => (&self.md5, hex, "MD5"),
            Checksum::Sha256(hex) => (&self.sha256, hex, "SHA-256"),
        };
        if own.eq_ignore_ascii_case(wanted) { Ok(()) } else { Err(format!("{word} {own}")) }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let sums = FileChecksums::of(&path).unwrap();
        assert!(sums.compare(Checksum::Md5("900150983CD24FB0D6963F7D28E17F72")).is_ok());
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(sums.compare(Checksum::Sha256(sha)).is_ok());
        let wrong = sums.compare(Checksum::Md5("00")).unwrap_err();
        assert_eq!(wrong, "MD5 900150983cd24fb0d6963f7d28e17f72");
    }
}
