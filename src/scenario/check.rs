//! Combinations of sections that cannot work, found before anything is loaded.

mod idle;
mod rows;
mod text;

use super::contradiction::{Contradiction, Together};
use super::reader::{Node, ReadingReport, ValueFault};
use super::{
    AssetCache, AvailabilityPattern, BackboneSection, Close, Codec, CohortSize, Compute, Crop,
    DataSource, DeviceName, DrawInterval, FaultKind, FaultSection, PartitionKind, Population,
    Scenario, TaskSizes,
};

/// Maximum number of entries in `[[faults]]`; stream steps of link losses follow theirs.
pub const MOST_FAULTS: usize = 16;

/// Maximum number of clients with their own data; a fresh population may be as large as numbers allow.
const MOST_CLIENTS: u32 = 10_000_000;

pub(super) struct Checker<'a> {
    root: &'a Node,
    report: &'a mut ReadingReport,
}

impl Checker<'_> {
    /// Reports an error at the first of `keys` that is written.
    pub(super) fn reject(&mut self, keys: &[&str], message: &str, label: &str, help: &str) {
        let node = keys.iter().find_map(|key| self.root.find(key)).unwrap_or(self.root);
        self.report.fault(ValueFault::new(node, message, label).help(help));
    }
}

impl Scenario {
    /// Reports contradictions between sections that are valid by themselves.
    pub(super) fn check(&self, root: &Node, report: &mut ReadingReport) {
        let mut checker = Checker { root, report };
        self.check_participation(&mut checker);
        self.check_tasks(&mut checker);
        self.check_client_tasks(&mut checker);
        self.check_partition(&mut checker);
        self.check_text(&mut checker);
        self.check_rows(&mut checker);
        if self.data.text.is_none() && !self.data.source.is_rows() {
            self.check_sizes(&mut checker);
        }
        self.check_devices(&mut checker);
        self.check_privacy(&mut checker);
        self.check_faults(&mut checker);
        for found in self.together().contradictions() {
            let (keys, label, help) = found.place();
            let restart = (found == Contradiction::SecureRestart).then(|| self.restart()).flatten();
            let keys: Vec<&str> =
                restart.as_deref().into_iter().chain(keys.iter().copied()).collect();
            checker.reject(&keys, found.why(), label, help);
        }
    }

    fn together(&self) -> Together {
        Together {
            secure: self.privacy.secure_aggregation,
            restarts: self.restart().is_some(),
            late: self.round.aggregates_late(),
            mixed: !self.tasks.arrival.is_global(),
            robust: !self.federation.aggregation.is_mean(),
            fresh: self.participation.population == Population::Fresh,
        }
    }

    /// Returns the place of the first restart of the server.
    fn restart(&self) -> Option<String> {
        self.fault_key("kind", |fault| matches!(fault.kind, FaultKind::ServerRestart { .. }))
    }

    /// Returns the place of a key of the first entry of `[[faults]]` of which this holds.
    pub fn fault_key(&self, key: &str, holds: impl Fn(&FaultSection) -> bool) -> Option<String> {
        let place = self.faults.iter().position(holds)?;
        Some(format!("faults.{place}.{key}"))
    }

    fn check_faults(&self, checker: &mut Checker<'_>) {
        if self.faults.len() > MOST_FAULTS {
            checker.reject(
                &[&format!("faults.{MOST_FAULTS}"), "faults"],
                &format!(
                    "too many entries of [[faults]]: {}, expected at most {MOST_FAULTS}",
                    self.faults.len()
                ),
                "too many",
                "give several `clients` and `rounds` in one entry",
            );
        }
        let clients = self.federation.clients;
        let named = (0..).zip(&self.faults).flat_map(|(entry, fault)| {
            (0..).zip(&fault.clients).map(move |(at, client)| (entry, at, *client))
        });
        let mut named = named.map(|(entry, at, client): (usize, usize, u32)| {
            (format!("faults.{entry}.clients.{at}"), client)
        });
        if let Some((place, client)) = named.find(|(_, client)| *client >= clients) {
            checker.reject(
                &[&place, "faults"],
                &format!("a fault is for client {client}, but there are only {clients} clients, counted from 0"),
                "no such client",
                "name other clients, or raise `federation.clients`",
            );
        }
    }

    fn check_devices(&self, checker: &mut Checker<'_>) {
        let on_cpu = self.devices.names.contains(&DeviceName::Cpu);
        let half = self.devices.compute == Compute::Bf16;
        if on_cpu && half && !matches!(self.backbone, BackboneSection::Vit(_)) {
            checker.reject(
                &["devices.compute"],
                "`compute = \"bf16\"` has no effect: on a CPU only a backbone of kind \"vit\" multiplies in bf16",
                "no effect here",
                "remove this line, or name GPUs in devices.use",
            );
        }
    }

    /// Reports settings that contradict secure aggregation with any method.
    fn check_privacy(&self, checker: &mut Checker<'_>) {
        const HERE: &str = "privacy.secure_aggregation";
        if !self.privacy.secure_aggregation {
            return;
        }
        let up = &self.wire.up;
        if up.codec != Codec::F32 || up.kinds.values().any(|codec| *codec != Codec::F32) {
            checker.reject(
                &["wire.up.codec", "wire.up.kinds", HERE],
                "secure aggregation sends random-looking ring elements, which no codec makes smaller",
                "no effect on masked uploads",
                "remove the codec of `wire.up`, or set `privacy.secure_aggregation = false`",
            );
        }
        if self.federation.load_clients > 0 {
            checker.reject(
                &["federation.load_clients"],
                "`load_clients` is not possible with secure aggregation: it adds every upload, and load clients have no \
                 update",
                "contradicts secure aggregation",
                "set `load_clients = 0`, or `privacy.secure_aggregation = false`",
            );
        }
        let clients = self.federation.clients;
        let asked = self.participation.participants.of(clients);
        if asked < 2 {
            checker.reject(
                &[HERE],
                "secure aggregation needs at least 2 clients per round: the sum of one upload is that upload",
                &format!("{asked} of {clients} clients are sampled in a round"),
                "raise `federation.clients`, or sample more of them in [participation]",
            );
        }
    }

    fn check_participation(&self, checker: &mut Checker<'_>) {
        let clients = self.federation.clients;
        if let CohortSize::Count { count } = self.participation.participants
            && count > clients
        {
            checker.reject(
                &["participation.count"],
                &format!("{count} clients are to be sampled, but there are only {clients}"),
                &format!("more than `federation.clients = {clients}`"),
                "sample fewer, or raise `federation.clients`",
            );
        }
        if self.participation.population == Population::Fixed && clients > MOST_CLIENTS {
            checker.reject(
                &["federation.clients"],
                &format!("too many clients that share the data: {clients}, expected at most {MOST_CLIENTS}"),
                "too many",
                "lower it, or set `participation.population = \"fresh\"`",
            );
        }
        let asked = self.participation.participants.of(clients);
        if let Some(buffer) = self.round.buffer_size.filter(|buffer| *buffer > asked) {
            checker.reject(
                &["round.buffer_size"],
                &format!(
                    "a buffer of {buffer} updates never fills: only {asked} clients work at once"
                ),
                "too large",
                "lower it, or let more clients work at once in [participation]",
            );
        }
        if self.participation.over_selection.is_some_and(|factor| factor > 1.0)
            && self.round.close != Close::First
        {
            checker.reject(
                &["participation.over_selection", "round.close"],
                "`over_selection` has no effect: only `close = \"first\"` samples more clients than wanted",
                "no effect here",
                "set `round.close = \"first\"`, or remove `over_selection`",
            );
        }
        let listed = matches!(self.partition.kind, PartitionKind::File { .. });
        if listed && self.data.subset.is_some() {
            checker.reject(
                &["data.subset"],
                "`data.subset` contradicts `partition.file`, which refers to all training samples",
                "not with `partition.file`",
                "remove this line; `partition.unlisted = \"drop\"` leaves out samples that the file does not name",
            );
        }
        let ratios = matches!(self.partition.kind, PartitionKind::Ratios { .. });
        if ratios && self.partition.samples_per_client.is_some() {
            checker.reject(
                &["partition.samples_per_client"],
                "`samples_per_client` has no effect: the ratios of this partition give the size of a shard",
                "no effect here",
                "remove this line",
            );
        }
        if self.participation.population == Population::Fixed {
            if ratios {
                checker.reject(
                    &["partition.kind"],
                    "partition \"ratios\" needs a fresh population: its shards are drawn client by client and overlap",
                    "for a fresh population",
                    "set `participation = { count = 5, population = \"fresh\" }`",
                );
            } else if self.partition.samples_per_client.is_some() {
                checker.reject(
                    &["partition.samples_per_client"],
                    "`samples_per_client` has no effect without a fresh population",
                    "no effect here",
                    "set `participation.population = \"fresh\"` or remove this line",
                );
            }
            return;
        }
        let population = &["participation.population"];
        if matches!(self.availability.pattern, AvailabilityPattern::ByData { .. }) {
            checker.reject(
                &["availability.kind"],
                "availability by data needs a fixed population: shards of fresh clients are drawn only when they are \
                 sampled",
                "not for a fresh population",
                "use another `kind`, or `participation.population = \"fixed\"`",
            );
        }
        if self.participation.draw_every == DrawInterval::Task {
            checker.reject(
                &["participation.draw_every"],
                "`draw_every = \"task\"` is not possible with fresh clients, which are drawn in every round",
                "contradicts `population = \"fresh\"`",
                "set `draw_every = \"round\"`, or `population = \"fixed\"`",
            );
        }
        if self.participation.participants == CohortSize::All {
            checker.reject(
                population,
                "a fresh population needs a cohort size: not all its clients can be sampled in a round",
                "no cohort size",
                "add `count = 10` or `fraction = 0.001` to [participation]",
            );
        }
        if self.partition.samples_per_client.is_none() && !ratios {
            checker.reject(
                population,
                "a fresh population needs `samples_per_client`",
                "no `samples_per_client` here",
                "add `samples_per_client = 100` to [partition]",
            );
        }
        let every_client = matches!(
            self.partition.kind,
            PartitionKind::Capped { .. }
                | PartitionKind::Lda { .. }
                | PartitionKind::Natural { .. }
                | PartitionKind::File { .. }
                | PartitionKind::Extended { .. }
                | PartitionKind::Quantity { .. }
        );
        if every_client {
            checker.reject(
                &["partition.kind"],
                "this partition needs a fixed population: it divides a task among all clients at once",
                "not for a fresh population",
                "use \"dirichlet\", \"iid\" or \"ratios\"",
            );
        }
        if self.wire.asset_cache != AssetCache::None {
            checker.reject(
                &["wire.asset_cache"],
                "`wire.asset_cache` has no effect with fresh clients, which have no assets yet",
                "nothing to keep",
                "set `asset_cache = \"none\"`",
            );
        }
    }

    fn check_tasks(&self, checker: &mut Checker<'_>) {
        let Some(classes) = self.data.classes() else { return };
        if self.tasks.sizes(classes).is_some() || self.tasks.arrival.has_client_tasks() {
            return;
        }
        match &self.tasks.split {
            TaskSizes::Even(count) => checker.reject(
                &["tasks.count"],
                &format!("{classes} classes cannot be split into {count} tasks"),
                &format!("{} classes each leave none for the last", classes.div_ceil(*count)),
                "use fewer tasks, or give `tasks.sizes`",
            ),
            TaskSizes::Explicit(tasks) => {
                let sum: u64 = tasks.iter().map(|size| u64::from(*size)).sum();
                checker.reject(
                    &["tasks.sizes"],
                    &format!("the tasks have {sum} classes, but the data set has {classes}"),
                    &format!("these add up to {sum}"),
                    &format!("change the list so that it adds up to {classes}"),
                );
            }
        }
    }

    fn check_partition(&self, checker: &mut Checker<'_>) {
        let Some(sizes) = self.data.sizes().filter(|_| !self.tasks.arrival.has_client_tasks())
        else {
            return;
        };
        let Some(tasks) = self.tasks.sizes(sizes.classes) else { return };
        let smallest = tasks.into_iter().min().unwrap_or(0);
        if let PartitionKind::Quantity { classes_per_client } = self.partition.kind
            && classes_per_client > smallest
        {
            checker.reject(
                &["partition.classes_per_client"],
                &format!(
                    "`classes_per_client = {classes_per_client}` is more than the {smallest} classes of the smallest \
                     task"
                ),
                "more than there are",
                &format!("use at most {smallest}"),
            );
        }
        // Exact for balanced sets only; others are judged by the partitioner.
        let balanced = matches!(self.data.source, DataSource::Cifar10 | DataSource::Cifar100);
        let of_class = (sizes.train / sizes.classes) as usize;
        let of_class = self.data.trained_samples(of_class) as u64;
        let samples = of_class * u64::from(smallest);
        let (clients, least) = (self.federation.clients, self.partition.min_samples);
        let needed = u64::from(clients) * u64::from(least);
        if balanced && self.participation.population == Population::Fixed && needed > samples {
            checker.reject(
                &["federation.clients", "partition.min_samples", "data.subset"],
                &format!("{clients} clients with at least {least} samples need {needed} of a task"),
                &format!("the smallest task has {samples}"),
                "use fewer clients, a smaller `partition.min_samples` or larger tasks",
            );
        }
    }

    /// Reports transforms whose output does not have the resolution of the backbone. If it takes any resolution, both
    /// must have the same.
    fn check_sizes(&self, checker: &mut Checker<'_>) {
        let native = self.data.side();
        let input = self.backbone.input();
        let expected = input.unwrap_or(self.data.output());
        let (label, ways) = match input {
            Some(side) => (
                format!("the backbone takes {side}"),
                ", the `size` of the crop, or `backbone.resolution`",
            ),
            None => (format!("[data.test] gives {expected}"), " or the `size` of the crop"),
        };
        for (table, transform) in [("train", &self.data.train), ("test", &self.data.test)] {
            if !self.data.is_square() && !transform.makes_squares() {
                checker.reject(
                    &[&format!("data.{table}"), "data.stored_size", "data.shape", "data"],
                    &format!("[data.{table}] does not make images square"),
                    "no crop",
                    &format!(
                        "set `data.{table}.crop` and `size`, or `data.{table}.squash = {expected}`"
                    ),
                );
                continue;
            }
            let found = transform.output().or(native).unwrap_or(expected);
            if found != expected {
                let key = |key: &str| format!("data.{table}.{key}");
                checker.reject(
                    &[&key("size"), &key("resize"), &format!("data.{table}"), "data"],
                    &format!("[data.{table}] gives images of {found} pixels"),
                    &label,
                    &format!("set `data.{table}.resize = {expected}`{ways}"),
                );
            }
            // Images of their own size are met when they are read.
            let Some(room) = transform.squash.or(transform.resize).or(native) else { continue };
            let room = room + 2 * transform.padding;
            let cut = matches!(transform.crop, Crop::Random | Crop::Center);
            if let (true, Some(size)) = (cut, transform.size.filter(|size| *size > room)) {
                checker.reject(
                    &[&format!("data.{table}.size")],
                    &format!("a crop of {size} pixels does not fit into an image of {room}"),
                    "too large",
                    "add a `resize` before the crop, or make the crop smaller",
                );
            }
        }
    }
}
