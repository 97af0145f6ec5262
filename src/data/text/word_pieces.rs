//! Word pieces (Wu et al. 2016) that pretrained encoders read, split by the `tokenizers` library.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use crate::data::DataError;

/// Vocabulary of word pieces, and the rules that split text into them.
#[derive(Clone, Debug)]
pub struct WordPieces {
    tokenizer: Tokenizer,
    front: u32,
    behind: u32,
    tokens: usize,
}

const EXPECTED: &str = "BERT's pieces: a `vocab.txt` with one per line, or a `tokenizer.json`, with [PAD] as the first";

const ADVICE: &str = "Name the file that comes with the weights in backbone.vocabulary";

impl WordPieces {
    /// Reads the tokenizer file that comes with a checkpoint: `tokenizer.json` as it stands, anything else as a
    /// `vocab.txt`. A `vocab.txt` does not say whether its model distinguishes capitals; it is assumed to if any piece
    /// has one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is no tokenizer, or lacks BERT's special tokens.
    pub fn open(path: &Path) -> Result<WordPieces, DataError> {
        let text = crate::files::read_text(path, crate::files::FileKind::Text)
            .map_err(|error| DataError::io(path, EXPECTED, error))?;
        let corrupt = |found: String| DataError::advised(path, EXPECTED, found, ADVICE);
        let tokenizer = match path.extension().is_some_and(|extension| extension == "json") {
            true => Tokenizer::from_bytes(text),
            false => Tokenizer::from_bytes(of_vocabulary(&text).to_string()),
        };
        let mut tokenizer = tokenizer.map_err(|error| corrupt(error.to_string()))?;
        // `Tokenizer` pads and truncates by itself.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| corrupt(error.to_string()))?;
        let of = |piece: &str| {
            tokenizer.token_to_id(piece).ok_or_else(|| corrupt(format!("no piece `{piece}`")))
        };
        let (padding, front, behind) = (of("[PAD]")?, of("[CLS]")?, of("[SEP]")?);
        of("[UNK]")?;
        if padding != 0 {
            return Err(corrupt(format!("`[PAD]` as piece {padding}, counted from 0")));
        }
        let last = tokenizer.get_vocab(true).into_values().max();
        let tokens = last.map_or(0, |last| last as usize + 1);
        Ok(WordPieces { tokenizer, front, behind, tokens })
    }

    /// Returns the number of embeddings that the tokens need.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Returns the token in front of a text, `[CLS]`.
    pub(super) fn front(&self) -> u32 {
        self.front
    }

    /// Returns the token behind a text, `[SEP]`.
    pub(super) fn behind(&self) -> u32 {
        self.behind
    }

    /// Returns the pieces of a text, without the special ones around it.
    ///
    /// # Errors
    /// Returns an error if the rules of a `tokenizer.json` cannot split the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, DataError> {
        let pieces = self.tokenizer.encode_fast(text, false).map_err(|error| {
            let advice = "use the tokenizer file of a BERT as backbone.vocabulary";
            DataError::unfit(format!("this tokenizer cannot split {text:?}: {error}"), advice)
        })?;
        Ok(pieces.get_ids().to_vec())
    }
}

/// Returns the `tokenizer.json` that is equivalent to a `vocab.txt`, with BERT's rules.
fn of_vocabulary(text: &str) -> Value {
    let pieces = || text.lines().map(str::trim_end);
    let special = |piece: &str| piece.starts_with('[') && piece.ends_with(']');
    let cased = pieces().any(|piece| !special(piece) && piece.chars().any(char::is_uppercase));
    let vocabulary: Map<String, Value> =
        pieces().zip(0u32..).map(|(piece, token)| (piece.to_owned(), token.into())).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": true,
            "handle_chinese_chars": true,
            "strip_accents": null,
            "lowercase": !cased,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": null,
        "decoder": null,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n,\nthe\na\n";

    fn open(name: &str, content: &str) -> Result<WordPieces, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        WordPieces::open(&path)
    }

    #[test]
    fn the_longest_piece_comes_first() {
        let pieces = open("vocab.txt", PIECES).unwrap();
        assert_eq!(pieces.encode("UN\u{e1}ffable, the").unwrap(), [4, 5, 6, 7, 8]);
        assert_eq!(pieces.encode("a  unaffab").unwrap(), [9, 1], "a rest that is no piece");
        assert_eq!(pieces.encode(&"a".repeat(101)).unwrap(), [1]);
        assert!(pieces.encode(" \n").unwrap().is_empty());
        assert_eq!((pieces.tokens(), pieces.front(), pieces.behind()), (10, 2, 3));
    }

    #[test]
    fn a_vocabulary_with_capitals_reads_them() {
        let pieces = open("vocab.txt", &format!("{PIECES}The\n")).unwrap();
        assert_eq!(pieces.encode("The the").unwrap(), [10, 8]);
    }

    #[test]
    fn both_files_cut_alike_and_only_the_other_one_says_so_itself() {
        let json = of_vocabulary(PIECES).to_string().replace("100", "5");
        let read = open("tokenizer.json", &json).unwrap();
        assert_eq!(read.encode("The unaff").unwrap(), [8, 4, 5]);
        assert_eq!(read.encode("unaffable").unwrap(), [1], "its words are shorter");
    }

    #[test]
    fn what_is_no_vocabulary_is_refused() {
        for (name, content, found) in [
            ("vocab.txt", "[PAD]\n[UNK]\n[CLS]\nthe\n", "no piece `[SEP]`"),
            ("vocab.txt", "[UNK]\n[PAD]\n[CLS]\n[SEP]\n", "`[PAD]` as piece 1"),
            ("vocab.txt", "", "no piece `[PAD]`"),
            ("tokenizer.json", "{\"version\": \"1.0\"", "EOF"),
        ] {
            let error = open(name, content).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(found), "{error}");
        }
    }
}
