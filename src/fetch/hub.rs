//! The Hugging Face hub, through its own client and in its own cache: what Python has fetched is found here, and the other
//! way round.

use std::fs;
use std::path::{Component, Path, PathBuf};

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

use super::checksum::Sums;
use super::{FetchError, Fetched, HubName, Settings};

/// Files of weights, those that are read without conversion first.
const WEIGHTS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// How often a connection may end.
const ATTEMPTS: u32 = 5;

fn repo(name: &HubName) -> Repo {
    let kind = if name.dataset { RepoType::Dataset } else { RepoType::Model };
    Repo::with_revision(name.repo.clone(), kind, name.revision.clone())
}

/// The folder of a revision in the cache; `None` where nothing of it has been fetched.
pub(super) fn find_folder(name: &HubName, settings: &Settings) -> Option<PathBuf> {
    let (repo, cache) = (repo(name), Cache::new(settings.hub.clone()));
    let reference = settings.hub.join(repo.folder_name()).join("refs").join(&name.revision);
    // A commit is its own reference.
    let commit = fs::read_to_string(reference);
    let commit = commit.map_or_else(|_| name.revision.clone(), |text| text.trim().to_owned());
    let folder = cache.repo(repo).pointer_path(&commit);
    folder.is_dir().then_some(folder)
}

/// A file of it, or of a model its weights.
pub(super) fn find_file(name: &HubName, settings: &Settings) -> Option<PathBuf> {
    let folder = find_folder(name, settings)?;
    let there = |file: &str| Some(folder.join(file)).filter(|path| path.is_file());
    match &name.file {
        Some(file) => there(file),
        None => WEIGHTS.into_iter().find_map(there),
    }
}

/// Brings a file, the weights of a model, or all files of a data set.
pub(super) fn fetch(name: &HubName, settings: &Settings) -> Result<Fetched, FetchError> {
    let whole = name.dataset && name.file.is_none();
    if let Some(path) = find_file(name, settings).filter(|_| !whole) {
        return Ok(Fetched { path, already: true, notes: vec![] });
    }
    if let Some(why) = settings.offline {
        if let Some(path) = find_folder(name, settings).filter(|_| whole) {
            let notes = vec!["offline: whether all of its files are there is not known".to_owned()];
            return Ok(Fetched { path, already: true, notes });
        }
        return Err(FetchError::Offline {
            name: name.to_string(),
            place: settings.hub.clone(),
            why,
        });
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
        Some(file) => vec![file.clone()],
        None => listed(&api, name, settings)?,
    };
    let mut notes = Vec::new();
    let mut paths = Vec::new();
    for file in &files {
        let path = download(&api, file, name, settings)?;
        notes.push(format!("{file}: {}", compared(&path, file, &api)?));
        paths.push(path);
    }
    notes.push(format!("licence: see {}/{}", settings.endpoint, repo(name).url()));
    let path = match &paths[..] {
        [only] if !whole => only.clone(),
        _ => find_folder(name, settings).ok_or_else(|| no_files(name))?,
    };
    Ok(Fetched { path, already: false, notes })
}

/// The files that are wanted where none is named.
fn listed(api: &ApiRepo, name: &HubName, settings: &Settings) -> Result<Vec<String>, FetchError> {
    let info = api.info().map_err(|error| failed(name, settings, &error))?;
    let files: Vec<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
    if let Some(file) = files.iter().find(|file| !stays_inside(file)) {
        let why = format!("its file {file} would lie outside of its folder");
        let advice = "name one of its other files: :FILE".to_owned();
        return Err(FetchError::ByHand { name: name.to_string(), why, advice });
    }
    if name.dataset {
        let data: Vec<String> = files.into_iter().filter(|file| !file.starts_with('.')).collect();
        return if data.is_empty() { Err(no_files(name)) } else { Ok(data) };
    }
    match WEIGHTS.into_iter().find(|wanted| files.iter().any(|file| file == wanted)) {
        Some(file) => Ok(vec![file.to_owned()]),
        None => {
            let most: Vec<&str> = files.iter().map(String::as_str).take(8).collect();
            Err(FetchError::ByHand {
                name: name.to_string(),
                why: format!("it has neither {} nor {}", WEIGHTS[0], WEIGHTS[1]),
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
