//! Settings of `[wire]` that affect the messages of a method, derived from their specifications.
//!
//! Lossy codecs change `f32` tensors of learned kinds and nothing else; statistics, counts, stored data and assets
//! travel unchanged. A method whose uploads are statistics has the same bytes and values under every codec, and a
//! warning says so.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::data::TaskView;
use crate::policy::{
    ClassCounts, ExchangeFacts, MessageKind, MessageSpec, Method, ModelFacts, Stage, WireForm,
};
use crate::quantity::TaskId;
use crate::scenario::{AssetCache, Codec, Direction, DirectionSection, Ignored, Scenario};
use crate::wire::{Dtype, Kind};

/// Contents of a method's messages, in all phases of its first two tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// Contents of downloads and of uploads.
    directions: [MessageContents; 2],
    layouts: Vec<MessageSpec>,
}

/// Contents of the messages of one direction.
#[derive(Clone, Debug, Default, PartialEq)]
struct MessageContents {
    /// Kinds that codecs change.
    coded: BTreeSet<Kind>,
    /// Kinds of real numbers that codecs leave unchanged.
    plain: BTreeSet<Kind>,
    /// Kinds of integers, which codecs leave unchanged.
    whole: BTreeSet<Kind>,
    /// Names of assets, which codecs leave unchanged.
    assets: BTreeSet<&'static str>,
}

impl MessageContents {
    fn add(&mut self, layout: &MessageSpec) {
        for place in layout.tensor_specs() {
            let kinds = match place.dtype {
                Dtype::F32 if place.kind.is_learnable() => &mut self.coded,
                Dtype::F32 | Dtype::F64 => &mut self.plain,
                _ => &mut self.whole,
            };
            kinds.insert(place.kind);
        }
        self.assets.extend(layout.assets.iter().map(|asset| asset.name));
    }

    /// Returns the names of real-valued contents that codecs leave unchanged.
    fn untouched(&self) -> Option<String> {
        let plain = self.plain.iter().map(|kind| kind.name().to_owned());
        let plain: Vec<String> = plain.chain(self.asset_words()).collect();
        (!plain.is_empty()).then(|| joined(&plain))
    }

    fn asset_words(&self) -> impl Iterator<Item = String> {
        self.assets.iter().map(|name| format!("the asset `{name}`"))
    }
}

impl Carried {
    /// Collects the contents of a method's messages for a model.
    pub fn of(method: &dyn Method, facts: &ModelFacts) -> Carried {
        let mut carried = Carried { directions: Default::default(), layouts: Vec::new() };
        let rows = (facts.classes / facts.tasks.max(1)).max(1);
        let profile = method.profile();
        for task in 0..facts.tasks.clamp(1, 2) {
            let own = task * rows..(task + 1) * rows;
            let classes = own.clone().map(|row| row as u32).collect();
            let counts: ClassCounts = own.clone().map(|row| (row as u32, 8)).collect();
            let view = Arc::new(TaskView { task: TaskId(task as u16), rows: own, classes });
            let stage = Stage::of(Arc::clone(&view), facts.tasks.max(1));
            for (phase, listed) in method.phases(&stage, 2).iter().enumerate() {
                for round_in_phase in 0..listed.rounds.min(2) {
                    for (role, _) in &profile.roles {
                        let (model, view, counts, stage) = (facts, &view, &counts, view.task);
                        carried.add(
                            method,
                            &ExchangeFacts {
                                model,
                                view,
                                stage,
                                phase,
                                round_in_phase,
                                role: *role,
                                counts,
                            },
                        );
                    }
                }
            }
        }
        carried
    }

    fn add(&mut self, method: &dyn Method, facts: &ExchangeFacts<'_>) {
        let messages = [MessageKind::Download, MessageKind::Upload];
        let messages = messages.map(|message| method.message_spec(message, facts));
        for (content, layout) in self.directions.iter_mut().zip(&messages) {
            content.add(layout);
        }
        self.layouts.extend(messages);
    }

    /// Returns sentences about contents that codecs do and do not change, for `fedcast methods show`.
    pub fn sentences(&self) -> Vec<String> {
        let sentence = |(word, content): (&str, &MessageContents)| {
            let coded = match content.coded.is_empty() {
                true => format!("encode nothing of {word}"),
                false => format!("encode {} of {word}", kinds(&content.coded)),
            };
            match content.untouched() {
                Some(untouched) => format!("{coded}; unchanged: {untouched}"),
                None => coded,
            }
        };
        let words = ["downloads", "uploads"].into_iter().zip(&self.directions);
        words.map(sentence).collect()
    }

    /// Returns the keys of `[wire]` that do not affect all messages of a method.
    ///
    /// `build` returns the contents for a form of messages.
    pub(in crate::methods) fn ignored(
        scenario: &Scenario,
        build: impl Fn(WireForm) -> Carried,
    ) -> Vec<Ignored> {
        let (name, wire) = (&scenario.method.name, &scenario.wire);
        let carried = build(wire.form);
        let [down, up] = &carried.directions;
        let mut ignored = codecs(name, Direction::Down, &wire.down, down);
        ignored.extend(codecs(name, Direction::Up, &wire.up, up));
        if wire.asset_cache != AssetCache::None && down.assets.is_empty() {
            let message = format!(
                "wire.asset_cache has no effect for `{name}`: its downloads name no assets"
            );
            ignored.push(Ignored::new("wire.asset_cache", message));
        }
        if wire.form == WireForm::Lean && carried == build(WireForm::Full) {
            let message = format!(
                "wire.form = \"lean\" has no effect for `{name}`: its messages contain nothing that can be left out"
            );
            ignored.push(Ignored::new("wire.form", message));
        }
        ignored
    }
}

/// Returns the codec keys of one direction that have no or only partial effect.
fn codecs(
    name: &str,
    direction: Direction,
    section: &DirectionSection,
    content: &MessageContents,
) -> Vec<Ignored> {
    let (key, messages) = match direction {
        Direction::Down => ("wire.down", "downloads"),
        Direction::Up => ("wire.up", "uploads"),
    };
    let mut ignored = Vec::new();
    if section.codec != Codec::F32 {
        let what = format!("{key}.codec = \"{}\"", section.codec);
        let own = |kind: &&Kind| section.kinds.contains_key(kind.name());
        let all_own = content.coded.iter().all(|kind| own(&kind));
        let why = if content.coded.is_empty() {
            let held = content.plain.union(&content.whole).map(|kind| kind.name().to_owned());
            let held: Vec<String> = held.chain(content.asset_words()).collect();
            let held = match held.is_empty() {
                true => "contain no tensors".to_owned(),
                false => format!("contain only {}, which codecs do not change", joined(&held)),
            };
            Some(format!("{what} has no effect for `{name}`: its {messages} {held}"))
        } else if all_own {
            Some(format!(
                "{what} has no effect for `{name}`: every kind of its {messages} that a codec encodes has its own \
                 codec"
            ))
        } else {
            content.untouched().map(|untouched| {
                format!(
                    "{what} only applies partly to `{name}`: of its {messages} it encodes {}, and not {untouched}",
                    kinds(&content.coded)
                )
            })
        };
        let codec = format!("{key}.codec");
        ignored.extend(why.map(|message| Ignored::new(codec, message).partly(!all_own)));
    }
    for (word, codec) in &section.kinds {
        if content.coded.iter().any(|kind| kind.name() == word) {
            continue;
        }
        let key = format!("{key}.kinds.{word}");
        let message = format!(
            "{key} = \"{codec}\" has no effect for `{name}`: its {messages} contain no {word} that a codec encodes"
        );
        ignored.push(Ignored::new(key, message));
    }
    ignored
}

/// Returns the names of kinds in a sentence, in the order of reports.
fn kinds(kinds: &BTreeSet<Kind>) -> String {
    joined(&kinds.iter().map(|kind| kind.name().to_owned()).collect::<Vec<_>>())
}

/// Returns words as a list in a sentence: `a, b and c`.
fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
