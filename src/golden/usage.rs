//! Use of golden vectors: read by a test, not checked, or waiting for their method.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use safetensors::SafeTensors;

use super::{folder, own_folder};

/// Environment variable that, set to 1, makes an absent vector a failure.
const REQUIRED: &str = "FEDCAST_GOLDEN_REQUIRED";

/// Environment variable that hides the usual folder of golden vectors from a process. Only a test below sets it.
pub(super) const ABSENT: &str = "FEDCAST_GOLDEN_ABSENT";

/// Environment variable with a file to which a process writes every vector that it reads. Only the test below sets it.
const LOG: &str = "FEDCAST_GOLDEN_LOG";

/// Vectors that no test reads because their number is not computed here.
///
/// Each has a file, an entry (`*` at its end stands for any text) and the reason.
const WAITING: &[(&str, &str, &str)] = &[
    (
        "adapter",
        "sequential.*",
        "adapters that are fed by the output of the layers they stand behind",
    ),
    ("bert_small", "pooled", "BERT's pooler; methods take tokens"),
    ("metrics", "baseline", "Lopez-Paz's forward transfer"),
    ("metrics", "bwt", "backward transfer, the mean drop of old tasks with the other sign"),
    ("metrics", "fwt_zero_shot", "Lopez-Paz's forward transfer"),
    ("metrics", "learning_accuracy", "the mean accuracy of tasks when they were learned"),
    (
        "metrics",
        "proto.mean_all_pairs",
        "a mean over pairs; the protocol recommends that over classes",
    ),
    ("resnet152", "r152.stage_rms", "every output of a stage; candle's network has features alone"),
    ("resnet152", "r50.stage_rms", "every output of a stage; candle's network has features alone"),
    ("stsa", "dummy.perm", "nothing: the units cut by this order are vectors themselves"),
    ("vit_tiny_real_inputs", "labels", "nothing: no vector of these images depends on a label"),
];

/// Reports once per process that vectors are absent and not checked.
///
/// The report bypasses the capture of the output of tests that pass. Fails if `FEDCAST_GOLDEN_REQUIRED` is set.
pub(super) fn not_checked(what: &str) {
    let required = std::env::var(REQUIRED).is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    assert!(
        !required,
        "{REQUIRED} is set and {what} are not here (FEDCAST_GOLDEN names their folder)"
    );
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().insert(what.to_owned()) {
        // `eprintln!` would be captured. A failure to write is ignored.
        let line = format!("not checked: {what} (not here; FEDCAST_GOLDEN names their folder)\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Records that a test read a vector, if a log is requested.
pub(super) fn note(folder: &Path, file: &str, name: &str) {
    let Some(log) = std::env::var_os(LOG) else { return };
    let line = format!("{}\n", line(folder, file, name));
    static NOTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut noted = NOTED.lock();
    if !noted.contains(&line) {
        let mut log = OpenOptions::new().append(true).create(true).open(log).expect("the log");
        log.write_all(line.as_bytes()).expect("the log");
        noted.insert(line);
    }
}

fn line(folder: &Path, file: &str, name: &str) -> String {
    let set = if folder == own_folder() { "own" } else { "shared" };
    format!("{set} {file} {name}")
}

/// Returns every vector of a folder, by file.
fn stored(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "safetensors"))
        .map(|path| {
            let bytes = std::fs::read(&path).expect("vectors");
            let file = SafeTensors::deserialize(&bytes).expect("safetensors");
            let mut names: Vec<String> = file.names().iter().map(|n| n.to_string()).collect();
            names.sort();
            (path.file_stem().expect("a name").to_string_lossy().into_owned(), names)
        })
        .collect()
}

/// Returns true if a line of [`WAITING`] covers this vector.
fn means((file, pattern, _): &(&str, &str, &str), of: &str, name: &str) -> bool {
    *file == of
        && match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *pattern == name,
        }
}

/// Returns the vectors that all golden tests of this program read, from a run in a separate process.
///
/// In this process other tests may not have run yet, or may not be selected.
fn read_by_tests() -> BTreeSet<String> {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let program = std::env::current_exe().expect("this program");
    let run =
        Command::new(program).arg("golden_").env(LOG, log.path()).output().expect("its tests");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let read = std::fs::read_to_string(log.path()).expect("the log");
    read.lines().map(str::to_owned).collect()
}

/// A vector that is compared with nothing proves nothing.
#[test]
fn every_vector_is_read_or_waits_for_its_method() {
    let read = read_by_tests();
    let mut wrong = Vec::new();
    for (file, names) in stored(&own_folder()) {
        let unread = names.iter().filter(|name| !read.contains(&line(&own_folder(), &file, name)));
        wrong.extend(
            unread.map(|name| format!("tests/vectors/{file}: `{name}` is read by no test")),
        );
    }
    let Some(shared) = folder() else {
        not_checked("golden vectors that no test reads");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        return;
    };
    let mut met = vec![false; WAITING.len()];
    for (file, names) in stored(&shared) {
        for name in names {
            let waits: Vec<usize> =
                (0..WAITING.len()).filter(|i| means(&WAITING[*i], &file, &name)).collect();
            waits.iter().for_each(|i| met[*i] = true);
            match (read.contains(&line(&shared, &file, &name)), waits.first()) {
                (false, None) => {
                    wrong.push(format!("{file}: `{name}` is read by no test and waits for nothing"))
                }
                (true, Some(i)) => {
                    wrong.push(format!(
                        "{file}: `{name}` waits for {} and is read by a test",
                        WAITING[*i].2
                    ));
                }
                _ => (),
            }
        }
    }
    let gone = WAITING.iter().zip(met).filter(|(_, met)| !met);
    wrong.extend(
        gone.map(|((file, entry, _), _)| format!("{file}: nothing is called `{entry}` (WAITING)")),
    );
    assert!(wrong.is_empty(), "{} of them\n{}", wrong.len(), wrong.join("\n"));
}

/// Without the folder a test run reports each file once; if vectors are required, it fails.
#[test]
fn vectors_that_are_not_here_are_said_or_required() {
    let run = |required: Option<&str>| {
        let mut run = Command::new(std::env::current_exe().expect("this program"));
        run.arg("golden_metrics").env(ABSENT, "1");
        run.env_remove(REQUIRED).envs(required.map(|value| (REQUIRED, value)));
        let done = run.output().expect("its tests");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (passes, said) = run(None);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("not checked: ")).collect();
    assert!(passes && lines.len() == 1 && lines[0].contains("metrics.safetensors"), "{said}");
    assert!(!run(Some("1")).0 && run(Some("0")).0 && run(Some("")).0);
}

/// A fresh clone has the package's own vectors.
#[test]
fn own_vectors_are_few_bytes() {
    let entries = std::fs::read_dir(own_folder()).expect("a folder");
    let sizes = entries.map(|entry| entry.expect("an entry").metadata().expect("its size").len());
    assert!(sizes.sum::<u64>() < 200_000);
}

/// Each file states its release and commit, equal to those in the tool that makes it and in the guide.
#[test]
fn vectors_of_released_code_say_whose_they_are() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let (tool, guide) = (read("tools/vectors_released.py"), read("src/guide/testing.md"));
    let mut releases = 0;
    for file in stored(&own_folder()).keys().filter(|file| file.starts_with("released_")) {
        let bytes =
            std::fs::read(own_folder().join(format!("{file}.safetensors"))).expect("vectors");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
        let release = header.metadata().as_ref().and_then(|metadata| metadata.get("release"));
        let release = release.unwrap_or_else(|| panic!("{file} is of no release"));
        let (repository, commit) = release.split_once("/tree/").expect("a commit");
        let repository = repository.strip_prefix("https://github.com/").expect("a repository");
        assert!(tool.contains(&format!("(\"{repository}\", \"{commit}\")")), "{file}: {release}");
        assert!(
            guide.contains(&format!("| `{file}` | {repository} {commit} |")),
            "{file}: {release}"
        );
        releases += 1;
    }
    assert_eq!(releases, 6);
}
