//! `fedcast fetch`: download of data sets and weights by name.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::stderr::print_status;
use super::{Exit, OutputFormat, print, print_json, print_text};
use crate::document::Document;
use crate::fetch::{self, CATALOGUE, CatalogEntry, Fetched, Name, Remote, Settings};
use crate::quantity::Bytes;
use crate::report::wrapped;

/// Column at which descriptions of data sets begin in the list.
const TEXT_COLUMN: usize = 34;

/// Download data sets and weights by name
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast fetch --list                                     names, sizes, licenses, what is here
  fedcast fetch cifar100                                   for data.source = \"cifar100\"
  fedcast fetch imagenet-r                                 for data.path = \"fetched:imagenet-r\"
  fedcast fetch hf:timm/vit_tiny_patch16_224.augreg_in21k  for backbone.weights = \"hf:timm/...\"
  fedcast fetch hf:google-bert/bert-base-uncased:vocab.txt one file of a repository
  fedcast fetch hf:google-bert/bert-base-uncased@REVISION:vocab.txt
  fedcast fetch hf:datasets/OWNER/NAME                     all files of a data set on the hub
  fedcast fetch hf:datasets/OWNER/NAME:mnist               one folder (configuration) of it

Files that exist are not downloaded again. The same command resumes an interrupted download. A file
is moved to its place only if its checksum equals the published one. If no checksum is published,
the digest of the first download is recorded.

Environment:
  FEDCAST_DATA       folder of data sets [default: data/ in fedcast's folder of caches]
  FEDCAST_MIRROR     server with the files MIRROR/NAME/FILE for the names of --list
  FEDCAST_OFFLINE    1: download nothing, as with --offline
  HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE
                     same meaning and same cache as for the hub's own clients

Exit codes: 2 unknown name, 6 download failed.")]
pub struct FetchArgs {
    /// Names of data sets, or hf:... for files of the Hugging Face hub
    #[arg(required_unless_present = "list", value_name = "NAME")]
    pub names: Vec<String>,
    /// List the known data sets
    #[arg(long, conflicts_with = "names")]
    pub list: bool,
    /// Download nothing; report missing files
    #[arg(long)]
    pub offline: bool,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Fetched names as JSON.
#[derive(Serialize, Document)]
pub(super) struct FetchedEntries<'a> {
    /// Names in the given order.
    fetched: &'a [FetchedEntry],
}

/// A fetched name and its path.
#[derive(Serialize, Document)]
struct FetchedEntry {
    /// Name as given.
    name: String,
    /// File or folder.
    path: PathBuf,
    /// True if the files existed already.
    already: bool,
    /// Notices about checksums and licenses.
    notes: Vec<String>,
}

/// Known data sets as JSON.
#[derive(Serialize, Document)]
pub(super) struct KnownDataSets {
    /// Data sets in the order of the list.
    data_sets: Vec<KnownDataSet>,
}

/// Data set that can be fetched by its name.
#[derive(Serialize, Document)]
struct KnownDataSet {
    /// Name.
    name: &'static str,
    /// Content.
    about: &'static str,
    /// Terms of use.
    license: &'static str,
    /// Page of its owners.
    homepage: &'static str,
    /// Size of all files, if it is known.
    bytes: Option<u64>,
    /// Path, if the data set is here.
    path: Option<PathBuf>,
    /// Files to download; none if the data set must be obtained by hand.
    files: Vec<RemoteFile>,
}

/// File to download.
#[derive(Serialize, Document)]
struct RemoteFile {
    /// Address.
    url: &'static str,
    /// Name.
    file: &'static str,
    /// Size, if it is known.
    bytes: Option<u64>,
    /// Published checksum.
    checksum: Option<String>,
}

/// Fetches one name after the other.
pub fn execute(args: &FetchArgs) -> Result<Exit, CliError> {
    let mut settings = Settings { progress: !args.quiet, ..Settings::from_env() };
    if args.offline {
        settings.offline = Some("--offline");
    }
    if args.list {
        return list(&settings, args.format).map(|()| Exit::Done);
    }
    // A wrong name is reported before anything is fetched.
    let names: Result<Vec<Name>, _> = args.names.iter().map(|name| Name::parse(name)).collect();
    let mut entries = Vec::new();
    for name in names? {
        let quiet = args.quiet || args.format == OutputFormat::Json;
        let Fetched { path, already, notes } = fetch_one(&name, &settings, quiet)?;
        if args.format == OutputFormat::Human {
            print(&format!("{}\n", path.display()))?;
        }
        entries.push(FetchedEntry { name: name.to_string(), path, already, notes });
    }
    if args.format == OutputFormat::Json {
        print_json(&FetchedEntries { fetched: &entries })?;
    }
    Ok(Exit::Done)
}

/// Fetches a name and prints the result on stderr, unless `quiet`.
pub(super) fn fetch_one(
    name: &Name,
    settings: &Settings,
    quiet: bool,
) -> Result<Fetched, CliError> {
    let fetched = fetch::fetch(name, settings)?;
    if !quiet {
        let how = if fetched.already { "is here already" } else { "fetched" };
        print_status(&format!("{name}: {how}"));
        fetched.notes.iter().for_each(|note| print_status(&format!("  {note}")));
    }
    Ok(fetched)
}

fn list(settings: &Settings, format: OutputFormat) -> Result<(), CliError> {
    let here = |entry: &'static CatalogEntry| settings.find_data(&Name::Known(entry)).ok();
    let size =
        |entry: &CatalogEntry| -> Option<u64> { entry.files.iter().map(|file| file.bytes).sum() };
    if format == OutputFormat::Json {
        let file = |file: &'static Remote| RemoteFile {
            url: file.url,
            file: file.file,
            bytes: file.bytes,
            checksum: file.checksum.map(|checksum| checksum.to_string()),
        };
        let entry = |entry: &'static CatalogEntry| KnownDataSet {
            name: entry.name,
            about: entry.what,
            license: entry.license,
            homepage: entry.homepage,
            bytes: size(entry),
            path: here(entry),
            files: entry.files.iter().map(file).collect(),
        };
        return print_json(&KnownDataSets { data_sets: CATALOGUE.iter().map(entry).collect() });
    }
    let mut text = String::new();
    for entry in &CATALOGUE {
        let size = match (entry.files.is_empty(), size(entry).filter(|size| *size > 0)) {
            (true, _) => "by hand".to_owned(),
            (_, Some(size)) => Bytes(size).to_string(),
            (_, None) => "unknown".to_owned(),
        };
        let unchecked = entry.files.iter().filter(|file| file.checksum.is_none()).count();
        let checked = match (entry.files.len(), unchecked) {
            (0, _) => entry.by_hand.to_owned(),
            (_, 0) => "checksums published".to_owned(),
            (files, unchecked) => {
                format!("{unchecked} of {files} files without a published checksum")
            }
        };
        let here = if here(entry).is_some() { "here" } else { "" };
        let about = wrapped(entry.what, TEXT_COLUMN);
        text.push_str(&format!("{:<16} {size:>9}  {here:<4}  {}", entry.name, about.trim_start()));
        text.push_str(&wrapped(&format!("license: {}; {checked}", entry.license), TEXT_COLUMN));
    }
    text.push_str(&format!(
        "\n1 MB is 10^6 bytes. Data sets are in {}.\nhf:OWNER/REPO fetches weights, hf:datasets/OWNER/NAME data sets of the \
         Hugging Face hub; they are in {}.\n",
        settings.data.display(),
        settings.hub.display()
    ));
    print_text(&text)
}
