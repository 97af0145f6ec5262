//! A recorded scenario with something else in it.

use std::path::Path;

use super::error::ExperimentError;
use super::run_directory::names;
use crate::methods::Registry;
use crate::scenario::{LinksSection, Override, Scenario, TimeSection};

/// The recorded scenario with overrides over it. A preset that is changed brings its own defaults.
pub(super) fn changed(
    path: &Path,
    recorded: &Scenario,
    overrides: &[String],
    methods: &Registry,
) -> Result<Scenario, ExperimentError> {
    let mut table = table_of(recorded);
    for text in overrides {
        let key = text.split('=').next().unwrap_or_default().trim();
        let defaults = match key {
            "preset" => {
                return Err(ExperimentError::unsupported(
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
            (defaults, table.get_mut(section))
        {
            written.retain(|key, value| key == "preset" || defaults.get(key) != Some(value));
        }
    }
    let text = toml::to_string(&table).unwrap_or_default();
    let overrides: Vec<Override> = overrides.iter().map(Override::new).collect();
    Ok(Scenario::from_toml(&text, names::SCENARIO, path, &overrides, methods)?.scenario)
}

/// The effective scenario as a table.
pub(super) fn table_of(scenario: &Scenario) -> toml::Table {
    // Written by this program a moment ago.
    scenario.to_effective_toml().parse().unwrap_or_default()
}
