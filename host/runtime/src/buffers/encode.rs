//! Arrow arrays to the buffers that an operator is given.

use super::bits_past_end;
use crate::bindings::types::{ColumnParam, ColumnResult};
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Date32Type, Decimal128Type, Float32Type,
    Float64Type, Int32Type, Int64Type, TimestampMillisecondType, Utf8Type,
};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, ToByteSlice};
use howdah_state::ColumnType;
use std::borrow::Cow;

/// A column in the contract's layout. Borrows from its array where the layouts agree: fixed
/// widths always do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Encoded<'a> {
    data: Cow<'a, [u8]>,
    offsets: Option<Cow<'a, [u8]>>,
    validity: Option<Cow<'a, [u8]>>,
}

impl<'a> Encoded<'a> {
    /// Fails if the array has a type that no column has.
    pub(crate) fn new(array: &'a ArrayRef) -> Result<Self> {
        let column_type = ColumnType::from_arrow(array.data_type()).ok_or_else(|| {
            let message = format!("no column has the Arrow type {}", array.data_type());
            Error::new(ErrorKind::Host, message)
        })?;
        let (data, offsets) = match column_type {
            ColumnType::Boolean => (bitmap(array.as_boolean().values()), None),
            ColumnType::Int32 => fixed::<Int32Type>(array),
            ColumnType::Int64 => fixed::<Int64Type>(array),
            ColumnType::Float32 => fixed::<Float32Type>(array),
            ColumnType::Float64 => fixed::<Float64Type>(array),
            ColumnType::Decimal128 { .. } => fixed::<Decimal128Type>(array),
            ColumnType::Date => fixed::<Date32Type>(array),
            ColumnType::TimestampMillis => fixed::<TimestampMillisecondType>(array),
            ColumnType::Utf8 => bytes::<Utf8Type>(array.as_bytes()),
            ColumnType::Binary => bytes::<BinaryType>(array.as_bytes()),
        };
        let validity =
            array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| bitmap(nulls.inner()));
        Ok(Self { data, offsets, validity })
    }

    /// All columns of a batch.
    pub(crate) fn all(arrays: &'a [ArrayRef]) -> Result<Vec<Self>> {
        arrays.iter().map(Self::new).collect()
    }

    /// As a parameter of a call into the operator.
    pub(crate) fn as_param(&self) -> ColumnParam<'_> {
        ColumnParam {
            data: &self.data,
            offsets: self.offsets.as_deref(),
            validity: self.validity.as_deref(),
        }
    }
}

/// A column as the result of a call from the operator. Its bytes are not copied if nobody else has
/// them and the array uses all of their allocation.
pub(crate) fn into_result(array: ArrayRef) -> Result<ColumnResult> {
    let Encoded { data, offsets, validity } = Encoded::new(&array)?;
    let (offsets, validity) = (offsets.map(Cow::into_owned), validity.map(Cow::into_owned));
    // Values come last, after offsets.
    let buffer = array.to_data().buffers().last().cloned();
    let data = match (data, buffer) {
        (Cow::Borrowed(bytes), Some(buffer)) if std::ptr::eq(bytes, buffer.as_slice()) => {
            drop(array);
            buffer.into_vec::<u8>().unwrap_or_else(|shared| shared.to_vec())
        }
        (data, _) => data.into_owned(),
    };
    Ok(ColumnResult { data, offsets, validity })
}

type Buffers<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

fn fixed<T: ArrowPrimitiveType>(array: &ArrayRef) -> Buffers<'_> {
    (Cow::Borrowed(array.as_primitive::<T>().values().to_byte_slice()), None)
}

fn bytes<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> Buffers<'_> {
    let offsets = array.offsets();
    if offsets.has_non_empty_nulls(array.nulls()) {
        return bytes_of_valid_rows(array);
    }
    let first = offsets.first().copied().unwrap_or_default();
    let last = offsets.last().copied().unwrap_or_default();
    // Arrow upholds that the offsets lie within the data.
    let data = array.value_data().get(first.as_usize()..last.as_usize()).unwrap_or_default();
    let offsets = if first == 0 {
        Cow::Borrowed(offsets.to_byte_slice())
    } else {
        Cow::Owned(offsets.iter().flat_map(|offset| (offset - first).to_le_bytes()).collect())
    };
    (Cow::Borrowed(data), Some(offsets))
}

/// The rare array with bytes behind its nulls: the contract wants an empty range there.
fn bytes_of_valid_rows<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> Buffers<'_> {
    let mut data = Vec::with_capacity(array.value_data().len());
    let mut offsets = Vec::with_capacity((array.len() + 1).saturating_mul(size_of::<i32>()));
    offsets.extend(0_i32.to_le_bytes());
    let mut end = 0_i32;
    for value in array.iter() {
        let value: &[u8] = value.map(AsRef::as_ref).unwrap_or_default();
        data.extend_from_slice(value);
        // No more bytes than the array has, whose offsets are of this type.
        end = end.saturating_add(i32::try_from(value.len()).unwrap_or(i32::MAX));
        offsets.extend(end.to_le_bytes());
    }
    (Cow::Owned(data), Some(Cow::Owned(offsets)))
}

/// The bits from the first of a byte on, with zeros past the last row.
pub(crate) fn bitmap(bits: &BooleanBuffer) -> Cow<'_, [u8]> {
    let past_end = bits_past_end(bits.len());
    if bits.offset().is_multiple_of(8) {
        let start = bits.offset() / 8;
        let bytes = bits.values().get(start..start + bits.len().div_ceil(8)).unwrap_or_default();
        if bytes.last().is_none_or(|last| last & past_end == 0) {
            return Cow::Borrowed(bytes);
        }
    }
    let mut bytes = bits.sliced().as_slice().to_vec();
    bytes.truncate(bits.len().div_ceil(8));
    if let Some(last) = bytes.last_mut() {
        *last &= !past_end;
    }
    Cow::Owned(bytes)
}
