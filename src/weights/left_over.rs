//! Differences between a network and a file: missing tensors, and tensors that are left over.

use std::collections::BTreeMap;

use super::advice::meaning;
use super::{NameMap, Network, READ, ResNetLooks, WeightsError, looks, matches, named, shown};

/// Suffix of batch-norm counters, which checkpoints before PyTorch 0.4.1 lack.
const COUNTER: &str = ".num_batches_tracked";

/// Rule for the comparison of a file with the requested network.
#[derive(Clone, Copy, Debug)]
pub struct Strictness<'a> {
    /// Patterns of tensors that the user allows to be left over.
    pub ignore: &'a [String],
}

impl Strictness<'_> {
    /// Checks that a map fits a network with these parameters.
    ///
    /// # Errors
    /// Returns an error if the file holds another kind of network, tensors are missing or have other shapes, tensors
    /// are left over, or a pattern matches none.
    pub fn accept(
        &self,
        file: &str,
        map: &NameMap,
        network: Network,
        wanted: &BTreeMap<String, Vec<usize>>,
    ) -> Result<(), WeightsError> {
        if map.family.network != network {
            return Err(other(
                file,
                map,
                format!(
                    "{} ({}), not {}",
                    map.family.network.word(),
                    map.family.name,
                    network.word()
                ),
                "set `backbone.kind` to what it is, or name another file",
            ));
        }
        self.check_shapes(file, map, wanted)?;
        let mut left: Vec<String> = map.left.clone();
        let strange = map
            .lines
            .iter()
            .filter(|line| !wanted.contains_key(&line.to) && !line.to.ends_with(COUNTER));
        left.extend(strange.flat_map(|line| line.from.clone()));
        left.sort();
        let unused =
            self.ignore.iter().find(|pattern| !left.iter().any(|name| matches(pattern, name)));
        left.retain(|name| !self.ignore.iter().any(|pattern| matches(pattern, name)));
        if !left.is_empty() {
            return Err(left_over(file, &left));
        }
        match unused {
            None => Ok(()),
            Some(pattern) => Err(WeightsError::LeftOver {
                file: file.to_owned(),
                what: format!("no tensor left over that `{pattern}` of `backbone.ignore` is about"),
                advice: format!("remove it; `fedcast weights {file}` lists what is left over"),
            }),
        }
    }

    /// Checks that all requested tensors exist in their shapes.
    fn check_shapes(
        &self,
        file: &str,
        map: &NameMap,
        wanted: &BTreeMap<String, Vec<usize>>,
    ) -> Result<(), WeightsError> {
        let shapes = map.shapes();
        let (mut missing, mut differing) = (Vec::new(), Vec::new());
        for (name, shape) in wanted {
            match shapes.get(name.as_str()) {
                Some(found) if found == shape => {}
                Some(found) => differing.push((name, *found, shape)),
                None if name.ends_with(COUNTER) => {}
                None => missing.push(name),
            }
        }
        if let [(name, found, shape)] = &differing[..]
            && *name == "pos_embed"
            && let ([_, found, _], [_, wanted, _]) = (found, &shape[..])
        {
            return Err(positions(file, *found, *wanted));
        }
        if let Some((name, found, shape)) = differing.first() {
            let first = format!(
                "`{}` is {}, should be {}",
                map.name_in_file(name),
                shown(found),
                shown(shape)
            );
            let more = (differing.len() - 1) + missing.len();
            let more = if more == 0 { String::new() } else { format!(" ({more} more differ)") };
            let advice = match map.family.network {
                Network::Vit => {
                    "leave `backbone.architecture` out to take it from the file, or state this one"
                }
                Network::ResNet => match ResNetLooks::of(&shapes).kind() {
                    Some(_) => {
                        "set `backbone.kind`, `width` and `stem` to what it is, or name another file"
                    }
                    None => READ,
                },
                Network::Bert => "set `backbone.architecture` to what it is, or name another file",
            };
            return Err(other(file, map, format!("{first}{more}"), advice));
        }
        let Some(first) = missing.first() else { return Ok(()) };
        let own = map.name_in_file(first);
        let meaning = if own == **first { String::new() } else { format!(" (ours is `{first}`)") };
        let more = match missing.len() {
            1 => String::new(),
            count => format!(", nor {} others", count - 1),
        };
        Err(WeightsError::Missing {
            file: file.to_owned(),
            name: own,
            meaning: format!("{meaning}{more}; it looks like {}", looks(map)),
            advice: match map.family.network {
                Network::ResNet if ResNetLooks::of(&shapes).kind().is_none() => READ,
                _ => "use a checkpoint of a plain network with all its parameters",
            }
            .to_owned(),
        })
    }
}

fn other(file: &str, map: &NameMap, what: String, advice: &str) -> WeightsError {
    WeightsError::Other {
        file: file.to_owned(),
        what: format!("{what}\n  the file looks like {}", looks(map)),
        advice: advice.to_owned(),
    }
}

/// Returns the error for positions of another image size, when all else fits.
fn positions(file: &str, found: usize, wanted: usize) -> WeightsError {
    let grid = |positions: usize| positions.saturating_sub(1).isqrt();
    WeightsError::Other {
        file: file.to_owned(),
        what: format!(
            "it has positions for {0} x {0} patches ({found}), and {1} x {1} ({wanted}) are stated",
            grid(found),
            grid(wanted)
        ),
        advice: "state the image that it was trained on (or leave `backbone.architecture` out), and set \
                 `backbone.resolution` to the pixels it shall read: then its positions are interpolated"
            .to_owned(),
    }
}

/// Returns the error for tensors that are left over, with their meaning if it is known.
pub(super) fn left_over(file: &str, left: &[String]) -> WeightsError {
    let what = match left.len() {
        1 => "a tensor that this network has no place for".to_owned(),
        count => format!("{count} tensors that this network has no place for"),
    };
    let meaning = meaning(left).map(|meaning| format!(" ({meaning})")).unwrap_or_default();
    let mut patterns: Vec<String> = left.iter().map(|name| pattern(name)).collect();
    patterns.dedup();
    patterns.sort();
    patterns.dedup();
    let shown: Vec<String> =
        patterns.iter().take(6).map(|pattern| format!("\"{pattern}\"")).collect();
    let more = if patterns.len() > 6 { ", ..." } else { "" };
    WeightsError::LeftOver {
        file: file.to_owned(),
        what: format!("{what}: {}{meaning}", named(left, 6)),
        advice: format!(
            "what they do would be missing in every feature: use a checkpoint of a plain network; only where you know that \
             they do nothing to features, set backbone.ignore = [{}{more}]",
            shown.join(", ")
        ),
    }
}

/// Returns a name with `{}` in place of its numbers.
fn pattern(name: &str) -> String {
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> =
        name.split('.').map(|part| if number(&part) { "*" } else { part }).collect();
    parts.join(".").chars().take(120).collect()
}
