//! Catalogue of metrics with fixed names: source, title, unit, and which direction is better.

use super::metric::{Better, Unit};
use crate::experiment::plan::Total;

/// Source of a metric in a run's files.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MetricSource {
    /// Number in `summary.json`, by its path.
    Summary(&'static str),
    /// Field summed over all frames of one direction (`None` for both), including lost and rejected ones.
    Frames(Option<&'static str>, &'static str),
    /// Bytes of all frames of one direction (`None` for both), divided by the number of rounds.
    PerRound(Option<&'static str>),
    /// Payload of one kind in one direction, or `control`.
    Kind(&'static str, String),
    /// Fraction of the bytes sent to the server that were not used: lost, late or rejected.
    Wasted,
    /// Participants of all rounds, without load clients.
    Participants,
    /// Fraction of the participants whose uploads were not aggregated.
    Silent,
    /// Mean of a named number over the events of one type in the journal.
    EventMean(&'static str, String),
    /// Sum of a column of `clients.csv`.
    Clients(&'static str),
    /// Number of distinct clients that were sampled.
    ClientsSampled,
    /// Computation, predicted from the scenario because runs do not count it.
    Planned(PlannedWork),
    /// Wall seconds of all processes of the run.
    Wall,
    /// Peak memory of the largest process of the run.
    Memory,
    /// Cost until the accuracy on all classes seen first reached this value.
    Until(CostUnit, f64),
}

/// Sum of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedWork {
    SamplePasses,
    ClientFlops,
    ServerFlops,
}

impl PlannedWork {
    /// Returns the sum in the totals of a plan.
    pub fn of(self, total: &Total) -> f64 {
        match self {
            PlannedWork::SamplePasses => total.sample_passes,
            PlannedWork::ClientFlops => total.client_flops,
            PlannedWork::ServerFlops => total.server_flops,
        }
    }
}

/// Unit of the cost of reaching an accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostUnit {
    Rounds,
    Bytes,
    VirtualSeconds,
}

/// Entry of the catalogue.
pub(super) struct Known {
    pub name: &'static str,
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    pub source: MetricSource,
}

const fn of(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    better: Better,
    source: MetricSource,
) -> Known {
    Known { name, title, unit, better, source }
}

/// Metrics with fixed names, in the order of tables.
pub(super) const KNOWN: &[Known] = {
    use Better::{Higher, Lower, Neither};
    use MetricSource::{
        Clients, ClientsSampled, Frames, Memory, Participants, PerRound, Planned, Silent, Summary,
        Wall, Wasted,
    };
    use Unit::{Bytes, Count, Flops, Megabytes, Number, Points, Seconds, Share};
    &[
        of("faa", "final average accuracy", Share, Higher, Summary("/accuracy/faa")),
        of("micro", "accuracy on all test samples", Share, Higher, Summary("/accuracy/micro")),
        of(
            "average_incremental",
            "average incremental accuracy (macro)",
            Share,
            Higher,
            Summary("/accuracy/average_incremental"),
        ),
        of(
            "average_incremental_micro",
            "average incremental accuracy (micro)",
            Share,
            Higher,
            Summary("/accuracy/average_incremental_micro"),
        ),
        of(
            "average_from_second_stage",
            "average accuracy from the second stage (macro)",
            Share,
            Higher,
            Summary("/accuracy/average_from_second_stage"),
        ),
        of(
            "average_from_second_stage_micro",
            "average accuracy from the second stage (micro)",
            Share,
            Higher,
            Summary("/accuracy/average_from_second_stage_micro"),
        ),
        of(
            "forgetting",
            "forgetting since a task was trained",
            Points,
            Lower,
            Summary("/accuracy/forgetting"),
        ),
        of(
            "forgetting_from_best",
            "forgetting since best, old tasks",
            Points,
            Lower,
            Summary("/accuracy/forgetting_from_best"),
        ),
        of(
            "forgetting_from_best_of_all",
            "forgetting since best, all tasks",
            Points,
            Lower,
            Summary("/accuracy/forgetting_from_best_of_all"),
        ),
        of(
            "forgetting_consecutive",
            "forgetting from task to task, all tasks",
            Points,
            Lower,
            Summary("/accuracy/forgetting_consecutive"),
        ),
        of(
            "forgetting_consecutive_old",
            "forgetting from task to task, old tasks",
            Points,
            Lower,
            Summary("/accuracy/forgetting_consecutive_old"),
        ),
        of(
            "forgetting_consecutive_old_micro",
            "forgetting from task to task, old tasks (micro)",
            Points,
            Lower,
            Summary("/accuracy/forgetting_consecutive_old_micro"),
        ),
        of(
            "backward_transfer",
            "backward transfer, old tasks",
            Points,
            Higher,
            Summary("/accuracy/backward_transfer"),
        ),
        of(
            "avg",
            "client tasks: mean accuracy at the end",
            Share,
            Higher,
            Summary("/client_tasks/til/avg"),
        ),
        of(
            "aia",
            "client tasks: mean accuracy over stages",
            Share,
            Higher,
            Summary("/client_tasks/til/aia"),
        ),
        of(
            "fm",
            "client tasks: forgetting since best",
            Points,
            Lower,
            Summary("/client_tasks/til/fm"),
        ),
        of("ft", "client tasks: forward transfer", Points, Higher, Summary("/client_tasks/til/ft")),
        of(
            "bt",
            "client tasks: backward transfer",
            Points,
            Higher,
            Summary("/client_tasks/til/bt"),
        ),
        of("tt", "client tasks: total transfer", Points, Higher, Summary("/client_tasks/til/tt")),
        of(
            "response_entropy",
            "entropy of predictions before aggregation",
            Number,
            Higher,
            Summary("/bias/mean/response_entropy"),
        ),
        of(
            "response_entropy_relative",
            "entropy of predictions before aggregation, relative to uniform",
            Number,
            Higher,
            Summary("/bias/mean/response_entropy_relative"),
        ),
        of(
            "prototype_distance",
            "distance of client prototypes before aggregation",
            Number,
            Lower,
            Summary("/bias/mean/prototype_distance"),
        ),
        of("bytes", "bytes, both ways", Bytes, Lower, Frames(None, "bytes")),
        of("bytes_down", "bytes to clients", Bytes, Lower, Frames(Some("down"), "bytes")),
        of("bytes_up", "bytes to the server", Bytes, Lower, Frames(Some("up"), "bytes")),
        of("bytes_per_round", "bytes per round, both ways", Bytes, Lower, PerRound(None)),
        of(
            "bytes_down_per_round",
            "bytes to clients per round",
            Bytes,
            Lower,
            PerRound(Some("down")),
        ),
        of(
            "bytes_up_per_round",
            "bytes to the server per round",
            Bytes,
            Lower,
            PerRound(Some("up")),
        ),
        of("wasted_up", "unused upload bytes", Share, Lower, Wasted),
        of("frames", "messages, both ways", Count, Lower, Frames(None, "frames")),
        of("rounds", "rounds", Count, Neither, Summary("/rounds")),
        of("participants", "participants, summed over rounds", Count, Neither, Participants),
        of("silent_participants", "participants that were not aggregated", Share, Lower, Silent),
        of("clients_sampled", "distinct clients sampled", Count, Neither, ClientsSampled),
        of(
            "samples_trained",
            "samples of trained shards",
            Count,
            Neither,
            Clients("samples_trained"),
        ),
        of(
            "sample_passes",
            "sample passes (planned)",
            Count,
            Lower,
            Planned(PlannedWork::SamplePasses),
        ),
        of(
            "client_flops",
            "floating-point operations of clients (planned)",
            Flops,
            Lower,
            Planned(PlannedWork::ClientFlops),
        ),
        of(
            "server_flops",
            "floating-point operations of the server (planned)",
            Flops,
            Lower,
            Planned(PlannedWork::ServerFlops),
        ),
        of("failed", "participants that sent nothing", Count, Lower, Summary("/failed")),
        of("rejected", "uploads rejected", Count, Lower, Summary("/rejected")),
        of("client_memory", "bytes that clients keep", Bytes, Lower, Summary("/memory/bytes")),
        of("virtual_s", "virtual time", Seconds, Lower, Summary("/virtual_s")),
        of("wall_s", "wall time", Seconds, Lower, Wall),
        of("peak_memory_mb", "peak memory", Megabytes, Lower, Memory),
    ]
};

/// Metrics that take an accuracy after a colon.
pub(super) const UNTIL: [(&str, &str, Unit, CostUnit); 3] = [
    ("rounds_to", "rounds until accuracy", Unit::Count, CostUnit::Rounds),
    ("bytes_to", "bytes until accuracy", Unit::Bytes, CostUnit::Bytes),
    ("virtual_s_to", "virtual time until accuracy", Unit::Seconds, CostUnit::VirtualSeconds),
];

/// Prefixes of metrics that count the payload of one kind.
pub(super) const BY_KIND: [(&str, &str, &str); 2] =
    [("bytes_down_", "down", "bytes to clients"), ("bytes_up_", "up", "bytes to the server")];

/// Prefixes of metrics that average a number of the journal, with its event type and a title.
///
/// Servers report numbers of rounds; clients report numbers of their training in a round.
pub(super) const EVENT_MEANS: [(&str, &str, &str); 2] = [
    ("figure", "round_closed", "mean over rounds"),
    ("client", "client_trained", "mean over trainings of clients"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_names_every_metric() {
        let page = include_str!("../guide/running_studies.md");
        let (_, metrics) = page.split_once("## Metrics").unwrap();
        for Known { name, .. } in KNOWN {
            assert!(metrics.contains(&format!("`{name}`")), "{name}");
        }
        for (prefix, ..) in UNTIL {
            assert!(metrics.contains(&format!("`{prefix}:A`")), "{prefix}");
        }
        for (prefix, ..) in EVENT_MEANS {
            assert!(metrics.contains(&format!("`{prefix}:NAME`")), "{prefix}");
        }
    }
}
