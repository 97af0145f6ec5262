//! Data set of a play: the next character of a speech is the class.
//!
//! The file is plain text in blocks separated by empty lines; the first line of a block is a speaker's name and a
//! colon, the other lines are spoken. A block without a name continues the last speaker's. All blocks of a speaker form
//! one text. Every `stride` characters it gives a sample: the preceding characters are the input, the next one is the
//! class. The last part of every speaker's text is for tests, so that test samples hardly overlap training samples; all
//! speakers are tested, also those that are no client.
//!
//! Classes are the most frequent characters of the training samples, the most frequent one first; samples of others
//! are left out. Speakers are numbered by how much they say, those who say most first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Tokenizer;
use crate::data::store::Store;
use crate::data::{DataError, Dataset, Split};

/// Options for reading a play.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlayOptions {
    /// Number of preceding characters that form the input.
    pub context: usize,
    /// Distance between two samples, in characters.
    pub stride: usize,
    /// Number of classes: the most frequent characters.
    pub symbols: usize,
    /// True if capitals count as small letters.
    pub lowercase: bool,
    /// Fraction of a speaker's samples that are tested: the last ones.
    pub test: f64,
}

impl PlayOptions {
    /// Returns the number of tokens of a sample.
    pub fn length(&self) -> usize {
        self.context + Tokenizer::FRAME
    }
}

const EXPECTED: &str =
    "a play as UTF-8 text: blocks of lines, the first one a speaker's name and a colon";

/// Reads a play.
///
/// # Errors
/// Returns an error if the file cannot be read, is no text or no play, or has fewer distinct characters than `symbols`.
pub fn open(
    path: &Path,
    options: &PlayOptions,
    tokenizer: &Tokenizer,
) -> Result<Dataset, DataError> {
    let text = crate::files::read_text(path, crate::files::FileKind::Text)
        .map_err(|error| DataError::io(path, EXPECTED, error))?;
    let corrupt = |found: String| DataError::Corrupt {
        path: path.to_owned(),
        expected: EXPECTED.to_owned(),
        found,
        advice: "Name a file of this form in data.path, or correct this one".to_owned(),
    };
    let speeches = speeches(&text, options.lowercase).map_err(corrupt)?;
    let places: Vec<Places> = speeches.iter().map(|said| Places::of(said.len(), options)).collect();
    let trained = speeches.iter().zip(&places);
    let trained = trained.flat_map(|(said, places)| places.train.iter().map(|at| said[*at]));
    let symbols = most_frequent(trained, options.symbols);
    if symbols.len() < options.symbols {
        return Err(DataError::unfit(
            format!(
                "the training samples of {} have {} different next characters",
                path.display(),
                symbols.len()
            ),
            format!("set data.text.vocabulary_size to at most that instead of {}", options.symbols),
        ));
    }
    let class_of: BTreeMap<char, u32> = symbols.iter().copied().zip(0..).collect();
    let (mut train, mut test) = (Windows::default(), Windows::default());
    for ((said, places), speaker) in speeches.iter().zip(&places).zip(0..) {
        for (windows, places) in [(&mut train, &places.train), (&mut test, &places.test)] {
            for &at in places {
                let Some(&class) = class_of.get(&said[at]) else { continue };
                let seen = &said[at.saturating_sub(options.context)..at];
                windows.tokens.extend(tokenizer.encode(seen, options.length())?);
                windows.labels.push(class);
                windows.speakers.push(speaker);
            }
        }
    }
    let name = path.file_stem().map_or("play".into(), |name| name.to_string_lossy().into_owned());
    Ok(Dataset {
        name,
        class_names: symbols.into_iter().map(word).collect(),
        train: Arc::new(train.split(options)?),
        test: Arc::new(test.split(options)?),
        notes: Vec::new(),
    })
}

/// Positions of the predicted characters in a speaker's text.
struct Places {
    train: Vec<usize>,
    test: Vec<usize>,
}

impl Places {
    fn of(length: usize, options: &PlayOptions) -> Places {
        let mut train: Vec<usize> = (1..length).step_by(options.stride).collect();
        let tested = (options.test * train.len() as f64).ceil() as usize;
        let test = train.split_off(train.len().saturating_sub(tested));
        Places { train, test }
    }
}

/// Samples of a part, in the order in which they are made.
#[derive(Default)]
struct Windows {
    tokens: Vec<u32>,
    labels: Vec<u32>,
    speakers: Vec<u32>,
}

impl Windows {
    fn split(self, options: &PlayOptions) -> Result<Split, DataError> {
        let store = Store::Tokens { ids: self.tokens, length: options.length() };
        Ok(Split::new(store, self.labels, options.symbols)?.with_owners(self.speakers))
    }
}

/// Returns the text of every speaker: the longest first, equally long ones by name.
///
/// # Errors
/// Returns the place of a line that does not fit.
fn speeches(text: &str, folds: bool) -> Result<Vec<Vec<char>>, String> {
    let mut said: BTreeMap<&str, String> = BTreeMap::new();
    let mut last = None;
    let mut begins = true;
    for (line, number) in text.lines().map(str::trim_end).zip(1..) {
        let name = line.strip_suffix(':').map(str::trim).filter(|name| begins && !name.is_empty());
        begins = line.is_empty();
        if name.is_some() {
            last = name;
        } else if !line.is_empty() {
            let speaker =
                last.ok_or_else(|| format!("line {number} before any speaker: {line:?}"))?;
            said.entry(speaker).or_default().extend([line, "\n"]);
        }
    }
    if said.is_empty() {
        return Err("no speaker with any lines".to_owned());
    }
    let fold = |c: char| if folds { lowercase(c) } else { c };
    let mut speakers: Vec<(&str, Vec<char>)> =
        said.into_iter().map(|(name, speech)| (name, speech.chars().map(fold).collect())).collect();
    speakers.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(b.0)));
    Ok(speakers.into_iter().map(|(_, said)| said).collect())
}

/// Returns the lower case of a capital, in any script.
///
/// A capital whose lower case has several characters stays, so that positions in the text equal those in the file.
fn lowercase(capital: char) -> char {
    let mut small = capital.to_lowercase();
    match (small.next(), small.next()) {
        (Some(letter), None) => letter,
        _ => capital,
    }
}

/// Returns the `most` most frequent characters, ordered by falling frequency and then by code point.
fn most_frequent(characters: impl Iterator<Item = char>, most: usize) -> Vec<char> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    characters.for_each(|c| *counts.entry(c).or_default() += 1);
    let mut counts: Vec<(char, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    counts.into_iter().take(most).map(|(c, _)| c).collect()
}

/// Returns the name of a class.
fn word(symbol: char) -> String {
    match symbol {
        ' ' => "blank".to_owned(),
        '\n' => "end of line".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAY: &str = "\
A:
To be
or not.

Bee:
No no no no no no no no no no.

It goes on.

A:
To be: yes

C:
";

    fn options() -> PlayOptions {
        PlayOptions { context: 4, stride: 1, symbols: 5, lowercase: true, test: 0.25 }
    }

    fn read(play: &[u8], options: &PlayOptions) -> Result<Dataset, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("play.txt");
        std::fs::write(&path, play).unwrap();
        open(&path, options, &Tokenizer::Characters)
    }

    #[test]
    fn speakers_come_by_how_much_they_say() {
        let said: Vec<String> =
            speeches(PLAY, false).unwrap().iter().map(|said| said.iter().collect()).collect();
        let bee = "No no no no no no no no no no.\nIt goes on.\n";
        let a = "To be\nor not.\nTo be: yes\n";
        assert_eq!(said, [bee, a], "a colon inside a block names no speaker, and C says nothing");
        assert_eq!(speeches(&PLAY.replace('\n', "\r\n"), false), speeches(PLAY, false));
    }

    #[test]
    fn capitals_of_every_script_are_folded_one_to_one() {
        let text = "A:\nÉÀÇ ΣΩ ДЖ ǅ Straße ẞ İ\n";
        let folded: String = speeches(text, true).unwrap().concat().into_iter().collect();
        assert_eq!(folded, "éàç σω дж ǆ straße ß İ\n");
        let kept: String = speeches(text, false).unwrap().concat().into_iter().collect();
        assert_eq!(kept, "ÉÀÇ ΣΩ ДЖ ǅ Straße ẞ İ\n");
    }

    #[test]
    fn accents_make_no_second_class_of_a_capital() {
        let play = "A:\nÉéÉéÉéÉéÉéÉéÉéÉéÉéÉéÉé\n";
        let three = PlayOptions { symbols: 3, ..options() };
        let error = read(play.as_bytes(), &three).unwrap_err().to_string();
        assert!(error.contains("have 1 different next characters"), "{error}");
    }

    #[test]
    fn samples_see_what_comes_before_them() {
        let play = read(PLAY.as_bytes(), &options()).unwrap();
        assert_eq!(
            (play.classes(), &play.class_names[..3]),
            (5, &["o", "blank", "n"].map(String::from)[..])
        );
        // The second character of the first speaker is an "o", and before it stands an "n"; the sixth an "n".
        let encode = |text: &str| {
            let text: Vec<char> = text.chars().collect();
            Tokenizer::Characters.encode(&text, options().length()).unwrap()
        };
        assert_eq!((play.train.tokens(&[0]), play.train.labels()[0]), (Some(encode("n")), 0));
        assert_eq!((play.train.tokens(&[5]), play.train.labels()[5]), (Some(encode(" no ")), 2));
        let owners = play.train.owners().unwrap();
        assert!(owners[0] == 0 && owners.contains(&1) && owners.is_sorted());
    }

    #[test]
    fn the_end_of_every_speech_is_tested() {
        let places = Places::of(14, &PlayOptions { stride: 3, ..options() });
        assert_eq!((places.train, places.test), (vec![1, 4, 7], vec![10, 13]));
        let play = read(PLAY.as_bytes(), &options()).unwrap();
        let (train, test) = (play.train.owners().unwrap(), play.test.owners().unwrap());
        assert!(test.contains(&0) && test.contains(&1) && test.len() < train.len());
    }

    #[test]
    fn texts_that_are_no_play_are_refused_with_their_place() {
        let few = PlayOptions { symbols: 60, ..options() };
        let novel = "\nIt was a dark night.\n";
        let latin = b"A:\nMa non \xe8 vero.\n";
        let error =
            |play: &[u8], options: &PlayOptions| read(play, options).unwrap_err().to_string();
        for (error, found) in [
            (error(PLAY.as_bytes(), &few), "data.text.vocabulary_size"),
            (
                error(novel.as_bytes(), &options()),
                "line 2 before any speaker: \"It was a dark night.\"",
            ),
            (error(latin, &options()), "index 10"),
            (error(b"A:\n\nB:\n", &options()), "no speaker with any lines"),
            (error(b"", &options()), "no speaker with any lines"),
            (error(b"\xFF\xFEA\0", &options()), "UTF-16"),
        ] {
            assert!(error.contains("play.txt") && error.contains(found), "{error}");
        }
    }
}
