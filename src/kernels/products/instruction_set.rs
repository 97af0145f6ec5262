//! Kernel of a tile, written once, and the operations that an instruction set supplies for it.

use super::Real;

/// One tile of a product, as the input of kernels.
pub(super) struct Tile<T> {
    /// Length of the chains.
    pub inner: usize,
    pub a: *const T,
    /// Distances between rows and between columns of `a`, one of which is 1.
    pub a_row_stride: isize,
    pub a_column_stride: isize,
    /// Right factor, in rows of whole vectors.
    pub b: *const T,
    pub b_stride: isize,
    pub c: *mut T,
    pub c_stride: isize,
    /// Summand, in rows `from_stride` apart; null for none.
    pub from: *const T,
    pub from_stride: isize,
    /// Number of columns of the tile in its last vector.
    pub last: usize,
    pub scale: T,
}

/// Function that computes a tile.
pub(super) type Kernel<T> = unsafe fn(&Tile<T>);

/// Instruction set that kernels are compiled for.
pub(super) trait InstructionSet<T: Real> {
    /// Vector register.
    type Vector: Vector<T>;
    /// Largest number of rows in a tile.
    const ROWS: usize;
    /// Largest number of vectors in a row of a tile.
    const VECTORS: usize;

    /// Runs [`compute`] compiled for the instruction set.
    ///
    /// # Safety
    /// The machine must have the instructions, and the tile's pointers must be readable and writable as it says.
    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<T>);

    /// Writes `columns` columns of `inner` values as rows of `width` values, padded with zeros.
    ///
    /// # Safety
    /// The machine has the instructions; column `j` can be read at `from + j * stride`, and `inner * width` values can
    /// be written at `to`. `width` is a multiple of the lanes.
    unsafe fn transpose(
        from: *const T,
        stride: isize,
        columns: usize,
        inner: usize,
        to: *mut T,
        width: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { one_by_one(from, stride, columns, inner, to, width, width) }
    }

    /// Returns the kernel for tiles of a shape.
    ///
    /// `by_columns` is true if the values of a column of `a` are adjacent.
    ///
    /// # Panics
    /// Panics if the tile is larger than the largest one of the set.
    fn select(rows: usize, vectors: usize, by_columns: bool) -> Kernel<T>
    where
        Self: Sized;
}

/// Returns the kernel of `V` vectors for up to eight rows.
pub(super) fn of_rows<T: Real, I: InstructionSet<T>, const V: usize>(
    rows: usize,
    by_columns: bool,
) -> Kernel<T> {
    match (rows, by_columns) {
        (1, false) => I::kernel::<1, V, false>,
        (2, false) => I::kernel::<2, V, false>,
        (3, false) => I::kernel::<3, V, false>,
        (4, false) => I::kernel::<4, V, false>,
        (5, false) => I::kernel::<5, V, false>,
        (6, false) => I::kernel::<6, V, false>,
        (7, false) => I::kernel::<7, V, false>,
        (8, false) => I::kernel::<8, V, false>,
        (1, true) => I::kernel::<1, V, true>,
        (2, true) => I::kernel::<2, V, true>,
        (3, true) => I::kernel::<3, V, true>,
        (4, true) => I::kernel::<4, V, true>,
        (5, true) => I::kernel::<5, V, true>,
        (6, true) => I::kernel::<6, V, true>,
        (7, true) => I::kernel::<7, V, true>,
        (8, true) => I::kernel::<8, V, true>,
        _ => unreachable!("a tile of {rows} rows"),
    }
}

/// Vector register with the operations of the product's rule. All functions are inlined into kernels.
///
/// # Safety
/// The machine must have the instructions, and pointers must be valid for the lanes that a function names.
pub(super) trait Vector<T>: Copy {
    /// Number of values in a vector.
    const LANES: usize;

    unsafe fn splat(value: T) -> Self;
    unsafe fn load(from: *const T) -> Self;
    /// Loads the first `count` lanes; the others are zero.
    unsafe fn load_first(from: *const T, count: usize) -> Self;
    unsafe fn store(self, to: *mut T);
    /// Stores the first `count` lanes.
    unsafe fn store_first(self, to: *mut T, count: usize);
    unsafe fn multiply(self, other: Self) -> Self;
    /// Returns `self * other + addend`, rounded once.
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self;
}

/// Computes a tile of `R` rows and `V` vectors by the rule: the body of every kernel.
///
/// # Safety
/// As for [`InstructionSet::kernel`].
#[inline(always)]
pub(super) unsafe fn compute<
    T: Real,
    X: Vector<T>,
    const R: usize,
    const V: usize,
    const BY_COLUMNS: bool,
>(
    tile: &Tile<T>,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut sums = [[X::splat(T::ZERO); V]; R];
        let mut b = tile.b;
        let mut column = tile.a;
        let rows: [*const T; R] =
            std::array::from_fn(|row| tile.a.offset(row as isize * tile.a_row_stride));
        for place in 0..tile.inner {
            let right: [X; V] = std::array::from_fn(|v| X::load(b.add(X::LANES * v)));
            for (row, sums) in sums.iter_mut().enumerate() {
                let left =
                    X::splat(if BY_COLUMNS { *column.add(row) } else { *rows[row].add(place) });
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = left.multiply_add(right, *sum);
                }
            }
            b = b.offset(tile.b_stride);
            column = column.offset(tile.a_column_stride);
        }
        let scale = X::splat(tile.scale);
        for (row, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let lanes = if v + 1 == V { tile.last } else { X::LANES };
                let c = tile.c.offset(row as isize * tile.c_stride).add(X::LANES * v);
                let value = if tile.from.is_null() {
                    scale.multiply(*sum)
                } else {
                    let from = tile.from.offset(row as isize * tile.from_stride).add(X::LANES * v);
                    let addend = match lanes == X::LANES {
                        true => X::load(from),
                        false => X::load_first(from, lanes),
                    };
                    scale.multiply_add(*sum, addend)
                };
                match lanes == X::LANES {
                    true => value.store(c),
                    false => value.store_first(c, lanes),
                }
            }
        }
    }
}

/// Transposes `columns` columns into the first `lanes` values of rows of `width`.
///
/// Zeros follow the last column.
///
/// # Safety
/// As for [`InstructionSet::transpose`].
pub(super) unsafe fn one_by_one<T: Real>(
    from: *const T,
    stride: isize,
    columns: usize,
    inner: usize,
    to: *mut T,
    width: usize,
    lanes: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        for place in 0..inner {
            for column in 0..lanes {
                *to.add(place * width + column) = match column < columns {
                    true => *from.offset(column as isize * stride).add(place),
                    false => T::ZERO,
                };
            }
        }
    }
}
