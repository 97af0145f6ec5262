//! Scenario of a recorded run with overrides.

use std::path::Path;

use super::assemble::AssembleError;
use super::recorded_advice::advised;
use super::run_directory::names;
use crate::methods::Registry;
use crate::scenario::{LinksSection, Override, Scenario, ScenarioError, TimeSection};

/// Returns the recorded scenario with overrides over it. A preset that is changed brings its own defaults.
pub(super) fn changed(
    path: &Path,
    recorded: &Scenario,
    overrides: &[String],
    methods: &Registry,
) -> Result<Scenario, AssembleError> {
    let forgotten = forgotten(recorded, overrides)?;
    let file = path.join(names::SCENARIO);
    let load = |overrides: &[String]| -> Result<Scenario, ScenarioError> {
        let overrides: Vec<Override> = overrides.iter().map(Override::new).collect();
        Ok(Scenario::load_without(&file, &forgotten, &overrides, methods)?.scenario)
    };
    let accepts = |overrides: &[String]| load(overrides).is_ok();
    Ok(load(overrides).map_err(|error| advised(error, &file, overrides, accepts))?)
}

/// Returns the keys whose recorded values are defaults of a preset that an override changes.
fn forgotten(recorded: &Scenario, overrides: &[String]) -> Result<Vec<String>, AssembleError> {
    let written = table_of(recorded);
    let mut forgotten = Vec::new();
    for text in overrides {
        let key = text.split('=').next().unwrap_or_default().trim();
        let defaults = match key {
            "preset" => {
                return Err(AssembleError::unsupported(
                    "`preset` changes faults and cohorts, too",
                    "set time.preset and links.preset",
                ));
            }
            "time.preset" => toml::Value::try_from(TimeSection::of(recorded.time.preset)),
            "links.preset" => toml::Value::try_from(LinksSection::of(recorded.links.preset)),
            _ => continue,
        };
        let (section, _) = key.split_once('.').unwrap_or_default();
        if let (Ok(toml::Value::Table(defaults)), Some(toml::Value::Table(written))) =
            (defaults, written.get(section))
        {
            let same = |(key, value): &(&String, &toml::Value)| {
                *key != "preset" && defaults.get(*key) == Some(*value)
            };
            let keys = written.iter().filter(same).map(|(key, _)| format!("{section}.{key}"));
            forgotten.extend(keys);
        }
    }
    Ok(forgotten)
}

/// Returns the effective scenario as a table.
pub(super) fn table_of(scenario: &Scenario) -> toml::Table {
    // Parsing cannot fail: this program has just written the text.
    scenario.to_effective_toml().parse().unwrap_or_default()
}
