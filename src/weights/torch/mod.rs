//! Files of `torch.save` since 1.6: zip archives of a pickle that lists tensors, and of their bytes. The pickle is read
//! by candle's machine, which builds plain data and executes nothing; its listing is not trusted.

mod bounded;
mod state;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};

use zip::ZipArchive;

use super::advice::convert_torch;
use super::file::widened;
use super::{FileTensor, Listed, Listing, WeightsError, named};
use state::{Found, Stored};

const FORMAT: &str = "PyTorch file";

/// Largest size of the pickle that lists tensors, in bytes.
const PICKLE: u64 = 64_000_000;

/// Open `.pth`, `.pt` or `.bin` file.
pub(super) struct TorchFile {
    archive: ZipArchive<BufReader<File>>,
    /// Folder before the names of members, including its slash.
    folder: String,
    tensors: BTreeMap<String, Stored>,
    part: Option<String>,
    others: Vec<String>,
}

impl TorchFile {
    /// Reads the pickle of an archive.
    ///
    /// `members` are the names in the archive, and `part` the keys of the requested tensors, if the pickle has them.
    pub fn open(
        origin: &str,
        mut archive: ZipArchive<BufReader<File>>,
        members: &[String],
        part: Option<&str>,
    ) -> Result<(Listing, TorchFile), WeightsError> {
        let malformed = |reason: String| WeightsError::malformed(origin, FORMAT, reason);
        let foreign = |what: &str, advice: String| {
            let (file, what) = (origin.to_owned(), what.to_owned());
            WeightsError::Foreign { file, what, advice }
        };
        let is = |end: &str| members.iter().any(|name| name.ends_with(end));
        if is("/constants.pkl") || is("/code/__torch__.py") {
            let advice = format!(
                "save its weights alone: torch.save(torch.jit.load('{origin}').state_dict(), 'weights.pth')"
            );
            return Err(foreign("is a TorchScript program, not a file of weights", advice));
        }
        let pickle = members.iter().find(|name| *name == "data.pkl" || name.ends_with("/data.pkl"));
        let folder = pickle.and_then(|name| name.strip_suffix("data.pkl"));
        let Some(folder) = folder.map(str::to_owned) else {
            return Err(malformed("it has no list of tensors (data.pkl)".to_owned()));
        };
        let order =
            read_member(&mut archive, &format!("{folder}byteorder"), 0, 16).unwrap_or_default();
        if order.starts_with(b"big") {
            return Err(foreign("was written by a big-endian machine", convert_torch(origin)));
        }
        let mut bytes = Vec::new();
        let member = archive.by_name(&format!("{folder}data.pkl"));
        let member = member.map_err(|error| malformed(error.to_string()))?;
        member.take(PICKLE + 1).read_to_end(&mut bytes).map_err(|e| malformed(e.to_string()))?;
        if bytes.len() as u64 > PICKLE {
            return Err(malformed(format!("its list of tensors has more than {PICKLE} bytes")));
        }
        let object = bounded::unpickled(&bytes).map_err(|reason| WeightsError::Malformed {
            file: origin.to_owned(),
            format: FORMAT,
            reason: format!("its list of tensors cannot be read: {reason}"),
            advice: convert_torch(origin),
        })?;
        let Some(Found { part, others, tensors, strange }) = state::found(object, part) else {
            let what = "holds no named tensors: a whole model, or something else";
            return Err(foreign(what, convert_torch(origin)));
        };
        if !strange.is_empty() {
            let what = format!("holds what is no dense tensor: {}", named(&strange, 4));
            let advice = "save it again with dense tensors: `tensor.to_dense()` of sparse ones, `.dequantize()` of \
                          quantised ones, `torch.as_tensor(array)` of arrays";
            return Err(foreign(&what, advice.to_owned()));
        }
        let listed =
            |stored: &Stored| Listed { shape: stored.shape.clone(), kind: stored.kind.clone() };
        let listing = tensors.iter().map(|(name, stored)| (name.clone(), listed(stored))).collect();
        Ok((listing, TorchFile { archive, folder, tensors, part, others }))
    }

    /// Returns the key of the pickle under which its tensors were.
    pub fn part(&self) -> Option<&str> {
        self.part.as_deref()
    }

    /// Returns the keys of the pickle under which other tensors are.
    pub fn others(&self) -> &[String] {
        &self.others
    }

    /// Reads one tensor in row-major order, regardless of its strides.
    pub fn read(&mut self, origin: &str, name: &str) -> Result<FileTensor, WeightsError> {
        let malformed = |reason: String| WeightsError::malformed(origin, FORMAT, reason);
        let stored = &self.tensors[name];
        let Some(size) = stored.size() else {
            let (file, name, kind) = (origin.to_owned(), name.to_owned(), stored.kind.clone());
            return Err(WeightsError::Type { file, name, kind });
        };
        let span = stored
            .span()
            .and_then(|span| Some((span.start.checked_mul(size)?, span.len().checked_mul(size)?)));
        let Some((from, count)) = span else {
            return Err(malformed(format!("`{name}` has impossible extents")));
        };
        let member = format!("{}data/{}", self.folder, stored.storage);
        let bytes = read_member(&mut self.archive, &member, from as u64, count as u64)
            .map_err(|error| malformed(format!("`{name}`: {error}")))?;
        let rows = stored.rows(&bytes, size);
        widened(origin, name, &stored.kind, &stored.shape, rows.as_deref().unwrap_or(&bytes))
    }
}

/// Reads bytes from a position in a member, which must not end before.
fn read_member(
    archive: &mut ZipArchive<BufReader<File>>,
    name: &str,
    from: u64,
    count: u64,
) -> std::io::Result<Vec<u8>> {
    let mut member = archive.by_name(name).map_err(std::io::Error::other)?;
    std::io::copy(&mut (&mut member).take(from), &mut std::io::sink())?;
    let mut bytes = Vec::new();
    member.take(count).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < count && !name.ends_with("byteorder") {
        let what = format!("{name} has {} bytes less than it should", count - bytes.len() as u64);
        return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
