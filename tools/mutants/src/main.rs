//! Puts every exchanged operator of some source files into one program, where a number in the environment chooses which
//! of them is in force: compiled once, thousands of mutants take as long as their tests.
//!
//! ```text
//! a * b   becomes   (if crate::mutant::is(17) { a / b } else { a * b })
//! ```
//!
//! `run.py` next to it copies the library, calls this, leaves out what does not compile, and runs tests.
//!
//! ```text
//! mutants SOURCES LEFT_OUT FILE...
//! ```
//! writes the files again below SOURCES and prints a line for every mutant: number, file, line, what is exchanged.
//! LEFT_OUT names a file of numbers that are left as they are.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, BinOp, Expr, UnOp, parse_quote};

struct Switches<'a> {
    file: &'a str,
    next: &'a mut u32,
    left_out: &'a BTreeSet<u32>,
}

/// Returns the replacements of an operator.
fn exchanged(op: &BinOp) -> Vec<BinOp> {
    match op {
        BinOp::Add(_) => vec![parse_quote!(-)],
        BinOp::Sub(_) => vec![parse_quote!(+)],
        BinOp::Mul(_) => vec![parse_quote!(/), parse_quote!(+)],
        BinOp::Div(_) => vec![parse_quote!(*)],
        BinOp::Rem(_) => vec![parse_quote!(/)],
        BinOp::AddAssign(_) => vec![parse_quote!(-=)],
        BinOp::SubAssign(_) => vec![parse_quote!(+=)],
        BinOp::MulAssign(_) => vec![parse_quote!(/=)],
        BinOp::DivAssign(_) => vec![parse_quote!(*=)],
        BinOp::Eq(_) => vec![parse_quote!(!=)],
        BinOp::Ne(_) => vec![parse_quote!(==)],
        BinOp::Lt(_) => vec![parse_quote!(<=), parse_quote!(>)],
        BinOp::Le(_) => vec![parse_quote!(<), parse_quote!(>)],
        BinOp::Gt(_) => vec![parse_quote!(>=), parse_quote!(<)],
        BinOp::Ge(_) => vec![parse_quote!(>), parse_quote!(<)],
        BinOp::And(_) => vec![parse_quote!(||)],
        BinOp::Or(_) => vec![parse_quote!(&&)],
        _ => Vec::new(),
    }
}

/// Returns true if a condition binds names, which only the condition of an `if` may.
fn binds(e: &Expr) -> bool {
    match e {
        Expr::Let(_) => true,
        Expr::Binary(b) => binds(&b.left) || binds(&b.right),
        Expr::Paren(p) => binds(&p.expr),
        _ => false,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| a.path().is_ident("cfg") && a.to_token_stream().to_string().contains("test"))
}

impl Switches<'_> {
    fn switch(&mut self, e: &mut Expr, line: usize, mutated: Expr, what: &str) {
        let number = *self.next;
        *self.next += 1;
        if !self.left_out.contains(&number) {
            println!("{number}\t{}\t{line}\t{what}", self.file);
            *e = parse_quote!((if crate::mutant::is(#number) { #mutated } else { #e }));
        }
    }
}

impl VisitMut for Switches<'_> {
    fn visit_expr_mut(&mut self, e: &mut Expr) {
        // The mutated branch has the operands as they were: branches would double at every level otherwise.
        let before = e.clone();
        visit_mut::visit_expr_mut(self, e);
        match &before {
            Expr::Binary(b) if !binds(&before) => {
                for op in exchanged(&b.op) {
                    let what = format!("{} for {}", op.to_token_stream(), b.op.to_token_stream());
                    let mut mutated = b.clone();
                    mutated.op = op;
                    self.switch(e, b.op.span().start().line, mutated.into(), &what);
                }
            }
            Expr::Unary(u) if matches!(u.op, UnOp::Neg(_) | UnOp::Not(_)) => {
                let what = format!("nothing for {}", u.op.to_token_stream());
                self.switch(e, u.op.span().start().line, (*u.expr).clone(), &what);
            }
            _ => {}
        }
    }

    fn visit_item_mut(&mut self, item: &mut syn::Item) {
        match item {
            syn::Item::Const(_) | syn::Item::Static(_) | syn::Item::Enum(_) => {}
            syn::Item::Mod(module) if is_test(&module.attrs) => {}
            syn::Item::Fn(function) if function.sig.constness.is_some() => {}
            item => visit_mut::visit_item_mut(self, item),
        }
    }

    fn visit_impl_item_mut(&mut self, item: &mut syn::ImplItem) {
        match item {
            syn::ImplItem::Const(_) => {}
            syn::ImplItem::Fn(function) if function.sig.constness.is_some() => {}
            item => visit_mut::visit_impl_item_mut(self, item),
        }
    }

    // Lengths of arrays and constant arguments are not run.
    fn visit_type_mut(&mut self, _: &mut syn::Type) {}
    fn visit_generic_argument_mut(&mut self, _: &mut syn::GenericArgument) {}
    fn visit_expr_repeat_mut(&mut self, repeat: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }
    fn visit_expr_const_mut(&mut self, _: &mut syn::ExprConst) {}
    fn visit_pat_mut(&mut self, _: &mut syn::Pat) {}
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [sources, left_out, files @ ..] = arguments.as_slice() else {
        panic!("mutants SOURCES LEFT_OUT FILE...");
    };
    let left_out = fs::read_to_string(left_out).expect("numbers that are left out");
    let left_out = left_out.lines().map(|line| line.parse().expect("a number")).collect();
    let mut next = 1;
    for file in files {
        let path = Path::new(sources).join(file);
        let text = fs::read_to_string(&path).expect("a source file");
        let mut tree = syn::parse_file(&text).expect("Rust");
        Switches { file, next: &mut next, left_out: &left_out }.visit_file_mut(&mut tree);
        fs::write(&path, prettyplease::unparse(&tree)).expect("a file that can be written");
    }
}
