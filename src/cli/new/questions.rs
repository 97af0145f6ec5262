//! Questions of `fedcast new` on a terminal; an empty line accepts the proposal.

use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::images::Images;
use super::template::{SampleSource, ScenarioAnswers};
use super::{check_partition, fitted, is_beta, look};
use crate::cli::failure::CliError;
use crate::cli::stderr::{print_status, print_styled};
use crate::fetch::{Name, Settings};
use crate::methods::Registry;

/// Asks the questions on stdin and stderr.
pub(super) fn ask(methods: &Registry) -> Result<ScenarioAnswers, CliError> {
    answered(&mut std::io::stdin().lock(), methods)
}

/// Asks the questions and reads the answers from `answers`.
fn answered(answers: &mut dyn BufRead, methods: &Registry) -> Result<ScenarioAnswers, CliError> {
    let mut draft = ScenarioAnswers::default();
    print_status("Questions about the scenario; an empty line accepts the value in brackets.");
    let question = "data: digits, cifar10, cifar100, or a folder of images";
    let data: String =
        asked(answers, question, "digits".to_owned(), |word| check_data_answer(word))?;
    draft.data = SampleSource::of(data.trim());
    if data.trim() != "digits" {
        let question = "weights of a ViT (safetensors), none by default";
        let weights: String =
            asked(answers, question, String::new(), |word| check_weights_answer(word))?;
        draft.weights = Some(weights.trim()).filter(|path| !path.is_empty()).map(PathBuf::from);
    }
    let known = |name: &String| {
        methods.find(name.trim()).map(|_| ()).map_err(|unknown| unknown.to_string())
    };
    let question = "method; `fedcast methods` lists them";
    draft.method = asked(answers, question, draft.method.clone(), known)?.trim().to_owned();
    let classes = classes(&draft.data);
    draft.tasks = asked(answers, "tasks", draft.tasks, |tasks| {
        positive(tasks)?;
        match classes.filter(|classes| tasks > classes) {
            None => Ok(()),
            Some(classes) => {
                Err(format!("there are only {classes} classes, and each task needs at least one"))
            }
        }
    })?;
    let mut again = false;
    loop {
        draft.clients = asked(answers, "clients", draft.clients, positive)?;
        if !again {
            draft.rounds = asked(answers, "rounds per task", draft.rounds, positive)?;
        }
        let clients = draft.clients;
        let question = "clients sampled per round";
        let cohort_size = asked(answers, question, clients, |cohort_size| {
            positive(cohort_size)?;
            let enough = *cohort_size <= clients;
            enough.then_some(()).ok_or_else(|| format!("there are only {clients} clients"))
        })?;
        draft.cohort_size = (cohort_size < clients).then_some(cohort_size);
        let question = "Dirichlet beta: 0.1 is very uneven, 100 nearly even";
        draft.beta = asked(answers, question, draft.beta, |beta: &f64| {
            is_beta(beta).then_some(()).ok_or_else(|| "write a number above 0".to_owned())
        })?;
        match divides(&draft, methods) {
            Ok(()) => return Ok(draft),
            Err(why) => print_status(&why),
        }
        again = true;
    }
}

/// Checks that the answer names a data set or a folder of images.
fn check_data_answer(word: &str) -> Result<(), String> {
    let SampleSource::Folder(path) = SampleSource::of(word.trim()) else { return Ok(()) };
    let shown = path.display();
    match (path.is_dir(), Images::of(&path)) {
        (false, _) => Err(format!(
            "no folder {shown}: write digits, cifar10, cifar100, or the path of a folder of images"
        )),
        (true, Images { train: 0, .. }) => Err(format!(
            "{shown} has no folders of classes with images in them (png, jpg, bmp, webp)"
        )),
        _ => Ok(()),
    }
}

/// Checks that the answer names weights to fetch, or the file of a vision transformer.
fn check_weights_answer(word: &str) -> Result<(), String> {
    let path = Path::new(word.trim());
    match Name::of_path(path) {
        _ if word.trim().is_empty() => Ok(()),
        Some(name) => name.map(|_| ()).map_err(|error| error.to_string()),
        None => {
            let file = Settings::from_env().weights_at(path).map_err(|error| error.to_string())?;
            if !file.is_file() {
                return Err(format!(
                    "no file {}: write its path, or a name such as {}",
                    path.display(),
                    super::template::USUAL_WEIGHTS
                ));
            }
            look::architecture_of(path).map(|_| ()).map_err(|error| error.to_string())
        }
    }
}

/// Returns the number of classes of the data, if known.
fn classes(data: &SampleSource) -> Option<u32> {
    match data {
        SampleSource::Named(name) if name == "cifar100" => Some(100),
        SampleSource::Named(_) => Some(10),
        SampleSource::Folder(path) => u32::try_from(Images::of(path).classes).ok(),
    }
}

fn positive(number: &u32) -> Result<(), String> {
    if *number > 0 { Ok(()) } else { Err("write a number above 0".to_owned()) }
}

/// Checks that the data can be divided among the clients, if class sizes are known.
fn divides(draft: &ScenarioAnswers, methods: &Registry) -> Result<(), String> {
    let folder = std::env::current_dir().unwrap_or_default();
    // Other errors are reported when the file is to be written.
    let Ok(fitted) = fitted(draft, &folder, "new", methods) else { return Ok(()) };
    let divided = check_partition(draft, &fitted.loaded.scenario, &folder, methods);
    divided.map_err(|error| error.to_string())
}

/// Asks until the answer can be parsed and is accepted.
fn asked<T: FromStr + Display>(
    answers: &mut dyn BufRead,
    question: &str,
    proposed: T,
    accepted: impl Fn(&T) -> Result<(), String>,
) -> Result<T, CliError> {
    let shown = proposed.to_string();
    loop {
        print_styled(&format!("{question} [{}]: ", if shown.is_empty() { "-" } else { &*shown }));
        let mut line = String::new();
        let read = answers.read_line(&mut line);
        let read = read.map_err(|error| CliError::Unexpected(format!("no answer: {error}")))?;
        if read == 0 {
            return Err(CliError::Usage(
                "input ended before all questions were answered; no file is written".to_owned(),
            ));
        }
        if line.trim().is_empty() {
            return Ok(proposed);
        }
        let Ok(answer) = line.trim().parse() else {
            print_status(&format!("`{}` is not a valid value", line.trim()));
            continue;
        };
        match accepted(&answer) {
            Ok(()) => return Ok(answer),
            Err(why) => print_status(&why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(lines: &[&str]) -> Result<ScenarioAnswers, CliError> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        answered(&mut text.as_bytes(), &Registry::builtin())
    }

    #[test]
    fn empty_lines_keep_and_others_change_and_slips_are_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        for class in ["auk", "emu", "owl", "jay"] {
            std::fs::create_dir_all(folder.path().join("birds").join(class)).unwrap();
            for image in 0..100 {
                let file = format!("birds/{class}/{image}.png");
                std::fs::write(folder.path().join(file), "").unwrap();
            }
        }
        let birds = folder.path().join("birds").display().to_string();
        let (nowhere, no_weights) = (format!("{birds}/x"), format!("{birds}/vit.safetensors"));
        let image = format!("{birds}/auk");
        let draft = answers(&[
            &nowhere,
            &image,
            &birds,
            &no_weights,
            "fetched:nothing",
            "",
            "hpg",
            "fedavg",
            "0",
            "5",
            "4",
            "many",
            "7",
            "",
            "8",
            "0",
            "3",
            "-1",
            "10",
        ])
        .unwrap();
        assert_eq!(draft.data, SampleSource::Folder(PathBuf::from(&birds)));
        assert_eq!((&*draft.method, draft.tasks, draft.clients), ("fedavg", 4, 7));
        assert_eq!((draft.rounds, draft.cohort_size, draft.beta), (5, Some(3), 10.0));
        assert_eq!(draft.weights, None);
        assert!(answers(&["digits"]).is_err());
    }

    #[test]
    fn clients_that_cannot_all_have_samples_are_asked_for_again() {
        let draft = answers(&["", "", "", "900", "2", "", "", "3", "", ""]).unwrap();
        assert_eq!((draft.clients, draft.rounds, draft.cohort_size), (3, 2, None));
    }
}
