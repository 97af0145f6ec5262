//! `fedcast methods`: list and description of methods, with messages read from their layouts.

mod messages;
mod profile;
mod services;

use clap::{Args, Subcommand};

use crate::cli::failure::CliError;
use crate::cli::{Exit, OutputFormat, print, print_text};
use crate::methods::{MethodEntry, MethodFamily, Registry};
use crate::report::wrapped;

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
        let all: Vec<serde_json::Value> = shown.iter().map(|entry| json(methods, entry)).collect();
        let document = match &args.action {
            None => serde_json::Value::Array(all),
            Some(_) => all.into_iter().collect(),
        };
        print(&format!("{document:#}\n"))?;
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

fn json(methods: &Registry, entry: &MethodEntry) -> serde_json::Value {
    let services: serde_json::Map<String, serde_json::Value> = services::answers(methods, entry)
        .into_iter()
        .map(|(service, refusal)| {
            let why = refusal.map_or(serde_json::Value::Bool(true), |why| why.to_string().into());
            (service.word().to_owned(), why)
        })
        .collect();
    let profile = profile::of(methods, entry).into_iter();
    let profile: Vec<_> =
        profile.map(|(about, says)| serde_json::json!({ "about": about, "says": says })).collect();
    let messages = messages::lines(methods, entry);
    let messages: Vec<&str> = messages.lines().map(str::trim_end).collect();
    serde_json::json!({
        "name": entry.name, "family": entry.family.map(MethodFamily::word), "year": entry.year(),
        "profile": profile, "idea": entry.idea, "source": entry.source,
        "messages": messages, "state": entry.state, "services": services,
        "parameters": entry.params(),
    })
}
