//! Conversion of a file's tensors to ours.

use std::sync::Arc;

use super::{FileTensor, shown};

/// Change of the tensors that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One unchanged tensor.
    Same,
    /// Queries, keys and values of a projection, concatenated along the first axis.
    Joined,
    /// Matrix `(inputs, outputs)`, transposed.
    Transposed,
    /// Convolution `(height, width, inputs, outputs)` as `(outputs, inputs, height, width)`.
    Convolution,
    /// Queries, keys and values `(inputs, heads, width)`, each as `(heads width, inputs)`, concatenated.
    JoinedHeads,
    /// Biases `(heads, width)` of queries, keys and values, concatenated.
    JoinedBiases,
    /// Projection `(heads, width, outputs)` as `(outputs, heads width)`.
    Heads,
}

impl Layout {
    /// Returns the name for messages; empty for unchanged tensors.
    pub fn word(self) -> &'static str {
        match self {
            Layout::Same => "",
            Layout::Joined => "joined",
            Layout::Transposed => "transposed",
            Layout::Convolution => "axes as PyTorch has them",
            Layout::JoinedHeads => "heads flattened, transposed, joined",
            Layout::JoinedBiases => "heads flattened, joined",
            Layout::Heads => "heads flattened, transposed",
        }
    }

    /// Returns the shape of the result for tensors of these shapes.
    ///
    /// # Errors
    /// Returns a description of shapes that do not fit.
    pub(super) fn shape(self, from: &[&[usize]]) -> Result<Vec<usize>, String> {
        let each = || from.iter().map(|shape| self.one(shape)).collect::<Result<Vec<_>, _>>();
        match self {
            Layout::Joined | Layout::JoinedHeads | Layout::JoinedBiases => {
                let parts = each()?;
                let Some(first) = parts.first() else {
                    return Err("there is nothing to join".to_owned());
                };
                if let Some(other) = parts.iter().find(|part| *part != first) {
                    return Err(format!("{} cannot be joined with {}", shown(other), shown(first)));
                }
                let mut shape = first.clone();
                shape[0] *= parts.len();
                Ok(shape)
            }
            _ => each()?.pop().ok_or_else(|| "there is no tensor".to_owned()),
        }
    }

    /// Returns the shape of one tensor before tensors are joined.
    fn one(self, shape: &[usize]) -> Result<Vec<usize>, String> {
        let wrong = || Err(format!("{} has another number of axes than it should", shown(shape)));
        Ok(match (self, shape) {
            (Layout::Same, _) => shape.to_vec(),
            (Layout::Joined, [_, ..]) => shape.to_vec(),
            (Layout::Transposed, [inputs, outputs]) => vec![*outputs, *inputs],
            (Layout::Convolution, [h, w, inputs, outputs]) => vec![*outputs, *inputs, *h, *w],
            (Layout::JoinedHeads, [inputs, heads, width]) => vec![heads * width, *inputs],
            (Layout::JoinedBiases, [heads, width]) => vec![heads * width],
            (Layout::Heads, [heads, width, outputs]) => vec![*outputs, heads * width],
            _ => return wrong(),
        })
    }

    /// Converts tensors whose shapes [`Layout::shape`] accepted; `shape` is its result.
    pub(super) fn apply(self, from: &[FileTensor], shape: Vec<usize>) -> FileTensor {
        let values: Arc<[f32]> = match (self, from) {
            (Layout::Same, [only]) => Arc::clone(&only.values),
            (Layout::Joined | Layout::JoinedBiases, _) => {
                from.iter().flat_map(|part| part.values.iter().copied()).collect()
            }
            _ => from.iter().flat_map(|part| permuted(part, self.order())).collect(),
        };
        FileTensor { shape, values }
    }

    /// Returns the axes of a file's tensor in the order of ours.
    fn order(self) -> &'static [usize] {
        match self {
            Layout::Same | Layout::Joined | Layout::JoinedBiases => &[],
            Layout::Transposed => &[1, 0],
            Layout::Convolution => &[3, 2, 0, 1],
            Layout::JoinedHeads => &[1, 2, 0],
            Layout::Heads => &[2, 0, 1],
        }
    }
}

/// Returns the values of a tensor with its axes permuted.
fn permuted(tensor: &FileTensor, order: &[usize]) -> Vec<f32> {
    // Distance between neighbors along an axis.
    let step = |axis: usize| tensor.shape[axis + 1..].iter().product::<usize>();
    let mut places = vec![0];
    for axis in order {
        let (extent, step) = (tensor.shape[*axis], step(*axis));
        places = places
            .into_iter()
            .flat_map(|place| (0..extent).map(move |at| place + at * step))
            .collect();
    }
    places.into_iter().map(|place| tensor.values[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> FileTensor {
        let count = shape.iter().product::<usize>();
        FileTensor { shape: shape.to_vec(), values: (0..count).map(|value| value as f32).collect() }
    }

    fn applied(layout: Layout, from: &[FileTensor]) -> (Vec<usize>, Vec<f32>) {
        let shapes: Vec<&[usize]> = from.iter().map(|part| part.shape.as_slice()).collect();
        let made = layout.apply(from, layout.shape(&shapes).unwrap());
        assert_eq!(made.shape.iter().product::<usize>(), made.values.len());
        (made.shape, made.values.to_vec())
    }

    #[test]
    fn every_layout_puts_values_where_they_belong() {
        let two = |shape: &[usize]| {
            let second = counted(shape);
            let more = second.values.iter().map(|value| value + 100.0).collect();
            [counted(shape), FileTensor { values: more, ..second }]
        };
        assert_eq!(applied(Layout::Same, &[counted(&[2, 1])]), (vec![2, 1], vec![0.0, 1.0]));
        assert_eq!(
            applied(Layout::Joined, &two(&[1, 2])),
            (vec![2, 2], vec![0.0, 1.0, 100.0, 101.0])
        );
        assert_eq!(
            applied(Layout::Transposed, &[counted(&[2, 3])]),
            (vec![3, 2], vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0])
        );
        // Value of (h, w, i, o) = (0, 1, 1, 0) of extents (1, 2, 2, 2) is 6.
        let (shape, values) = applied(Layout::Convolution, &[counted(&[1, 2, 2, 2])]);
        assert_eq!(shape, [2, 2, 1, 2]);
        assert_eq!(values, [0.0, 4.0, 2.0, 6.0, 1.0, 5.0, 3.0, 7.0]);
        let (shape, values) = applied(Layout::JoinedHeads, &two(&[2, 2, 1]));
        assert_eq!(shape, [4, 2]);
        assert_eq!(values, [0.0, 2.0, 1.0, 3.0, 100.0, 102.0, 101.0, 103.0]);
        assert_eq!(
            applied(Layout::JoinedBiases, &two(&[2, 1])),
            (vec![4], vec![0.0, 1.0, 100.0, 101.0])
        );
        let (shape, values) = applied(Layout::Heads, &[counted(&[2, 1, 2])]);
        assert_eq!((shape, values), (vec![2, 2], vec![0.0, 2.0, 1.0, 3.0]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused_before_anything_is_read() {
        assert!(Layout::Joined.shape(&[&[2, 3], &[2, 4]]).unwrap_err().contains("2 x 4"));
        assert!(Layout::Transposed.shape(&[&[2]]).is_err());
        assert!(Layout::Heads.shape(&[&[2, 3]]).is_err());
        assert!(Layout::Same.shape(&[]).is_err());
    }
}
