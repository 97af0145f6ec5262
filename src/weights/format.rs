//! Format of a file, found by its first bytes, as suffixes can be wrong.

use super::WeightsError;
use super::advice::{convert_npz, convert_torch};

/// Container of tensors that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Safetensors, <https://github.com/huggingface/safetensors>.
    Safetensors,
    /// PyTorch file of `torch.save` since 1.6: a zip archive with a pickle that lists tensors, and their bytes.
    Torch,
    /// NumPy file of `numpy.savez`: a zip archive with an array per name.
    Numpy,
    /// JSON index of the files that hold the tensors, in the same folder.
    Several,
}

impl Format {
    /// Returns a name for messages.
    pub fn word(self) -> &'static str {
        match self {
            Format::Safetensors => "safetensors",
            Format::Torch => "PyTorch (zip)",
            Format::Numpy => "NumPy (npz)",
            Format::Several => "an index of several files",
        }
    }

    /// Returns the format by the first bytes; the members of a zip archive distinguish its two kinds.
    ///
    /// # Errors
    /// Returns [`WeightsError::Foreign`], which names the kind of the file, if it is no container of tensors or one
    /// that is not supported.
    pub(super) fn of(file: &str, head: &[u8], length: u64) -> Result<Magic, WeightsError> {
        let foreign = |what: &str, advice: String| {
            let (file, what) = (file.to_owned(), what.to_owned());
            Err(WeightsError::Foreign { file, what, advice })
        };
        let again = "fetch it again: a download that failed leaves such files".to_owned();
        let text = head.trim_ascii_start().to_ascii_lowercase();
        let begins = |word: &str| text.starts_with(word.as_bytes());
        if length == 0 {
            return foreign("is empty", again);
        }
        if is_safetensors(head, length) {
            return Ok(Magic::Other);
        }
        if begins("<!doctype") || begins("<html") || begins("<head") || begins("<?xml") {
            let advice = "fetch it again from the address of the file itself (on the Hugging Face hub \
                          `resolve`, not `blob`); private and gated files need a token";
            return foreign("is a web page, not a file of weights", advice.to_owned());
        }
        if begins("version https://git-lfs") {
            let advice = "fetch the content: `git lfs pull` in its repository, or `fedcast fetch hf:OWNER/REPO`";
            return foreign("is a pointer of Git LFS, not the file itself", advice.to_owned());
        }
        if begins("/annex/objects/") || begins("../.git/annex") {
            let advice = "fetch the content: `git annex get` in its repository".to_owned();
            return foreign("is a pointer of git-annex, not the file itself", advice);
        }
        if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            return Ok(Magic::Zip);
        }
        // Pickled number with which `torch.save` began before 1.6.
        if head.starts_with(b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46") {
            let what =
                "is a PyTorch file of the format before 1.6, which is a program to be executed";
            return foreign(what, convert_torch(file));
        }
        if head.first() == Some(&0x80) && head.get(1).is_some_and(|version| *version <= 5) {
            let what = "is a bare Python pickle, which is a program to be executed";
            return foreign(what, convert_torch(file));
        }
        if head.get(257..262) == Some(b"ustar") {
            let what = "is a tar archive, perhaps of a PyTorch before 0.4";
            return foreign(what, convert_torch(file));
        }
        if head.starts_with(b"\x93NUMPY") {
            let what = "is a single NumPy array, and a network has many";
            return foreign(what, convert_npz(file));
        }
        if head.starts_with(b"\x89HDF") {
            let what = "is an HDF5 file (Keras)";
            let advice = "save the network as safetensors: a dictionary of arrays and `safetensors.numpy.save_file`";
            return foreign(what, advice.to_owned());
        }
        if head.starts_with(b"\x1f\x8b")
            || head.starts_with(b"\xfd7zXZ")
            || head.starts_with(b"BZh")
        {
            return foreign("is compressed", "unpack it first".to_owned());
        }
        if begins("{") && text.windows(12).any(|part| part == b"\"weight_map\"") {
            return Ok(Magic::Several);
        }
        Ok(Magic::Other)
    }
}

/// Returns true if the head is a length followed by an index in JSON. It is checked first, as a length may begin with
/// any bytes.
fn is_safetensors(head: &[u8], length: u64) -> bool {
    let Some((size, rest)) = head.split_first_chunk::<8>() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*size) < length
}

/// Format as far as the first bytes determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    /// PyTorch or NumPy, distinguished by the members of the archive.
    Zip,
    /// Index of other files.
    Several,
    /// No magic number, as in safetensors, whose reader decides.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_of_weights_is_called_by_its_name() {
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        for (head, said) in [
            (&b""[..], "is empty"),
            (b"\n<!DOCTYPE html><html>", "is a web page"),
            (b"<html lang=\"en\">", "is a web page"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "pointer of Git LFS"),
            (b"/annex/objects/MD5E-s3", "pointer of git-annex"),
            (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", "before 1.6"),
            (b"\x80\x04\x95\x00", "bare Python pickle"),
            (&tar, "tar archive"),
            (b"\x93NUMPY\x01\x00", "single NumPy array"),
            (b"\x89HDF\r\n", "HDF5"),
            (b"\x1f\x8b\x08", "is compressed"),
        ] {
            let error = Format::of("w.bin", head, head.len() as u64).unwrap_err().to_string();
            assert!(error.starts_with("w.bin ") && error.contains(said), "{error}");
        }
        assert_eq!(Format::of("w", b"PK\x03\x04", 4).unwrap(), Magic::Zip);
        let index = b"{\"metadata\": {}, \"weight_map\": {";
        assert_eq!(Format::of("w", index, 32).unwrap(), Magic::Several);
        // An index of 0x280 bytes begins like a pickle.
        assert_eq!(Format::of("w", b"\x80\x02\0\0\0\0\0\0{\"a\"", 5_000).unwrap(), Magic::Other);
    }
}
