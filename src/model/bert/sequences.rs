//! Sequences of a batch without their padding.

use std::ops::Range;

use super::BertConfig;

/// Tokens of all sequences, concatenated, with sequences of equal length next to each other.
///
/// Padding is left out rather than masked: no token attends to it, so the hidden states of the others do not change,
/// and its own states, which have no meaning, are not computed.
pub(super) struct Sequences {
    /// Word of every token.
    pub words: Vec<u32>,
    /// Position of every token in its sequence.
    pub positions: Vec<u32>,
    /// Segment of every token.
    pub segments: Vec<u32>,
    /// Range of every sequence's tokens, in the order of the batch.
    pub tokens: Vec<Range<usize>>,
    /// Number of sequences and their length, for each length in the order of the tokens.
    pub runs: Vec<(usize, usize)>,
}

impl Sequences {
    /// Removes the padding of `words`, which holds one sequence per entry.
    ///
    /// `segments` are equally many, or `None` if all tokens belong to the first. A sequence that is all padding keeps
    /// its first token.
    pub fn new(words: &[Vec<u32>], segments: Option<&[Vec<u32>]>) -> Sequences {
        let kept: Vec<Vec<usize>> = words.iter().map(|words| kept(words)).collect();
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|sequence| kept[*sequence].len());
        let mut all = Sequences {
            words: Vec::new(),
            positions: Vec::new(),
            segments: Vec::new(),
            tokens: vec![0..0; words.len()],
            runs: Vec::new(),
        };
        for sequence in order {
            let (start, length) = (all.words.len(), kept[sequence].len());
            for &place in &kept[sequence] {
                all.words.push(words[sequence][place]);
                all.positions.push(place as u32);
                all.segments.push(segments.map_or(0, |segments| segments[sequence][place]));
            }
            all.tokens[sequence] = start..start + length;
            match all.runs.last_mut() {
                Some((count, same)) if *same == length => *count += 1,
                _ => all.runs.push((1, length)),
            }
        }
        all
    }
}

/// Returns the positions of tokens that are not padding.
fn kept(words: &[u32]) -> Vec<usize> {
    let filled = |place: &usize| words[*place] != BertConfig::PADDING;
    let places: Vec<usize> = (0..words.len()).filter(filled).collect();
    if places.is_empty() { vec![0] } else { places }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_lie_by_length_and_are_found_by_sample() {
        let words = [vec![2, 5, 7, 0], vec![2, 3, 0, 0], vec![2, 8, 9, 0], vec![2, 0, 3, 0]];
        let segments = [vec![0, 1, 1, 0], vec![0, 0, 0, 0], vec![1, 0, 0, 0], vec![0, 0, 1, 0]];
        let all = Sequences::new(&words, Some(&segments));
        assert_eq!(all.words, [2, 3, 2, 3, 2, 5, 7, 2, 8, 9]);
        assert_eq!(all.positions, [0, 1, 0, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(all.segments, [0, 0, 0, 1, 0, 1, 1, 1, 0, 0]);
        assert_eq!(all.tokens, [4..7, 0..2, 7..10, 2..4]);
        assert_eq!(all.runs, [(2, 2), (2, 3)]);
    }

    #[test]
    fn a_sequence_of_padding_keeps_one_token() {
        let all = Sequences::new(&[vec![0, 0]], None);
        assert_eq!((all.words, all.runs), (vec![0], vec![(1, 1)]));
        assert_eq!(all.tokens.first(), Some(&(0..1)));
        assert_eq!(all.tokens.len(), 1);
    }
}
