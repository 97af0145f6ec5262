//! Keys that cannot change in the middle of a run.

use toml::{Table, Value};

use super::ForkError;
use crate::experiment::changes::table_of;
use crate::scenario::Scenario;

/// Sections and keys on which earlier training depends: partition, network, clients.
const FIXED: [&str; 12] = [
    "preset",
    "data",
    "tasks",
    "partition",
    "backbone",
    "seed.partition",
    "seed.class_order",
    "method.name",
    "federation.clients",
    "federation.idle_clients",
    "participation.population",
    "wire.form",
];

/// Checks that a run of scenario `recorded` can go on with `scenario`.
///
/// # Errors
/// Returns the first key that differs and must not.
pub(super) fn compare(recorded: &Scenario, scenario: &Scenario) -> Result<(), ForkError> {
    let (then, now) = (table_of(recorded), table_of(scenario));
    let differs = |key: &str| at(&then, key) != at(&now, key);
    if let Some(key) = FIXED.into_iter().find(|key| differs(key)) {
        return Err(ForkError::Fixed { key, reason: "the training so far depends on it" });
    }
    let key = "seed.run";
    if recorded.backbone.is_random() && differs(key) {
        let reason = "the weights of the network were drawn with it before the first round";
        return Err(ForkError::Fixed { key, reason });
    }
    Ok(())
}

fn at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        Some((section, key)) => table.get(section)?.as_table()?.get(key),
        None => table.get(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::Registry;

    fn scenario(seed: u64, backbone: &str) -> Scenario {
        let text = format!(
            "schema = 2\nseed = {{ run = {seed}, partition = 5, class_order = 5 }}\ndata.source = \"digits\"\ntasks.count = 2\npartition.kind = \"iid\"\n\
             method.name = \"fedavg\"\nbackbone.kind = \"{backbone}\""
        );
        let read = Scenario::from_toml(&text, "a.toml", ".".as_ref(), &[], &Registry::builtin());
        read.unwrap().scenario
    }

    #[test]
    fn a_seed_that_drew_the_weights_cannot_change() {
        let compared = |backbone| compare(&scenario(1, backbone), &scenario(2, backbone));
        let error = compared("resnet18").unwrap_err().to_string();
        assert!(error.starts_with("`seed.run` cannot change in the middle of a run: the weights"));
        assert!(compared("pixels").is_ok());
    }
}
