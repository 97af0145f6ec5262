//! `fedcast methods`: the registry, for people. Messages and services are read from the layouts, so they say what is.

mod messages;
mod services;

use clap::{Args, Subcommand};

use crate::cli::failure::CliError;
use crate::cli::{Exit, Format, print};
use crate::methods::{MethodEntry, Registry};

/// List the methods, or explain one: idea, source, messages, state, parameters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast methods
  fedcast methods show hgp")]
pub struct MethodsArgs {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

/// What to tell about methods.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Explain one method
    Show { name: String },
}

/// Lists or explains.
pub fn execute(args: &MethodsArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let shown: Vec<&MethodEntry> = match &args.action {
        None => methods.all().iter().collect(),
        Some(Action::Show { name }) => {
            vec![methods.find(name).map_err(|unknown| CliError::Usage(unknown.to_string()))?]
        }
    };
    if args.format == Format::Json {
        let all: Vec<serde_json::Value> = shown.iter().map(|entry| json(&methods, entry)).collect();
        let document = match &args.action {
            None => serde_json::Value::Array(all),
            Some(_) => all.into_iter().collect(),
        };
        print(&format!("{document:#}\n"))?;
        return Ok(Exit::Done);
    }
    for (place, entry) in shown.iter().enumerate() {
        let gap = if place > 0 { "\n" } else { "" };
        let text = if args.action.is_some() { explain(&methods, entry) } else { brief(entry) };
        print(&format!("{gap}{text}"))?;
    }
    if args.action.is_none() {
        print(&format!("\n{}", services::table(&methods)))?;
        print("\n`fedcast methods show NAME` explains messages, state and parameters.\n")?;
    }
    Ok(Exit::Done)
}

fn brief(entry: &MethodEntry) -> String {
    format!("{}\n{}", entry.name, wrapped(entry.idea, 4))
}

fn explain(methods: &Registry, entry: &MethodEntry) -> String {
    let mut text = format!("{}\n{}", entry.name, wrapped(entry.idea, 4));
    for (title, body) in [("Source", entry.source), ("State", entry.state)] {
        text.push_str(&format!("\n{title}\n{}", wrapped(body, 4)));
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
        for (word, meaning) in &key.choices {
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
    let messages = messages::lines(methods, entry);
    let messages: Vec<&str> = messages.lines().map(str::trim_end).collect();
    serde_json::json!({
        "name": entry.name, "idea": entry.idea, "source": entry.source,
        "messages": messages, "state": entry.state, "services": services,
        "parameters": entry.params(),
    })
}

/// Lines of at most 96 characters, indented.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    let pad = " ".repeat(indent);
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > 96 {
            lines.push_str(&format!("{pad}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&format!("{pad}{line}\n"));
    lines
}
