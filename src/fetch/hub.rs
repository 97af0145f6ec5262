//! The Hugging Face hub, through its own client and in its own cache: what Python has fetched is found here, and the other
//! way round.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

use super::checksum::Sums;
use super::hub_list::{Extent, HubList, lies_in};
use super::{FetchError, Fetched, HubName, Settings};
use crate::weights::shards_of;

/// Files of weights, those that are looked for first.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// How the name of a file ends that says which files a network lies in.
const INDEX: &str = ".index.json";

/// How often a connection may end.
const ATTEMPTS: u32 = 5;

fn repo(name: &HubName) -> Repo {
    let kind = if name.dataset { RepoType::Dataset } else { RepoType::Model };
    Repo::with_revision(name.repo.clone(), kind, name.revision.clone())
}

/// Where the cache has all of a repository.
fn repository(name: &HubName, settings: &Settings) -> PathBuf {
    settings.hub.join(repo(name).folder_name())
}

/// The commit that a revision was when something of it was fetched last; a commit is its own reference.
fn commit(name: &HubName, settings: &Settings) -> String {
    let reference = repository(name, settings).join("refs").join(&name.revision);
    let commit = fs::read_to_string(reference);
    commit.map_or_else(|_| name.revision.clone(), |text| text.trim().to_owned())
}

/// The folder of a revision in the cache, whether it is there or not.
fn folder(name: &HubName, settings: &Settings) -> PathBuf {
    Cache::new(settings.hub.clone()).repo(repo(name)).pointer_path(&commit(name, settings))
}

/// How much of a data set is in the cache, or of the folder of it that the name says.
pub(super) fn extent(name: &HubName, settings: &Settings) -> Extent {
    let (repository, commit) = (repository(name, settings), commit(name, settings));
    HubList::extent(&repository, &commit, folder(name, settings), name.file.as_deref())
}

/// A file of it, or of a model its weights.
pub(super) fn find_file(name: &HubName, settings: &Settings) -> Option<PathBuf> {
    let folder = folder(name, settings);
    let there = |file: &str| Some(folder.join(file)).filter(|path| path.is_file());
    let found = match &name.file {
        Some(file) => there(file),
        None => WEIGHTS.into_iter().find_map(there),
    }?;
    // Of a network in several files all have to be there.
    shards(&found, name)
        .ok()?
        .iter()
        .all(|shard| found.with_file_name(shard).is_file())
        .then_some(found)
}

/// The files that a fetched one is the index of.
fn shards(path: &Path, name: &HubName) -> Result<Vec<String>, FetchError> {
    if name.dataset || !path.to_string_lossy().ends_with(INDEX) {
        return Ok(Vec::new());
    }
    shards_of(path, &name.to_string()).map_err(|error| FetchError::ByHand {
        name: name.to_string(),
        why: error.to_string().lines().next().unwrap_or_default().to_owned(),
        advice: "name another file of it: :FILE".to_owned(),
    })
}

/// Brings a file, the weights of a model, or all files of a data set or of a folder of it.
pub(super) fn fetch(name: &HubName, settings: &Settings) -> Result<Fetched, FetchError> {
    let file = if name.dataset && name.file.is_none() { None } else { find_file(name, settings) };
    let found = file.or_else(|| match name.dataset.then(|| extent(name, settings))? {
        Extent::Whole(folder) => Some(folder),
        Extent::Absent | Extent::Part(..) => None,
    });
    if let Some(path) = found {
        return Ok(Fetched { path, already: true, notes: vec![] });
    }
    if let Some(why) = settings.offline {
        let (name, place) = (name.to_string(), settings.hub.clone());
        return Err(FetchError::Offline { name, place, why });
    }
    let api = ApiBuilder::from_cache(Cache::new(settings.hub.clone()))
        .with_endpoint(settings.endpoint.clone())
        .with_token(settings.token.clone())
        .with_progress(settings.progress && std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .with_user_agent("fedcast", env!("CARGO_PKG_VERSION"))
        .build()
        .map_err(|error| failed(name, settings, &error))?;
    let api = api.repo(repo(name));
    let files = match &name.file {
        Some(file) if !name.dataset => vec![file.clone()],
        Some(wanted) => wanted_files(listed(&api, name, settings)?, wanted, name)?,
        None => listed(&api, name, settings)?,
    };
    let mut notes = Vec::new();
    let mut bring = |file: &str| {
        let path = download(&api, file, name, settings)?;
        notes.push(format!("{file}: {}", compared(&path, file, &api)?));
        Ok(path)
    };
    let paths = files.iter().map(|file| bring(file)).collect::<Result<Vec<_>, FetchError>>()?;
    if let [index] = &paths[..] {
        let within =
            files[0].rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for shard in shards(index, name)? {
            bring(&format!("{within}{shard}"))?;
        }
    }
    notes.push(format!("licence: see {}/{}", settings.endpoint, repo(name).url()));
    let path = match (&paths[..], &name.file) {
        ([only], Some(file)) if *file == files[0] => only.clone(),
        ([only], None) if !name.dataset => only.clone(),
        (_, Some(within)) => folder(name, settings).join(within),
        _ => folder(name, settings),
    };
    Ok(Fetched { path, already: false, notes })
}

/// The file that a name says, or all files of the folder that it says.
fn wanted_files(
    files: Vec<String>,
    wanted: &str,
    name: &HubName,
) -> Result<Vec<String>, FetchError> {
    let is_wanted = |file: &String| file == wanted || lies_in(file, wanted);
    let found: Vec<String> = files.iter().filter(|file| is_wanted(file)).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let folders = files.iter().filter_map(|file| Some(file.rsplit_once('/')?.0));
    let places: BTreeSet<&str> = folders.chain(files.iter().map(String::as_str)).collect();
    let most: Vec<&str> = places.into_iter().take(8).collect();
    Err(FetchError::ByHand {
        name: name.to_string(),
        why: format!("it has no file or folder {wanted}"),
        advice: format!("it has {}", most.join(", ")),
    })
}

/// The files that are wanted where none is named.
fn listed(api: &ApiRepo, name: &HubName, settings: &Settings) -> Result<Vec<String>, FetchError> {
    let info = api.info().map_err(|error| failed(name, settings, &error))?;
    let files: Vec<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
    if let Some(file) = files.iter().chain([&info.sha]).find(|file| !stays_inside(file)) {
        let why = format!("its file {file} would lie outside of its folder");
        let advice = "name one of its other files: :FILE".to_owned();
        return Err(FetchError::ByHand { name: name.to_string(), why, advice });
    }
    if name.dataset {
        let data: Vec<String> = files.into_iter().filter(|file| !file.starts_with('.')).collect();
        if data.is_empty() {
            return Err(no_files(name));
        }
        HubList::new(&data).keep(&repository(name, settings), &info.sha)?;
        return Ok(data);
    }
    match WEIGHTS.into_iter().find(|wanted| files.iter().any(|file| file == wanted)) {
        Some(file) => Ok(vec![file.to_owned()]),
        None => {
            let most: Vec<&str> = files.iter().map(String::as_str).take(8).collect();
            Err(FetchError::ByHand {
                name: name.to_string(),
                why: format!("it has none of {}", WEIGHTS.join(", ")),
                advice: format!("name one of its files: {name}:FILE; it has {}", most.join(", ")),
            })
        }
    }
}

/// Names of files come from whoever made the repository.
fn stays_inside(file: &str) -> bool {
    !file.contains('\\')
        && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
}

fn no_files(name: &HubName) -> FetchError {
    let advice = "is it the right repository and revision?".to_owned();
    FetchError::ByHand { name: name.to_string(), why: "it has no files".to_owned(), advice }
}

/// Every attempt goes on where the last one ended.
fn download(
    api: &ApiRepo,
    file: &str,
    name: &HubName,
    settings: &Settings,
) -> Result<PathBuf, FetchError> {
    let mut attempt = 1;
    loop {
        match api.download(file) {
            Ok(path) => return Ok(path),
            Err(error) if attempt < ATTEMPTS && is_cut(&error) => attempt += 1,
            Err(error) => return Err(failed(name, settings, &error)),
        }
    }
}

/// Whether a connection ended in the middle, rather than never beginning.
fn is_cut(error: &ApiError) -> bool {
    matches!(error, ApiError::IoError(_))
}

/// Compares a file with what the hub calls it by: large files are called by their SHA-256.
fn compared(path: &Path, file: &str, api: &ApiRepo) -> Result<String, FetchError> {
    let blob = path.canonicalize().map_err(FetchError::disk(path))?;
    let tag = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if tag.len() != 64 || !tag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok("the hub publishes no digest of such small files".to_owned());
    }
    let sums = Sums::of(&blob).map_err(FetchError::disk(&blob))?;
    if sums.sha256 == tag {
        return Ok(format!("as published: SHA-256 {tag}"));
    }
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(&blob);
    Err(FetchError::Checksum {
        file: file.into(),
        url: api.url(file).into(),
        found: format!("SHA-256 {}", sums.sha256).into(),
        expected: format!("SHA-256 {tag}").into(),
        advice: "it has been removed: fetch it again, it comes from its beginning",
    })
}

fn failed(name: &HubName, settings: &Settings, error: &ApiError) -> FetchError {
    let url = format!("{}/{}", settings.endpoint, repo(name).url());
    match error {
        ApiError::RequestError(error) => match **error {
            ureq::Error::StatusCode(status) => {
                let advice = match status {
                    401 | 403 => {
                        "it may be private or gated (or not exist): accept its terms on its page and set HF_TOKEN"
                    }
                    404 => "is the name right? hf:OWNER/REPO, and :FILE for one file of it",
                    _ => "try again later: what has come so far is kept",
                };
                FetchError::Status { url, status, advice: advice.to_owned() }
            }
            ref other => FetchError::Network {
                url,
                reason: format!("cannot be reached: {other}"),
                advice:
                    "is there a network? HF_ENDPOINT names a mirror of the hub, HTTPS_PROXY a proxy"
                        .to_owned(),
            },
        },
        ApiError::IoError(source) => FetchError::Network {
            url,
            reason: source.to_string(),
            advice: "run the same command again: it goes on from there".to_owned(),
        },
        other => FetchError::Network {
            url,
            reason: other.to_string(),
            advice: "is HF_ENDPOINT the hub, or a mirror that answers as the hub does?".to_owned(),
        },
    }
}
