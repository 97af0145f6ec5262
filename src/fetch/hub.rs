//! Access to the Hugging Face hub through its own client and cache, which Python shares.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

use super::checksum::FileChecksums;
use super::hub_list::{Extent, HubList, lies_in};
use super::{FetchError, Fetched, HubName, Settings};
use crate::weights::shards_of;

/// Names of files of weights, in the order of preference.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// End of the name of a file that lists the files of a network.
const INDEX: &str = ".index.json";

/// Maximum number of connections for one file; each continues the download of the one before.
const ATTEMPTS: u32 = 5;

fn repo(name: &HubName) -> Repo {
    let kind = if name.dataset { RepoType::Dataset } else { RepoType::Model };
    Repo::with_revision(name.repo.clone(), kind, name.revision.clone())
}

/// Returns the folder of a repository in the cache.
fn repository(name: &HubName, settings: &Settings) -> PathBuf {
    settings.hub.join(repo(name).folder_name())
}

/// Returns the commit of a revision when it was last fetched; a commit is returned as it is.
fn commit(name: &HubName, settings: &Settings) -> String {
    let reference = repository(name, settings).join("refs").join(&name.revision);
    let commit = fs::read_to_string(reference);
    commit.map_or_else(|_| name.revision.clone(), |text| text.trim().to_owned())
}

/// Returns the folder of a revision in the cache, existing or not.
fn folder(name: &HubName, settings: &Settings) -> PathBuf {
    Cache::new(settings.hub.clone()).repo(repo(name)).pointer_path(&commit(name, settings))
}

/// Returns the part of a data set, or of the folder that the name gives, that is in the cache.
pub(super) fn extent(name: &HubName, settings: &Settings) -> Extent {
    let (repository, commit) = (repository(name, settings), commit(name, settings));
    HubList::extent(&repository, &commit, folder(name, settings), name.file.as_deref())
}

/// Returns a file of a data set, or the weights of a model.
pub(super) fn find_file(name: &HubName, settings: &Settings) -> Option<PathBuf> {
    let folder = folder(name, settings);
    let there = |file: &str| Some(folder.join(file)).filter(|path| path.is_file());
    let found = match &name.file {
        Some(file) => there(file),
        None => WEIGHTS.into_iter().find_map(there),
    }?;
    // All files of a network have to be there.
    shards(&found, name)
        .ok()?
        .iter()
        .all(|shard| found.with_file_name(shard).is_file())
        .then_some(found)
}

/// Returns the files that a fetched index lists.
fn shards(path: &Path, name: &HubName) -> Result<Vec<String>, FetchError> {
    if name.dataset || !path.to_string_lossy().ends_with(INDEX) {
        return Ok(Vec::new());
    }
    shards_of(path, &name.to_string()).map_err(|error| FetchError::ByHand {
        name: name.to_string(),
        why: error.to_string().lines().next().unwrap_or_default().to_owned(),
        advice: "give another of its files: :FILE".to_owned(),
    })
}

/// Downloads a file, the weights of a model, or all files of a data set or of one of its folders.
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
    notes.push(format!("license: see {}/{}", settings.endpoint, repo(name).url()));
    let path = match (&paths[..], &name.file) {
        ([only], Some(file)) if *file == files[0] => only.clone(),
        ([only], None) if !name.dataset => only.clone(),
        (_, Some(within)) => folder(name, settings).join(within),
        _ => folder(name, settings),
    };
    Ok(Fetched { path, already: false, notes })
}

/// Returns the file that a name gives, or all files of the folder that it gives.
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

/// Returns the files to fetch if the name gives none.
fn listed(api: &ApiRepo, name: &HubName, settings: &Settings) -> Result<Vec<String>, FetchError> {
    let info = api.info().map_err(|error| failed(name, settings, &error))?;
    let files: Vec<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
    if let Some(file) = files.iter().chain([&info.sha]).find(|file| !stays_inside(file)) {
        let why = format!("its file {file} would be outside of its folder");
        let advice = "give one of its other files: :FILE".to_owned();
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
                advice: format!("give one of its files: {name}:FILE; it has {}", most.join(", ")),
            })
        }
    }
}

/// Returns true if a file is inside the folder; names come from the author of the repository.
fn stays_inside(file: &str) -> bool {
    !file.contains('\\')
        && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
}

fn no_files(name: &HubName) -> FetchError {
    let advice = "check repository and revision".to_owned();
    FetchError::ByHand { name: name.to_string(), why: "it has no files".to_owned(), advice }
}

/// Downloads a file; every attempt continues the last one.
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

/// Returns true if a connection ended after it had begun.
fn is_cut(error: &ApiError) -> bool {
    matches!(error, ApiError::IoError(_))
}

/// Compares a file with its digest on the hub: that of a large file is its SHA-256.
fn compared(path: &Path, file: &str, api: &ApiRepo) -> Result<String, FetchError> {
    let blob = path.canonicalize().map_err(FetchError::disk(path))?;
    let tag = blob.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if tag.len() != 64 || !tag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok("the hub publishes no digest of such small files".to_owned());
    }
    let sums = FileChecksums::of(&blob).map_err(FetchError::disk(&blob))?;
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
        advice: "it has been removed: fetch it again from the beginning",
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
                    404 => "check the name: hf:OWNER/REPO, and :FILE for one of its files",
                    _ => "try again later: the part downloaded so far is kept",
                };
                FetchError::Status { url, status, advice: advice.to_owned() }
            }
            ref other => FetchError::Network {
                url,
                reason: format!("cannot be reached: {other}"),
                advice:
                    "check the network; set HF_ENDPOINT to use a mirror of the hub, HTTPS_PROXY to use a proxy"
                        .to_owned(),
            },
        },
        ApiError::IoError(source) => FetchError::Network {
            url,
            reason: source.to_string(),
            advice: "run the same command again to continue the download".to_owned(),
        },
        other => FetchError::Network {
            url,
            reason: other.to_string(),
            advice: "check that HF_ENDPOINT is the hub or a mirror with the same interface".to_owned(),
        },
    }
}
