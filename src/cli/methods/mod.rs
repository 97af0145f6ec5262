//! `fedcast methods`: list and description of methods, with messages read from their layouts.

mod messages;
mod profile;
mod services;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use crate::cli::failure::CliError;
use crate::cli::{Exit, OutputFormat, print, print_json, print_text};
use crate::document::Document;
use crate::methods::{MethodEntry, MethodFamily, Registry};
use crate::policy::{Capability, CapabilityError};
use crate::report::wrapped;
use crate::scenario::reader::KeyDoc;

/// List the methods, or explain one: idea, source, messages, state, parameters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast methods
  fedcast methods show hgp")]
pub struct MethodsArgs {
    #[command(subcommand)]
    pub action: Option<MethodsAction>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

/// Subcommand of `fedcast methods`.
#[derive(Debug, Subcommand)]
pub enum MethodsAction {
    /// Explain one method
    Show { name: String },
}

/// Lists the methods or explains one.
pub fn execute(args: &MethodsArgs, methods: &Registry) -> Result<Exit, CliError> {
    let shown: Vec<&MethodEntry> = match &args.action {
        None => methods.all().iter().collect(),
        Some(MethodsAction::Show { name }) => {
            vec![methods.find(name).map_err(|unknown| CliError::Usage(unknown.to_string()))?]
        }
    };
    if args.format == OutputFormat::Json {
        let methods = shown.iter().map(|entry| described(methods, entry)).collect();
        print_json(&DescribedMethods { methods })?;
        return Ok(Exit::Done);
    }
    if args.action.is_some() {
        shown.iter().try_for_each(|entry| print_text(&explain(methods, entry)))?;
        return Ok(Exit::Done);
    }
    print_text(&list(methods))?;
    print_text(&services::table(methods).to_string())?;
    print("\n`fedcast methods show NAME` explains messages, state and parameters.\n")?;
    Ok(Exit::Done)
}

/// Lists every method, by family.
fn list(methods: &Registry) -> String {
    let families = MethodFamily::ALL.into_iter().map(Some).chain([None]);
    let mut text = String::new();
    for family in families {
        let title = family.map_or("Others", MethodFamily::title);
        let mut of_family = methods.all().iter().filter(|entry| entry.family == family).peekable();
        if of_family.peek().is_some() {
            text.push_str(&format!("{title}\n"));
        }
        let last = of_family.clone().count();
        for (place, entry) in of_family.enumerate() {
            let year = entry.year().map_or_else(String::new, |year| year.to_string());
            text.push_str(&format!("  {:14}{year}\n{}", entry.name, wrapped(entry.idea, 4)));
            if place + 1 == last {
                text.push('\n');
            }
        }
    }
    text
}

fn explain(methods: &Registry, entry: &MethodEntry) -> String {
    let family = entry.family.map_or(String::new(), |family| format!("   ({})", family.title()));
    let mut text = format!("{}{family}\n{}", entry.name, wrapped(entry.idea, 4));
    for (title, body) in [("Source", entry.source), ("State", entry.state)] {
        text.push_str(&format!("\n{title}\n{}", wrapped(body, 4)));
    }
    text.push_str("\nProfile    (with default settings)\n");
    for (word, sentence) in profile::of(methods, entry) {
        // The first line begins after its word, the others below it.
        let lines = wrapped(&sentence, 20);
        text.push_str(&format!("    {word:16}{}", lines.trim_start()));
    }
    text.push_str(
        "\nMessages   (ViT-Tiny, 100 classes in ten tasks, a client of the second task)\n",
    );
    text.push_str(&messages::lines(methods, entry));
    text.push_str("\nServices   (with default settings)\n");
    text.push_str(&services::lines(methods, entry));
    text.push_str("\nKeys of [method]\n");
    for key in entry.params() {
        let default = match (&key.default, key.required) {
            (Some(default), _) => format!(" = {default}"),
            (None, true) => ", required".to_string(),
            (None, false) => ", optional".to_string(),
        };
        let range = key.range.map(|range| format!(", {range}")).unwrap_or_default();
        text.push_str(&format!("    {}{default}   ({}{range})\n", key.key, key.kind));
        text.push_str(&wrapped(key.doc, 8));
        for (word, meaning) in key.choices.iter() {
            text.push_str(&wrapped(&format!("{word}: {meaning}"), 10));
        }
        if let Some(source) = key.source {
            text.push_str(&wrapped(&format!("default from: {source}"), 8));
        }
    }
    text
}

/// Methods as JSON.
#[derive(Serialize, Document)]
pub(in crate::cli) struct DescribedMethods {
    /// Methods, in the order of the list.
    methods: Vec<DescribedMethod>,
}

/// Description of a method.
#[derive(Serialize, Document)]
struct DescribedMethod {
    /// Value of `method.name`.
    name: &'static str,
    /// Name in tables and legends, if it is another.
    name_in_print: Option<&'static str>,
    /// List that shows the method.
    family: Option<&'static str>,
    /// Year of the paper.
    year: Option<u16>,
    /// Needs, ignored keys, client state and costs.
    profile: Vec<ProfileSentence>,
    /// Idea, in a sentence or two.
    idea: &'static str,
    /// Paper.
    source: &'static str,
    /// Messages, as lines of text.
    messages: Vec<String>,
    /// Things that server and clients keep, in words.
    state: &'static str,
    /// Services: true, or the reason why one is not supported.
    #[document(keys("service"))]
    services: BTreeMap<&'static str, Value>,
    /// Keys of `[method]`.
    parameters: Vec<KeyDoc>,
}

/// Statement on a method.
#[derive(Serialize, Document)]
struct ProfileSentence {
    /// Topic.
    about: &'static str,
    /// Statement.
    says: String,
}

fn described(methods: &Registry, entry: &MethodEntry) -> DescribedMethod {
    let answer = |(service, refusal): (Capability, Option<CapabilityError>)| {
        let why = refusal.map_or(Value::Bool(true), |why| why.to_string().into());
        (service.word(), why)
    };
    let profile = profile::of(methods, entry).into_iter();
    let messages = messages::lines(methods, entry);
    DescribedMethod {
        name: entry.name,
        name_in_print: entry.name_in_print,
        family: entry.family.map(MethodFamily::word),
        year: entry.year(),
        profile: profile.map(|(about, says)| ProfileSentence { about, says }).collect(),
        idea: entry.idea,
        source: entry.source,
        messages: messages.lines().map(|line| line.trim_end().to_owned()).collect(),
        state: entry.state,
        services: services::answers(methods, entry).into_iter().map(answer).collect(),
        parameters: entry.params(),
    }
}
