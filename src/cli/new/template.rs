//! The text of a new scenario.

use std::path::{Component, Path, PathBuf};

use super::NewArgs;

/// What somebody wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wishes {
    pub method: String,
    pub data: Data,
    pub weights: Option<PathBuf>,
    pub architecture: Option<String>,
    pub tasks: u32,
    pub clients: u32,
    pub rounds: u32,
    pub sampled: Option<u32>,
    pub beta: f64,
}

/// Where samples come from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    /// A data set by its name, which needs a path unless it is inside the program.
    Named(String),
    /// A folder of images.
    Folder(PathBuf),
}

impl Data {
    pub fn of(word: &str) -> Data {
        match ["digits", "cifar10", "cifar100"].contains(&word) {
            true => Data::Named(word.to_owned()),
            false => Data::Folder(PathBuf::from(word)),
        }
    }
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            method: "hgp".to_owned(),
            data: Data::Named("digits".to_owned()),
            weights: None,
            architecture: None,
            tasks: 5,
            clients: 10,
            rounds: 5,
            sampled: None,
            beta: 0.5,
        }
    }
}

impl Wishes {
    pub fn of(args: &NewArgs) -> Wishes {
        let usual = Wishes::default();
        Wishes {
            method: args.method.clone().unwrap_or(usual.method),
            data: args.data.as_deref().map_or(usual.data, Data::of),
            weights: args.weights.clone(),
            architecture: args.architecture.clone(),
            tasks: args.tasks.unwrap_or(usual.tasks),
            clients: args.clients.unwrap_or(usual.clients),
            rounds: args.rounds.unwrap_or(usual.rounds),
            sampled: args.sampled,
            beta: args.beta.unwrap_or(usual.beta),
        }
    }

    /// A file in this folder.
    pub fn text(&self, folder: &Path) -> String {
        let Wishes { method, tasks, rounds, beta, .. } = self;
        let clients = if self.one_site() { 1 } else { self.clients };
        let tasks = if method == "joint" { 1 } else { *tasks };
        let mut text = format!(
            "# Made by `fedcast new`. Every key: `fedcast keys`. What the method does: `fedcast methods show {method}`.\n\
             schema = 1\n\n[data]\n{}\n[tasks]\ncount = {tasks}                # classes arrive in so many tasks of equal size\n\n",
            self.data(folder)
        );
        text.push_str(&format!(
            "[partition]\nkind = \"dirichlet\"       # or iid, quantity, natural, ...: `fedcast keys partition`\n\
             beta = {beta:?}               # smaller is more uneven\nmin_samples = 1          # of every client and task\n\n"
        ));
        text.push_str(&self.backbone(folder));
        text.push_str(&format!("[method]\nname = \"{method}\"\n\n"));
        text.push_str(&format!(
            "[federation]\nclients = {clients}\nrounds = {rounds}               # of a task\n\n"
        ));
        if let Some(sampled) = self.sampled {
            text.push_str(&format!(
                "[participation]\ncount = {sampled}                # clients sampled in a round\n\n"
            ));
        }
        text.push_str(
            "[client]\nepochs = 5               # of a round\nbatch = 16\n\n\
             # [links]\n# preset = \"mobile\"      # phones; without it links take no time\n",
        );
        text
    }

    /// Whether the method has all data at one site.
    fn one_site(&self) -> bool {
        ["joint", "oracle"].contains(&self.method.as_str())
    }

    fn data(&self, folder: &Path) -> String {
        match &self.data {
            Data::Named(name) if name == "digits" => {
                "source = \"digits\"        # 8x8 pixels, inside the program; or cifar10, cifar100, folder, ...\n"
                    .to_owned()
            }
            Data::Named(name) => {
                let pixels = self.pixels();
                let sizes = ["train", "test"].map(|part| format!("\n[data.{part}]\nresize = {pixels}\n"));
                let about = format!("# `fedcast fetch {name}` brings it; or name your own file as `path`");
                format!("source = \"{name}\"       {about}\n{}", sizes.concat())
            }
            Data::Folder(path) => self.images(folder, path),
        }
    }

    /// A folder of images.
    fn images(&self, folder: &Path, path: &Path) -> String {
        let found = Images::of(path);
        let split = match found.divided {
            true => "",
            false => {
                "test_share = 0.2         # of every class, tested; the others are trained on\n"
            }
        };
        let nominal = match found.classes {
            // Nothing to plan with.
            _ if found.train * found.test == 0 => String::new(),
            classes => format!(
                "nominal = {{ classes = {classes}, train = {}, test = {} }}   # for plans on machines without the images\n",
                found.train, found.test
            ),
        };
        let path = toml::Value::from(relative(folder, path).display().to_string());
        let (size, shorter) = (self.pixels(), self.pixels() * 8 / 7);
        format!(
            "source = \"folder\"        # train/CLASS/*.png and test/CLASS/*.png, or CLASS/*.png with a split\n\
             path = {path}\n{split}{nominal}\n\
             [data.train]\nresize = {shorter}             # the shorter side; then a random crop, mirrored or not\n\
             crop = \"random\"\nsize = {size}\nflip = 0.5\n\n\
             [data.test]\nresize = {shorter}\ncrop = \"centre\"\nsize = {size}\n"
        )
    }

    /// Pixels of both sides of the network's input.
    fn pixels(&self) -> i64 {
        let table = |shape: &str| format!("shape = {shape}").parse::<toml::Table>().ok();
        let image = |shape: &String| table(shape)?.get("shape")?.get("image")?.as_integer();
        self.architecture.as_ref().and_then(image).unwrap_or(224)
    }

    fn backbone(&self, folder: &Path) -> String {
        let needed = self.data != Data::Named("digits".to_owned());
        let weights = match (&self.weights, needed) {
            (Some(name), _) if name.to_string_lossy().starts_with("hf:") => {
                name.display().to_string()
            }
            (Some(file), _) => relative(folder, file).display().to_string(),
            (None, true) => USUAL_WEIGHTS.to_owned(),
            (None, false) => return String::new(),
        };
        let note = match weights.starts_with("hf:") {
            true => format!("   # `fedcast fetch {weights}` brings it"),
            false => String::new(),
        };
        let shape = match &self.architecture {
            Some(table) if table.starts_with('{') => table.clone(),
            Some(name) => format!("\"{name}\""),
            None => format!("\"{}\"", architecture(&weights)),
        };
        format!(
            "[backbone]\nweights = {}{note}\narchitecture = {shape}\n\n",
            toml::Value::from(weights)
        )
    }
}

/// What lies in a folder of images.
struct Images {
    /// Whether it has a part for tests, or cannot be looked into.
    divided: bool,
    classes: usize,
    train: usize,
    test: usize,
}

impl Images {
    fn of(path: &Path) -> Images {
        let count = |folder: &Path| {
            let classes: Vec<usize> = folders(folder).iter().map(|class| files(class)).collect();
            (classes.len(), classes.iter().sum::<usize>())
        };
        if !path.is_dir() || path.join("train").is_dir() {
            let tests = ["test", "val"].map(|name| count(&path.join(name)));
            let (classes, train) = count(&path.join("train"));
            let test = tests.into_iter().map(|(_, files)| files).find(|files| *files > 0);
            let test = test.unwrap_or(0);
            return Images { divided: true, classes, train, test };
        }
        let (classes, all) = count(path);
        let train = all * 4 / 5;
        Images { divided: false, classes, train, test: all - train }
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().is_file()).count()
}

/// What a new scenario names where nobody says which weights.
pub(super) const USUAL_WEIGHTS: &str = "hf:timm/vit_tiny_patch16_224.augreg_in21k";

/// The shape that the name of a file of weights tells.
fn architecture(weights: &str) -> &'static str {
    let name = weights.to_lowercase();
    match () {
        () if name.contains("tiny") => "vit-tiny-patch16-224",
        () if name.contains("small") => "vit-small-patch16-224",
        () => "vit-base-patch16-224",
    }
}

/// A path as a file in `folder` writes it: relative where both lie in one tree, which moves as a whole.
fn relative(folder: &Path, path: &Path) -> PathBuf {
    let Ok(path) = std::path::absolute(path) else { return path.to_owned() };
    let (path, folder) = (cleaned(&path), cleaned(folder));
    let shared = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    // Nothing but the root is shared.
    if shared < 2 {
        return path;
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Without `.` and `..`.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = clean.pop(),
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::Registry;
    use crate::scenario::Scenario;

    #[test]
    fn what_is_written_is_valid_whatever_is_wished() {
        let methods = Registry::builtin();
        let folder = Path::new("/somewhere");
        let read = |wishes: &Wishes| {
            let text = wishes.text(folder);
            let read = Scenario::from_toml(&text, "new", folder, &[], &methods);
            read.unwrap_or_else(|error| panic!("{wishes:?}\n{text}\n{error}")).scenario
        };
        for data in ["digits", "cifar10", "cifar100", "/elsewhere/birds"] {
            let wishes = Wishes { data: Data::of(data), sampled: Some(3), ..Wishes::default() };
            let scenario = read(&wishes);
            assert_eq!(scenario.federation.clients, 10);
            assert_eq!(scenario.participation.participants.of(10), 3);
        }
        for method in ["fedavg", "stsa", "joint", "oracle", "l2p", "icarl"] {
            let wishes = Wishes { method: method.to_owned(), beta: 1.0, ..Wishes::default() };
            assert_eq!(read(&wishes).method.name, method);
        }
    }

    #[test]
    fn paths_are_relative_within_a_tree() {
        let of = |folder: &str, path: &str| relative(Path::new(folder), Path::new(path));
        assert_eq!(of("/home/me/fl", "/home/me/birds"), Path::new("../birds"));
        assert_eq!(of("/home/me", "/home/me/data/birds"), Path::new("data/birds"));
        assert_eq!(of("/home/me", "/mnt/birds"), Path::new("/mnt/birds"));
        assert_eq!(of("/home/me/a/../fl", "/home/me/birds"), Path::new("../birds"));
    }

    #[test]
    fn a_shape_is_told_by_the_name_of_its_file() {
        assert_eq!(architecture("w/vit_tiny_patch16.safetensors"), "vit-tiny-patch16-224");
        assert_eq!(architecture("deit-Small.safetensors"), "vit-small-patch16-224");
        assert_eq!(architecture("mine.safetensors"), "vit-base-patch16-224");
    }
}
