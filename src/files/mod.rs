//! Files that others named, damaged or removed: bounded reading, atomic writing.
//!
//! A scenario from another person may name any path, and a machine may stop between any two steps. Only regular files
//! of at most the size of their [`FileKind`] are read, never a device or a pipe. Files are written under a temporary
//! name and renamed when they are complete. No write follows a link in the place of a file of fedcast.
//!
//! All writes of a run pass through one [`Disk`], which tests can stop after any of its operations.
//!
//! ```
//! use fedcast::files::{Disk, FileKind, read_text};
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("note.txt");
//! let disk = Disk::default();
//! disk.replace(&path, b"whole")?;
//! assert_eq!(read_text(&path, FileKind::Table)?, "whole");
//!
//! // In a process that stops after two operations the file is the old one or the new one.
//! assert!(Disk::dying_after(2).replace(&path, b"other").is_err());
//! assert_eq!(read_text(&path, FileKind::Table)?, "whole");
//! # Ok::<(), std::io::Error>(())
//! ```

mod bounded;
mod disk;
mod handle;
mod relative;
mod shell;
mod tar_members;
mod text;

pub use bounded::{FileKind, open, read, read_at};
pub use disk::{Disk, PART, is_link, is_locked};
pub use handle::DiskFile;
pub use relative::{cleaned, relative};
pub use shell::shell_word;
pub use tar_members::{TarLimits, finish_tar, tar_bytes, tar_members};
pub use text::{read_text, skip_mark, text_of};
