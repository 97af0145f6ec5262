//! Promise: the transcript of a new user's first hour works, command by command, in a folder with a few photographs and
//! a file of weights.

use std::fs;
use std::path::Path;

use image::{Rgb, RgbImage};
use safetensors::tensor::{Dtype, TensorView};

use crate::command::{CommandOutput, fedcast, read};
use crate::readme::markdown::{Page, root};

const PAGE: &str = "src/guide/first_hour.md";

/// Four classes of twelve colored squares of 16 pixels, a few of them noisy.
fn draw(folder: &Path) {
    let colors = [
        ("red", [220, 40, 40]),
        ("green", [40, 200, 60]),
        ("blue", [40, 60, 220]),
        ("grey", [128; 3]),
    ];
    for (class, color) in colors {
        let class = folder.join(class);
        fs::create_dir_all(&class).unwrap();
        for number in 0..12_u32 {
            let shade = |x: u32, y: u32| ((x * 7 + y * 13 + number * 29) % 40) as u8;
            let pixel = |x, y| Rgb(color.map(|value: u8| value.saturating_sub(shade(x, y))));
            RgbImage::from_fn(16, 16, pixel).save(class.join(format!("{number:02}.png"))).unwrap();
        }
    }
}

/// A ViT of two blocks with timm's names: 16 pixels in patches of 8, width 16.
fn save_weights(path: &Path) {
    let (dim, tokens) = (16, 5);
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("cls_token".into(), vec![1, 1, dim]),
        ("pos_embed".into(), vec![1, tokens, dim]),
        ("patch_embed.proj.weight".into(), vec![dim, 3, 8, 8]),
        ("patch_embed.proj.bias".into(), vec![dim]),
        ("norm.weight".into(), vec![dim]),
        ("norm.bias".into(), vec![dim]),
    ];
    for block in 0..2 {
        for (name, shape) in [
            ("norm1.weight", vec![dim]),
            ("norm1.bias", vec![dim]),
            ("attn.qkv.weight", vec![3 * dim, dim]),
            ("attn.qkv.bias", vec![3 * dim]),
            ("attn.proj.weight", vec![dim, dim]),
            ("attn.proj.bias", vec![dim]),
            ("norm2.weight", vec![dim]),
            ("norm2.bias", vec![dim]),
            ("mlp.fc1.weight", vec![4 * dim, dim]),
            ("mlp.fc1.bias", vec![4 * dim]),
            ("mlp.fc2.weight", vec![dim, 4 * dim]),
            ("mlp.fc2.bias", vec![dim]),
        ] {
            shapes.push((format!("blocks.{block}.{name}"), shape));
        }
    }
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .enumerate()
        .map(|(place, (name, shape))| {
            let count: usize = shape.iter().product();
            let norm = name.contains("norm") && name.ends_with("weight");
            let value = |at: usize| {
                if norm { 1.0 } else { ((at * 37 + place * 11) % 19) as f32 / 95.0 - 0.1 }
            };
            (name, shape, (0..count).flat_map(|at| value(at).to_le_bytes()).collect())
        })
        .collect();
    let views = bytes.iter().map(|(name, shape, data)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// Splits a line into words as a shell does, with `'` as the only quote.
fn typed(folder: &Path, line: &str) -> CommandOutput {
    let words: Vec<String> = line
        .split('\'')
        .enumerate()
        .flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .skip(1)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = fedcast(folder, &words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[test]
fn every_command_of_the_first_hour_works_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    draw(&folder.path().join("photos"));
    save_weights(&folder.path().join("my_vit.safetensors"));
    let page = Page { name: PAGE.to_owned(), text: read(root().join(PAGE)) };
    let lines = page.shell_lines();
    for command in ["doctor", "new", "check", "plan", "run", "replay", "report"] {
        let typed = lines.iter().any(|line| line.starts_with(&format!("fedcast {command}")));
        assert!(typed, "the hour has no `fedcast {command}`");
    }
    for line in &lines {
        let output = typed(folder.path(), line);
        assert_eq!(output.code, 0, "{line}\n{}{}", output.out, output.err);
    }
    // The page shows the scenario that its own command writes.
    let shown = page.blocks("toml").next().unwrap();
    assert_eq!(shown, read(folder.path().join("photos.toml")));
    assert!(folder.path().join("runs/photos-report.html").exists());
}
