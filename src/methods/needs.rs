//! What a method asks of a scenario, said before anything is loaded.

use crate::model::backbone_config;
use crate::scenario::{
    Complaint, DataSource, EpochSchedule, Leftover, OptimiserSection, PartitionKind, Population,
    Scenario, WireForm,
};

/// One demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Something lives in the blocks of a vision transformer.
    Blocks {
        /// What does, as the subject of a sentence.
        what: &'static str,
        /// How to do without.
        instead: &'static str,
    },
    /// Blocks are left behind those that something else takes, from block 0 on.
    BlocksBehind {
        /// The key that says how many are taken.
        key: &'static str,
        /// How many.
        taken: u32,
        /// What takes them, in the plural.
        by: &'static str,
        /// What lives behind them, in the plural.
        rest: &'static str,
    },
    /// Every task gets as many of some things.
    EachTask {
        /// The key that says how many there are.
        key: &'static str,
        /// How many.
        count: u32,
        /// What they are, in the plural.
        what: &'static str,
    },
    /// Vectors as wide as a feature are orthogonal.
    Orthogonal {
        /// The key that says how many there are.
        key: &'static str,
        /// How many.
        count: u32,
        /// What they are, in the plural.
        what: &'static str,
    },
    /// `method.top` prompts are chosen from a pool of `method.pool`.
    Choice {
        /// How many are chosen.
        top: u32,
        /// How many there are.
        pool: u32,
    },
    /// The backbone itself is trained.
    TrainableBackbone {
        /// What to train otherwise.
        instead: &'static str,
    },
    /// Clients descend by plain gradient steps: what a client moved is then the sum of its gradients times their rates.
    PlainSgd {
        /// What is read off those steps, as the subject of a sentence.
        what: &'static str,
        /// How else to do without; nothing where there is no other way.
        otherwise: Option<&'static str>,
        /// What to set in place of a weight decay of the optimiser, where that is wrong.
        decay: Option<&'static str>,
    },
    /// There are samples that belong to no client.
    Auxiliary {
        why: &'static str,
        /// How else to do without.
        otherwise: &'static str,
        /// Whether they travel, so that all images must be of one size.
        sent: bool,
    },
    /// The server has a shard of them.
    AuxiliaryOfServer {
        /// How else to do without.
        otherwise: &'static str,
    },
    /// Messages hold more than their receiver trains.
    WholeMessages {
        why: &'static str,
        /// How else to do without.
        otherwise: &'static str,
    },
    /// Samples are images.
    Images {
        /// What looks at them, as the subject of a sentence.
        what: &'static str,
        /// How to do without.
        otherwise: &'static str,
    },
    /// The rate of `[client]` stays as it is from epoch to epoch: the method has a schedule of its own.
    ConstantRate {
        /// The key of that schedule.
        key: &'static str,
        /// What to set it to in order to leave the rate to `[client]`.
        otherwise: &'static str,
    },
    /// Clients come back.
    ReturningClients {
        why: &'static str,
        /// How else to do without; nothing where there is no other way.
        otherwise: Option<&'static str>,
    },
    /// All data are at one site.
    OneSite {
        /// What has one site, as the subject of a sentence.
        what: &'static str,
        /// What several sites would take.
        otherwise: &'static str,
    },
    /// Clients have slots of their own.
    SlotsOfTheirOwn {
        /// The key that asks for them.
        key: &'static str,
        why: &'static str,
        /// How to do without.
        otherwise: &'static str,
    },
    /// The run has one task.
    OneTask {
        /// What sees everything at once, as the subject of a sentence.
        what: &'static str,
        /// What several tasks would take.
        otherwise: &'static str,
    },
}

impl Needs {
    /// What it asks for in words; nothing where that is a matter of numbers that a scenario chooses.
    pub fn words(self) -> Option<String> {
        match self {
            Needs::Blocks { what, instead } => {
                Some(format!("a vision transformer: {what} lives in its blocks (or {instead})"))
            }
            Needs::TrainableBackbone { instead } => {
                Some(format!("a backbone that can be trained, vit or resnet18 (or {instead})"))
            }
            Needs::PlainSgd { what, .. } => Some(format!("plain SGD: {what} from its steps")),
            Needs::ReturningClients { .. } => {
                Some("clients that come back: participation.population = \"fixed\"".to_owned())
            }
            Needs::OneSite { .. } => Some("one site: federation.clients = 1".to_owned()),
            Needs::OneTask { .. } => Some("one task: tasks.count = 1".to_owned()),
            Needs::SlotsOfTheirOwn { .. } => {
                Some("tasks of clients' own: tasks.arrival = \"powder\"".to_owned())
            }
            Needs::Auxiliary { otherwise, .. } => {
                Some(format!("samples that belong to no client: [data.auxiliary] (or {otherwise})"))
            }
            Needs::AuxiliaryOfServer { .. } => {
                Some("such samples at the server: data.auxiliary.server = true".to_owned())
            }
            Needs::Images { otherwise, .. } => Some(format!("images, not text (or {otherwise})")),
            Needs::WholeMessages { .. } => Some("whole messages: wire.form = \"full\"".to_owned()),
            Needs::BlocksBehind { .. }
            | Needs::EachTask { .. }
            | Needs::Orthogonal { .. }
            | Needs::Choice { .. }
            | Needs::ConstantRate { .. } => None,
        }
    }

    /// What is wrong with a scenario that does not meet it.
    pub fn complaints(self, scenario: &Scenario) -> Vec<Complaint> {
        let complain = |wrong: bool, key, message: String, label: String, help: String| {
            wrong.then_some(Complaint { key, message, label, help })
        };
        let kind = scenario.backbone.kind();
        let first = match self {
            Needs::Blocks { what, instead } => complain(
                scenario.backbone.vit().is_none(),
                "backbone.kind",
                format!("{what} lives in the blocks of a vision transformer"),
                format!("\"{kind}\" has none"),
                format!("set `backbone.kind = \"vit\"`, or {instead}"),
            ),
            Needs::BlocksBehind { key, taken, by, rest } => {
                let depth = backbone_config(scenario).vit().map_or(0, |vit| vit.depth);
                complain(
                    depth > 0 && taken as usize >= depth,
                    key,
                    format!("{by} fill all {depth} blocks of the backbone"),
                    format!("no block is left for {rest}"),
                    format!("give them at most {}", depth.saturating_sub(1)),
                )
            }
            Needs::EachTask { key, count, what } => complain(
                count < scenario.tasks.count(),
                key,
                format!("{count} {what} do not suffice for {} tasks", scenario.tasks.count()),
                "too few".to_owned(),
                format!("set `{key}` to at least {}", scenario.tasks.count()),
            ),
            Needs::Orthogonal { key, count, what } => {
                let dim = backbone_config(scenario).dim();
                complain(
                    count as usize > dim,
                    key,
                    format!("{count} {what} of width {dim} cannot be orthogonal"),
                    "too many".to_owned(),
                    format!("set `{key}` to at most {dim}"),
                )
            }
            Needs::Choice { top, pool } => complain(
                top > pool,
                "method.top",
                format!("{top} prompts cannot be chosen from a pool of {pool}"),
                "more than there are".to_owned(),
                format!("choose at most {pool}, or set a larger `method.pool`"),
            ),
            Needs::TrainableBackbone { instead } => complain(
                scenario.backbone.is_frozen_only(),
                "backbone.kind",
                format!("the backbone \"{kind}\" gives features and cannot be trained"),
                "frozen only".to_owned(),
                format!("set {instead}, or choose \"vit\" or \"resnet18\""),
            ),
            Needs::PlainSgd { what, otherwise, decay } => {
                return plain_sgd(scenario, what, otherwise, decay);
            }
            Needs::Auxiliary { why, otherwise, sent } => auxiliary(scenario, why, otherwise, sent),
            Needs::AuxiliaryOfServer { otherwise } => {
                let section = scenario.data.auxiliary.as_ref();
                complain(
                    !section.is_some_and(|section| section.server),
                    "data.auxiliary.server",
                    "the server distils on samples that belong to nobody, and has none".to_owned(),
                    "no shard for the server".to_owned(),
                    format!("set `data.auxiliary.server = true`, or {otherwise}"),
                )
            }
            Needs::WholeMessages { why, otherwise } => complain(
                scenario.wire.form == WireForm::Lean,
                "wire.form",
                why.to_owned(),
                "it is sent what it trains".to_owned(),
                format!("set `wire.form = \"full\"`, or {otherwise}"),
            ),
            Needs::Images { what, otherwise } => complain(
                matches!(scenario.data.source, DataSource::Play | DataSource::Table),
                "method.old_model",
                format!("{what} looks at images"),
                "these data are none".to_owned(),
                format!("set {otherwise}"),
            ),
            Needs::ConstantRate { key, otherwise } => complain(
                scenario.client.epoch_schedule != EpochSchedule::Constant,
                "client.epoch_schedule",
                format!("`{key}` is a schedule of its own"),
                "two schedules for one rate".to_owned(),
                format!("set `client.epoch_schedule = \"constant\"`, or `{key} = {otherwise}`"),
            ),
            Needs::ReturningClients { why, otherwise } => complain(
                scenario.participation.population == Population::Fresh,
                "participation.population",
                why.to_owned(),
                "nobody comes back".to_owned(),
                match otherwise {
                    Some(other) => {
                        format!("set `participation.population = \"fixed\"`, or {other}")
                    }
                    None => "set `participation.population = \"fixed\"`".to_owned(),
                },
            ),
            Needs::OneSite { what, otherwise } => complain(
                scenario.federation.clients != 1,
                "federation.clients",
                format!("{what} has one site, not {}", scenario.federation.clients),
                "must be 1".to_owned(),
                format!("set `federation.clients = 1`, or {otherwise}"),
            ),
            Needs::SlotsOfTheirOwn { key, why, otherwise } => complain(
                !scenario.tasks.arrival.has_slots(),
                key,
                why.to_owned(),
                "for `tasks.arrival = \"powder\"`".to_owned(),
                format!("{otherwise}, or `tasks.arrival = \"powder\"`"),
            ),
            Needs::OneTask { what, otherwise } => complain(
                scenario.tasks.count() != 1,
                "tasks.count",
                format!("{what} sees all classes at once, not in {} tasks", scenario.tasks.count()),
                "must be 1".to_owned(),
                format!("set `tasks.count = 1`, or {otherwise}"),
            ),
        };
        let mut complaints: Vec<Complaint> = first.into_iter().collect();
        if let Needs::OneSite { .. } = self {
            complaints.extend(single_owner(scenario));
        }
        complaints
    }
}

/// No samples that belong to nobody, or some that cannot be sent.
fn auxiliary(scenario: &Scenario, why: &str, otherwise: &str, sent: bool) -> Option<Complaint> {
    let Some(section) = &scenario.data.auxiliary else {
        return Some(Complaint {
            key: "data.auxiliary",
            message: why.to_owned(),
            label: "there are none".to_owned(),
            help: format!("add `[data.auxiliary]` with `share = 0.1`, or set {otherwise}"),
        });
    };
    let data = section.as_data(&scenario.data).unwrap_or_else(|| scenario.data.clone());
    let unsized_images = sent && (!data.is_square() || data.source == DataSource::Play);
    unsized_images.then(|| Complaint {
        key: "method.surrogate",
        message: "only images of one size can be sent".to_owned(),
        label: "each has its own size".to_owned(),
        help: "set `method.surrogate = \"held\"`, or a square `data.store`".to_owned(),
    })
}

/// An optimiser that does more than a gradient step.
fn plain_sgd(
    scenario: &Scenario,
    what: &str,
    otherwise: Option<&str>,
    decay: Option<&str>,
) -> Vec<Complaint> {
    let set = |what: &str| match otherwise {
        Some(other) => format!("set {what}, or {other}"),
        None => format!("set {what}"),
    };
    let plain = || format!("{what} from steps of plain SGD");
    let mut complaints = Vec::new();
    match scenario.client.optimiser {
        OptimiserSection::Adamw { .. } => complaints.push(Complaint {
            key: "client.optimiser.kind",
            message: plain(),
            label: "steps of Adam are no gradients".to_owned(),
            help: set("`client.optimiser = { kind = \"sgd\", lr = ... }`"),
        }),
        OptimiserSection::Sgd { momentum, weight_decay, .. } => {
            if momentum > 0.0 {
                complaints.push(Complaint {
                    key: "client.optimiser.momentum",
                    message: plain(),
                    label: "a gradient would count several times".to_owned(),
                    help: set("`client.optimiser.momentum = 0`"),
                });
            }
            if let (true, Some(instead)) = (weight_decay > 0.0, decay) {
                complaints.push(Complaint {
                    key: "client.optimiser.weight_decay",
                    message: plain(),
                    label: "decays behind the method's back".to_owned(),
                    help: format!("set `client.optimiser.weight_decay = 0` and {instead}"),
                });
            }
        }
    }
    complaints
}

/// One site that would hold the samples of a single owner.
fn single_owner(scenario: &Scenario) -> Option<Complaint> {
    let PartitionKind::Natural { rest } = scenario.partition.kind else { return None };
    if rest != Leftover::Drop {
        return None;
    }
    Some(Complaint {
        key: "partition.kind",
        message: "one site has all data, and a natural partition gives it those of one owner"
            .to_owned(),
        label: "the others are left out".to_owned(),
        help: "set `partition.rest = \"merge\"`, or `partition.kind = \"iid\"`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Needs;
    use crate::methods::Registry;
    use crate::scenario::{Leftover, PartitionKind, Scenario};

    /// What is told of five tasks of digits with this method; nothing where all is well.
    fn told(method: &str) -> String {
        let text = format!(
            "schema = 1\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
             partition = {{ kind = \"iid\" }}\nmethod = {{ {method} }}\nfederation.clients = 4\n"
        );
        let loaded = Scenario::from_toml(&text, "s", Path::new("."), &[], &Registry::builtin());
        loaded.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn counts_that_do_not_fit_each_other_are_told_with_the_way_out() {
        let refused = [
            ("name = \"l2p\", top = 6, pool = 5", "6 prompts cannot be chosen from a pool of 5"),
            ("name = \"l2p\", pool = 4", "choose at most 4, or set a larger `method.pool`"),
            ("name = \"dualprompt\", g_blocks = 99", "no block is left for experts"),
            ("name = \"coda-prompt\", pool = 4", "4 components do not suffice for 5 tasks"),
            ("name = \"fed-cprompt\", pool = 4", "set `method.pool` to at least 5"),
            ("name = \"coda-prompt\", pool = 65", "65 keys of width 64 cannot be orthogonal"),
        ];
        for (method, why) in refused {
            let told = told(method);
            assert!(told.contains(why), "{method}: {told}");
        }
        for method in ["name = \"l2p\", pool = 5", "name = \"coda-prompt\", pool = 64"] {
            assert_eq!(told(method), "", "{method}");
        }
    }

    /// Steps of Adam, momentum, and a decay that comes behind a projection; and how to do without each.
    #[test]
    fn what_reads_gradients_needs_plain_sgd() {
        let of = |method: &str, optimiser: &str| {
            let kind = if optimiser.is_empty() { "adamw" } else { "sgd" };
            told(&format!(
                "name = {method}, train = \"head\" }}\n\
                 client.optimiser = {{ kind = \"{kind}\", lr = 0.1{optimiser}"
            ))
        };
        let (plain, momentum, decay) =
            (", momentum = 0.0", ", momentum = 0.9", ", weight_decay = 0.1");
        for name in ["\"scaffold\"", "\"feddc\"", "\"gradma\""] {
            let adam = of(name, "");
            assert!(adam.contains("set `client.optimiser = { kind = \"sgd\""), "{name}: {adam}");
            let moved = of(name, momentum);
            assert!(moved.contains("set `client.optimiser.momentum = 0`"), "{name}: {moved}");
            assert_eq!(of(name, plain), "", "{name}");
        }
        let other = of("\"scaffold\"", "");
        assert!(other.contains("or `method.option = \"I\"`"), "{other}");
        assert_eq!(of("\"scaffold\", option = \"I\"", ""), "");
        assert_eq!(of("\"gradma\", project = \"server\"", ""), "");
        assert_eq!(of("\"scaffold\"", decay), "");
        let decayed = of("\"gradma\"", decay);
        assert!(decayed.contains("weight_decay = 0` and `method.decay`"), "{decayed}");
        let both = of("\"scaffold\", option = \"I\", variates = \"server\"", "");
        assert!(both.contains("cannot compute the gradient"), "{both}");
        let fresh = "name = \"feddc\" }\nparticipation = { population = \"fresh\"";
        assert!(told(fresh).contains("fresh clients have none behind them"), "{}", told(fresh));
    }

    #[test]
    fn fresh_clients_have_no_teacher_of_their_own() {
        let of = |more: &str| {
            told(&format!(
                "name = \"fedlwf-2t\"{more} }}\nparticipation = {{ population = \"fresh\""
            ))
        };
        let own = of("");
        assert!(own.contains("fresh clients have none"), "{own}");
        assert!(own.contains("or `method.first_teacher = \"server\"`"), "{own}");
        for else_taught in [", first_teacher = \"server\"", ", beta = 0.0"] {
            assert!(!of(else_taught).contains("fresh clients have none"), "{else_taught}");
        }
    }

    /// Only what a natural partition drops is missing at one site.
    #[test]
    fn one_site_wants_the_samples_of_all_owners() {
        let text = "schema = 1\ndata.source = \"digits\"\ntasks.count = 1\n\
                    partition.kind = \"iid\"\nmethod.name = \"joint\"\nfederation.clients = 1\n";
        let loaded = Scenario::from_toml(text, "s", Path::new("."), &[], &Registry::builtin());
        let mut scenario = loaded.unwrap().scenario;
        let site = Needs::OneSite { what: "joint training", otherwise: "another way" };
        let mut told = |kind: PartitionKind| -> Vec<&str> {
            scenario.partition.kind = kind;
            site.complaints(&scenario).into_iter().map(|complaint| complaint.key).collect()
        };
        assert_eq!(told(PartitionKind::Natural { rest: Leftover::Drop }), ["partition.kind"]);
        assert!(told(PartitionKind::Natural { rest: Leftover::Merge }).is_empty());
        assert!(told(PartitionKind::Iid).is_empty());
    }

    #[test]
    fn what_lives_in_blocks_needs_a_transformer() {
        for name in ["l2p", "dualprompt", "coda-prompt", "fed-cprompt", "adapter"] {
            let told = told(&format!("name = \"{name}\" }}\nbackbone = {{ kind = \"pixels\""));
            assert!(told.contains("lives in the blocks of a vision transformer"), "{name}: {told}");
        }
    }
}
