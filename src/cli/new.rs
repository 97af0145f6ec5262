//! `fedcast new`: commented scenario, and study of methods over it, from options or from questions.

mod absent;
mod images;
mod look;
mod needs;
mod questions;
mod sources;
mod study_file;
mod template;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::CliError;
use super::{Exit, print};
use crate::data::DataError;
use crate::experiment::assemble::divide;
use crate::files::{Disk, shell_word};
use crate::methods::Registry;
use crate::scenario::{GivenFolder, Loaded, Scenario, ScenarioError};
use crate::study::default_directory;
use needs::candidates;
pub use sources::NewBackbone;
use study_file::KeyChange;
use template::ScenarioAnswers;

/// Write a commented scenario, from options or, on a terminal, from questions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast new                                        asks questions
  fedcast new a.toml --method fedavg --clients 20 --beta 0.5
  fedcast new birds.toml --data ../birds --weights ../vit_tiny.safetensors --tasks 5
  fedcast new birds.toml --data ../birds --backbone resnet18 --method fedavg --tasks 5
  fedcast new a.toml --method stsa --cohort-size 10 && fedcast run a.toml
  fedcast new a.toml --study fedavg,hgp --seeds 3    a.study.toml, too, over these methods

The scenario passes `fedcast check`, and its partition is possible if class sizes are known. Keys
that it leaves out have documented defaults: see `fedcast keys`.")]
pub struct NewArgs {
    /// The file to write [default: scenario.toml]
    pub file: Option<PathBuf>,
    /// Method; `fedcast methods` lists them [default: hgp; fedavg with resnet18, for hgp needs a transformer]
    #[arg(long)]
    pub method: Option<String>,
    /// Data: digits, cifar10, cifar100, or a folder of images, relative to the current folder [default: digits]
    #[arg(long)]
    pub data: Option<String>,
    /// Network: with resnet18, images of any kind are learned from scratch, without a download [default: vit]
    #[arg(long, value_name = "KIND")]
    pub backbone: Option<NewBackbone>,
    /// Weights of a ViT: a file (relative to the current folder) or a name such as hf:timm/vit_tiny_patch16_224.augreg_in21k
    /// [default: that name; for digits the small transformer inside the program]
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Architecture of the weights: vit-tiny-patch16-224, vit-small-patch16-224, vit-base-patch16-224, or a table as
    /// in `fedcast keys backbone.architecture` [default: from the file, else from its name]
    #[arg(long, value_name = "SHAPE")]
    pub architecture: Option<String>,
    /// Number of tasks of equal numbers of classes [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tasks: Option<u32>,
    /// Number of clients [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: Option<u32>,
    /// Rounds per task [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Clients sampled per round [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cohort_size: Option<u32>,
    /// Dirichlet parameter of the partition: 0.1 is very uneven, 100 nearly even [default: 0.5]
    #[arg(long, value_name = "X", value_parser = parsed_beta)]
    pub beta: Option<f64>,
    /// Fewest training samples per client and task; 0 for few images and many clients [default: 1]
    #[arg(long, value_name = "N")]
    pub min_samples: Option<u32>,
    /// Methods of a study, written next to the scenario as NAME.study.toml; the first is its baseline
    #[arg(long, value_name = "METHODS", value_delimiter = ',')]
    pub study: Vec<String>,
    /// Seeds of every arm of the study [default: 3]
    #[arg(long, value_name = "N", requires = "study", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
}

/// Returns true if a Dirichlet distribution may have this parameter.
fn is_beta(beta: &f64) -> bool {
    beta.is_finite() && *beta > 0.0
}

/// Parses the parameter of a Dirichlet distribution.
fn parsed_beta(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(is_beta).ok_or_else(|| "a number above 0 is needed, such as 0.5".to_owned())
}

impl NewArgs {
    /// Returns true if no option describes the scenario, so that questions may be asked.
    fn says_nothing(&self) -> bool {
        let NewArgs {
            method,
            data,
            backbone,
            weights,
            architecture,
            tasks,
            clients,
            rounds,
            cohort_size,
            beta,
            min_samples,
            ..
        } = self;
        let words = [method, data, architecture].iter().all(|word| word.is_none());
        let counts =
            [tasks, clients, rounds, cohort_size, min_samples].iter().all(|count| count.is_none());
        words
            && counts
            && backbone.is_none()
            && weights.is_none()
            && beta.is_none()
            && self.study.is_empty()
    }
}

/// Writes the scenario to the file.
pub fn execute(args: &NewArgs, methods: &Registry) -> Result<Exit, CliError> {
    let on_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from("scenario.toml"));
    check_writable(&file, args.force)?;
    let study = (!args.study.is_empty()).then(|| file.with_extension("study.toml"));
    study.iter().try_for_each(|study| check_writable(study, args.force))?;
    let mut draft = match args.file.is_none() && args.says_nothing() && on_terminal {
        true => questions::ask(methods)?,
        false => ScenarioAnswers::of(args),
    };
    if let (None, Some(first)) = (&args.method, args.study.first()) {
        draft.method.clone_from(first);
    }
    methods.find(&draft.method).map_err(|unknown| CliError::Usage(unknown.to_string()))?;
    sources::check_data(&draft.data)?;
    sources::check_weights(&draft)?;
    if let (None, Some(weights), NewBackbone::Vit) =
        (&draft.architecture, &draft.weights, draft.backbone)
    {
        draft.architecture = look::architecture_of(weights)?;
    }
    let place = std::path::absolute(&file).map_err(|error| cannot(&file, &error))?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    // A scenario that is known not to run is not written.
    let Fitted { text, loaded } = fitted(&draft, folder, &name, methods)?;
    check_partition(&draft, &loaded.scenario, folder, methods)?;
    let arms = arms(&args.study, &draft, &text, folder, methods)?;
    Disk::default().replace(&file, text.as_bytes()).map_err(|error| cannot(&file, &error))?;
    let shown = file.display();
    let word = shell_word(&file);
    let fetches = absent::commands(&draft.data, &loaded.scenario);
    if let Some(study) = &study {
        let scenario = file.file_name().unwrap_or_default().to_string_lossy();
        let text = study_file::text(&scenario, &name, &arms, args.seeds.unwrap_or(SEEDS));
        Disk::default().replace(study, text.as_bytes()).map_err(|error| cannot(study, &error))?;
        let (directory, word) = (shell_word(default_directory(&name)), shell_word(study));
        let study = study.display();
        return print(&format!(
            "{shown} and {study} are written. Next:\n{fetches}  fedcast study {word} --plan\n  fedcast study {word}\n  \
             fedcast report {directory}\n"
        ))
        .map(|()| Exit::Done);
    }
    print(&format!(
        "{shown} is written. Next:\n{fetches}  fedcast check {word}\n  fedcast plan {word}\n  fedcast run {word}\n"
    ))?;
    for ignored in loaded.scenario.ignored() {
        super::stderr::print_status(&format!("note: {ignored}"));
    }
    Ok(Exit::Done)
}

/// Number of seeds of a new study.
const SEEDS: u32 = 3;

/// Returns the arms of a study: each method, with its changes to the scenario.
///
/// # Errors
/// Fails if there is no such method, or no valid scenario with it.
fn arms(
    names: &[String],
    draft: &ScenarioAnswers,
    base: &str,
    folder: &Path,
    methods: &Registry,
) -> Result<Vec<(String, Vec<KeyChange>)>, CliError> {
    let parse =
        |text: &str| -> toml::Table { text.parse().expect("a scenario that was read is TOML") };
    let base = parse(base);
    let mut arms: Vec<(String, Vec<KeyChange>)> = Vec::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        methods.find(name).map_err(|unknown| CliError::Usage(unknown.to_string()))?;
        if arms.iter().any(|(known, _)| known == name) {
            return Err(CliError::Usage(format!("--study: `{name}` is there twice")));
        }
        let of_method = ScenarioAnswers { method: name.clone(), ..draft.clone() };
        let Fitted { text, .. } = fitted(&of_method, folder, name, methods)?;
        let mut changes = study_file::changes(&base, &parse(&text));
        // The base may have another method, whose keys are not this one's.
        if !changes.iter().any(|(path, _)| path == "method") {
            changes.push(("method".to_owned(), parse(&text)["method"].clone()));
        }
        arms.push((name.clone(), changes));
    }
    Ok(arms)
}

/// Checks that a file may be written: it is no folder, and does not exist or may be replaced.
fn check_writable(file: &Path, force: bool) -> Result<(), CliError> {
    let shown = file.display();
    if let Some(GivenFolder { what, .. }) = GivenFolder::at(file, "scenario") {
        let message = format!(
            "cannot write {shown}: {what}\n  help: name the file to write, such as {}",
            file.join("scenario.toml").display()
        );
        return Err(CliError::Usage(message));
    }
    match file.exists() && !force {
        true => Err(CliError::Usage(format!(
            "{shown} exists already\n  help: name another file, or replace it with --force"
        ))),
        false => Ok(()),
    }
}

/// A valid scenario and its text.
struct Fitted {
    text: String,
    loaded: Loaded,
}

/// Returns the requested scenario, with additions that its method needs.
///
/// # Errors
/// Returns the error of the scenario without additions if none makes it valid.
fn fitted(
    draft: &ScenarioAnswers,
    folder: &Path,
    name: &str,
    methods: &Registry,
) -> Result<Fitted, ScenarioError> {
    let mut first = None;
    for needs in candidates() {
        let text = ScenarioAnswers { needs, ..draft.clone() }.text(folder);
        match Scenario::from_toml(&text, name, folder, &[], methods) {
            Ok(loaded) => return Ok(Fitted { text, loaded }),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(first.expect("a scenario without additions is tried first"))
}

/// Checks that the partition is possible, if class sizes are known; else suggests other options.
///
/// # Errors
/// Fails if a task has too few samples for its clients.
fn check_partition(
    draft: &ScenarioAnswers,
    scenario: &Scenario,
    folder: &Path,
    methods: &Registry,
) -> Result<(), DataError> {
    let Err(mut error) = divide(scenario) else { return Ok(()) };
    if let DataError::Infeasible { advice, .. } | DataError::Unfit { advice, .. } = &mut error {
        let known = [("partition.beta = ", "--beta "), ("federation.clients = ", "--clients ")];
        for (key, option) in known {
            *advice = advice.replace(key, option);
        }
        if !advice.contains("`--")
            && let Some(options) = options_that_divide(draft, folder, methods)
        {
            *advice = format!("`{options}` divides every task (tried)");
        }
        *advice = advice.replace("partition.min_samples = ", "--min-samples ");
    }
    Err(error)
}

/// Number of draws of a partition that serves only as advice.
const DRAWS: u32 = 50;

/// Searches for fewer clients with a more even partition that can be drawn.
fn options_that_divide(
    draft: &ScenarioAnswers,
    folder: &Path,
    methods: &Registry,
) -> Option<String> {
    let halved = std::iter::successors(Some(draft.clients), |clients| Some(clients / 2));
    let counts = halved.take_while(|clients| *clients > 0);
    let even = [1.0, 5.0, 20.0, 100.0].into_iter().filter(|beta| *beta > draft.beta);
    let pairs = counts.flat_map(|clients| even.clone().map(move |beta| (clients, beta)));
    let works = |(clients, beta): &(u32, f64)| {
        let cohort_size = draft.cohort_size.map(|cohort_size| cohort_size.min(*clients));
        let tried =
            ScenarioAnswers { clients: *clients, beta: *beta, cohort_size, ..draft.clone() };
        let Ok(Fitted { mut loaded, .. }) = fitted(&tried, folder, "new", methods) else {
            return false;
        };
        loaded.scenario.partition.attempts = DRAWS;
        divide(&loaded.scenario).is_ok()
    };
    let (clients, beta) = pairs.into_iter().find(works)?;
    Some(format!("--clients {clients} --beta {beta}"))
}

fn cannot(file: &Path, error: &std::io::Error) -> CliError {
    CliError::Usage(format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::assemble::blueprint;
    use template::SampleSource;

    /// A file in `/somewhere`.
    fn file(draft: &ScenarioAnswers, methods: &Registry) -> Fitted {
        let fitted = fitted(draft, Path::new("/somewhere"), "new", methods);
        fitted.unwrap_or_else(|error| panic!("{draft:?}\n{error}"))
    }

    #[test]
    fn of_every_method_a_file_is_written_that_can_be_planned() {
        let methods = Registry::builtin();
        for entry in methods.all() {
            for (data, tasks) in [("digits", 5), ("digits", 2), ("cifar100", 10)] {
                let (method, data) = (entry.name.to_owned(), SampleSource::of(data));
                let draft = ScenarioAnswers { method, data, tasks, ..ScenarioAnswers::default() };
                let Fitted { text, loaded } = file(&draft, &methods);
                assert_eq!(loaded.scenario.method.name, entry.name);
                let planned = blueprint(&loaded.scenario, &methods).map(|_| ());
                planned.unwrap_or_else(|error| panic!("{text}\n{error}"));
                divide(&loaded.scenario).unwrap_or_else(|error| panic!("{text}\n{error}"));
            }
        }
    }

    #[test]
    fn only_what_a_method_needs_is_added() {
        let methods = Registry::builtin();
        let text = |method: &str| {
            let draft = ScenarioAnswers { method: method.to_owned(), ..ScenarioAnswers::default() };
            file(&draft, &methods).text
        };
        let added = ["optimizer", "pool", "auxiliary"];
        let of = |method: &str| added.map(|word| text(method).contains(word));
        assert_eq!(of("fedavg"), [false; 3]);
        assert_eq!(of("scaffold"), [true, false, false]);
        assert_eq!(of("coda-prompt"), [false, true, false]);
        assert_eq!(of("cfed"), [false, false, true]);
        assert!(text("coda-prompt").contains("pool = 50  "), "{}", text("coda-prompt"));
    }

    #[test]
    fn a_partition_that_cannot_be_is_refused_with_an_option_that_works() {
        let methods = Registry::builtin();
        let with = |clients: u32, beta: f64| {
            let draft = ScenarioAnswers { clients, beta, ..ScenarioAnswers::default() };
            let scenario = file(&draft, &methods).loaded.scenario;
            check_partition(&draft, &scenario, Path::new("/somewhere"), &methods)
        };
        // Neither alone would do.
        let both = with(150, 0.05).unwrap_err().to_string();
        let words: Vec<&str> = both.split('`').nth(1).unwrap().split(' ').collect();
        assert_eq!((words[0], words[2]), ("--clients", "--beta"), "{both}");
        with(words[1].parse().unwrap(), words[3].parse().unwrap()).unwrap();
        let error = with(200, 0.5).unwrap_err().to_string();
        assert!(
            error.contains("task 1 has ") && error.contains(" samples for 200 clients"),
            "{error}"
        );
        let (option, value) = error.split('`').nth(1).unwrap().split_once(' ').unwrap();
        match option {
            "--clients" => with(value.parse().unwrap(), 0.5),
            "--beta" => with(200, value.parse().unwrap()),
            other => panic!("{other}: {error}"),
        }
        .unwrap();
    }
}
