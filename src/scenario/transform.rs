//! `[data.train]` and `[data.test]`: resize, crop, flip, jitter, normalize, in this order.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, Param, TableReader};

/// Transform of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(train: Option<&TransformSection>), default_given(None))]
#[keys(check = section.check(table, train))]
pub struct TransformSection {
    /// Pixels of the shorter side after the first resize.
    #[key(at_least = 1.0, at_most = 4096.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<u32>,
    /// Pixels per side of a square to which the whole image is resized, in place of `resize`.
    #[key(at_least = 1.0, at_most = 4096.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub squash: Option<u32>,
    /// Part of the image that is cut out.
    #[key(first, default = Crop::None)]
    pub crop: Crop,
    /// Pixels per side of the crop; required with a crop.
    #[key(at_least = 1.0, at_most = 4096.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Black pixels added on each side before a random crop.
    #[key(default = 0, at_most = 4096.0)]
    pub padding: u32,
    /// Smallest and largest fraction of the area, for random-resized.
    #[key(default = [0.08, 1.0], above = 0.0, at_most = 1.0, source = "torchvision")]
    pub scale: [f64; 2],
    /// Smallest and largest width/height, for random-resized.
    #[key(default = [0.75, 4.0 / 3.0], above = 0.0, at_most = 100.0, source = "torchvision")]
    pub ratio: [f64; 2],
    /// Probability of a horizontal flip.
    #[key(default = 0.0, at_least = 0.0, at_most = 1.0)]
    pub flip: f64,
    /// Random change of colors, after the flip. Default: none.
    #[key(table)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterSection>,
    /// Interpolation of pixels; default in `[data.test]`: that of `[data.train]`.
    #[key(default = train.map_or(Kernel::Pillow, |train| train.interpolation))]
    pub interpolation: Kernel,
    /// Normalization: a preset or { mean, std }; default in `[data.test]`: that of `[data.train]`.
    #[key(read = Normalize::read(table, train.map_or(&Normalize::Half, |train| &train.normalize), doc))]
    pub normalize: Normalize,
}

/// Part of the image that is cut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Crop {
    /// Whole image.
    None,
    /// Random window of random area and shape, resized (torchvision's `RandomResizedCrop`).
    RandomResized,
    /// Random window of `size`.
    Random,
    /// Center window of `size`.
    Center,
}

/// Color jitter of torchvision (`ColorJitter`): a factor per property, uniform in `[max(0, 1 - x), 1 + x]`.
///
/// The order of the properties is drawn, too. The hue does not change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[keys(check = section.check(table))]
pub struct JitterSection {
    /// Largest relative change of the brightness.
    #[key(default = 0.0, at_least = 0.0, source = "torchvision")]
    pub brightness: f64,
    /// Largest relative change of the contrast to the mean gray of the image.
    #[key(default = 0.0, at_least = 0.0, source = "torchvision")]
    pub contrast: f64,
    /// Largest relative change of the saturation to the gray image.
    #[key(default = 0.0, at_least = 0.0, source = "torchvision")]
    pub saturation: f64,
}

/// Interpolation of pixels.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum, Choice,
)]
pub enum Kernel {
    /// Bicubic of Pillow up to version 12, on bytes, bit for bit: usual in image loaders of papers.
    #[default]
    #[serde(rename = "bicubic")]
    #[value(name = "bicubic")]
    Pillow,
    /// Bicubic of PyTorch: `interpolate(mode="bicubic", align_corners=False)`.
    #[serde(rename = "bicubic-torch")]
    #[value(name = "bicubic-torch")]
    Torch,
    /// Bicubic of PyTorch with `antialias=True`.
    #[serde(rename = "bicubic-antialias")]
    #[value(name = "bicubic-antialias")]
    Antialias,
    /// Bilinear of Pillow up to version 12, on bytes: torchvision's default for images.
    #[serde(rename = "bilinear")]
    #[value(name = "bilinear")]
    Bilinear,
}

impl Kernel {
    /// Returns true if the kernel is Pillow's, made for bytes.
    pub fn on_bytes(self) -> bool {
        matches!(self, Kernel::Pillow | Kernel::Bilinear)
    }
}

/// Normalization `(value - mean) / std` per channel, of values in `[0, 1]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalize {
    /// No normalization: values stay in `[0, 1]`.
    None,
    /// Mean and std 0.5 (ViTs of the `augreg` family).
    Half,
    /// Statistics of ImageNet.
    Imagenet,
    /// Statistics of CLIP's training set.
    Clip,
    /// Statistics of CIFAR-100's training split.
    Cifar,
    /// Table `{ mean = [..], std = [..] }`: one entry per channel, or one for all.
    #[serde(untagged)]
    Explicit {
        /// Means of values in `[0, 1]`.
        mean: Vec<f64>,
        /// Standard deviations of values in `[0, 1]`, positive.
        std: Vec<f64>,
    },
}

/// Words of [`Normalize`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum NormalizePreset {
    /// No normalization: values stay in `[0, 1]`.
    None,
    /// Mean and std 0.5 (augreg ViTs).
    Half,
    /// Statistics of ImageNet.
    Imagenet,
    /// Statistics of CLIP's training set.
    Clip,
    /// Statistics of CIFAR-100's training split.
    Cifar,
}

impl Normalize {
    /// Reads the key; `inherited` is the default, for `[data.test]` that of `[data.train]`.
    fn read(table: &mut TableReader<'_>, inherited: &Normalize, doc: &'static str) -> Normalize {
        if table.given_table("normalize") {
            return table.table("normalize", Normalize::read_explicit);
        }
        if matches!(inherited, Normalize::Explicit { .. }) && !table.given("normalize") {
            return inherited.clone();
        }
        let default = match inherited {
            Normalize::None => NormalizePreset::None,
            Normalize::Imagenet => NormalizePreset::Imagenet,
            Normalize::Clip => NormalizePreset::Clip,
            Normalize::Cifar => NormalizePreset::Cifar,
            Normalize::Half | Normalize::Explicit { .. } => NormalizePreset::Half,
        };
        match table.get(&Param::new("normalize", default, doc)) {
            NormalizePreset::None => Normalize::None,
            NormalizePreset::Half => Normalize::Half,
            NormalizePreset::Imagenet => Normalize::Imagenet,
            NormalizePreset::Clip => Normalize::Clip,
            NormalizePreset::Cifar => Normalize::Cifar,
        }
    }

    fn read_explicit(table: &mut TableReader<'_>) -> Normalize {
        let mean = Param::required("mean", vec![0.5], "means, one per channel");
        let std =
            Param::required("std", vec![0.5], "standard deviations, one per channel").above(0.0);
        let (mean, std): (Vec<f64>, Vec<f64>) = (table.get(&mean), table.get(&std));
        if mean.len() != std.len() || mean.is_empty() {
            table.reject(
                "std",
                "`mean` and `std` have different numbers of entries",
                &format!("{} here, {} in `mean`", std.len(), mean.len()),
                "give both one entry per channel, or one for all",
            );
        }
        for (name, values) in [("mean", &mean), ("std", &std)] {
            if let Some(value) = values.iter().find(|value| **value > 1.0) {
                let word = if name == "mean" { "mean" } else { "standard deviation" };
                table.reject(
                    name,
                    &format!("{value} is not the {word} of pixels in 0..=1"),
                    "too large",
                    &format!("divide by 255: {}", value / 255.0),
                );
            }
        }
        Normalize::Explicit { mean, std }
    }
}

impl JitterSection {
    fn check(&self, table: &mut TableReader<'_>) {
        let moves = [self.brightness, self.contrast, self.saturation].iter().any(|far| *far > 0.0);
        if !moves && !table.given("hue") {
            table.reject(
                "brightness",
                "this color jitter changes nothing",
                "all zero",
                "give `brightness`, `contrast` or `saturation`, or remove `jitter`",
            );
        }
    }
}

impl TransformSection {
    /// Reports contradictions; `train` is `[data.train]` if this is `[data.test]`.
    ///
    /// The input that the network expects does not change between the two unless the file says so.
    fn check(&self, table: &mut TableReader<'_>, train: Option<&TransformSection>) {
        if self.resize.is_some() && self.squash.is_some() {
            table.reject(
                "squash",
                "`resize` and `squash` cannot both be given",
                "second of the two",
                "remove one of the two",
            );
        }
        match (self.crop, self.size) {
            (Crop::None, Some(_)) => table.reject(
                "size",
                "`size` has no effect without a crop",
                "no crop",
                "set `crop`, or use `resize`",
            ),
            (Crop::RandomResized | Crop::Random | Crop::Center, None) if !table.given("size") => {
                table.reject(
                    "crop",
                    "a crop needs its `size`",
                    "no `size` here",
                    "add `size = 224`",
                )
            }
            _ => {}
        }
        if self.padding > 0 && self.crop != Crop::Random {
            table.reject(
                "padding",
                "`padding` has no effect: only a random crop is padded",
                "no random crop",
                "set `crop = \"random\"` or remove this line",
            );
        }
        for (name, [low, high]) in [("scale", self.scale), ("ratio", self.ratio)] {
            if low > high {
                let message = format!("`{name}` must be [smallest, largest]");
                table.reject(name, &message, "not ascending", "exchange the two");
            }
        }
        let random = [
            ("crop", matches!(self.crop, Crop::RandomResized | Crop::Random)),
            ("flip", self.flip > 0.0),
            ("jitter", self.jitter.is_some()),
        ];
        for (name, _) in random.iter().filter(|(_, is_random)| train.is_some() && *is_random) {
            table.reject(
                name,
                "[data.test] must not draw: every evaluation needs the same pixels",
                "random",
                "use `crop = \"center\"`, no flip and no jitter in [data.test]",
            );
        }
    }

    /// Returns the pixels per side of the output for square images; `None` if the size stays.
    pub fn output(&self) -> Option<u32> {
        self.size.or(self.squash).or(self.resize)
    }

    /// Returns true if images of every shape become squares.
    pub fn makes_squares(&self) -> bool {
        self.size.or(self.squash).is_some()
    }
}
