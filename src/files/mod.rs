//! Files that others named, damaged or took away: reading within bounds, writing whole.
//!
//! A scenario from somebody else may name any path, and a machine may stop between any two steps. So what is
//! read is a regular file of at most the size its [`Kind`] can have, never a device, a pipe or something without end;
//! what is written goes beside its target and takes its name when it is complete; and no write ever goes
//! through a link that lies where a file of fedcast should be.
//!
//! All writing of a run passes through one [`Disk`], which tests can let die after any of its operations.
//!
//! ```
//! use fedcast::files::{Disk, Kind, read_text};
//! # let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("note.txt");
//! let disk = Disk::default();
//! disk.replace(&path, b"whole")?;
//! assert_eq!(read_text(&path, Kind::Table)?, "whole");
//!
//! // The same in a process that dies after two operations: there is the old file or the new one.
//! assert!(Disk::dying_after(2).replace(&path, b"other").is_err());
//! assert_eq!(read_text(&path, Kind::Table)?, "whole");
//! # Ok::<(), std::io::Error>(())
//! ```

mod bounded;
mod disk;
mod handle;
mod relative;
mod tar_members;
mod text;

pub use bounded::{Kind, open, read, read_at};
pub use disk::{Disk, PART, is_link, is_locked};
pub use handle::DiskFile;
pub use relative::{cleaned, relative};
pub use tar_members::{TarLimits, finish_tar, tar_bytes, tar_members};
pub use text::{read_text, skip_mark, text_of};
