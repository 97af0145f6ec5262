//! Guess of the residual network in a file: its published depth, and differences from a plain one.

use std::collections::BTreeMap;

use super::{blocks, shown};

/// Published depths: blocks of every stage, true for bottlenecks, and the depth.
const DEPTHS: [([usize; 4], bool, usize); 8] = [
    ([1, 1, 1, 1], false, 10),
    ([2, 2, 2, 2], false, 18),
    ([3, 4, 6, 3], false, 34),
    ([2, 2, 2, 2], true, 26),
    ([3, 4, 6, 3], true, 50),
    ([3, 4, 23, 3], true, 101),
    ([3, 8, 36, 3], true, 152),
    ([3, 24, 36, 3], true, 200),
];

/// Supported residual networks, as advice for others.
pub const READ: &str = "plain ones are read: ResNet-18 of any width with a stem of 3 x 3 or 7 x 7 (kind = \"resnet18\"), \
                        ResNet-50 and ResNet-152; use one of them";

/// Residual network as inferred from the shapes of its tensors, under torchvision's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResNetLooks {
    stages: [usize; 4],
    bottlenecks: bool,
    stem: StemKind,
    /// Channels of the first stage, inside its bottlenecks if it has any.
    width: Option<usize>,
    /// Groups of the middle convolution of a bottleneck.
    groups: usize,
    /// True if the first bottleneck is wider than the stem.
    widened: bool,
    /// True if shortcuts average before they project.
    averages: bool,
    /// True if blocks weight their channels (squeeze and excitation, or the like).
    attends: bool,
}

/// Kind of the layers before the first stage.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StemKind {
    /// One convolution with a kernel of this size.
    Single(usize),
    /// Several convolutions.
    Deep,
    /// Unknown layers.
    Unknown,
}

impl ResNetLooks {
    /// Infers the network from these shapes.
    pub fn of(shapes: &BTreeMap<&str, &[usize]>) -> ResNetLooks {
        let shape = |name: &str| shapes.get(name).copied().unwrap_or_default();
        let stages = [1, 2, 3, 4].map(|stage| blocks(shapes, &format!("layer{stage}.")));
        let bottlenecks = shapes.contains_key("layer1.0.conv3.weight");
        let stem = match shape("conv1.weight") {
            [_, _, side, _] => StemKind::Single(*side),
            _ if shapes.contains_key("conv1.0.weight") => StemKind::Deep,
            _ => StemKind::Unknown,
        };
        let width = match (shape("conv1.weight"), shape("bn1.weight")) {
            ([width, ..], _) | (_, [width]) => Some(*width),
            _ => None,
        };
        let groups = match shape("layer1.0.conv2.weight") {
            [outputs, inputs, ..] if *inputs > 0 => outputs / inputs,
            _ => 1,
        };
        let widened = match (bottlenecks, shape("layer1.0.conv2.weight"), width) {
            (true, [outputs, ..], Some(width)) => *outputs != width,
            _ => false,
        };
        // A convolution at index 1 follows an average pooling at index 0.
        let averages = shape("layer2.0.downsample.1.weight").len() == 4;
        let parts = [".se.", ".se_module.", ".eca.", ".attn."];
        let attends = shapes.keys().any(|name| parts.iter().any(|part| name.contains(part)));
        ResNetLooks { stages, bottlenecks, stem, width, groups, widened, averages, attends }
    }

    /// Returns the `backbone.kind` that can read it; `None` for other networks.
    pub fn kind(&self) -> Option<&'static str> {
        let plain = self.groups == 1 && !self.widened && !self.averages && !self.attends;
        let wide_enough = self.width == Some(64);
        match (self.stages, self.bottlenecks, &self.stem) {
            _ if !plain => None,
            ([2, 2, 2, 2], false, StemKind::Single(3 | 7)) => Some("resnet18"),
            ([3, 4, 6, 3], true, StemKind::Single(7)) if wide_enough => Some("resnet50"),
            ([3, 8, 36, 3], true, StemKind::Single(7)) if wide_enough => Some("resnet152"),
            _ => None,
        }
    }

    /// Describes the network in one phrase.
    pub fn words(&self) -> String {
        let mut with = Vec::new();
        match &self.stem {
            StemKind::Single(side) => {
                with.push(format!("with a stem of {}", shown(&[*side, *side])))
            }
            StemKind::Deep => with.push("with a stem of several convolutions".to_owned()),
            StemKind::Unknown => {}
        }
        if self.groups > 1 {
            with.push(format!("with convolutions in {} groups", self.groups));
        }
        if self.averages {
            with.push("with shortcuts that average".to_owned());
        }
        if self.attends {
            with.push("with weighted channels (squeeze and excitation)".to_owned());
        }
        let width = self.width.map(|width| format!(", {width} channels wide")).unwrap_or_default();
        let with = match with.as_slice() {
            [] => String::new(),
            [one] => format!(", {one}"),
            [most @ .., last] => format!(", {} and {last}", most.join(", ")),
        };
        format!("{}{width}{with}", self.name())
    }

    /// Returns the published name, as far as depth and blocks determine it.
    fn name(&self) -> String {
        let known = DEPTHS
            .iter()
            .find(|(stages, deep, _)| *stages == self.stages && *deep == self.bottlenecks);
        let [first, second, third, fourth] = self.stages;
        let of_cifar = first > 0 && first == second && second == third && fourth == 0;
        let depth = match known {
            Some((_, _, depth)) => *depth,
            None if of_cifar && !self.bottlenecks => 6 * first + 2,
            None => {
                let stages = [first, second, third, fourth].map(|blocks| blocks.to_string());
                return format!(
                    "a residual network of another depth ({} blocks)",
                    stages.join(", ")
                );
            }
        };
        let family = match (self.groups > 1, self.widened) {
            (true, _) => "ResNeXt",
            (false, true) => "Wide ResNet",
            (false, false) => "ResNet",
        };
        let family = if self.attends { format!("SE-{family}") } else { family.to_owned() };
        let letter = match (&self.stem, self.averages) {
            (StemKind::Deep, true) => "d",
            (StemKind::Deep, false) => "c",
            _ => "",
        };
        let of_cifar = if of_cifar { " for small images, in three stages" } else { "" };
        format!("{family}-{depth}{letter}{of_cifar}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network of these blocks, with the tensors that identify its kind, some of them changed.
    fn looks(
        stages: [usize; 4],
        deep: bool,
        change: impl Fn(&mut BTreeMap<String, Vec<usize>>),
    ) -> ResNetLooks {
        let mut shapes: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (stage, blocks) in stages.into_iter().enumerate() {
            for block in 0..blocks {
                let name = format!("layer{}.{block}.conv2.weight", stage + 1);
                shapes.insert(name, vec![64 << stage, 64 << stage, 3, 3]);
            }
        }
        shapes.insert("conv1.weight".to_owned(), vec![64, 3, 7, 7]);
        if deep {
            shapes.insert("layer1.0.conv3.weight".to_owned(), vec![256, 64, 1, 1]);
        }
        change(&mut shapes);
        ResNetLooks::of(&shapes.iter().map(|(name, shape)| (&**name, &**shape)).collect())
    }

    #[test]
    fn residual_networks_are_recognized_by_their_blocks() {
        let end = ", 64 channels wide, with a stem of 7 x 7";
        for (stages, deep, name, kind) in [
            ([2, 2, 2, 2], false, "ResNet-18", Some("resnet18")),
            ([3, 4, 6, 3], false, "ResNet-34", None),
            ([3, 4, 6, 3], true, "ResNet-50", Some("resnet50")),
            ([3, 4, 23, 3], true, "ResNet-101", None),
            ([3, 8, 36, 3], true, "ResNet-152", Some("resnet152")),
            ([3, 3, 3, 0], false, "ResNet-20 for small images, in three stages", None),
        ] {
            let found = looks(stages, deep, |_| ());
            assert_eq!((found.words(), found.kind()), (format!("{name}{end}"), kind));
        }
        let other = looks([1, 2, 3, 4], true, |_| ());
        assert!(
            other.words().contains("another depth (1, 2, 3, 4 blocks)") && other.kind().is_none()
        );
    }

    #[test]
    fn variants_are_called_by_their_names_and_are_none_of_ours() {
        let put = |name: &'static str, shape: &'static [usize]| {
            move |shapes: &mut BTreeMap<String, Vec<usize>>| {
                shapes.insert(name.to_owned(), shape.to_vec());
            }
        };
        let fifty = [3, 4, 6, 3];
        let next = looks(fifty, true, put("layer1.0.conv2.weight", &[128, 4, 3, 3]));
        assert!(next.words().starts_with("ResNeXt-50, ") && next.words().contains("32 groups"));
        let wide = looks(fifty, true, put("layer1.0.conv2.weight", &[128, 128, 3, 3]));
        assert!(wide.words().starts_with("Wide ResNet-50, "), "{}", wide.words());
        let squeezed = looks(fifty, true, put("layer1.0.se.fc1.weight", &[4, 64, 1, 1]));
        assert!(squeezed.words().starts_with("SE-ResNet-50, "), "{}", squeezed.words());
        let d = looks([2; 4], false, |shapes| {
            shapes.remove("conv1.weight");
            put("conv1.0.weight", &[32, 3, 3, 3])(shapes);
            put("bn1.weight", &[64])(shapes);
            put("layer2.0.downsample.1.weight", &[128, 64, 1, 1])(shapes);
        });
        let words = d.words();
        assert!(
            words.starts_with("ResNet-18d, 64 channels wide, with a stem of several"),
            "{words}"
        );
        assert!(words.contains("shortcuts that average"), "{words}");
        let small = looks(fifty, true, put("conv1.weight", &[64, 3, 3, 3]));
        assert!(small.words().ends_with("with a stem of 3 x 3"));
        for looks in [next, wide, squeezed, d, small] {
            assert_eq!(looks.kind(), None, "{}", looks.words());
        }
        assert_eq!(
            looks([2; 4], false, put("conv1.weight", &[8, 1, 3, 3])).kind(),
            Some("resnet18")
        );
    }
}
