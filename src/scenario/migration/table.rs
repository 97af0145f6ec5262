//! Keys and values of schema 1 whose names differ in schema 2.
//!
//! Tables and keys around a renamed name are written in the names of schema 2. Keys of `[method.first]` are those of
//! `[method]`. `[run]`, `[compare]` and `[report]` stand in studies, everything else in scenarios and in the changes that
//! studies make to them.

/// Version of the files that are migrated.
pub(in crate::scenario) const OLD_SCHEMA: u32 = 1;

/// Version that they are migrated to.
pub(in crate::scenario) const NEW_SCHEMA: u32 = 2;

/// Form of a value, which distinguishes keys of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// Text.
    Word,
    /// Number or boolean.
    Number,
}

/// Condition under which a key has its new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RenameScope {
    /// None.
    Everywhere,
    /// One of these methods. In a file that names no method, because its base does, the form of the value decides.
    Methods(&'static [&'static str], ValueForm),
}

/// Renamed key of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRename {
    /// Dotted path of the table.
    pub table: &'static str,
    /// Name in schema 1.
    pub old: &'static str,
    /// Name in schema 2.
    pub new: &'static str,
    /// Condition on the method.
    pub scope: RenameScope,
}

/// Renamed word that a key may have as its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordRename {
    /// Dotted path of the key.
    pub key: &'static str,
    /// Word in schema 1.
    pub old: &'static str,
    /// Word in schema 2.
    pub new: &'static str,
}

const fn key(table: &'static str, old: &'static str, new: &'static str) -> KeyRename {
    KeyRename { table, old, new, scope: RenameScope::Everywhere }
}

const fn method_key(
    names: &'static [&'static str],
    form: ValueForm,
    old: &'static str,
    new: &'static str,
) -> KeyRename {
    KeyRename { table: "method", old, new, scope: RenameScope::Methods(names, form) }
}

const fn word(key: &'static str, old: &'static str, new: &'static str) -> WordRename {
    WordRename { key, old, new }
}

/// Renamed keys.
pub(super) const KEYS: [KeyRename; 56] = [
    key("federation", "fold", "aggregation"),
    key("federation", "trim", "trim_fraction"),
    key("federation", "units", "dummy_clients"),
    key("federation.dummy_clients", "rule", "split"),
    key("federation", "load", "load_clients"),
    key("participation", "unit", "draw_every"),
    key("tasks", "slot_classes", "classes_per_client_task"),
    key("tasks", "moving", "switch_fraction"),
    key("tasks", "ahead", "early_fraction"),
    key("tasks", "lead", "lead_fraction"),
    key("partition", "picks", "reserved_samples"),
    key("partition", "picks_beta", "reserved_beta"),
    key("partition", "rest", "leftover"),
    key("partition", "share", "fraction"),
    key("faults", "share", "fraction"),
    key("data.auxiliary", "share", "fraction"),
    key("data", "test_share", "test_fraction"),
    key("data", "validation", "validation_fraction"),
    key("data", "store", "stored_size"),
    key("data.train", "normalise", "normalize"),
    key("data.test", "normalise", "normalize"),
    key("data.text", "fold_case", "lowercase"),
    key("data.text", "symbols", "vocabulary_size"),
    key("data.text", "context", "sequence_length"),
    key("client", "batch", "batch_size"),
    key("client", "clip", "max_grad_norm"),
    key("client", "optimiser", "optimizer"),
    key("round", "least", "min_fraction"),
    key("round", "buffer", "buffer_size"),
    key("round", "staleness_power", "staleness_exponent"),
    key("availability", "least", "min_fraction"),
    key("availability", "power", "exponent"),
    key("availability", "slot_s", "step_s"),
    key("links", "loss", "loss_rate"),
    key("wire", "cache", "asset_cache"),
    key("record.checkpoint", "share", "max_time_fraction"),
    key("record", "slots", "client_tasks"),
    key("record", "direct", "single_task"),
    key("method", "weights", "client_weighting"),
    key("method", "head", "head_form"),
    key("method", "norms", "batch_norm"),
    key("method", "teacher_norms", "teacher_batch_norm"),
    method_key(&["coda-prompt", "fed-cprompt"], ValueForm::Word, "components", "component_form"),
    key("method", "keep_optimiser", "keep_optimizer"),
    key("method", "reinitialise", "reinitialize"),
    key("method", "slot_components", "client_task_components"),
    method_key(&["er", "der"], ValueForm::Number, "buffer", "buffer_size"),
    method_key(&["er", "der"], ValueForm::Number, "draw", "replay_batch_size"),
    method_key(&["icarl", "glfc", "lga"], ValueForm::Number, "budget", "memory_size"),
    method_key(&["hgp", "ccvr"], ValueForm::Word, "memory", "gaussian_lifetime"),
    method_key(&["gradma"], ValueForm::Number, "memory", "memory_clients"),
    method_key(&["icarl"], ValueForm::Word, "answers", "inference"),
    method_key(&["glfc", "lga"], ValueForm::Word, "signal", "task_detection"),
    method_key(&["powder", "c2prompt"], ValueForm::Word, "lend", "source_tasks"),
    key("run", "direct", "single_task"),
    key("compare", "against", "baseline"),
];

/// Renamed words.
pub(super) const WORDS: [WordRename; 22] = [
    word("tasks.arrival", "powder", "client-tasks"),
    word("partition.by", "period", "stage"),
    word("partition.by", "slot", "client-task"),
    word("data.train.crop", "centre", "center"),
    word("data.test.crop", "centre", "center"),
    word("round.late", "fold", "aggregate"),
    word("method.source_tasks", "begun", "started"),
    word("method.batch_norm", "settled", "running"),
    word("method.ownership", "slot", "client-task"),
    word("method.moments", "period", "stage"),
    word("method.rebalance_loss", "normalised", "normalized"),
    word("method.omega", "normalised", "normalized"),
    word("method.calibration_loss", "normalised", "normalized"),
    // Metrics of studies have the names of their columns.
    word("compare.metrics", "seats", "participants"),
    word("compare.metrics", "silent_seats", "silent_participants"),
    word("compare.metrics", "figure:slots", "figure:client_tasks"),
    word("compare.warn_if_unequal", "seats", "participants"),
    word("compare.warn_if_unequal", "silent_seats", "silent_participants"),
    word("compare.warn_if_unequal", "figure:slots", "figure:client_tasks"),
    word("report.plots", "seats", "participants"),
    word("report.plots", "silent_seats", "silent_participants"),
    word("report.plots", "figure:slots", "figure:client_tasks"),
];
