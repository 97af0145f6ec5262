//! Order of a product's tiles: blocks of the inner dimension, pieces of rows, pieces of columns.
//!
//! ```text
//! for each block of the inner dimension:
//!     pack B into panels of whole vectors (rows of B stay in place where they are contiguous and hardly read again)
//!     for rows of A in pieces (all of them; 16 tiles where A must be packed):
//!         for columns in pieces whose packed B stays in the second cache:
//!             for tiles of rows, for panels: kernel
//! ```
//!
//! The order only affects speed: every entry is one chain in its kernel.

use super::instruction_set::{InstructionSet, Tile, Vector};
use super::packing::{EvenParts, pack_left, pack_right, with_room};
use super::view::{Onto, Strided};
use super::{Real, block_len};

/// Bytes of packed B in a piece of columns.
const PIECE_BYTES: usize = 384 << 10;
/// Largest size of an A that is read by columns in place, in bytes.
const COLUMNS_IN_PLACE_BYTES: usize = 256 << 10;
/// Number of row tiles that are packed at a time.
const PACKED_TILES: usize = 16;

/// Product `c = scale * a b` plus a summand.
pub struct ProductTask<T> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) inner: usize,
    pub(super) scale: T,
    pub(super) a: Strided<T>,
    pub(super) b: Strided<T>,
    pub(super) onto: Onto<*const T>,
    pub(super) c: *mut T,
    pub(super) c_stride: usize,
    /// True if tiles above the diagonal may be left out.
    pub(super) lower: bool,
}

impl<T> Strided<T> {
    /// Returns the view from an entry on.
    ///
    /// # Safety
    /// The entry must be inside of the matrix.
    unsafe fn at(&self, row: usize, column: usize) -> Strided<T> {
        let offset = row as isize * self.row_stride + column as isize * self.column_stride;
        // SAFETY: as the caller promises.
        Strided { start: unsafe { self.start.offset(offset) }, ..*self }
    }
}

/// Computes a product.
///
/// # Safety
/// The machine must have the instructions of `I`, and the task's pointers must be readable and writable as it says.
pub(super) unsafe fn run<T: Real, I: InstructionSet<T>>(task: &ProductTask<T>) {
    if task.rows == 0 || task.columns == 0 {
        return;
    }
    if task.inner == 0 {
        // SAFETY: as the caller promises.
        return unsafe { write_summand(task) };
    }
    let plan = ProductPlan::of::<T, I>(task);
    let lanes = I::Vector::LANES;
    let left = if plan.packs_left { PACKED_TILES * plan.apart } else { 0 };
    let right = plan.block * task.columns.next_multiple_of(lanes);
    with_room(left, right, |packed_a, packed_b| {
        for first in (0..task.inner).step_by(plan.block) {
            let inner = plan.block.min(task.inner - first);
            // SAFETY: as the caller promises; there is room for what is packed.
            unsafe { InnerBlock { task, plan: &plan, first, inner, packed_a, packed_b }.run::<I>() }
        }
    });
}

/// Writes a product with an empty inner dimension: zeros, or the summand.
unsafe fn write_summand<T: Real>(task: &ProductTask<T>) {
    for row in 0..task.rows {
        for column in 0..task.columns {
            // SAFETY: as the caller promises.
            unsafe {
                let c = task.c.add(row * task.c_stride + column);
                match task.onto {
                    Onto::Nothing => *c = T::ZERO,
                    Onto::Itself => {}
                    Onto::Row(added) => *c = *added.add(column),
                }
            }
        }
    }
}

/// Sizes of blocks and pieces, and the factors that are packed.
struct ProductPlan {
    /// Length of a block of the inner dimension.
    block: usize,
    /// Number of rows and columns that are processed together.
    rows: usize,
    columns: usize,
    packs_left: bool,
    packs_right: bool,
    /// Distance between packed tiles of A. It is no power of two, as those share cache sets.
    apart: usize,
}

impl ProductPlan {
    fn of<T: Real, I: InstructionSet<T>>(task: &ProductTask<T>) -> ProductPlan {
        let block = block_len(task.inner);
        let lanes = I::Vector::LANES;
        let fitting = PIECE_BYTES / size_of::<T>() / block / lanes;
        let by_columns = task.a.row_stride == 1 && task.a.column_stride != 1;
        let columns_stay = by_columns
            && task.columns <= 6 * lanes
            && task.rows * block * size_of::<T>() <= COLUMNS_IN_PLACE_BYTES;
        let packs_left = task.a.column_stride != 1 && !columns_stay;
        ProductPlan {
            block,
            rows: if packs_left { PACKED_TILES * I::ROWS } else { task.rows },
            columns: fitting.max(I::VECTORS) * lanes,
            packs_left,
            packs_right: task.b.column_stride != 1 || task.rows > 2 * I::ROWS,
            apart: block * I::ROWS + 16,
        }
    }
}

/// One block of the inner dimension of a product.
struct InnerBlock<'a, T> {
    task: &'a ProductTask<T>,
    plan: &'a ProductPlan,
    /// First index of the block, and its length.
    first: usize,
    inner: usize,
    packed_a: *mut T,
    packed_b: *mut T,
}

impl<T: Real> InnerBlock<'_, T> {
    /// Computes the block's part of the product.
    ///
    /// # Safety
    /// As for [`run`], with room for packed factors.
    unsafe fn run<I: InstructionSet<T>>(&self) {
        let InnerBlock { task, plan, inner, .. } = *self;
        // SAFETY: all offsets stay inside of the matrices and of the room for packed factors.
        unsafe {
            for (column, vectors) in self.panels::<I>(0, task.columns) {
                self.pack_panel::<I>(column, vectors * I::Vector::LANES);
            }
            for top in (0..task.rows).step_by(plan.rows) {
                let tiles = EvenParts::new(plan.rows.min(task.rows - top), I::ROWS);
                let a = task.a.at(top, self.first);
                if plan.packs_left {
                    pack_left(&a, tiles, inner, self.packed_a, plan.apart);
                }
                for left in (0..task.columns).step_by(plan.columns) {
                    let columns = plan.columns.min(task.columns - left);
                    for (tile, (row, rows)) in tiles.iter().enumerate() {
                        let a = match plan.packs_left {
                            true => Strided {
                                start: self.packed_a.add(tile * plan.apart).cast_const(),
                                row_stride: 1,
                                column_stride: rows as isize,
                            },
                            false => a.at(row, 0),
                        };
                        self.row_of_tiles::<I>(&a, top + row, rows, left, columns);
                    }
                }
            }
        }
    }

    /// Computes the tiles of `rows` rows from `top` on and of `columns` columns from `left` on.
    unsafe fn row_of_tiles<I: InstructionSet<T>>(
        &self,
        a: &Strided<T>,
        top: usize,
        rows: usize,
        left: usize,
        columns: usize,
    ) {
        let task = self.task;
        let by_columns = a.column_stride != 1;
        for (column, vectors) in self.panels::<I>(left, columns) {
            if task.lower && column >= top + rows {
                return;
            }
            let width = vectors * I::Vector::LANES;
            // SAFETY: as the caller promises.
            unsafe {
                let c = task.c.add(top * task.c_stride + column);
                let (from, from_stride) = match task.onto {
                    _ if self.first > 0 => (c.cast_const(), task.c_stride),
                    Onto::Nothing => (std::ptr::null(), 0),
                    Onto::Itself => (c.cast_const(), task.c_stride),
                    Onto::Row(row) => (row.add(column), 0),
                };
                let b = self.panel(column, width);
                let tile = Tile {
                    inner: self.inner,
                    a: a.start,
                    a_row_stride: a.row_stride,
                    a_column_stride: a.column_stride,
                    b: b.start,
                    b_stride: b.row_stride,
                    c,
                    c_stride: task.c_stride as isize,
                    from,
                    from_stride: from_stride as isize,
                    last: width.min(task.columns - column) - (width - I::Vector::LANES),
                    scale: task.scale,
                };
                I::select(rows, vectors, by_columns)(&tile);
            }
        }
    }

    /// Returns the panels of `columns` columns from `left` on: first column and number of vectors of each.
    #[inline(always)]
    fn panels<I: InstructionSet<T>>(
        &self,
        left: usize,
        columns: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        let pieces = self.plan.columns;
        (left..left + columns).step_by(pieces).flat_map(move |start| {
            let vectors = pieces.min(left + columns - start).div_ceil(I::Vector::LANES);
            let parts = EvenParts::new(vectors, I::VECTORS).iter();
            parts.map(move |(first, vectors)| (start + first * I::Vector::LANES, vectors))
        })
    }

    /// Returns true if the kernel reads these columns of B in place.
    fn stays(&self, column: usize, width: usize) -> bool {
        !self.plan.packs_right && column + width <= self.task.columns
    }

    unsafe fn panel(&self, column: usize, width: usize) -> Strided<T> {
        // SAFETY: as the caller promises.
        unsafe {
            if self.stays(column, width) {
                return self.task.b.at(self.first, column);
            }
            let start = self.packed_b.add(column * self.inner).cast_const();
            Strided { start, row_stride: width as isize, column_stride: 1 }
        }
    }

    unsafe fn pack_panel<I: InstructionSet<T>>(&self, column: usize, width: usize) {
        if self.stays(column, width) {
            return;
        }
        let columns = width.min(self.task.columns - column);
        // SAFETY: as the caller promises.
        unsafe {
            let to = self.packed_b.add(column * self.inner);
            let b = self.task.b.at(self.first, column);
            pack_right::<T, I>(&b, columns, self.inner, to, width);
        }
    }
}
