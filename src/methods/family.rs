//! Families of methods, by their approach to forgetting.

/// Approach of a method to forgetting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MethodFamily {
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

impl MethodFamily {
    /// Families in the order in which they are shown.
    pub const ALL: [MethodFamily; 7] = [
        MethodFamily::Averaging,
        MethodFamily::Adapters,
        MethodFamily::Prompts,
        MethodFamily::Statistics,
        MethodFamily::Distillation,
        MethodFamily::Rehearsal,
        MethodFamily::Bounds,
    ];

    /// Returns the name of the family in lists that programs read.
    pub fn word(self) -> &'static str {
        match self {
            MethodFamily::Averaging => "averaging",
            MethodFamily::Adapters => "adapters",
            MethodFamily::Prompts => "prompts",
            MethodFamily::Statistics => "statistics",
            MethodFamily::Distillation => "distillation",
            MethodFamily::Rehearsal => "rehearsal",
            MethodFamily::Bounds => "bounds",
        }
    }

    /// Returns the heading of the family in lists.
    pub fn title(self) -> &'static str {
        match self {
            MethodFamily::Averaging => "Averaging of parameters",
            MethodFamily::Adapters => "Adapters of a frozen backbone",
            MethodFamily::Prompts => "Prompts of a frozen transformer",
            MethodFamily::Statistics => "Statistics and prototypes of classes",
            MethodFamily::Distillation => "Distillation and regularization",
            MethodFamily::Rehearsal => "Rehearsal of samples",
            MethodFamily::Bounds => "Upper bounds",
        }
    }
}

/// Returns the year of a source: that of its venue or of its arXiv number, whichever is named first.
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
