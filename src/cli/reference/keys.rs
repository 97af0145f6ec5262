//! `fedcast keys`: description of every key of a scenario, from the reader's own catalogue.

use clap::Args;

use crate::cli::failure::CliError;
use crate::cli::{Exit, OutputFormat, print};
use crate::methods::Registry;
use crate::report::{TextTable, wrapped};
use crate::scenario::migration::renamed_key;
use crate::scenario::reader::{KnownKey, nearest};
use crate::scenario::{Scenario, below, sections};

/// List the keys of scenarios, or explain a section: type, values, default, meaning, source
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast keys                        every key with its default and meaning
  fedcast keys participation          one section, with the meaning of every value
  fedcast keys client.optimizer.lr    one key
  fedcast keys method.hgp             keys of [method] with name = \"hgp\"
  fedcast keys --format json          the same as JSON

`fedcast schema` prints the keys as JSON Schema for editors. Any key can be set with
--set KEY=VALUE.")]
pub struct KeysArgs {
    /// Section, table inside a section, key, or method.NAME [default: all]
    pub section: Option<String>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Lists all keys or explains those of a section.
pub fn execute(args: &KeysArgs, methods: &Registry) -> Result<Exit, CliError> {
    let keys = asked(args.section.as_deref(), methods)?;
    if args.format == OutputFormat::Json {
        let all: Vec<serde_json::Value> = keys.iter().map(json).collect();
        print(&format!("{:#}\n", serde_json::Value::from(all)))?;
        return Ok(Exit::Done);
    }
    let text = match args.section {
        None => listed(&keys),
        Some(_) => keys.iter().map(explained).collect(),
    };
    print(&text)?;
    Ok(Exit::Done)
}

/// Returns the keys that an argument names.
fn asked(section: Option<&str>, methods: &Registry) -> Result<Vec<KnownKey>, CliError> {
    let method = section.and_then(|section| section.strip_prefix("method."));
    if let Some(name) = method.filter(|name| *name != "name") {
        let name = name.split('.').next().unwrap_or_default();
        methods.find(name).map_err(|unknown| CliError::Usage(unknown.to_string()))?;
        let mut keys = Scenario::method_keys(methods, name).keys;
        for key in &mut keys {
            key.doc.key = format!("method.{}", key.doc.key);
        }
        return Ok(keys);
    }
    let catalogue = Scenario::catalogue();
    let Some(section) = section else { return Ok(catalogue.keys) };
    let path = section.trim_matches(['[', ']']);
    let found: Vec<KnownKey> = below(&catalogue, path).into_iter().cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let leaf = |key: &&KnownKey| key.doc.key.rsplit('.').next() == Some(path);
    let elsewhere: Vec<&str> =
        catalogue.keys.iter().filter(leaf).map(|key| &*key.doc.key).collect();
    let similar = nearest(path, sections().map(|(name, _)| name));
    let help = match (renamed_key(path, None), &elsewhere[..], similar) {
        (Some(renamed), ..) => renamed,
        (None, [], Some(word)) => format!("did you mean `{word}`?"),
        (None, [], None) => "`fedcast keys` lists all of them".to_owned(),
        (None, keys, _) => format!("did you mean {}?", keys.join(" or ")),
    };
    Err(CliError::Usage(format!("unknown key or section `{section}`\n  help: {help}")))
}

/// Columns of the list of all keys.
const WIDTH: usize = 100;

/// Returns a default value as the list of all keys has room for it.
fn shortened(default: String) -> String {
    const MOST: usize = 20;
    match default.chars().count() > MOST {
        true => default.chars().take(MOST - 1).chain(['…']).collect(),
        false => default,
    }
}

/// Lists every key with its default and meaning, by section.
fn listed(keys: &[KnownKey]) -> String {
    let mut text = String::new();
    let top = |key: &KnownKey| key.doc.key.split_once('.').map(|(top, _)| top.to_owned());
    for group in keys.chunk_by(|a, b| top(a) == top(b)) {
        let section = top(&group[0]);
        let about = sections().find(|(name, _)| Some(*name) == section.as_deref());
        text.push_str(&match about {
            Some((name, about)) => format!("[{name}]  {about}\n"),
            None => "at the top\n".to_owned(),
        });
        let mut table = TextTable::new(["key", "default", "meaning"]).left(3).within(WIDTH);
        for key in group {
            table.row([key.doc.key.clone(), shortened(default(key)), key.doc.doc.to_owned()]);
        }
        text.push_str(&table.render());
        if section.as_deref() == Some("method") {
            text.push_str("other keys depend on the method: `fedcast keys method.NAME`\n");
        }
        text.push('\n');
    }
    text.push_str(
        "`fedcast keys SECTION` also shows types, values, conditions and the sources of defaults.\n",
    );
    text
}

fn values(key: &KnownKey) -> String {
    let words: Vec<&str> = key.doc.choices.iter().map(|(word, _)| word.as_str()).collect();
    let kind = match (key.doc.entries, words.is_empty()) {
        (Some(entries), true) => format!("list, each {entries}"),
        (Some(_), false) => format!("list of {}", words.join(", ")),
        (None, true) => key.doc.kind.to_owned(),
        (None, false) => words.join(", "),
    };
    match &key.doc.range {
        Some(range) => format!("{kind}, {range}"),
        None => kind,
    }
}

fn default(key: &KnownKey) -> String {
    match (&key.doc.default, key.doc.required) {
        (Some(default), _) => default.clone(),
        (None, true) => "required".to_owned(),
        (None, false) => "-".to_owned(),
    }
}

/// Describes a key with its values, conditions and source.
fn explained(key: &KnownKey) -> String {
    let default = match default(key).as_str() {
        "required" => "required".to_owned(),
        "-" => "optional".to_owned(),
        default => format!("default {default}"),
    };
    let mut text = format!("{}   ({}; {default})\n", key.doc.key, kind(key));
    text.push_str(&wrapped(key.doc.doc, 4));
    for (word, meaning) in key.doc.choices.iter().filter(|(_, meaning)| !meaning.is_empty()) {
        text.push_str(&wrapped(&format!("{word}: {meaning}"), 6));
    }
    for (other, words) in &key.with {
        text.push_str(&wrapped(&format!("only with {other} = {}", words.join(" or ")), 4));
    }
    if let Some(source) = key.doc.source {
        text.push_str(&wrapped(&format!("default from: {source}"), 4));
    }
    text
}

fn kind(key: &KnownKey) -> String {
    let meanings = key.doc.choices.iter().any(|(_, meaning)| !meaning.is_empty());
    if meanings { key.doc.kind.to_owned() } else { values(key) }
}

fn json(key: &KnownKey) -> serde_json::Value {
    let with: serde_json::Map<String, serde_json::Value> =
        key.with.iter().map(|(other, words)| (other.clone(), words.clone().into())).collect();
    let mut document = serde_json::json!(key.doc);
    document["with"] = with.into();
    document
}
