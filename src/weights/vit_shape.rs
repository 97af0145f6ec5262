//! Shape of a vision transformer, inferred from the shapes of its tensors.

use std::collections::BTreeMap;

use super::advice::meaning;
use super::left_over::left_over;
use super::{NameMap, WeightsError, shown};

/// Dimensions that the tensors determine, without the number of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferredVit {
    /// Image height and width in pixels, from patches and positions.
    pub image: usize,
    /// Patch height and width in pixels.
    pub patch: usize,
    /// Color channels.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Hidden width of the perceptrons.
    pub mlp: usize,
}

/// Returns the number of heads of published transformers of this width.
pub fn heads_of_width(dim: usize) -> Option<usize> {
    match dim {
        192 => Some(3),
        384 => Some(6),
        768 => Some(12),
        1024 => Some(16),
        1280 => Some(16),
        _ => None,
    }
}

impl InferredVit {
    /// Infers the dimensions from the tensors of a file.
    ///
    /// # Errors
    /// Returns an error if a tensor that determines a dimension is missing or has an unexpected shape. If the file has
    /// parts that no plain network has, the error names these.
    pub fn of(file: &str, map: &NameMap) -> Result<InferredVit, WeightsError> {
        let shape = InferredVit::read(file, &map.shapes(), |name| map.name_in_file(name));
        shape.map_err(|error| match meaning(&map.left) {
            Some(_) => left_over(file, &map.left),
            None => error,
        })
    }

    /// Infers the dimensions from tensors by timm's names; `in_file` returns the name in the file.
    fn read(
        file: &str,
        shapes: &BTreeMap<&str, &[usize]>,
        in_file: impl Fn(&str) -> String,
    ) -> Result<InferredVit, WeightsError> {
        let shape = |name: &str, rank: usize| match shapes.get(name) {
            Some(shape) if shape.len() == rank => Ok(*shape),
            Some(shape) => Err(WeightsError::Shape {
                file: file.to_owned(),
                what: format!(
                    "tensor `{}` is {}, and of a vision transformer it has {rank} axes",
                    in_file(name),
                    shown(shape)
                ),
                advice: "this is another network".to_owned(),
            }),
            None => Err(WeightsError::Missing {
                file: file.to_owned(),
                name: in_file(name),
                meaning: ", which gives the shape of a vision transformer".to_owned(),
                advice: "this is another network, or a part of one".to_owned(),
            }),
        };
        let patches = shape("patch_embed.proj.weight", 4)?;
        let (dim, channels, patch) = (patches[0], patches[1], patches[2]);
        if patches[2] != patches[3] {
            return Err(odd(
                file,
                format!("patches of {} x {} pixels are no squares", patch, patches[3]),
            ));
        }
        let positions = shape("pos_embed", 3)?[1];
        let fc1 = shape("blocks.0.mlp.fc1.weight", 2)?;
        if let Some([_, inner]) = shapes.get("blocks.0.mlp.fc2.weight")
            && *inner != fc1[0]
        {
            let what = match fc1[0] == inner.saturating_mul(2) {
                true => "its perceptrons are gated ones (SwiGLU)".to_owned(),
                false => {
                    format!("its perceptrons make {} values of which {inner} are read", fc1[0])
                }
            };
            return Err(odd(file, what));
        }
        let grid = positions.saturating_sub(1).isqrt();
        if grid == 0 || grid * grid + 1 != positions {
            let what =
                format!("{positions} positions are not one CLS token and a square grid of patches");
            return Err(odd(file, what));
        }
        let Some(image) = grid.checked_mul(patch).filter(|_| channels > 0 && dim > 0 && patch > 0)
        else {
            return Err(odd(file, "an extent of the patches is impossible".to_owned()));
        };
        let block = |i: usize| shapes.keys().any(|name| name.starts_with(&format!("blocks.{i}.")));
        let depth = (0..).take_while(|i| block(*i)).count();
        Ok(InferredVit { image, patch, channels, dim, depth, mlp: fc1[0] })
    }
}

fn odd(file: &str, what: String) -> WeightsError {
    let advice = "only plain vision transformers are read: a CLS token, square patches of a square image, plain perceptrons";
    WeightsError::Shape { file: file.to_owned(), what, advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(
        change: impl Fn(&mut BTreeMap<&'static str, Vec<usize>>),
    ) -> Result<InferredVit, WeightsError> {
        let mut shapes = BTreeMap::from([
            ("patch_embed.proj.weight", vec![12, 3, 4, 4]),
            ("pos_embed", vec![1, 26, 12]),
            ("blocks.0.mlp.fc1.weight", vec![20, 12]),
            ("blocks.1.norm1.weight", vec![12]),
            ("blocks.3.norm1.weight", vec![12]),
        ]);
        change(&mut shapes);
        let shapes = shapes.iter().map(|(name, shape)| (*name, shape.as_slice())).collect();
        InferredVit::read("f", &shapes, |name| format!("x.{name}"))
    }

    #[test]
    fn every_dimension_is_read_where_it_stands() {
        let expected = InferredVit { image: 20, patch: 4, channels: 3, dim: 12, depth: 2, mlp: 20 };
        assert_eq!(inferred(|_| ()).unwrap(), expected);
    }

    #[test]
    fn gated_perceptrons_are_called_so() {
        let width = |inner: usize| {
            let changed = inferred(|s| drop(s.insert("blocks.0.mlp.fc2.weight", vec![12, inner])));
            changed.map(|shape| shape.mlp).map_err(|error| error.to_string())
        };
        assert_eq!(width(20), Ok(20));
        assert!(width(10).unwrap_err().contains("SwiGLU"));
        assert!(width(40).unwrap_err().contains("20 values of which 40"));
    }

    #[test]
    fn other_networks_are_refused_in_the_names_of_the_file() {
        let refusal = |change: fn(&mut BTreeMap<&'static str, Vec<usize>>)| {
            inferred(change).unwrap_err().to_string()
        };
        assert!(refusal(|shapes| drop(shapes.remove("pos_embed"))).contains("`x.pos_embed`"));
        assert!(refusal(|s| drop(s.insert("pos_embed", vec![1, 25, 12]))).contains("25 positions"));
        assert!(
            refusal(|s| drop(s.insert("patch_embed.proj.weight", vec![12, 3, 4, 2])))
                .contains("4 x 2")
        );
        assert!(
            refusal(|s| drop(s.insert("blocks.0.mlp.fc1.weight", vec![12]))).contains("2 axes")
        );
    }
}
