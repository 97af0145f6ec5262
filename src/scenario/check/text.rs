//! Requirements of text, and settings that have no meaning for it.

use super::Checker;
use crate::scenario::reader::{Choice, defaults};
use crate::scenario::{
    BackboneSection, BertSection, CHARACTER_TOKENS, PartitionKind, Scenario, StartWeights,
    StatisticsTransform, StoredSize, TextSection, TransformSection,
};

impl Scenario {
    /// Reports text without a network for text, and a natural partition of data without owners.
    pub(super) fn check_text(&self, checker: &mut Checker<'_>) {
        let text = self.data.text.as_ref();
        if text.is_some() != self.backbone.reads_text() {
            let (kind, message, help) = match text {
                Some(_) => ("images", "a play is text", "set `backbone.kind = \"bert\"`"),
                None => ("text", "these data are images", "set `data.source = \"play\"`"),
            };
            checker.reject(
                &["backbone.kind", "backbone", "data.source"],
                &format!("{message}, but the backbone \"{}\" reads {kind}", self.backbone.kind()),
                "does not read these data",
                help,
            );
        }
        if matches!(self.partition.kind, PartitionKind::Natural { .. }) && !self.data.has_owners() {
            checker.reject(
                &["partition.kind"],
                "these data do not name the owners of samples",
                "needs owners",
                "set `data.client` (a column, or \"folder\"), divide them (\"iid\", \"dirichlet\", \"lda\"), or name \
                 a list: `kind = \"file\"`",
            );
        }
        if let Some(text) = text {
            self.check_keys_of_images(checker);
            self.check_symbols(checker, text);
        } else if !self.data.is_encoded() && !self.data.source.is_rows() {
            self.check_store(checker);
        }
        if let (Some(text), BackboneSection::Bert(bert)) = (text, &self.backbone) {
            check_tokens(checker, text, bert);
        }
    }

    /// Reports `data.stored_size` for data without image files. An effective scenario may have its default.
    fn check_store(&self, checker: &mut Checker<'_>) {
        if self.data.stored_size == StoredSize::Square(224) {
            return;
        }
        let source = self.data.source.word();
        checker.reject(
            &["data.stored_size"],
            &format!(
                "`data.stored_size` is for image files, but \"{source}\" has images of one size"
            ),
            "no effect here",
            "remove it; [data.train] and [data.test] can `resize` or `squash` them",
        );
    }

    /// Reports image keys for text: it is neither resized nor augmented, and `stride` thins it.
    fn check_keys_of_images(&self, checker: &mut Checker<'_>) {
        let help = "remove it; [data.text] has the keys for text";
        self.refuse_transforms(checker, "a play is text", help);
        let kept = [("data.subset", self.data.subset), ("data.test_subset", self.data.test_subset)];
        for (key, _) in kept.into_iter().filter(|(_, most)| most.is_some()) {
            refuse_key(checker, key, "a play is text", help);
        }
    }

    /// Refuses image transforms for samples that are not images.
    pub(super) fn refuse_transforms(&self, checker: &mut Checker<'_>, why: &str, help: &str) {
        let train = TransformSection::default();
        let data = &self.data;
        // What [data.train] says is inherited, and refused there.
        let test = defaults(|table| TransformSection::read(table, Some(&data.train)));
        for (key, given) in [
            ("data.stored_size", data.stored_size != StoredSize::Square(224)),
            ("data.train", data.train != train),
            ("data.test", data.test != test),
            ("data.statistics", data.statistics != StatisticsTransform::Test),
        ] {
            if given {
                refuse_key(checker, key, why, help);
            }
        }
    }

    fn check_symbols(&self, checker: &mut Checker<'_>, text: &TextSection) {
        let Some(nominal) = self.data.nominal.filter(|sizes| sizes.classes != text.vocabulary_size)
        else {
            return;
        };
        checker.reject(
            &["data.nominal"],
            &format!(
                "`data.nominal.classes` is {}, but `data.text.vocabulary_size` is {}",
                nominal.classes, text.vocabulary_size
            ),
            "not `data.text.vocabulary_size`",
            "set both to the same number",
        );
    }
}

fn refuse_key(checker: &mut Checker<'_>, key: &str, why: &str, help: &str) {
    let message = format!("`{key}` is for images, but {why}");
    checker.reject(&[key], &message, "no effect here", help);
}

fn check_tokens(checker: &mut Checker<'_>, text: &TextSection, bert: &BertSection) {
    let shape = bert.architecture;
    if text.tokens() > shape.positions {
        checker.reject(
            &["data.text.sequence_length", "backbone.architecture.positions"],
            &format!(
                "{} characters with a token on both sides are more than the {} positions of the backbone",
                text.sequence_length, shape.positions
            ),
            "too long",
            "lower `data.text.sequence_length`, or with random weights raise `backbone.architecture.positions`",
        );
    }
    if bert.weights == StartWeights::Random && shape.vocabulary < CHARACTER_TOKENS {
        checker.reject(
            &["backbone.architecture.vocabulary"],
            &format!("characters have {CHARACTER_TOKENS} tokens"),
            "too few",
            "remove this line",
        );
    }
}
