//! Loading of a [`Scenario`] from a file and overrides.

use std::path::{Path, PathBuf};

use super::extends;
use super::files;
use super::given::GivenFolder;
use super::method_files;
use super::migration::schema_help;
use super::reader::{
    self, Diagnostic, Node, Param, ReadingReport, SourceText, TableReader, TomlValue, ValueFault,
};
use super::{
    AnyMethod, AvailabilitySection, BackboneSection, CacheSection, Changed, ClientSection, Close,
    DataSection, DevicesSection, ExpectedSection, FaultSection, FederationSection, Ignored,
    LinksSection, MethodCatalogue, MethodSection, NominalSizes, Override, ParticipationSection,
    PartitionSection, Preset, PrivacySection, RecordSection, RequirementError, RoundSection,
    SCHEMA, Scenario, ScenarioError, SeedsSection, TasksSection, TimeSection, WireSection,
};
use crate::fetch::Name;
use crate::files::{FileKind, cleaned, read_text, shell_word};

/// Scenario and the texts it was read from. Errors found later (a head that does not fit the data, a missing file) can
/// still point to their lines.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Scenario to run.
    pub scenario: Scenario,
    /// Document before any change: the file with its base.
    unchanged: Node,
    root: Node,
    report: ReadingReport,
}

impl Loaded {
    /// Returns true unless the key of a change has the value that it has in the file without any change.
    pub fn is_changed_by(&self, change: &Override) -> bool {
        is_changed_by(change, &self.unchanged, &self.root)
    }

    /// Returns an error at a key such as `backbone.weights`, or at the nearest table around it.
    pub fn error_at(&self, path: &str, message: &str, label: &str, help: &str) -> ScenarioError {
        let mut report = self.report.clone();
        report.fault(ValueFault::new(self.root.nearest(path), message, label).help(help));
        report.into_error()
    }

    /// Returns notes on written keys without an effect and on gaps of a trace, each with its place.
    pub fn notes(&self) -> Vec<Diagnostic> {
        let mut report = self.report.clone();
        let mut say = |Ignored { key, message, .. }: Ignored, label| {
            if let Some(written) = self.root.find(&key) {
                report.fault(ValueFault::new(written, message, label));
            }
        };
        for ignored in self.scenario.without_effect() {
            let label = if ignored.partly { "partly used" } else { "not used" };
            say(ignored, label);
        }
        let open = self.scenario.availability.left_open(self.scenario.federation.clients);
        open.into_iter().for_each(|message| {
            say(Ignored::new("availability.file", message), "incomplete");
        });
        report.into_diagnostics()
    }
}

/// Changes of a scenario file, in the order in which they apply.
#[derive(Clone, Copy, Default)]
struct Over<'a> {
    /// Keys of the file that are left to their defaults.
    forgotten: &'a [String],
    /// Changes that are written in another file.
    changed: Option<Changed<'a>>,
    /// Changes from the command line.
    overrides: &'a [Override],
}

impl Scenario {
    /// Loads a scenario file with its base and `overrides`, and checks all that needs no data.
    ///
    /// Overrides apply in their order. Relative paths inside a file are relative to its folder, those in overrides to
    /// the current folder; in memory they are absolute.
    ///
    /// # Errors
    /// Fails if a file cannot be read, and returns all errors of the scenario.
    pub fn load(
        path: &Path,
        overrides: &[Override],
        methods: &dyn MethodCatalogue,
    ) -> Result<Loaded, ScenarioError> {
        Scenario::load_changed(path, None, overrides, methods)
    }

    /// Loads a scenario like [`load`](Self::load), with changes from another file before `overrides`.
    ///
    /// # Errors
    /// Fails as `load` does; errors of a change point to its file.
    pub fn load_changed(
        path: &Path,
        changed: Option<Changed<'_>>,
        overrides: &[Override],
        methods: &dyn MethodCatalogue,
    ) -> Result<Loaded, ScenarioError> {
        Scenario::load_over(path, &Over { changed, overrides, ..Over::default() }, methods)
    }

    /// Loads a scenario like [`load`](Self::load), with some of its keys left to their defaults.
    ///
    /// `forgotten` holds dotted paths, such as `links.rtt_ms`.
    ///
    /// # Errors
    /// Fails as `load` does.
    pub fn load_without(
        path: &Path,
        forgotten: &[String],
        overrides: &[Override],
        methods: &dyn MethodCatalogue,
    ) -> Result<Loaded, ScenarioError> {
        Scenario::load_over(path, &Over { forgotten, overrides, ..Over::default() }, methods)
    }

    fn load_over(
        path: &Path,
        over: &Over<'_>,
        methods: &dyn MethodCatalogue,
    ) -> Result<Loaded, ScenarioError> {
        if let Some(GivenFolder { what, help }) = GivenFolder::at(path, "scenario") {
            let source = std::io::Error::other(what);
            return Err(ScenarioError::Unreadable { path: path.to_owned(), source, help });
        }
        let unreadable = |source: std::io::Error| {
            let help = match source.kind() {
                std::io::ErrorKind::NotFound => {
                    "check the path: it is relative to the current folder; `scenarios/` has examples"
                }
                std::io::ErrorKind::InvalidData => "a scenario is a UTF-8 text in TOML",
                _ => "a scenario is a readable text file in TOML",
            };
            ScenarioError::Unreadable { path: path.to_owned(), source, help: help.to_owned() }
        };
        let text = read_text(path, FileKind::Scenario).map_err(unreadable)?;
        let file = path.canonicalize().map_err(unreadable)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let source = SourceText::new(&path.display().to_string(), &text);
        // The neighbors of a link are those of the file it leads to.
        let place = extends::ScenarioFile {
            file: &file,
            shown: if path.is_symlink() { &file } else { path },
        };
        read(source, &stem.unwrap_or_default(), place, over, methods)
    }

    /// Reads a text as if it were the file `folder/name.toml`.
    ///
    /// # Errors
    /// Returns all errors of the text.
    pub fn from_toml(
        text: &str,
        name: &str,
        folder: &Path,
        overrides: &[Override],
        methods: &dyn MethodCatalogue,
    ) -> Result<Loaded, ScenarioError> {
        let shown = PathBuf::from(format!("{name}.toml"));
        let place = extends::ScenarioFile { file: &folder.join(&shown), shown: &shown };
        let source = SourceText::new(&shown.display().to_string(), text);
        read(source, name, place, &Over { overrides, ..Over::default() }, methods)
    }

    /// Returns one sentence for each setting without an effect on a run, or not in all of it.
    pub fn ignored(&self) -> Vec<String> {
        self.without_effect().into_iter().map(|ignored| ignored.message).collect()
    }

    /// Returns the settings that the method never reads, then those without an effect for any method.
    fn without_effect(&self) -> Vec<Ignored> {
        let mut ignored = self.method.ignored(self);
        ignored.extend(self.idle());
        ignored
    }

    /// Returns requirements of the method that are violated with data of this number of classes.
    ///
    /// None where the number is known without the data, since then they were checked with the scenario.
    pub fn violations_with_classes(&self, classes: usize) -> Vec<RequirementError> {
        let Ok(classes) = u32::try_from(classes) else { return Vec::new() };
        if self.data.classes().is_some() {
            return Vec::new();
        }
        let mut known = self.clone();
        known.data.nominal = Some(NominalSizes { classes, train: classes, test: classes });
        self.method.violations(&known)
    }

    /// Returns every key that a scenario file may have, with default and meaning, except those of methods.
    pub fn keys() -> Vec<reader::KeyDoc> {
        reader::describe(|table| Scenario::read(table, "", &AnyMethod))
    }

    pub(super) fn read(
        table: &mut TableReader<'_>,
        stem: &str,
        methods: &dyn MethodCatalogue,
    ) -> Scenario {
        let schema = Param::required("schema", SCHEMA, "version of the file format");
        let schema = table.get(&schema);
        if schema != SCHEMA {
            table.reject(
                "schema",
                &format!("`schema` is not {SCHEMA}, the only one that this program reads"),
                "unknown format",
                schema_help(schema),
            );
        }
        // The base is read before; the key is named here for the description of keys.
        let base = "base file that this one overrides; see the guide";
        table.optional(&Param::<String>::unset(extends::KEY, base));
        let name = table.get(&Param::new(
            "name",
            stem.to_owned(),
            "label for users; default: the name of the file",
        ));
        let preset = Param::new(
            "preset",
            Preset::Ideal,
            "preset of defaults for [time], [links], [faults] and [round]",
        );
        let preset = table.get(&preset);
        // In the order of the file, as errors are reported.
        let seed = table.table("seed", SeedsSection::read);
        let data = table.required_table("data", "source = \"digits\"", DataSection::read);
        let tasks = table.required_table("tasks", "count = 5", TasksSection::read);
        let partition = table.required_table("partition", "kind = \"iid\"", PartitionSection::read);
        let backbone = table.table("backbone", BackboneSection::read);
        let method = table.required_table("method", "name = \"hgp\"", |table| {
            MethodSection::read(table, &backbone, methods)
        });
        let round = table.table("round", |table| RoundSection::read(table, preset));
        let over = preset == Preset::Production && round.close == Close::First;
        let over_selection = if over { 1.3 } else { 1.0 };
        Scenario {
            schema,
            name,
            preset,
            seed,
            data,
            tasks,
            partition,
            backbone,
            method,
            federation: table.table("federation", FederationSection::read),
            participation: table
                .table("participation", |table| ParticipationSection::read(table, over_selection)),
            round,
            availability: table.table("availability", AvailabilitySection::read),
            client: table.table("client", ClientSection::read),
            time: table.table("time", |table| TimeSection::read(table, preset)),
            links: table.table("links", |table| LinksSection::read(table, preset)),
            faults: table.tables("faults", FaultSection::of(preset), FaultSection::read),
            wire: table.table("wire", WireSection::read),
            privacy: table.table("privacy", PrivacySection::read),
            cache: table.table("cache", CacheSection::read),
            devices: table.table("devices", DevicesSection::read),
            record: table.table("record", RecordSection::read),
            expected: table.table("expected", ExpectedSection::read),
        }
    }
}

/// Returns true unless the key of a change has the same value before and after all changes.
fn is_changed_by(change: &Override, before: &Node, after: &Node) -> bool {
    let key = change.text().split('=').next().unwrap_or_default().trim();
    let value = |root: &Node| root.at(key).and_then(|entry| entry.node.to_toml());
    value(after).is_none_or(|after| value(before) != Some(after))
}

fn read(
    source: SourceText,
    stem: &str,
    place: extends::ScenarioFile<'_>,
    over: &Over<'_>,
    methods: &dyn MethodCatalogue,
) -> Result<Loaded, ScenarioError> {
    let Over { forgotten, changed, overrides } = *over;
    let mut report = ReadingReport::default();
    let mut root = report.parse(source);
    // Folders to which paths are relative, by the index of the source.
    let mut folders = vec![place.file.parent().unwrap_or(Path::new("/")).to_owned()];
    if report.is_clean() && refuse_study(&root, &place, changed.is_some(), &mut report) {
        return Err(report.into_error());
    }
    expand_wire(&mut root);
    if let Some(word) = extends::take(&mut root).filter(|_| report.is_clean())
        && let Some((mut base, folder)) = extends::open(&word, place, &mut report)
    {
        expand_wire(&mut base);
        root = extends::over(base, root);
        folders.push(folder);
    }
    // After a syntax error values are guesses, and without its base a file is only a part, so that further errors would
    // confuse.
    if !report.is_clean() {
        return Err(report.into_error());
    }
    forgotten.iter().for_each(|key| root.remove(key));
    let unchanged = root.clone();
    if let Some(changed) = changed {
        let source = changed.apply(&mut root, &mut report);
        // A scenario without a base leaves the place of that folder empty.
        folders.resize(source, PathBuf::new());
        folders.push(changed.origin.folder.clone());
        expand_wire(&mut root);
    }
    for change in overrides {
        change.apply(&mut root, &mut report);
        expand_wire(&mut root);
    }
    if let Some(word) = extends::take(&mut root) {
        let fault =
            ValueFault::new(&word, "`extends` cannot be overridden", "only for scenario files");
        report.fault(fault.help("write it into the scenario file"));
    }
    let here = std::env::current_dir().unwrap_or_default();
    method_files::resolve(&mut root, |source| folders.get(source).unwrap_or(&here).clone());
    let (mut scenario, _) =
        TableReader::of(&root, &mut report, |table| Scenario::read(table, stem, methods));
    let folder_of = |key: &str| {
        let source = root.at(key).map_or(0, |entry| entry.node.span.source);
        folders.get(source).unwrap_or(&here)
    };
    let mut utf8 = Vec::new();
    let mut misnamed = Vec::new();
    for (key, path) in scenario.paths_mut() {
        match Name::of_path(path).filter(|_| files::may_be_named(&key)) {
            // A name means the same in every folder.
            Some(Ok(_)) => continue,
            Some(Err(error)) => misnamed.push((key.clone(), error)),
            None => *path = absolute(folder_of(&key), path),
        }
        // The effective scenario writes them out absolute, and TOML is UTF-8.
        if path.to_str().is_none() {
            utf8.push((key, path.display().to_string()));
        }
    }
    for (key, error) in misnamed {
        let text = error.to_string();
        let (message, help) = reader::message_and_help(&text);
        let fault = ValueFault::new(root.nearest(&key), message, "no such name");
        report.fault(fault.help(help));
    }
    for (key, path) in utf8 {
        let message = format!("the path {path} is not UTF-8");
        let fault = ValueFault::new(root.nearest(&key), &message, "in such a folder");
        report.fault(fault.help("rename that folder, or move the scenario and its files"));
    }
    if report.is_clean() {
        scenario.infer(&root, &mut report);
    }
    if report.is_clean() {
        scenario.choose_phases(&root);
    }
    if report.is_clean() {
        scenario.check(&root, &mut report);
        for RequirementError { key, message, label, help } in scenario.method.violations(&scenario)
        {
            report.fault(ValueFault::new(root.nearest(&key), message, label).help(help));
        }
    }
    if report.is_clean() {
        scenario.read_files(&root, &mut report);
    }
    let mut changes = changed.map(|changed| changed.overrides()).unwrap_or_default();
    changes.extend_from_slice(overrides);
    changes.retain(|change| is_changed_by(change, &unchanged, &root));
    scenario.expected.changed_by(&changes);
    match report.is_clean() {
        true => Ok(Loaded { scenario, unchanged, root, report }),
        false => Err(report.into_error()),
    }
}

/// Reports a study given as a scenario, and nothing else: all its other keys would be unknown.
fn refuse_study(
    root: &Node,
    place: &extends::ScenarioFile<'_>,
    is_base: bool,
    report: &mut ReadingReport,
) -> bool {
    let keys = ["axes", "extra", "replicates", "seeds", "compare"];
    let is_study = keys.iter().any(|key| root.at(key).is_some());
    let found = ["base", "cell"].into_iter().find_map(|key| Some((key, root.at(key)?)));
    let Some((key, entry)) = found.filter(|_| is_study) else { return false };
    let help = match is_base {
        true => "write as `base` the scenario that this study changes".to_owned(),
        false => format!("run it with `fedcast study {}`", shell_word(place.shown)),
    };
    let label = format!("only a study has a `{key}`");
    report.fault(ValueFault::new(&entry.node, "this is a study, not a scenario", label).help(help));
    true
}

/// Expands `wire = "verify"` to `wire = { verify = true }`.
fn expand_wire(root: &mut Node) {
    let TomlValue::Table(table) = &mut root.value else { return };
    let Some(entry) = table.get_mut("wire") else { return };
    if matches!(&entry.node.value, TomlValue::String(word) if word == "verify") {
        let span = entry.node.span;
        let verify = super::reader::TomlEntry {
            key: span,
            node: Node { value: TomlValue::Boolean(true), span },
        };
        entry.node.value = TomlValue::Table([("verify".to_owned(), verify)].into());
    }
}

/// Joins `folder/path` without `.` and `..`; `folder` contains no links.
pub(super) fn absolute(folder: &Path, path: &Path) -> PathBuf {
    cleaned(&folder.join(path))
}
