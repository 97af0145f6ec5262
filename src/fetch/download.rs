//! Download of one file over HTTP, to a temporary name first; an interrupted download is continued.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, Response, StatusCode};

use super::progress::bar;
use super::{FetchError, Settings};

/// Number of broken connections after which a download fails.
const ATTEMPTS: u32 = 5;

/// File to download.
pub(super) struct Wanted<'a> {
    pub url: &'a str,
    /// Path of the finished file.
    pub path: &'a Path,
}

/// Downloads a file to a temporary name, from which [`place`] moves it.
pub(super) fn download(wanted: &Wanted<'_>, settings: &Settings) -> Result<PathBuf, FetchError> {
    let (part, tag) =
        (path_with_suffix(wanted.path, "part"), path_with_suffix(wanted.path, "part.tag"));
    let folder = wanted.path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(FetchError::disk(folder))?;
    let agent = agent();
    let mut attempt = 0;
    loop {
        let before = length(&part);
        match once(&agent, wanted, &part, &tag, settings)? {
            AttemptResult::Whole => {
                let _ = fs::remove_file(&tag);
                return Ok(part);
            }
            AttemptResult::Cut(reason) => {
                attempt += 1;
                // No further attempt after a connection that brought no bytes.
                if attempt == ATTEMPTS || length(&part) == before {
                    return Err(FetchError::Network {
                        url: wanted.url.to_owned(),
                        reason: format!(
                            "the connection ended after {} bytes: {reason}",
                            length(&part)
                        ),
                        advice: "run the same command again to continue the download".to_owned(),
                    });
                }
                std::thread::sleep(Duration::from_millis(100 << attempt));
            }
        }
    }
}

/// Moves a complete file to its path.
pub(super) fn place(part: &Path, path: &Path) -> Result<(), FetchError> {
    File::open(part).and_then(|file| file.sync_all()).map_err(FetchError::disk(part))?;
    fs::rename(part, path).map_err(FetchError::disk(path))
}

/// Result of an attempt.
enum AttemptResult {
    Whole,
    /// The connection ended before the end of the file.
    Cut(String),
}

fn once(
    agent: &Agent,
    wanted: &Wanted<'_>,
    part: &Path,
    tag: &Path,
    settings: &Settings,
) -> Result<AttemptResult, FetchError> {
    // If the file has changed on the server, or no tag identifies it, the download starts again.
    let known = fs::read_to_string(tag).ok().filter(|_| length(part) > 0);
    let have = if known.is_some() { length(part) } else { 0 };
    let mut request = agent.get(wanted.url).header("Accept-Encoding", "identity");
    if let Some(known) = known {
        request = request.header("Range", format!("bytes={have}-")).header("If-Range", known);
    }
    let response = match request.call() {
        Ok(response) => response,
        Err(error) if have > 0 && matches!(error, ureq::Error::Io(_)) => {
            return Ok(AttemptResult::Cut(error.to_string()));
        }
        Err(error) => return Err(unreachable(wanted.url, &error)),
    };
    let status = response.status();
    let start = match status {
        StatusCode::PARTIAL_CONTENT if starts_at(response.headers(), have) => have,
        StatusCode::OK => 0,
        // The file is complete, or it is longer than the server's.
        StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
            if total(response.headers()) == Some(have) {
                return Ok(AttemptResult::Whole);
            }
            fs::remove_file(part).map_err(FetchError::disk(part))?;
            return once(agent, wanted, part, tag, settings);
        }
        _ => return Err(refused(wanted.url, status.as_u16())),
    };
    let whole = content_length(response.headers()).map(|rest| start + rest);
    remember(tag, response.headers());
    append(response, part, start, whole, wanted, settings)
}

/// Appends the content of a response to the file.
fn append(
    response: Response<ureq::Body>,
    part: &Path,
    start: u64,
    whole: Option<u64>,
    wanted: &Wanted<'_>,
    settings: &Settings,
) -> Result<AttemptResult, FetchError> {
    let disk = || FetchError::disk(part);
    let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(disk())?;
    file.set_len(start).map_err(disk())?;
    let name = wanted.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bar = bar(settings.progress, &name, whole);
    bar.set_position(start);
    let mut reader = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 16];
    let mut have = start;
    let ended = loop {
        match reader.read(&mut buffer) {
            Ok(0) => break None,
            Ok(read) => {
                file.write_all(&buffer[..read]).map_err(disk())?;
                have += read as u64;
                bar.set_position(have);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Some(error.to_string()),
        }
    };
    bar.finish_and_clear();
    Ok(match (ended, whole) {
        (None, Some(whole)) if have < whole => {
            AttemptResult::Cut(format!("{whole} were announced"))
        }
        (None, _) => AttemptResult::Whole,
        (Some(reason), _) => AttemptResult::Cut(reason),
    })
}

fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(Duration::from_secs(120)))
        .user_agent(concat!("fedcast/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Returns true if the content of the response begins at byte `have`.
fn starts_at(headers: &HeaderMap, have: u64) -> bool {
    let range = headers.get("content-range").and_then(|value| value.to_str().ok());
    let start = range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next());
    start.and_then(|start| start.parse().ok()) == Some(have)
}

/// Returns the length of the file on the server, from the response to an unsatisfiable range.
fn total(headers: &HeaderMap) -> Option<u64> {
    headers.get("content-range")?.to_str().ok()?.rsplit('/').next()?.parse().ok()
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get("content-length")?.to_str().ok()?.parse().ok()
}

/// Stores the tag of this version of the file for `If-Range`.
fn remember(path: &Path, headers: &HeaderMap) {
    let strong = headers.get("etag").filter(|etag| !etag.as_bytes().starts_with(b"W/"));
    let tag = strong.or_else(|| headers.get("last-modified")).and_then(|tag| tag.to_str().ok());
    // Without a tag an interrupted download starts again.
    let _ = match tag {
        Some(tag) => fs::write(path, tag),
        None => fs::remove_file(path),
    };
}

fn unreachable(url: &str, error: &ureq::Error) -> FetchError {
    FetchError::Network {
        url: url.to_owned(),
        reason: format!("cannot be reached: {error}"),
        advice: "check the network; set HTTPS_PROXY to use a proxy, FEDCAST_MIRROR to use another server"
            .to_owned(),
    }
}

fn refused(url: &str, status: u16) -> FetchError {
    let advice = match status {
        401 | 403 => {
            "it may be private or gated, or the server refuses programs: download it with a browser and give its path"
        }
        404 | 410 => {
            "it has moved: set FEDCAST_MIRROR to another server, or get the file elsewhere and give its path"
        }
        _ => "try again later: the part downloaded so far is kept",
    };
    FetchError::Status { url: url.to_owned(), status, advice: advice.to_owned() }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Returns the file's path with a suffix.
pub(super) fn path_with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}
