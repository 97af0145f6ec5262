//! What somebody at a terminal is asked; an empty line keeps what is proposed.

use std::fmt::Display;
use std::io::BufRead;
use std::path::PathBuf;
use std::str::FromStr;

use super::template::{Data, Wishes};
use crate::cli::failure::CliError;
use crate::cli::tell::{show, tell};
use crate::methods::Registry;

/// Asks one question after another.
pub(super) fn ask() -> Result<Wishes, CliError> {
    answered(&mut std::io::stdin().lock())
}

/// The same, with answers from anywhere.
fn answered(answers: &mut dyn BufRead) -> Result<Wishes, CliError> {
    let mut wishes = Wishes::default();
    tell("A scenario in a few questions; an empty line takes what stands in brackets.");
    let data: String = asked(
        answers,
        "data: digits, cifar10, cifar100, or a folder of images",
        "digits".to_owned(),
    )?;
    wishes.data = Data::of(data.trim());
    if data.trim() != "digits" {
        let weights: String =
            asked(answers, "weights of a ViT (safetensors), none yet", String::new())?;
        wishes.weights = Some(weights.trim()).filter(|path| !path.is_empty()).map(PathBuf::from);
    }
    let methods = Registry::builtin();
    wishes.method = loop {
        let name: String =
            asked(answers, "method; `fedcast methods` lists them", wishes.method.clone())?;
        match methods.find(name.trim()) {
            Ok(entry) => break entry.name.to_owned(),
            Err(unknown) => tell(&unknown.to_string()),
        }
    };
    wishes.tasks = asked(answers, "tasks", wishes.tasks)?;
    wishes.clients = asked(answers, "clients", wishes.clients)?;
    wishes.rounds = asked(answers, "rounds of a task", wishes.rounds)?;
    let sampled = asked(answers, "clients sampled in a round", wishes.clients)?;
    wishes.sampled = (sampled < wishes.clients).then_some(sampled);
    wishes.beta =
        asked(answers, "Dirichlet beta: 0.1 is very uneven, 100 nearly even", wishes.beta)?;
    Ok(wishes)
}

/// Asks until the answer can be read.
fn asked<T: FromStr + Display>(
    answers: &mut dyn BufRead,
    question: &str,
    proposed: T,
) -> Result<T, CliError> {
    let shown = proposed.to_string();
    loop {
        show(&format!("{question} [{}]: ", if shown.is_empty() { "-" } else { &*shown }));
        let mut line = String::new();
        let read = answers.read_line(&mut line);
        let read = read.map_err(|error| CliError::Unexpected(format!("no answer: {error}")))?;
        if read == 0 {
            return Err(CliError::Usage(
                "the questions were not answered; nothing is written".to_owned(),
            ));
        }
        if line.trim().is_empty() {
            return Ok(proposed);
        }
        match line.trim().parse() {
            Ok(answer) => return Ok(answer),
            Err(_) => tell(&format!("`{}` cannot be read here", line.trim())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_keep_and_others_change_and_slips_are_asked_again() {
        let mut lines: &[u8] = b"birds\n\nhpg\nfedavg\n4\nmany\n7\n\n3\n0.1\n";
        let wishes = answered(&mut lines).unwrap();
        assert_eq!(wishes.data, Data::Folder(PathBuf::from("birds")));
        assert_eq!((&*wishes.method, wishes.tasks, wishes.clients), ("fedavg", 4, 7));
        assert_eq!((wishes.rounds, wishes.sampled, wishes.beta), (5, Some(3), 0.1));
        let mut nothing: &[u8] = b"digits\n";
        assert!(answered(&mut nothing).is_err());
    }
}
