//! Names of data sets and weights.
//!
//! Forms: `hf:OWNER/REPO[@REVISION][:FILE]`, `hf:datasets/OWNER/REPO[@REVISION][:FILE or :FOLDER]`, or a name of the
//! catalog.

use std::fmt;
use std::path::Path;

use super::FetchError;
use super::catalogue::{CATALOGUE, CatalogEntry, entry};

const HUB: &str = "hf:";
const DATASETS: &str = "datasets/";
/// Prefix of a name of the catalog in places that also take a path.
const FETCHED: &str = "fetched:";

/// Name of a data set or of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Name on the Hugging Face hub.
    Hub(HubName),
    /// Name in the catalog.
    Known(&'static CatalogEntry),
}

/// Repository on the Hugging Face hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    /// True for a data set, false for a model.
    pub dataset: bool,
    /// `OWNER/REPO`, or `REPO` alone.
    pub repo: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// One file, or one folder of a data set.
    ///
    /// Without it the file of weights of a model, or all files of a data set.
    pub file: Option<String>,
}

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// Fails on an unknown name and suggests similar ones.
    pub fn parse(text: &str) -> Result<Name, FetchError> {
        match text.strip_prefix(HUB) {
            Some(rest) => HubName::parse(rest)
                .map(Name::Hub)
                .ok_or_else(|| FetchError::NoHubName(text.to_owned())),
            None => {
                let word = text.strip_prefix(FETCHED).unwrap_or(text);
                entry(word).map(Name::Known).ok_or_else(|| unknown(text, word))
            }
        }
    }

    /// Returns the name that a scenario gives in place of a path; `None` for paths.
    pub fn of_path(path: &Path) -> Option<Result<Name, FetchError>> {
        let text = path.to_str()?;
        let named = text.starts_with(HUB) || text.starts_with(FETCHED);
        named.then(|| Name::parse(text))
    }

    /// Returns the command that downloads the name.
    pub fn command(&self) -> String {
        format!("fedcast fetch {self}")
    }
}

fn unknown(text: &str, word: &str) -> FetchError {
    let near = CATALOGUE.iter().map(|entry| entry.name);
    let near = near.map(|name| (strsim::damerau_levenshtein(name, &word.to_lowercase()), name));
    let near = near.min().filter(|(distance, _)| *distance <= 3).map(|(_, name)| name);
    FetchError::Unknown { name: text.to_owned(), near }
}

impl HubName {
    fn parse(text: &str) -> Option<HubName> {
        let (dataset, text) = match text.strip_prefix(DATASETS) {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (text, file) = match text.split_once(':') {
            Some((text, file)) => (text, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = text.split_once('@').unwrap_or((text, "main"));
        let good = plain(repo)
            && repo.split('/').count() <= 2
            && plain(revision)
            && file.is_none_or(plain);
        good.then(|| HubName {
            dataset,
            repo: repo.to_owned(),
            revision: revision.to_owned(),
            file: file.map(str::to_owned),
        })
    }
}

/// Returns true for words of letters, digits and `-_.+`, separated by slashes, without `..`.
fn plain(text: &str) -> bool {
    text.split('/').all(|part| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+=".contains(c))
    })
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Hub(name) => name.fmt(f),
            Name::Known(entry) => f.write_str(entry.name),
        }
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HubName { dataset, repo, revision, file } = self;
        f.write_str(HUB)?;
        f.write_str(if *dataset { DATASETS } else { "" })?;
        f.write_str(repo)?;
        if revision != "main" {
            write!(f, "@{revision}")?;
        }
        file.as_ref().map_or(Ok(()), |file| write!(f, ":{file}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for text in [
            "hf:gpt2",
            "hf:timm/vit_tiny_patch16_224.augreg_in21k",
            "hf:owner/repo@v1.0",
            "hf:owner/repo@0123abc:sub/model.safetensors",
            "hf:datasets/owner/name:data/train-00000-of-00001.parquet",
            "cifar100",
        ] {
            assert_eq!(Name::parse(text).unwrap().to_string(), text);
        }
        let Name::Hub(name) = Name::parse("hf:datasets/a/b@c/d:e/f").unwrap() else {
            panic!("hub")
        };
        let parts = (name.dataset, &*name.repo, &*name.revision, name.file.as_deref());
        assert_eq!(parts, (true, "a/b", "c/d", Some("e/f")));
    }

    #[test]
    fn what_leads_elsewhere_is_no_name() {
        for text in [
            "hf:",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/b:../../etc",
            "hf:a/b:/etc",
            "hf:a b",
            "hf:a/b@",
            "hf:a//b",
            "hf:a/b:",
        ] {
            assert!(matches!(Name::parse(text), Err(FetchError::NoHubName(_))), "{text}");
        }
        let error = Name::parse("cifar-100").unwrap_err().to_string();
        assert!(error.contains("did you mean `cifar100`"), "{error}");
        assert!(!Name::parse("zzzzzzzzz").unwrap_err().to_string().contains("did you mean"));
    }

    #[test]
    fn paths_are_no_names() {
        assert!(Name::of_path(Path::new("cifar100")).is_none());
        assert!(Name::of_path(Path::new("./hf/a")).is_none());
        assert!(Name::of_path(Path::new("fetched:cifar100")).unwrap().is_ok());
        assert!(Name::of_path(Path::new("hf:a/../b")).unwrap().is_err());
    }
}
