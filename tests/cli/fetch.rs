//! Promises: what has a name is fetched once, whole or not at all, and found by scenarios; nothing else asks the
//! network. A server inside the test stands for all servers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::command::{CommandOutput, fedcast, read, run_command, run_fedcast};
use crate::printed::printed;

/// Request to the server of the test.
struct Asked {
    path: String,
    headers: BTreeMap<String, String>,
}

impl Asked {
    /// First byte of the requested range.
    fn from(&self) -> Option<usize> {
        self.headers.get("range")?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()
    }
}

/// Answers every connection with what `answer` writes; `asked` keeps paths and ranges.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Ok(mut stream) = stream else { return };
                    let Some(request) = request(&stream) else { return };
                    let range = request.headers.get("range").cloned().unwrap_or_default();
                    kept.lock()
                        .unwrap()
                        .push(format!("{} {range}", request.path).trim().to_owned());
                    answer(&request, &mut stream);
                });
            }
        });
        Server { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn request(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    Some(Asked { path, headers })
}

fn send(stream: &mut TcpStream, status: &str, headers: &[String], body: &[u8]) {
    let mut head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(body);
}

/// A range of a file, as servers send it.
fn send_from(asked: &Asked, stream: &mut TcpStream, headers: &[String], body: &[u8]) {
    let Some(from) = asked.from() else { return send(stream, "200 OK", headers, body) };
    let mut headers = headers.to_vec();
    if from >= body.len() {
        headers.push(format!("Content-Range: bytes */{}", body.len()));
        return send(stream, "416 Range Not Satisfiable", &headers, b"");
    }
    let to = match asked.headers["range"].ends_with("-0") {
        true => 0,
        false => body.len() - 1,
    };
    headers.push(format!("Content-Range: bytes {from}-{to}/{}", body.len()));
    send(stream, "206 Partial Content", &headers, &body[from..=to]);
}

fn fetch(folder: &Path, server: &Server, arguments: &[&str]) -> CommandOutput {
    let arguments = [&["fetch"], arguments].concat();
    let mut command = fedcast(folder, &arguments);
    command.env_remove("FEDCAST_OFFLINE").env("FEDCAST_DATA", folder.join("data"));
    run_command(command.env("FEDCAST_MIRROR", &server.address).env("HF_ENDPOINT", &server.address))
}

/// A play of two speakers, long enough to be cut.
fn play() -> Vec<u8> {
    let line = |number: usize| {
        let speaker = if number.is_multiple_of(2) { "First Citizen" } else { "Second Citizen" };
        format!("{speaker}:\nLine {number} of the play, spoken aloud.\n\n")
    };
    (0..4_000).map(line).collect::<String>().into_bytes()
}

#[test]
fn a_file_is_fetched_once_recorded_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(|asked, stream| send_from(asked, stream, &[], &play()));
    let output = fetch(folder, &server, &["tinyshakespeare"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let path = folder.join("data/tinyshakespeare/input.txt");
    assert_eq!(output.out.trim(), path.to_str().unwrap());
    assert_eq!(fs::read(&path).unwrap(), play());
    assert!(output.err.contains("no checksum is published; recorded: SHA-256"), "{}", output.err);
    assert!(output.err.contains("license: "), "{}", output.err);
    let record: serde_json::Value =
        serde_json::from_str(&read(folder.join("data/tinyshakespeare.json"))).unwrap();
    assert_eq!(record["files"][0]["bytes"], play().len());
    // Files that are here are not requested again, and can be used offline.
    let output = fetch(folder, &server, &["tinyshakespeare", "--offline"]);
    assert!(output.code == 0 && output.err.contains("is here already"), "{}", output.err);
    assert_eq!(server.asked(), ["/tinyshakespeare/input.txt"]);
    // A later version is not taken for the first one.
    fs::remove_file(&path).unwrap();
    let other = Server::new(|asked, stream| send_from(asked, stream, &[], b"something else"));
    let output = fetch(folder, &other, &["tinyshakespeare"]);
    assert!(output.code == 6 && output.err.contains("at its first download"), "{}", output.err);
    assert!(!path.exists());
}

#[test]
fn the_document_of_names_fits_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(|asked, stream| send_from(asked, stream, &[], &play()));
    let run = || fetch(folder, &server, &["tinyshakespeare", "--format", "json"]);
    let first = printed("fetch", &run());
    let path = folder.join("data/tinyshakespeare/input.txt");
    let entry = &first["fetched"][0];
    assert_eq!(entry["name"], "tinyshakespeare");
    assert_eq!(entry["path"], path.to_str().unwrap());
    assert_eq!(entry["already"], false);
    let notes = entry["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with("license: ")), "{notes:?}");
    let again = printed("fetch", &run());
    assert_eq!(again["fetched"][0]["already"], true);
    assert_eq!(again["fetched"].as_array().unwrap().len(), 1);
    // As an error, on stderr.
    let error = printed("error", &fetch(folder, &server, &["cifar-10", "--format", "json"]));
    assert_eq!(error["error"]["exit"], 2);
}

#[test]
fn a_cut_download_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let times = AtomicUsize::new(0);
    let server = Server::new(move |asked, stream| {
        let etag = ["ETag: \"one\"".to_owned()];
        if times.fetch_add(1, Ordering::SeqCst) == 0 {
            let whole = play();
            let head = format!(
                "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: {}\r\n\r\n",
                whole.len()
            );
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&whole[..100_000]);
            return;
        }
        assert_eq!(asked.headers["if-range"], "\"one\"");
        send_from(asked, stream, &etag, &play());
    });
    let output = fetch(folder, &server, &["tinyshakespeare"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(fs::read(folder.join("data/tinyshakespeare/input.txt")).unwrap(), play());
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let from = asked[1].strip_prefix("/tinyshakespeare/input.txt bytes=").unwrap();
    let from: usize = from.trim_end_matches('-').parse().unwrap();
    assert!(from > 0 && from <= 100_000, "{asked:?}");
    assert_eq!(fs::read_dir(folder.join("data/tinyshakespeare")).unwrap().count(), 1);
}

#[test]
fn a_server_that_ignores_ranges_sends_the_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let data = folder.join("data/tinyshakespeare");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("input.txt.part"), "of an earlier attempt").unwrap();
    let server = Server::new(|_, stream| send(stream, "200 OK", &[], &play()));
    let output = fetch(folder, &server, &["tinyshakespeare"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(fs::read(data.join("input.txt")).unwrap(), play());
    // One that had all of it already.
    fs::rename(data.join("input.txt"), data.join("input.txt.part")).unwrap();
    let server = Server::new(|asked, stream| send_from(asked, stream, &[], &play()));
    assert_eq!(fetch(folder, &server, &["tinyshakespeare"]).code, 0);
    assert_eq!(fs::read(data.join("input.txt")).unwrap(), play());
}

#[test]
fn what_is_not_as_published_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(|asked, stream| send_from(asked, stream, &[], b"no archive"));
    let output = fetch(folder, &server, &["cifar100"]);
    assert_eq!(output.code, 6, "{}", output.err);
    for said in
        ["cifar-100-binary.tar.gz", "MD5 03b5dce01913d631647c71ecec9e9cb8", "has been removed"]
    {
        assert!(output.err.contains(said), "{}", output.err);
    }
    // Files that were put there by hand are not removed.
    let cub = folder.join("data/cub200");
    fs::create_dir_all(&cub).unwrap();
    fs::write(cub.join("CUB_200_2011.tgz"), "of another").unwrap();
    let output = fetch(folder, &server, &["cub200"]);
    assert!(output.code == 6 && output.err.contains("exists and has MD5"), "{}", output.err);
    assert_eq!(read(cub.join("CUB_200_2011.tgz")), "of another");
    let left: Vec<_> = fs::read_dir(folder.join("data/cifar100")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn errors_of_servers_and_names_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(|_, stream| send(stream, "404 Not Found", &[], b"gone"));
    let output = fetch(folder, &server, &["cifar10"]);
    assert!(output.code == 6 && output.err.contains("404 (not found)"), "{}", output.err);
    assert!(output.err.contains("FEDCAST_MIRROR"), "{}", output.err);
    let output = fetch(folder, &server, &["hf:owner/repo"]);
    assert!(output.code == 6 && output.err.contains("404"), "{}", output.err);
    let output = fetch(folder, &server, &["cifar-10"]);
    assert!(output.code == 2 && output.err.contains("did you mean `cifar10`"), "{}", output.err);
    let output = fetch(folder, &server, &["cars196"]);
    assert!(output.code == 6 && output.err.contains("data.path"), "{}", output.err);
    let before = server.asked().len();
    for name in ["cifar10", "hf:owner/repo"] {
        let output = fetch(folder, &server, &[name, "--offline"]);
        assert!(output.code == 6 && output.err.contains("--offline"), "{}", output.err);
        let mut command = fedcast(folder, &["fetch", name]);
        let output = run_command(command.env("FEDCAST_OFFLINE", "0").env("HF_HUB_OFFLINE", "true"));
        assert!(output.code == 6 && output.err.contains("HF_HUB_OFFLINE is set"), "{}", output.err);
    }
    assert_eq!(server.asked().len(), before, "nobody was asked");
    let unreachable = Server { address: "http://127.0.0.1:9".to_owned(), asked: Arc::default() };
    let output = fetch(folder, &unreachable, &["cifar10"]);
    assert!(output.code == 6 && output.err.contains("cannot be reached"), "{}", output.err);
}

#[test]
fn redirections_lead_to_other_servers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let far = Server::new(|asked, stream| send_from(asked, stream, &[], &play()));
    let there = format!("Location: {}/elsewhere/play.txt", far.address);
    let near =
        Server::new(move |_, stream| send(stream, "302 Found", std::slice::from_ref(&there), b""));
    let output = fetch(folder, &near, &["tinyshakespeare"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(far.asked(), ["/elsewhere/play.txt"]);
    assert_eq!(fs::read(folder.join("data/tinyshakespeare/input.txt")).unwrap(), play());
}

/// Of `model.safetensors`, which the hub calls by its SHA-256.
const CONTENT: &[u8] = b"abc";
const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// The hub: an index of files, and files that lie on a server of their own.
fn hub(content: &'static [u8]) -> (Server, Server) {
    let far = Server::new(move |asked, stream| send_from(asked, stream, &[], content));
    let there = format!("Location: {}/blob", far.address);
    let near = Server::new(move |asked, stream| match asked.path.as_str() {
        "/api/models/owner/repo/revision/main" => {
            let json = br#"{"sha": "c0ffee", "siblings": [{"rfilename": "README.md"}, {"rfilename": "model.safetensors"}]}"#;
            send(stream, "200 OK", &["Content-Type: application/json".to_owned()], json);
        }
        "/owner/repo/resolve/main/model.safetensors" => {
            let headers = [
                there.clone(),
                "X-Repo-Commit: c0ffee".to_owned(),
                format!("X-Linked-Etag: \"{SHA256}\""),
                "ETag: \"other\"".to_owned(),
            ];
            send(stream, "302 Found", &headers, b"");
        }
        _ => send(stream, "404 Not Found", &[], b""),
    });
    (near, far)
}

#[test]
fn files_of_the_hub_lie_where_its_own_clients_look() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (near, _far) = hub(CONTENT);
    let output = fetch(folder, &near, &["hf:owner/repo"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains(&format!("as published: SHA-256 {SHA256}")), "{}", output.err);
    let cache = folder.join("caches/huggingface/hub/models--owner--repo");
    assert_eq!(fs::read(cache.join("blobs").join(SHA256)).unwrap(), CONTENT);
    assert_eq!(fs::read(cache.join("snapshots/c0ffee/model.safetensors")).unwrap(), CONTENT);
    assert_eq!(read(cache.join("refs/main")), "c0ffee");
    let asked = near.asked().len();
    let output = fetch(folder, &near, &["hf:owner/repo"]);
    assert!(output.code == 0 && output.err.contains("is here already"), "{}", output.err);
    assert_eq!(near.asked().len(), asked);
    // One that Python has put there.
    let other = folder.join("caches/huggingface/hub/models--owner--other");
    fs::create_dir_all(other.join("snapshots/123")).unwrap();
    fs::create_dir_all(other.join("refs")).unwrap();
    fs::write(other.join("refs/main"), "123").unwrap();
    fs::write(other.join("snapshots/123/pytorch_model.bin"), "x").unwrap();
    let output = fetch(folder, &near, &["hf:owner/other", "hf:owner/other@123:pytorch_model.bin"]);
    assert!(output.code == 0 && output.out.matches("snapshots/123").count() == 2, "{}", output.err);
}

#[test]
fn a_data_set_of_the_hub_stays_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(|_, stream| {
        let json = br#"{"sha": "c0ffee", "siblings": [{"rfilename": "a.parquet"}, {"rfilename": "../../evil"}]}"#;
        send(stream, "200 OK", &["Content-Type: application/json".to_owned()], json);
    });
    let output = fetch(folder, &server, &["hf:datasets/owner/repo"]);
    assert!(
        output.code == 6 && output.err.contains("../../evil would be outside"),
        "{}",
        output.err
    );
    assert_eq!(server.asked(), ["/api/datasets/owner/repo/revision/main"]);
}

#[test]
fn a_network_in_several_files_is_fetched_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(move |asked, stream| {
        let file = asked.path.rsplit('/').next().unwrap();
        let headers = ["X-Repo-Commit: c0ffee".to_owned(), format!("ETag: \"{file}\"")];
        match file {
            "main" => {
                let json = br#"{"sha": "c0ffee", "siblings": [{"rfilename": "model.safetensors.index.json"},
                    {"rfilename": "1.safetensors"}, {"rfilename": "2.safetensors"}, {"rfilename": "x.bin"}]}"#;
                send(stream, "200 OK", &["Content-Type: application/json".to_owned()], json);
            }
            "model.safetensors.index.json" => {
                let index = br#"{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}"#;
                send_from(asked, stream, &headers, index);
            }
            _ => send_from(asked, stream, &headers, file.as_bytes()),
        }
    });
    let output = fetch(folder, &server, &["hf:owner/large"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let index = Path::new(output.out.trim()).to_owned();
    assert!(index.ends_with("snapshots/c0ffee/model.safetensors.index.json"), "{}", output.out);
    for shard in ["1.safetensors", "2.safetensors"] {
        assert_eq!(read(index.with_file_name(shard)), shard);
    }
    assert!(!index.with_file_name("x.bin").exists());
    let output = fetch(folder, &server, &["hf:owner/large"]);
    assert!(output.code == 0 && output.err.contains("is here already"), "{}", output.err);
    // One of them is not there: it is no network.
    fs::remove_file(index.with_file_name("2.safetensors")).unwrap();
    let output = fetch(folder, &server, &["hf:owner/large", "--offline"]);
    assert!(output.code == 6 && output.err.contains("--offline"), "{}", output.err);
    assert_eq!(fetch(folder, &server, &["hf:owner/large"]).code, 0);
    assert_eq!(read(index.with_file_name("2.safetensors")), "2.safetensors");
}

#[test]
fn a_data_set_of_the_hub_that_was_cut_off_is_not_taken_for_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cut = Arc::new(AtomicUsize::new(1));
    let is_cut = Arc::clone(&cut);
    let server = Server::new(move |asked, stream| {
        let headers = ["X-Repo-Commit: c0ffee".to_owned(), "ETag: \"tag\"".to_owned()];
        match asked.path.rsplit('/').next().unwrap() {
            "main" => {
                let json = br#"{"sha": "c0ffee", "siblings": [{"rfilename": "a.csv"}, {"rfilename": "b.csv"}]}"#;
                send(stream, "200 OK", &["Content-Type: application/json".to_owned()], json);
            }
            "b.csv" if is_cut.load(Ordering::SeqCst) == 1 => {
                send(stream, "404 Not Found", &[], b"")
            }
            _ => send_from(asked, stream, &headers, b"class,x\n0,1\n"),
        }
    });
    let name = "hf:datasets/owner/table";
    let output = fetch(folder, &server, &[name]);
    assert!(output.code == 6 && output.err.contains("404"), "{}", output.err);
    let scenario =
        PIXELS.replace("\"cifar100\"", &format!("\"folder\", stored_size = 8, path = \"{name}\""));
    fs::write(folder.join("table.toml"), scenario).unwrap();
    let run = || run_fedcast(folder, &["run", "table.toml", "-q"]);
    let output = run();
    assert!(
        output.code == 6 && output.err.contains("1 of its 2 files are missing, b.csv first"),
        "{}",
        output.err
    );
    assert!(output.err.contains(&format!("complete it: fedcast fetch {name}")), "{}", output.err);
    let output = fetch(folder, &server, &[name, "--offline"]);
    assert!(output.code == 6 && output.err.contains("--offline"), "{}", output.err);
    cut.store(0, Ordering::SeqCst);
    let output = fetch(folder, &server, &[name]);
    assert_eq!(output.code, 0, "{}", output.err);
    let asked = server.asked().len();
    let output = fetch(folder, &server, &[name]);
    assert!(output.code == 0 && output.err.contains("is here already"), "{}", output.err);
    assert_eq!(server.asked().len(), asked);
    assert!(!run().err.contains("missing"), "{}", run().err);
    // What another program has put there says nothing of what it left out.
    fs::remove_dir_all(folder.join("caches/huggingface/hub/datasets--owner--table/fedcast"))
        .unwrap();
    assert!(run().err.contains("there is no list of its files"), "{}", run().err);
}

#[test]
fn files_of_the_hub_that_are_not_what_it_says_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (near, _far) = hub(b"abd");
    let output = fetch(folder, &near, &["hf:owner/repo"]);
    assert!(output.code == 6 && output.err.contains("is not the published file"), "{}", output.err);
    let cache = folder.join("caches/huggingface/hub/models--owner--repo");
    assert!(!cache.join("blobs").join(SHA256).exists());
    assert!(!cache.join("snapshots/c0ffee/model.safetensors").exists());
}

/// A linear head on the pixels of CIFAR-100 or of what else is named.
const PIXELS: &str = r#"
schema = 2
data = { source = "cifar100", nominal = { classes = 100, train = 1000, test = 100 } }
tasks = { count = 2 }
partition = { kind = "iid", min_samples = 1 }
backbone = { kind = "pixels" }
method = { name = "fedavg", train = "head" }
federation = { clients = 2, rounds = 1 }
client = { epochs = 1, batch_size = 64 }
"#;

/// CIFAR-100 in its binary layout, ten images per class to train with and one to test with.
fn cifar(folder: &Path) {
    let records = |each: usize| -> Vec<u8> {
        let record = |number: usize| {
            let (coarse, fine) = (0, (number % 100) as u8);
            [&[coarse, fine][..], &[(number * 7) as u8; 3_072]].concat()
        };
        (0..each * 100).flat_map(record).collect()
    };
    fs::create_dir_all(folder).unwrap();
    let file = fs::File::create(folder.join("cifar-100-binary.tar.gz")).unwrap();
    let gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let names: String = (0..100).map(|class| format!("class{class}\n")).collect();
    for (name, bytes) in [
        ("train.bin", records(10)),
        ("test.bin", records(1)),
        ("fine_label_names.txt", names.into_bytes()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, format!("cifar-100-binary/{name}"), &bytes[..]).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap();
}

#[test]
fn scenarios_find_what_was_fetched_or_say_how() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("pixels.toml"), PIXELS).unwrap();
    let execute = |arguments: &[&str]| {
        let arguments = [&arguments[..1], &["pixels.toml"], &arguments[1..]].concat();
        let mut command = fedcast(folder, &arguments);
        run_command(command.env("FEDCAST_DATA", folder.join("data")))
    };
    let plan = execute(&["plan"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    let missing = execute(&["run", "-q"]);
    assert!(missing.code == 6 && missing.err.contains("fedcast fetch cifar100"), "{}", missing.err);
    // The scenario is valid all the same; a check says what a run here needs.
    let check = execute(&["check"]);
    assert_eq!((check.code, &*check.out), (0, "pixels.toml: valid\n"), "{}", check.err);
    let note = "note: cifar100 has not been fetched (looked in ";
    let help = "= help: fetch it: fedcast fetch cifar100";
    assert!(check.err.starts_with(note) && check.err.contains(help), "{}", check.err);
    assert!(
        check.err.contains("--> pixels.toml:3:") && check.err.contains("^ not on this machine")
    );
    let nowhere = ["data.source=\"folder\"", "data.path=\"nowhere\"", "data.stored_size=8"];
    let nowhere = nowhere.map(|set| ["--set", set]).concat();
    let check = execute(&[&["check"], &nowhere[..]].concat());
    assert_eq!(check.code, 0, "{}", check.err);
    assert!(
        check.err.contains("/nowhere does not exist\n") && check.err.contains("set data.path to"),
        "{}",
        check.err
    );
    let missing = execute(&["run", "-q", "--fetch"]);
    assert!(missing.code == 6 && missing.err.contains("FEDCAST_OFFLINE is set"), "{}", missing.err);
    let named = ["--set", "data.source=\"folder\"", "--set", "data.stored_size=8", "--set"];
    let missing =
        execute(&[&["run", "-q"], &named[..], &["data.path=\"fetched:imagenet-r\""]].concat());
    assert!(
        missing.code == 6 && missing.err.contains("fedcast fetch imagenet-r"),
        "{}",
        missing.err
    );
    let wrong = execute(&[&["check"], &named[..], &["data.path=\"fetched:imagenet-q\""]].concat());
    assert!(wrong.code == 3 && wrong.err.contains("did you mean `imagenet-"), "{}", wrong.err);
    assert!(wrong.err.contains("= help: `fedcast fetch --list` shows"), "{}", wrong.err);
    let vit = ["--set", "backbone={kind=\"vit\",weights=\"hf:nobody/vit\"}"];
    let wrong = execute(&[&["check"], &vit[..]].concat());
    assert!(wrong.err.contains("= help: fetch it: fedcast fetch hf:nobody/vit, or state"));

    let study = "schema = 2\nbase = \"pixels.toml\"\nreplicates = 2\n";
    fs::write(folder.join("pixels.study.toml"), study).unwrap();
    let of_study = || {
        let mut command = fedcast(folder, &["check", "pixels.study.toml"]);
        run_command(command.env("FEDCAST_DATA", folder.join("data")))
    };
    let check = of_study();
    assert_eq!((check.code, &*check.out), (0, "pixels.study.toml: valid, 2 runs\n"));
    assert_eq!(check.err.matches("note: cifar100 has not been fetched").count(), 1);
    assert!(check.err.contains(help), "{}", check.err);

    cifar(&folder.join("data/cifar100"));
    assert_eq!(execute(&["check"]).err, "");
    assert_eq!(of_study().err, "");
    let run = execute(&["run", "-q", "--fetch", "-o", "run"]);
    assert_eq!(run.code, 0, "{}", run.err);
    // The name stands in the effective scenario, not the place where this machine keeps it.
    let effective = read(folder.join("run/scenario.effective.toml"));
    assert!(!effective.contains("path"), "{effective}");
}

#[test]
fn the_list_has_sizes_licenses_and_what_is_here() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let data = folder.join("data/cifar100");
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("cifar-100-binary.tar.gz"), "put here by hand").unwrap();
    let mut command = fedcast(folder, &["fetch", "--list"]);
    let output = run_command(command.env("FEDCAST_DATA", "data").env("HF_HUB_CACHE", "hub"));
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!("fetch_list", output.out);
    let output = run_fedcast(folder, &["fetch", "--list", "--format", "json"]);
    let list: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        list["data_sets"][2]["files"][0]["checksum"],
        "MD5 03b5dce01913d631647c71ecec9e9cb8"
    );
}

#[test]
fn a_folder_of_a_configuration_is_fetched_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::new(move |asked, stream| {
        let headers = ["X-Repo-Commit: c0ffee".to_owned(), "ETag: \"tag\"".to_owned()];
        match asked.path.rsplit('/').next().unwrap() {
            "main" => {
                let json = br#"{"sha": "c0ffee", "siblings": [{"rfilename": "README.md"},
                    {"rfilename": "one/train.csv"}, {"rfilename": "one/test.csv"}, {"rfilename": "two/train.csv"}]}"#;
                send(stream, "200 OK", &["Content-Type: application/json".to_owned()], json);
            }
            _ => send_from(asked, stream, &headers, b"label,x\n0,1\n1,2\n"),
        }
    });
    let output = fetch(folder, &server, &["hf:datasets/owner/table:three"]);
    assert!(output.code == 6 && output.err.contains("no file or folder three"), "{}", output.err);
    assert!(output.err.contains("it has README.md, one, one/test.csv"), "{}", output.err);
    let name = "hf:datasets/owner/table:one";
    let output = fetch(folder, &server, &[name]);
    assert_eq!(output.code, 0, "{}", output.err);
    let place = Path::new(output.out.trim()).to_owned();
    assert!(place.ends_with("snapshots/c0ffee/one"), "{}", output.out);
    assert!(place.join("test.csv").is_file() && !place.with_file_name("two").exists());
    let asked = server.asked().len();
    let output = fetch(folder, &server, &[name]);
    assert!(output.code == 0 && output.err.contains("is here already"), "{}", output.err);
    assert_eq!(server.asked().len(), asked);
    let scenario =
        PIXELS.replace("\"cifar100\"", &format!("\"table\", width = 1, path = \"{name}\""));
    fs::write(folder.join("table.toml"), scenario).unwrap();
    let output = run_fedcast(folder, &["plan", "table.toml"]);
    assert_eq!(output.code, 0, "{}", output.err);
    // The other folder is not here, and all of the data set is not known to be.
    let output =
        run_fedcast(folder, &["plan", "table.toml", "--set", "data.path=hf:datasets/owner/table"]);
    assert!(output.err.contains("are missing") || output.code == 0, "{}", output.err);
    let output = fetch(folder, &server, &["hf:datasets/owner/table:two", "--offline"]);
    assert!(output.code == 6 && output.err.contains("--offline"), "{}", output.err);
}
