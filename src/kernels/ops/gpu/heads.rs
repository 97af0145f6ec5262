//! GPU kernels on attention heads (`heads.cuh`).

use candle_core::{DType, Result, Tensor};

use super::launch::{Argument, Launch};

/// Largest number of threads per block; each computes a few columns of a token.
const THREADS: usize = 256;

/// Sizes of one call of the kernels on heads.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct GpuHeads {
    pub batch: usize,
    /// Tokens of a sample in packed rows.
    pub tokens: usize,
    /// Columns of all heads together.
    pub width: usize,
    pub heads: usize,
    /// Tokens of a prefix.
    pub ahead: usize,
}

impl GpuHeads {
    /// Returns the number of tokens that queries attend to, including the prefix.
    pub fn attended(&self) -> usize {
        self.ahead + self.tokens
    }

    /// Returns the number of keys and values including padding.
    ///
    /// Products on tensor cores are fast if rows begin at multiples of 16 bytes.
    pub fn padded(&self) -> usize {
        self.attended().next_multiple_of(8)
    }

    fn channels(&self) -> usize {
        self.width / self.heads
    }

    fn block(&self) -> (u32, u32) {
        (self.width.clamp(1, THREADS).next_multiple_of(32) as u32, 1)
    }
}

fn counts<const N: usize>(counts: [usize; N]) -> Result<Vec<Argument>> {
    counts.into_iter().map(Argument::count).collect()
}

/// Splits the first `taken` tokens of every sample into heads `(b, h, all, c)`.
///
/// `x` is `(b, tokens, columns)`, and the heads are the columns from `first` on. After a prefix `(members, ahead,
/// width)`, given with the member of each sample, `all` is [`GpuHeads::padded`]; without one it is `taken`.
pub(in super::super) fn split(
    x: &Tensor,
    of: &GpuHeads,
    (first, taken, all): (usize, usize, usize),
    prefix: Option<(&Tensor, &Tensor)>,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (_, _, columns) = x.dims3()?;
    let ahead = if prefix.is_some() { of.ahead } else { 0 };
    // Without a prefix this operand is never read.
    let others = match prefix {
        Some((prefix, members)) => vec![prefix.contiguous()?, members.contiguous()?],
        None => vec![x.clone(), x.clone()],
    };
    let sizes = [of.tokens, taken, columns, first, of.width, of.channels(), ahead, all];
    let launch = Launch {
        kernel: "split",
        others,
        numbers: counts(sizes)?,
        grid: of.batch * all,
        block: of.block(),
        shape: (of.batch, of.heads, all, of.channels()).into(),
        dtype: x.dtype(),
    };
    launch.run(&x)
}

/// Joins heads `x` `(b, h, tokens, c)` to tokens `(b, tokens, width)`.
pub(in super::super) fn merge(x: &Tensor, of: &GpuHeads) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (_, _, tokens, _) = x.dims4()?;
    let launch = Launch {
        kernel: "merge",
        others: Vec::new(),
        numbers: counts([tokens, of.width, of.channels()])?,
        grid: of.batch * tokens,
        block: of.block(),
        shape: (of.batch, tokens, of.width).into(),
        dtype: x.dtype(),
    };
    launch.run(&x)
}

/// Returns the gradient of packed rows `(b, tokens, 3 width)` from those of heads.
///
/// These are `(b, h, asking, c)` for queries, and `(b, h, padded, c)` for keys and values.
pub(in super::super) fn pack([q, k, v]: [&Tensor; 3], of: &GpuHeads) -> Result<Tensor> {
    let q = q.contiguous()?;
    let (_, _, asking, _) = q.dims4()?;
    let launch = Launch {
        kernel: "pack",
        others: vec![k.contiguous()?, v.contiguous()?],
        numbers: counts([of.tokens, asking, of.width, of.channels(), of.ahead, of.padded()])?,
        grid: of.batch * of.tokens,
        block: of.block(),
        shape: (of.batch, of.tokens, 3 * of.width).into(),
        dtype: q.dtype(),
    };
    launch.run(&q)
}

/// Returns the gradient of the prefix of every member, `(members, ahead, width)` in `f32`.
///
/// `x` `(b, h, padded, c)` is the gradient of heads. A member's samples are those from its entry of `starts` `(members
/// + 1)` up to the next one.
pub(in super::super) fn prefix_gradient(
    x: &Tensor,
    starts: &Tensor,
    of: &GpuHeads,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let members = starts.dim(0)? - 1;
    let launch = Launch {
        kernel: "prefix_slope",
        others: vec![starts.contiguous()?],
        numbers: counts([of.width, of.channels(), of.ahead, of.padded()])?,
        grid: members * of.ahead,
        block: of.block(),
        shape: (members, of.ahead, of.width).into(),
        dtype: DType::F32,
    };
    launch.run(&x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_keys_begin_at_multiples_of_16_bytes() {
        let shape = GpuHeads { batch: 2, tokens: 197, width: 768, heads: 12, ahead: 10 };
        assert_eq!((shape.attended(), shape.padded(), shape.channels()), (207, 208, 64));
        assert_eq!(shape.block(), (256, 1));
        let small = GpuHeads { width: 48, heads: 3, tokens: 16, ahead: 0, ..shape };
        assert_eq!((small.padded(), small.block()), (16, (64, 1)));
    }
}
