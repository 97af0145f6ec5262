//! Unicode normal form of names, so that names that look alike are equal.
//!
//! An `é` is one character, or an `e` and an accent behind it; archives and file systems change one for the other, so
//! that a training folder from a Mac and a test folder from Linux have names that look alike and differ in their bytes.

use icu_normalizer::ComposingNormalizerBorrowed;

/// Returns a name in Unicode's composed normal form (NFC), in which names that look alike are equal.
pub(crate) fn normal_form(name: &str) -> String {
    ComposingNormalizerBorrowed::new_nfc().normalize(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_letter_are_one() {
        assert_eq!(normal_form("Cafe\u{301}"), "Café");
        assert_eq!(normal_form("Café"), "Café");
        // Ångström and Hangul; ligatures and capitals are other letters.
        assert_eq!(normal_form("\u{212b}"), "\u{c5}");
        assert_eq!(normal_form("\u{1112}\u{1161}\u{11ab}"), "한");
        assert_eq!(normal_form("ﬁ Fi fi"), "ﬁ Fi fi");
    }
}
