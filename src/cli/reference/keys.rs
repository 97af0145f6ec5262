//! `fedcast keys`: description of every key of a scenario, from the reader's own catalogue.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use crate::cli::failure::CliError;
use crate::cli::{Exit, OutputFormat, print_json, print_text};
use crate::document::Document;
use crate::methods::Registry;
use crate::report::{TextTable, wrapped};
use crate::scenario::migration::renamed_key;
use crate::scenario::reader::{Catalogue, KeyDoc, KnownKey, nearest};
use crate::scenario::{Scenario, below, sections};
use crate::study::Study;

/// List the keys of scenarios, or explain a section: type, values, default, meaning, source
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast keys                        every key with its default and meaning
  fedcast keys participation          one section, with the meaning of every value
  fedcast keys client.optimizer.lr    one key
  fedcast keys method.hgp             keys of [method] with name = \"hgp\"
  fedcast keys study                  keys of study files; also study.report and the like
  fedcast keys --format json          the same as JSON

`fedcast schema` prints the keys as JSON Schema for editors. Any key can be set with
--set KEY=VALUE.")]
pub struct KeysArgs {
    /// Section, table inside a section, key, method.NAME, or study [default: all]
    pub section: Option<String>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Lists all keys or explains those of a section.
pub fn execute(args: &KeysArgs, methods: &Registry) -> Result<Exit, CliError> {
    let keys = keys_of(args.section.as_deref(), methods)?;
    if args.format == OutputFormat::Json {
        print_json(&KnownKeys { keys: keys.iter().map(ListedKey::of).collect() })?;
        return Ok(Exit::Done);
    }
    let text = match args.section {
        None => listed(&keys),
        Some(_) => by_key(&keys).iter().map(|types| explained(types)).collect::<String>(),
    };
    let of_study = args.section.as_deref() == Some(STUDY);
    let text = if of_study { format!("{text}{FREE_KEYS}") } else { text };
    print_text(&text)?;
    Ok(Exit::Done)
}

/// Name under which keys of study files are asked for.
const STUDY: &str = "study";

/// Tables of study files whose keys are names.
const FREE_TABLES: [&str; 3] = ["axes", "exclude", "cell"];

/// Keys of study files that no catalogue can list.
const FREE_KEYS: &str = "
[axes.NAME]   arms of an axis: ARM = { KEY = VALUE, ... } with keys of scenarios, or key = \"KEY\" and values = [...]
[[exclude]]   arms of cells that do not exist: AXIS = \"ARM\", ...
[[cell]]      arms of the cells that it is about, as in [[exclude]], with the keys above
[compare.baseline]   arms that the others are compared with: AXIS = \"ARM\", ...; or the label of an extra cell
[report.names]   names of arms in print: ARM = \"NAME\", ...
";

/// Returns the keys that an argument names.
fn keys_of(section: Option<&str>, methods: &Registry) -> Result<Vec<KnownKey>, CliError> {
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
    let of_studies = Study::catalogue();
    if path == STUDY {
        return Ok(of_studies.keys);
    }
    if let Some(path) = path.strip_prefix("study.") {
        let found: Vec<KnownKey> = below(&of_studies, path).into_iter().cloned().collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
    let found: Vec<KnownKey> = below(&catalogue, path).into_iter().cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let word = path.rsplit('.').next().unwrap_or_default();
    let sibling = similar_sibling(path, &catalogue);
    let found = || sibling.map_or_else(|| places(word, &catalogue, methods), |key| vec![key]);
    let help = renamed_key(path, None).unwrap_or_else(|| match &found()[..] {
        [] => "`fedcast keys` lists all of them".to_owned(),
        places => format!("did you mean {}?", places.join(" or ")),
    });
    Err(CliError::Usage(format!("unknown key or section `{section}`\n  help: {help}")))
}

/// Returns the key with a similar name in the table of a path such as `client.optimizer.lrr`.
fn similar_sibling(path: &str, catalogue: &Catalogue) -> Option<String> {
    let (table, word) = path.rsplit_once('.')?;
    let keys = catalogue.keys.iter().filter_map(|key| key.doc.key.rsplit_once('.'));
    let siblings = keys.filter(|(other, _)| *other == table).map(|(_, name)| name);
    Some(format!("{table}.{}", nearest(word, siblings)?))
}

/// Returns the places where a word is a key, a table or the name of a method.
///
/// If there is none, returns those of a similar word.
fn places(word: &str, catalogue: &Catalogue, methods: &Registry) -> Vec<String> {
    let of_studies = Study::catalogue();
    let keys = catalogue.keys.iter().map(|key| key.doc.key.clone());
    let keys: Vec<String> =
        keys.chain(of_studies.keys.iter().map(|key| format!("study.{}", key.doc.key))).collect();
    let at = |word: &str| -> Vec<String> {
        let method = methods.find(word).ok().map(|_| format!("method.{word}"));
        let free = FREE_TABLES.contains(&word).then(|| STUDY.to_owned());
        let mut found: Vec<String> = method.into_iter().chain(free).collect();
        for place in keys.iter().filter_map(|key| up_to(key, word)) {
            if !found.contains(&place) {
                found.push(place);
            }
        }
        found
    };
    let exact = at(word);
    if !exact.is_empty() {
        return exact;
    }
    let names = methods.all().iter().map(|entry| entry.name);
    let segments = keys.iter().flat_map(|key| key.split('.'));
    let known = segments.chain(sections().map(|(name, _)| name)).chain(names);
    nearest(word, known).map_or_else(Vec::new, |word| {
        match sections().any(|(name, _)| name == word) {
            true => vec![format!("`{word}`")],
            false => at(word),
        }
    })
}

/// Returns a key as far as a word of it.
fn up_to(key: &str, word: &str) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    let place = parts.iter().rposition(|part| *part == word)?;
    Some(parts[..=place].join("."))
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
        for types in by_key(group) {
            let key = types[0];
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

/// Groups the entries of each key that takes values of several types, such as "auto" or a number.
fn by_key(keys: &[KnownKey]) -> Vec<Vec<&KnownKey>> {
    let mut groups: Vec<Vec<&KnownKey>> = Vec::new();
    for key in keys {
        let same = |group: &&mut Vec<&KnownKey>| {
            let one = group[0];
            (&one.doc.key, one.doc.doc, &one.with) == (&key.doc.key, key.doc.doc, &key.with)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(key),
            None => groups.push(vec![key]),
        }
    }
    groups
}

/// Describes a key with its values of all types, conditions and source.
///
/// The default is of the first type.
fn explained(types: &[&KnownKey]) -> String {
    let key = types[0];
    let default = match default(key).as_str() {
        "required" => "required".to_owned(),
        "-" => "optional".to_owned(),
        default => format!("default {default}"),
    };
    let kinds = types.iter().map(|key| kind(key)).collect::<Vec<_>>().join(", or ");
    let mut text = format!("{}   ({kinds}; {default})\n", key.doc.key);
    text.push_str(&wrapped(key.doc.doc, 4));
    let choices = types.iter().flat_map(|key| key.doc.choices.iter());
    for (word, meaning) in choices.filter(|(_, meaning)| !meaning.is_empty()) {
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

/// Keys as JSON.
#[derive(Serialize, Document)]
pub(in crate::cli) struct KnownKeys<'a> {
    /// Keys, in the order of the list.
    keys: Vec<ListedKey<'a>>,
}

/// Key with the condition under which it is valid.
#[derive(Serialize, Document)]
struct ListedKey<'a> {
    #[serde(flatten)]
    doc: &'a KeyDoc,
    /// Conditions: other keys, and their words with which this key is valid.
    #[document(keys("key"))]
    with: BTreeMap<&'a str, &'a [String]>,
}

impl<'a> ListedKey<'a> {
    fn of(key: &'a KnownKey) -> ListedKey<'a> {
        let with = key.with.iter().map(|(other, words)| (other.as_str(), words.as_slice()));
        ListedKey { doc: &key.doc, with: with.collect() }
    }
}
