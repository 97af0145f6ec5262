//! Values of Arrow arrays of any type, one at a time.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ArrowCell<'a> {
    Missing,
    Whole(i64),
    /// Unsigned integer, which may exceed `i64::MAX`.
    Unsigned(u64),
    Float(f64),
    Truth(bool),
    /// Bytes, or a text as bytes.
    Bytes(&'a [u8]),
}

/// Iterator over the values of an array, in row order.
pub(super) type Cells<'a> = Box<dyn Iterator<Item = ArrowCell<'a>> + 'a>;

/// Returns the values of an array; `None` if they are neither numbers nor texts nor bytes.
pub(super) fn cells(array: &dyn Array) -> Option<Cells<'_>> {
    Some(match array.data_type() {
        DataType::Null => Box::new((0..array.len()).map(|_| ArrowCell::Missing)),
        DataType::Boolean => of(array.as_boolean().iter(), ArrowCell::Truth),
        DataType::Int8 => numbers::<Int8Type>(array, |v| ArrowCell::Whole(v.into())),
        DataType::Int16 => numbers::<Int16Type>(array, |v| ArrowCell::Whole(v.into())),
        DataType::Int32 => numbers::<Int32Type>(array, |v| ArrowCell::Whole(v.into())),
        DataType::Int64 => numbers::<Int64Type>(array, ArrowCell::Whole),
        DataType::UInt8 => numbers::<UInt8Type>(array, |v| ArrowCell::Unsigned(v.into())),
        DataType::UInt16 => numbers::<UInt16Type>(array, |v| ArrowCell::Unsigned(v.into())),
        DataType::UInt32 => numbers::<UInt32Type>(array, |v| ArrowCell::Unsigned(v.into())),
        DataType::UInt64 => numbers::<UInt64Type>(array, ArrowCell::Unsigned),
        DataType::Float16 => numbers::<Float16Type>(array, |v| ArrowCell::Float(v.into())),
        DataType::Float32 => numbers::<Float32Type>(array, |v| ArrowCell::Float(v.into())),
        DataType::Float64 => numbers::<Float64Type>(array, ArrowCell::Float),
        DataType::Utf8 => of(array.as_string::<i32>().iter(), text),
        DataType::LargeUtf8 => of(array.as_string::<i64>().iter(), text),
        DataType::Utf8View => of(array.as_string_view().iter(), text),
        DataType::Binary => of(array.as_binary::<i32>().iter(), ArrowCell::Bytes),
        DataType::LargeBinary => of(array.as_binary::<i64>().iter(), ArrowCell::Bytes),
        DataType::BinaryView => of(array.as_binary_view().iter(), ArrowCell::Bytes),
        _ => return None,
    })
}

fn numbers<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    cell: impl Fn(T::Native) -> ArrowCell<'a> + 'a,
) -> Cells<'a> {
    of(array.as_primitive::<T>().iter(), cell)
}

fn of<'a, V>(
    values: impl Iterator<Item = Option<V>> + 'a,
    cell: impl Fn(V) -> ArrowCell<'a> + 'a,
) -> Cells<'a> {
    Box::new(values.map(move |value| value.map_or(ArrowCell::Missing, &cell)))
}

fn text(text: &str) -> ArrowCell<'_> {
    ArrowCell::Bytes(text.as_bytes())
}

/// Concatenated values of an array of lists, and the length of each list.
pub(super) struct Lists {
    pub values: ArrayRef,
    pub counts: Vec<usize>,
}

/// Returns the lists of an array; `None` if its values are not lists.
pub(super) fn lists(array: &dyn Array) -> Option<Lists> {
    let (values, counts) = match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            let values = lists.values().slice(first as usize, (last - first) as usize);
            (values, lists.offsets().lengths().collect())
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            let values = lists.values().slice(first as usize, (last - first) as usize);
            (values, lists.offsets().lengths().collect())
        }
        DataType::FixedSizeList(_, width) => {
            let lists = array.as_fixed_size_list();
            (lists.values().clone(), vec![*width as usize; lists.len()])
        }
        _ => return None,
    };
    Some(Lists { values, counts })
}
