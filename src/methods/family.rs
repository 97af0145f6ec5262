//! Families of methods: what they remember old classes by.

/// Approach of a method to forgetting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Parameters are averaged; nothing is done about forgetting.
    Averaging,
    /// Small modules of a frozen backbone are averaged.
    Adapters,
    /// Prompts of a frozen transformer.
    Prompts,
    /// Statistics or prototypes of classes at the server.
    Statistics,
    /// An earlier model teaches, or holds parameters back.
    Distillation,
    /// Samples of old classes are kept.
    Rehearsal,
    /// Upper bounds that no federation without memory can exceed.
    Bounds,
}

impl Family {
    /// Families in the order in which they are shown.
    pub const ALL: [Family; 7] = [
        Family::Averaging,
        Family::Adapters,
        Family::Prompts,
        Family::Statistics,
        Family::Distillation,
        Family::Rehearsal,
        Family::Bounds,
    ];

    /// Returns the word of programs.
    pub fn word(self) -> &'static str {
        match self {
            Family::Averaging => "averaging",
            Family::Adapters => "adapters",
            Family::Prompts => "prompts",
            Family::Statistics => "statistics",
            Family::Distillation => "distillation",
            Family::Rehearsal => "rehearsal",
            Family::Bounds => "bounds",
        }
    }

    /// Returns the head of a list.
    pub fn title(self) -> &'static str {
        match self {
            Family::Averaging => "Averaging of parameters",
            Family::Adapters => "Adapters of a frozen backbone",
            Family::Prompts => "Prompts of a frozen transformer",
            Family::Statistics => "Statistics and prototypes of classes",
            Family::Distillation => "Distillation and regularization",
            Family::Rehearsal => "Rehearsal of samples",
            Family::Bounds => "Upper bounds",
        }
    }
}

/// Returns the year of a source: that of the venue or of the number at arXiv, whichever comes first.
pub(super) fn year(source: &str) -> Option<u16> {
    let mut words = source.split(|c: char| !c.is_ascii_digit() && c != '.').peekable();
    words.find_map(|word| {
        let digits = word.trim_matches('.');
        match digits.split_once('.') {
            Some((month, number)) if month.len() == 4 && number.len() == 5 => {
                month[..2].parse::<u16>().ok().map(|year| 2000 + year)
            }
            None if digits.len() == 4 => {
                digits.parse::<u16>().ok().filter(|year| (1950..2100).contains(year))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_those_of_venues_and_of_arxiv() {
        assert_eq!(year("Li, Hoiem: Learning without Forgetting, TPAMI 2017"), Some(2017));
        assert_eq!(year("Prototypes, arXiv 2406.02447"), Some(2024));
        assert_eq!(year("Karimireddy et al., ICML 2020; arXiv 1910.06378"), Some(2020));
        assert_eq!(year("the usual reference; 12345 things in 3 rounds"), None);
    }
}
