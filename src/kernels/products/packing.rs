//! Packing of factors in the order in which kernels read them.

use std::cell::RefCell;

use super::Real;
use super::instruction_set::{InstructionSet, Vector};
use super::view::Strided;

/// Largest buffer of packed factors that a thread keeps until its next product: 16 MB.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Division of a length into parts of limited size, as even as possible.
#[derive(Clone, Copy)]
pub(super) struct EvenParts {
    each: usize,
    larger: usize,
    count: usize,
}

impl EvenParts {
    pub fn new(whole: usize, most: usize) -> EvenParts {
        let count = whole.div_ceil(most);
        EvenParts { each: whole / count, larger: whole % count, count }
    }

    /// Returns the start and the length of every part.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).map(move |part| {
            let start = part * self.each + part.min(self.larger);
            (start, self.each + usize::from(part < self.larger))
        })
    }
}

/// Memory for packed factors, which grows on demand and is kept by its thread.
#[derive(Default)]
struct PackingBuffer(Vec<u64>);

impl PackingBuffer {
    /// Returns memory for `len` numbers, aligned to a cache line.
    fn room<T>(&mut self, len: usize) -> *mut T {
        let words = (len * size_of::<T>()).div_ceil(8) + 8;
        if self.0.capacity() < words {
            self.0 = Vec::with_capacity(words);
        }
        let start = self.0.as_mut_ptr();
        // SAFETY: eight more words than are asked for leave room for the alignment.
        unsafe { start.add(start.align_offset(64)).cast() }
    }

    fn shrink(&mut self) {
        if self.0.capacity() * 8 > MAX_KEPT_BYTES {
            self.0 = Vec::new();
        }
    }
}

thread_local! {
    static BUFFERS: RefCell<[PackingBuffer; 2]> = RefCell::default();
}

/// Calls `work` with uninitialized buffers of `left` and `right` numbers for packed factors.
pub(super) fn with_room<T>(left: usize, right: usize, work: impl FnOnce(*mut T, *mut T)) {
    BUFFERS.with_borrow_mut(|[for_left, for_right]| {
        work(for_left.room(left), for_right.room(right));
        for_left.shrink();
        for_right.shrink();
    });
}

/// Packs `columns` columns of a right factor into a panel of `width`, row by row.
///
/// Zeros follow the last column.
///
/// # Safety
/// `inner` rows and `columns` columns must be readable at `b`, and `inner * width` values writable at `to`.
pub(super) unsafe fn pack_right<T: Real, I: InstructionSet<T>>(
    b: &Strided<T>,
    columns: usize,
    inner: usize,
    to: *mut T,
    width: usize,
) {
    debug_assert!(width.is_multiple_of(I::Vector::LANES) && columns <= width);
    // SAFETY: as the caller promises.
    unsafe {
        if b.row_stride == 1 && b.column_stride != 1 {
            return I::transpose(b.start, b.column_stride, columns, inner, to, width);
        }
        for place in 0..inner {
            let from = b.start.offset(place as isize * b.row_stride);
            let to = to.add(place * width);
            if b.column_stride == 1 {
                std::ptr::copy_nonoverlapping(from, to, columns);
            } else {
                for column in 0..columns {
                    *to.add(column) = *from.offset(column as isize * b.column_stride);
                }
            }
            for column in columns..width {
                *to.add(column) = T::ZERO;
            }
        }
    }
}

/// Packs the row tiles of a left factor column by column, `apart` values from one to the next.
///
/// # Safety
/// The rows of all tiles and `inner` columns must be readable at `a`, and `apart` values writable at `to` for every
/// tile.
pub(super) unsafe fn pack_left<T: Real>(
    a: &Strided<T>,
    tiles: EvenParts,
    inner: usize,
    to: *mut T,
    apart: usize,
) {
    for (tile, (first, rows)) in tiles.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            let (from, to) = (a.start.offset(first as isize * a.row_stride), to.add(tile * apart));
            match (a.row_stride, rows) {
                (1, 8) => copy_columns::<T, 8>(from, a.column_stride, inner, to),
                (1, 7) => copy_columns::<T, 7>(from, a.column_stride, inner, to),
                (1, 6) => copy_columns::<T, 6>(from, a.column_stride, inner, to),
                (1, 5) => copy_columns::<T, 5>(from, a.column_stride, inner, to),
                (1, 4) => copy_columns::<T, 4>(from, a.column_stride, inner, to),
                (1, 3) => copy_columns::<T, 3>(from, a.column_stride, inner, to),
                (1, 2) => copy_columns::<T, 2>(from, a.column_stride, inner, to),
                _ => {
                    for place in 0..inner {
                        let from = from.offset(place as isize * a.column_stride);
                        for row in 0..rows {
                            *to.add(place * rows + row) = *from.offset(row as isize * a.row_stride);
                        }
                    }
                }
            }
        }
    }
}

/// Copies columns of `R` adjacent values.
#[inline(always)]
unsafe fn copy_columns<T: Real, const R: usize>(
    from: *const T,
    stride: isize,
    inner: usize,
    to: *mut T,
) {
    // SAFETY: as the caller promises.
    unsafe {
        for place in 0..inner {
            let column = from.offset(place as isize * stride).cast::<[T; R]>();
            to.add(place * R).cast::<[T; R]>().write_unaligned(column.read_unaligned());
        }
    }
}
