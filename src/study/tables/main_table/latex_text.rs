//! Names as LaTeX text that every engine prints, in text fonts of any encoding.

/// Escapes a text for LaTeX; signs that pdfTeX has only in mathematics are put into `\ensuremath`.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            // TeX's own text font has other signs in these places.
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            '"' => escaped.push_str("''"),
            // An empty line would end the row of a table.
            c if c.is_control() => escaped.push(' '),
            c => match MATHEMATICS.binary_search_by_key(&c, |(known, _)| *known) {
                Ok(at) => escaped.push_str(&format!("\\ensuremath{{{}}}", MATHEMATICS[at].1)),
                Err(_) => escaped.push(c),
            },
        }
    }
    escaped
}

/// Signs and their commands in mathematics mode, sorted by sign.
const MATHEMATICS: [(char, &str); 71] = [
    ('²', "^{2}"),
    ('³', "^{3}"),
    ('µ', "\\mu"),
    ('·', "\\cdot"),
    ('¹', "^{1}"),
    ('Γ', "\\Gamma"),
    ('Δ', "\\Delta"),
    ('Θ', "\\Theta"),
    ('Λ', "\\Lambda"),
    ('Ξ', "\\Xi"),
    ('Π', "\\Pi"),
    ('Σ', "\\Sigma"),
    ('Υ', "\\Upsilon"),
    ('Φ', "\\Phi"),
    ('Ψ', "\\Psi"),
    ('Ω', "\\Omega"),
    ('α', "\\alpha"),
    ('β', "\\beta"),
    ('γ', "\\gamma"),
    ('δ', "\\delta"),
    ('ε', "\\varepsilon"),
    ('ζ', "\\zeta"),
    ('η', "\\eta"),
    ('θ', "\\theta"),
    ('ι', "\\iota"),
    ('κ', "\\kappa"),
    ('λ', "\\lambda"),
    ('μ', "\\mu"),
    ('ν', "\\nu"),
    ('ξ', "\\xi"),
    ('ο', "o"),
    ('π', "\\pi"),
    ('ρ', "\\rho"),
    ('ς', "\\varsigma"),
    ('σ', "\\sigma"),
    ('τ', "\\tau"),
    ('υ', "\\upsilon"),
    ('φ', "\\varphi"),
    ('χ', "\\chi"),
    ('ψ', "\\psi"),
    ('ω', "\\omega"),
    ('ϕ', "\\phi"),
    ('ϵ', "\\epsilon"),
    ('⁰', "^{0}"),
    ('⁴', "^{4}"),
    ('⁵', "^{5}"),
    ('⁶', "^{6}"),
    ('⁷', "^{7}"),
    ('⁸', "^{8}"),
    ('⁹', "^{9}"),
    ('₀', "_{0}"),
    ('₁', "_{1}"),
    ('₂', "_{2}"),
    ('₃', "_{3}"),
    ('₄', "_{4}"),
    ('₅', "_{5}"),
    ('₆', "_{6}"),
    ('₇', "_{7}"),
    ('₈', "_{8}"),
    ('₉', "_{9}"),
    ('←', "\\leftarrow"),
    ('→', "\\rightarrow"),
    ('∈', "\\in"),
    ('∑', "\\sum"),
    ('−', "-"),
    ('√', "\\surd"),
    ('∞', "\\infty"),
    ('≈', "\\approx"),
    ('≠', "\\neq"),
    ('≤', "\\leq"),
    ('≥', "\\geq"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arms_are_printed_as_written() {
        for (name, tex) in [
            ("a_b & 50%", r"a\_b \& 50\%"),
            (r"#1 {x} $\^~", r"\#1 \{x\} \$\textbackslash{}\textasciicircum{}\textasciitilde{}"),
            ("x<2|y>3", r"x\textless{}2\textbar{}y\textgreater{}3"),
            ("C²Prompt", r"C\ensuremath{^{2}}Prompt"),
            ("λ₁ ≤ 0.5", r"\ensuremath{\lambda}\ensuremath{_{1}} \ensuremath{\leq} 0.5"),
            ("naïve ± \"é\"", "naïve ± ''é''"),
            ("two\n\nlines", "two  lines"),
        ] {
            assert_eq!(escaped(name), tex, "{name}");
        }
    }

    #[test]
    fn every_sign_of_the_table_is_found() {
        assert!(MATHEMATICS.is_sorted_by(|one, next| one.0 < next.0));
        for (sign, command) in MATHEMATICS {
            assert_eq!(escaped(&sign.to_string()), format!("\\ensuremath{{{command}}}"));
        }
    }
}
