//! Rules of a family applied to the names of a file.

use std::collections::{BTreeMap, BTreeSet};

use super::family::{FAMILIES, Family, PREFIXES, Rule};
use super::pattern::{filled, matches, number};
use super::{Layout, Listing, WeightsError, named, shown};

/// One of our tensors and the tensors from which it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name of our tensor.
    pub to: String,
    /// Names in the file, in the order in which they are joined.
    pub from: Vec<String>,
    /// Change of the tensors.
    pub layout: Layout,
    /// Vector in the file that multiplies the rows afterwards.
    pub scale: Option<String>,
    /// Shape of the result.
    pub shape: Vec<usize>,
}

/// Assignment of every tensor of a file.
#[derive(Clone, Debug)]
pub struct NameMap {
    /// Family of the file's names.
    pub family: &'static Family,
    /// Prefix of all names in the file.
    pub prefix: String,
    /// Our tensors, sorted by name.
    pub lines: Vec<Line>,
    /// Tensors that are skipped: layers after the features, or tensors of training only.
    pub passed: Vec<String>,
    /// Tensors that no rule covers.
    pub left: Vec<String>,
}

impl NameMap {
    /// Recognizes the family of a listing that comes from `file`, and applies its rules.
    ///
    /// # Errors
    /// Returns an error if the names belong to no known family, or tensors that are to be joined do not fit or are
    /// incomplete.
    pub fn of(file: &str, listing: &Listing) -> Result<NameMap, WeightsError> {
        let Some((family, prefix)) = recognized(listing) else {
            let names: Vec<String> = listing.keys().cloned().collect();
            let what = match names.is_empty() {
                true => "has no tensors at all".to_owned(),
                false => format!("is in names of no known family: {}", named(&names, 4)),
            };
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
            let advice = format!(
                "these are known: {}; rename its tensors to those of one of them",
                known.join(", ")
            );
            return Err(WeightsError::Foreign { file: file.to_owned(), what, advice });
        };
        let mut map = NameMap { family, prefix, lines: vec![], passed: vec![], left: vec![] };
        let mut used: BTreeSet<&str> = BTreeSet::new();
        let mut lines = BTreeMap::new();
        for rule in family.rules {
            for block in map.blocks(rule, listing) {
                let line = map.line(file, rule, block, listing)?;
                for from in line.from.iter().chain(&line.scale) {
                    if let Some((name, _)) = listing.get_key_value(from) {
                        used.insert(name);
                    }
                }
                lines.insert(line.to.clone(), line);
            }
        }
        for (name, listed) in listing {
            if used.contains(name.as_str()) {
                continue;
            }
            let bare = name.strip_prefix(&map.prefix).map(|bare| family.our_words(bare));
            let is = |pattern: &&str| stripped(name).iter().any(|name| matches(pattern, name));
            let of_student = map.prefix.contains("teacher.") && name.contains("student.");
            match bare {
                _ if of_student || family.passed.iter().any(is) => map.passed.push(name.clone()),
                Some(to) if family.kept.iter().any(|pattern| matches(pattern, &to)) => {
                    let (from, shape) = (vec![name.clone()], listed.shape.clone());
                    let line =
                        Line { to: to.clone(), from, layout: Layout::Same, scale: None, shape };
                    lines.entry(to).or_insert(line);
                }
                _ => map.left.push(name.clone()),
            }
        }
        map.lines = lines.into_values().collect();
        Ok(map)
    }

    /// Returns the shapes of our tensors by name.
    pub fn shapes(&self) -> BTreeMap<&str, &[usize]> {
        self.lines.iter().map(|line| (line.to.as_str(), line.shape.as_slice())).collect()
    }

    /// Returns the name that one of our tensors has in this file, even if it is missing.
    pub fn name_in_file(&self, ours: &str) -> String {
        let found = self.family.rules.iter().find_map(|rule| match rule.to.contains("{}") {
            true => number(rule.to, ours).map(|block| filled(rule.from[0], block)),
            false => (rule.to == ours).then(|| rule.from[0].to_owned()),
        });
        let kept = self.family.kept.iter().any(|pattern| matches(pattern, ours));
        let bare = if kept {
            self.family.their_words(ours)
        } else {
            found.unwrap_or_else(|| ours.to_owned())
        };
        format!("{}{bare}", self.prefix)
    }

    /// Returns the numbers of blocks in which a rule matches; a single `None` for a rule without blocks.
    fn blocks(&self, rule: &Rule, listing: &Listing) -> BTreeSet<Option<usize>> {
        let mut blocks = BTreeSet::new();
        for from in rule.from {
            let whole = format!("{}{from}", self.prefix);
            match from.contains("{}") {
                true => {
                    blocks.extend(listing.keys().filter_map(|name| number(&whole, name)).map(Some))
                }
                false => blocks.extend(listing.contains_key(&whole).then_some(None)),
            }
        }
        blocks
    }

    fn line(
        &self,
        file: &str,
        rule: &Rule,
        block: Option<usize>,
        listing: &Listing,
    ) -> Result<Line, WeightsError> {
        let fill = |name: &str| block.map_or_else(|| name.to_owned(), |block| filled(name, block));
        let to = fill(rule.to);
        let from: Vec<String> =
            rule.from.iter().map(|name| format!("{}{}", self.prefix, fill(name))).collect();
        let mut shapes = Vec::new();
        for name in &from {
            let Some(listed) = listing.get(name) else {
                return Err(WeightsError::Missing {
                    file: file.to_owned(),
                    name: name.clone(),
                    meaning: format!(", which `{to}` is made of as well"),
                    advice:
                        "use a checkpoint of a plain network: queries, keys and values with all \
                             their weights and biases"
                            .to_owned(),
                });
            };
            shapes.push(listed.shape.as_slice());
        }
        let shape = rule.layout.shape(&shapes).map_err(|why| WeightsError::Shape {
            file: file.to_owned(),
            what: format!("{}: {why}", named(&from, 3)),
            advice: "this is another network than its names say".to_owned(),
        })?;
        let scale = rule.scale.map(|name| format!("{}{}", self.prefix, fill(name)));
        let scale = scale.and_then(|name| listing.get_key_value(&name));
        if let Some((name, listed)) = scale
            && (listed.shape.len() != 1 || listed.shape.first() != shape.first())
        {
            let (by, of) = (shown(&listed.shape), shown(&shape));
            return Err(WeightsError::Shape {
                file: file.to_owned(),
                what: format!("`{name}` is {by} and cannot scale the rows of `{to}`, {of}"),
                advice: "this is another network than its names say".to_owned(),
            });
        }
        let scale = scale.map(|(name, _)| name.clone());
        Ok(Line { to, from, layout: rule.layout, scale, shape })
    }
}

/// Returns the family whose anchor exists, and the prefix before it.
fn recognized(listing: &Listing) -> Option<(&'static Family, String)> {
    // Of a teacher and a student in one file, the teacher is used, as its authors do.
    let by_rank = |prefix: &&str| (prefix.contains("student."), prefix.len(), prefix.to_string());
    FAMILIES.into_iter().find_map(|family| {
        let prefixes = listing.keys().filter_map(|name| name.strip_suffix(family.anchor));
        let prefix = prefixes.filter(|prefix| is_prefix(prefix)).min_by_key(by_rank)?;
        Some((family, prefix.to_owned()))
    })
}

/// Returns a name with none, one, two, ... of its known prefixes removed.
fn stripped(name: &str) -> Vec<&str> {
    fn shorter<'a>(name: &&'a str) -> Option<&'a str> {
        PREFIXES.iter().find_map(|word| name.strip_prefix(word))
    }
    std::iter::successors(Some(name), shorter).collect()
}

/// Returns true if a text consists of known prefixes only.
fn is_prefix(text: &str) -> bool {
    text.is_empty() || PREFIXES.iter().any(|word| text.strip_prefix(word).is_some_and(is_prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Listed;

    fn listing(names: &[(&str, &[usize])]) -> Listing {
        let listed = |shape: &&[usize]| Listed { shape: shape.to_vec(), kind: "F32".to_owned() };
        names.iter().map(|(name, shape)| (name.to_string(), listed(shape))).collect()
    }

    #[test]
    fn prefixes_are_known_words_and_a_teacher_comes_before_its_student() {
        let anchor = "patch_embed.proj.weight";
        for (names, prefix) in [
            (vec!["module.backbone.patch_embed.proj.weight"], Some("module.backbone.")),
            (vec![anchor], Some("")),
            (
                vec!["student.backbone.patch_embed.proj.weight", "teacher.patch_embed.proj.weight"],
                Some("teacher."),
            ),
            (
                vec!["a.student.patch_embed.proj.weight", "student.patch_embed.proj.weight"],
                Some("student."),
            ),
            (vec!["decoder.patch_embed.proj.weight"], None),
        ] {
            let names: Vec<(&str, &[usize])> =
                names.into_iter().map(|name| (name, &[1][..])).collect();
            let found = NameMap::of("f", &listing(&names)).ok();
            assert_eq!(found.map(|map| map.prefix).as_deref(), prefix, "{names:?}");
        }
    }

    #[test]
    fn what_is_joined_must_be_there_and_fit() {
        let anchor = "embeddings.patch_embeddings.projection.weight";
        let part = |part: &str| format!("encoder.layer.0.attention.attention.{part}.weight");
        let (query, key, value) = (part("query"), part("key"), part("value"));
        let all: [(&str, &[usize]); 4] =
            [(anchor, &[4, 3, 2, 2]), (&query, &[4, 4]), (&key, &[4, 4]), (&value, &[4, 4])];
        let map = NameMap::of("f", &listing(&all)).unwrap();
        let line = map.lines.iter().find(|line| line.from.len() == 3).unwrap();
        assert_eq!((&line.shape[..], line.from[1].as_str()), (&[12, 4][..], key.as_str()));
        assert!(map.left.is_empty() && map.passed.is_empty());
        assert_eq!(
            map.name_in_file("blocks.7.norm1.bias"),
            "encoder.layer.7.layernorm_before.bias"
        );

        let error = NameMap::of("f", &listing(&all[..3])).unwrap_err().to_string();
        assert!(error.contains(&value) && error.contains("blocks.0.attn.qkv.weight"), "{error}");
        let mut odd = all;
        odd[3].1 = &[4, 5];
        let error = NameMap::of("f", &listing(&odd)).unwrap_err().to_string();
        assert!(error.contains("4 x 5 cannot be joined with 4 x 4"), "{error}");
    }

    #[test]
    fn heads_are_passed_over_with_and_without_the_prefix_and_others_are_left() {
        let map = NameMap::of(
            "f",
            &listing(&[
                ("vit.embeddings.patch_embeddings.projection.weight", &[1, 1, 1, 1]),
                ("vit.pooler.dense.weight", &[1, 1]),
                ("classifier.weight", &[2, 1]),
                ("classifiers.weight", &[2, 1]),
                ("vit.encoder.layer.0.layer_scale1.lambda1", &[1]),
            ]),
        )
        .unwrap();
        assert_eq!(map.passed, ["classifier.weight", "vit.pooler.dense.weight"]);
        assert_eq!(map.left, ["classifiers.weight", "vit.encoder.layer.0.layer_scale1.lambda1"]);
    }

    #[test]
    fn names_that_are_ours_stay_and_old_ones_of_bert_become_ours() {
        let map = NameMap::of(
            "f",
            &listing(&[
                ("bert.embeddings.word_embeddings.weight", &[5, 2]),
                ("bert.embeddings.LayerNorm.gamma", &[2]),
                ("bert.encoder.layer.3.output.LayerNorm.beta", &[2]),
                ("cls.predictions.bias", &[5]),
            ]),
        )
        .unwrap();
        let to: Vec<&str> = map.lines.iter().map(|line| line.to.as_str()).collect();
        let expected = [
            "embeddings.LayerNorm.weight",
            "embeddings.word_embeddings.weight",
            "encoder.layer.3.output.LayerNorm.bias",
        ];
        assert_eq!((to, map.left.len()), (expected.to_vec(), 0));
    }

    #[test]
    fn unknown_names_are_refused_with_those_known() {
        let error = NameMap::of("f", &listing(&[("tower.w", &[1])])).unwrap_err().to_string();
        assert!(error.contains("`tower.w`") && error.contains("torchvision ResNet"), "{error}");
        assert!(NameMap::of("f", &Listing::new()).unwrap_err().to_string().contains("no tensors"));
    }
}
