//! Text of a new scenario.

use std::path::{Path, PathBuf};

use super::NewArgs;
use super::images::Images;
use super::needs::Need;
use super::sources::NewBackbone;
use crate::files::relative;

/// Answers and options from which a scenario is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScenarioAnswers {
    pub method: String,
    pub data: SampleSource,
    pub backbone: NewBackbone,
    pub weights: Option<PathBuf>,
    pub architecture: Option<String>,
    pub tasks: u32,
    pub clients: u32,
    pub rounds: u32,
    pub cohort_size: Option<u32>,
    pub beta: f64,
    pub min_samples: u32,
    /// Additions that the method needs.
    pub needs: Vec<Need>,
}

/// Source of samples.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SampleSource {
    /// A data set by name; it needs a path unless it is built in.
    Named(String),
    /// A folder of images.
    Folder(PathBuf),
}

impl SampleSource {
    pub fn of(word: &str) -> SampleSource {
        match ["digits", "cifar10", "cifar100"].contains(&word) {
            true => SampleSource::Named(word.to_owned()),
            false => SampleSource::Folder(PathBuf::from(word)),
        }
    }
}

impl Default for ScenarioAnswers {
    fn default() -> ScenarioAnswers {
        ScenarioAnswers {
            method: "hgp".to_owned(),
            data: SampleSource::Named("digits".to_owned()),
            backbone: NewBackbone::Vit,
            weights: None,
            architecture: None,
            tasks: 5,
            clients: 10,
            rounds: 5,
            cohort_size: None,
            beta: 0.5,
            min_samples: 1,
            needs: Vec::new(),
        }
    }
}

impl ScenarioAnswers {
    pub fn of(args: &NewArgs) -> ScenarioAnswers {
        let usual = ScenarioAnswers::default();
        ScenarioAnswers {
            method: args.method.clone().unwrap_or_else(|| match args.backbone {
                // The usual method needs a transformer.
                Some(NewBackbone::ResNet18) => "fedavg".to_owned(),
                _ => usual.method,
            }),
            data: args.data.as_deref().map_or(usual.data, SampleSource::of),
            backbone: args.backbone.unwrap_or(usual.backbone),
            weights: args.weights.clone(),
            architecture: args.architecture.clone(),
            tasks: args.tasks.unwrap_or(usual.tasks),
            clients: args.clients.unwrap_or(usual.clients),
            rounds: args.rounds.unwrap_or(usual.rounds),
            cohort_size: args.cohort_size,
            beta: args.beta.unwrap_or(usual.beta),
            min_samples: args.min_samples.unwrap_or(usual.min_samples),
            needs: Vec::new(),
        }
    }

    /// Returns the text of a scenario file in `folder`.
    pub fn text(&self, folder: &Path) -> String {
        let ScenarioAnswers { method, tasks, rounds, beta, min_samples, .. } = self;
        let clients = if self.one_site() { 1 } else { self.clients };
        let tasks = if method == "joint" { 1 } else { *tasks };
        let mut text = format!(
            "# Made by `fedcast new`. Every key: `fedcast keys`. What the method does: `fedcast methods show {method}`.\n\
             schema = 2\n\n[data]\n{}{}\n[tasks]\ncount = {tasks}                # number of tasks, of equal numbers of classes\n\n",
            self.data(folder),
            self.auxiliary(),
        );
        text.push_str(&format!(
            "[partition]\nkind = \"dirichlet\"       # or iid, quantity, natural, ...: `fedcast keys partition`\n\
             beta = {beta:?}               # smaller is more uneven\nmin_samples = {min_samples}          # per client and task\n\n"
        ));
        text.push_str(&self.backbone(folder));
        text.push_str(&format!("[method]\nname = \"{method}\"\n{}\n", self.pool(tasks)));
        text.push_str(&format!(
            "[federation]\nclients = {clients}\nrounds = {rounds}               # per task\n\n"
        ));
        if let Some(cohort_size) = self.cohort_size {
            text.push_str(&format!(
                "[participation]\ncount = {cohort_size}                # clients sampled per round\n\n"
            ));
        }
        text.push_str("[client]\nepochs = 5               # per round\nbatch_size = 16\n");
        if self.needs.contains(&Need::PlainSgd) {
            text.push_str(
                "optimizer = { kind = \"sgd\", lr = 0.05 }   # the method reads gradients from its steps\n",
            );
        }
        text.push_str(
            "\n# [links]\n# preset = \"mobile\"      # phones; without it links take no time\n",
        );
        text
    }

    /// Returns the section of samples that no client has, if the method needs them.
    fn auxiliary(&self) -> &'static str {
        match self.needs.contains(&Need::AuxiliarySamples) {
            true => {
                "\n[data.auxiliary]\nfraction = 0.1              # of every class, given to no client: the method distills on it\n"
            }
            false => "",
        }
    }

    /// Returns the pool size of a component method whose default exceeds the feature dimension.
    fn pool(&self, tasks: u32) -> String {
        let each = self.needs.iter().find_map(|need| match need {
            Need::ComponentsOfATask(each) => Some(*each),
            _ => None,
        });
        each.map_or_else(String::new, |each| {
            format!("pool = {}                # components, {each} per task\n", each * tasks)
        })
    }

    /// Returns true if the method has all data at one site.
    fn one_site(&self) -> bool {
        ["joint", "oracle"].contains(&self.method.as_str())
    }

    fn data(&self, folder: &Path) -> String {
        match &self.data {
            SampleSource::Named(name) if name == "digits" => {
                "source = \"digits\"        # 8x8 pixels, built in; or cifar10, cifar100, folder, ...\n"
                    .to_owned()
            }
            SampleSource::Named(name) => {
                let pixels = self.pixels();
                let sizes = ["train", "test"].map(|part| format!("\n[data.{part}]\nresize = {pixels}\n"));
                let about = format!("# `fedcast fetch {name}` downloads it; or set `path` to your file");
                format!("source = \"{name}\"       {about}\n{}", sizes.concat())
            }
            SampleSource::Folder(path) => self.images(folder, path),
        }
    }

    /// Returns the section of a folder of images.
    fn images(&self, folder: &Path, path: &Path) -> String {
        let found = Images::of(path);
        let split = match found.divided {
            true => "",
            false => {
                "test_fraction = 0.2      # of every class, for tests; the rest is for training\n"
            }
        };
        let nominal = match found.classes {
            // No images to count.
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
             [data.train]\nresize = {shorter}             # the shorter side; then a random crop, mirrored half of the time\n\
             crop = \"random\"\nsize = {size}\nflip = 0.5\n\n\
             [data.test]\nresize = {shorter}\ncrop = \"center\"\nsize = {size}\n"
        )
    }

    /// Returns the height and width of the network's input, in pixels.
    fn pixels(&self) -> i64 {
        match (self.backbone, &self.data) {
            (NewBackbone::ResNet18, SampleSource::Folder(_)) => return 64,
            (NewBackbone::ResNet18, SampleSource::Named(_)) => return 32,
            (NewBackbone::Vit, _) => {}
        }
        let table = |shape: &str| format!("shape = {shape}").parse::<toml::Table>().ok();
        let image = |shape: &String| table(shape)?.get("shape")?.get("image")?.as_integer();
        self.architecture.as_ref().and_then(image).unwrap_or(224)
    }

    fn backbone(&self, folder: &Path) -> String {
        if self.backbone == NewBackbone::ResNet18 {
            return self.resnet(folder);
        }
        let needed = self.data != SampleSource::Named("digits".to_owned());
        let weights = match (&self.weights, needed) {
            // The default.
            (Some(name), _) if name.as_os_str() == "embedded" => return String::new(),
            (Some(weights), _) => written(folder, weights),
            (None, true) => USUAL_WEIGHTS.to_owned(),
            (None, false) => return String::new(),
        };
        let note = match weights.starts_with("hf:") {
            true => format!("   # `fedcast fetch {weights}` downloads it"),
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

    /// Returns the section of a residual network, whose layers suit the size of the images.
    fn resnet(&self, folder: &Path) -> String {
        let weights = match &self.weights {
            Some(weights) if weights.as_os_str() != "random" => written(folder, weights),
            _ => "random".to_owned(),
        };
        let note =
            if weights == "random" { "       # drawn from the seed, then trained" } else { "" };
        let stem = match &self.data {
            SampleSource::Folder(_) => {
                "stem = \"imagenet\"        # for images of 64 pixels or more; small for those of 32\n"
            }
            SampleSource::Named(_) => "",
        };
        let weights = toml::Value::from(weights);
        format!("[backbone]\nkind = \"resnet18\"\nweights = {weights}{note}\n{stem}\n")
    }
}

/// Returns weights as a scenario in `folder` names them: files relative to it, names as they are.
fn written(folder: &Path, weights: &Path) -> String {
    match weights.to_string_lossy().starts_with("hf:") {
        true => weights.display().to_string(),
        false => relative(folder, weights).display().to_string(),
    }
}

/// Weights that a new scenario names by default.
pub(super) const USUAL_WEIGHTS: &str = "hf:timm/vit_tiny_patch16_224.augreg_in21k";

/// Returns the architecture that the name of a weights file suggests.
fn architecture(weights: &str) -> &'static str {
    let name = weights.to_lowercase();
    match () {
        () if name.contains("tiny") => "vit-tiny-patch16-224",
        () if name.contains("small") => "vit-small-patch16-224",
        () => "vit-base-patch16-224",
    }
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
        let read = |draft: &ScenarioAnswers| {
            let text = draft.text(folder);
            let read = Scenario::from_toml(&text, "new", folder, &[], &methods);
            read.unwrap_or_else(|error| panic!("{draft:?}\n{text}\n{error}")).scenario
        };
        for data in ["digits", "cifar10", "cifar100", "/elsewhere/birds"] {
            let draft = ScenarioAnswers {
                data: SampleSource::of(data),
                cohort_size: Some(3),
                ..ScenarioAnswers::default()
            };
            let scenario = read(&draft);
            assert_eq!(scenario.federation.clients, 10);
            assert_eq!(scenario.participation.participants.of(10), 3);
        }
    }

    #[test]
    fn a_file_name_determines_the_shape() {
        assert_eq!(architecture("w/vit_tiny_patch16.safetensors"), "vit-tiny-patch16-224");
        assert_eq!(architecture("deit-Small.safetensors"), "vit-small-patch16-224");
        assert_eq!(architecture("mine.safetensors"), "vit-base-patch16-224");
    }
}
