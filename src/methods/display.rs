//! Names of methods as their papers write them, for tables and legends.

use std::sync::LazyLock;

use super::Registry;

/// Returns the name of a built-in method as its paper writes it; other words are returned unchanged.
///
/// Methods that programs add keep the value of `method.name`.
///
/// ```
/// use fedcast::methods::display_name;
///
/// assert_eq!(display_name("c2prompt"), "C²Prompt");
/// assert_eq!(display_name("mine"), "mine");
/// ```
pub fn display_name(name: &str) -> &str {
    static BUILTIN: LazyLock<Registry> = LazyLock::new(Registry::builtin);
    BUILTIN.find(name).ok().and_then(|entry| entry.name_in_print).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_name_in_print() {
        for entry in Registry::builtin().all() {
            let shown = display_name(entry.name);
            // Printed names may differ from keys only in case, signs and superscripts.
            let bare = |text: &str| {
                let text = text.to_lowercase().replace('²', "2");
                text.chars().filter(char::is_ascii_alphanumeric).collect::<String>()
            };
            assert_ne!(shown, entry.name, "no name in print");
            assert_eq!(bare(shown), bare(entry.name));
        }
    }
}
