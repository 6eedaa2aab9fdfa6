use super::*;
use crate::bindings::types::ColumnResult;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMillisecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, PrimitiveArray, StringArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use howdah_state::{Column, ColumnType};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

fn le32(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn data(data: Vec<u8>) -> ColumnResult {
    ColumnResult { data, offsets: None, validity: None }
}

fn text(data: &[u8], offsets: &[u32]) -> ColumnResult {
    ColumnResult { data: data.to_vec(), offsets: Some(le32(offsets)), validity: None }
}

fn decode(column_type: ColumnType, rows: usize, column: ColumnResult) -> Result<ArrayRef, String> {
    decode_field(&Column::required("price", column_type), rows, column)
}

fn decode_field(field: &Column, rows: usize, column: ColumnResult) -> Result<ArrayRef, String> {
    columns(std::slice::from_ref(field), rows, vec![column])
        .map(|mut arrays| arrays.remove(0))
        .map_err(|error| error.to_string())
}

fn refused(column_type: ColumnType, rows: usize, column: ColumnResult) -> String {
    decode(column_type, rows, column).unwrap_err()
}

#[test]
fn short_data_is_refused() {
    assert_eq!(
        refused(ColumnType::Int64, 2, data(vec![0; 15])),
        "column `price` (int64): its data has 15 bytes where 2 rows take 16"
    );
}

#[test]
fn data_that_is_too_long_is_refused() {
    assert_eq!(
        refused(ColumnType::Int32, 2, data(vec![0; 9])),
        "column `price` (int32): its data has 9 bytes where 2 rows take 8"
    );
}

#[test]
fn the_number_of_columns_must_be_the_schemas() {
    let fields = [Column::required("a", ColumnType::Int32)];
    let error = columns::<ColumnResult>(&fields, 0, vec![]).unwrap_err();
    assert_eq!(error.to_string(), "there are 0 columns where the schema has 1");
}

#[test]
fn more_rows_than_memory_holds_are_refused() {
    let rows = usize::try_from(u32::MAX).unwrap();
    assert!(refused(ColumnType::Int64, rows, data(vec![])).contains("rows take 34359738360"));
    assert!(refused(ColumnType::Boolean, rows, data(vec![])).contains("rows take 536870912"));
    assert!(refused(ColumnType::Utf8, rows, text(b"", &[0])).contains("rows take 17179869184"));
}

#[test]
fn descending_offsets_are_refused() {
    assert_eq!(
        refused(ColumnType::Utf8, 3, text(b"abc", &[0, 2, 1, 3])),
        "column `price` (utf8): row 1 has an end offset before its start"
    );
}

#[test]
fn offsets_past_the_data_are_refused() {
    assert_eq!(
        refused(ColumnType::Binary, 1, text(b"abc", &[0, 4])),
        "column `price` (binary): its last offset is 4, but its data has 3 bytes"
    );
}

#[test]
fn offsets_that_leave_data_unused_are_refused() {
    assert_eq!(
        refused(ColumnType::Binary, 1, text(b"abc", &[0, 2])),
        "column `price` (binary): its last offset is 2, but its data has 3 bytes"
    );
}

#[test]
fn offsets_that_do_not_start_at_zero_are_refused() {
    assert_eq!(
        refused(ColumnType::Utf8, 1, text(b"abc", &[1, 3])),
        "column `price` (utf8): its first offset is 1, not 0"
    );
}

#[test]
fn offsets_above_two_gib_are_refused() {
    assert_eq!(
        refused(ColumnType::Utf8, 1, text(b"", &[0, 0x8000_0000])),
        "column `price` (utf8): row 0 has an end offset before its start"
    );
}

#[test]
fn too_few_offsets_are_refused() {
    assert_eq!(
        refused(ColumnType::Utf8, 2, text(b"abc", &[0, 3])),
        "column `price` (utf8): its offsets have 8 bytes where 2 rows take 12"
    );
}

#[test]
fn text_without_offsets_is_refused() {
    let error = refused(ColumnType::Utf8, 1, data(b"abc".to_vec()));
    assert_eq!(error, "column `price` (utf8): it lacks its offsets");
}

#[test]
fn numbers_with_offsets_are_refused() {
    assert_eq!(
        refused(ColumnType::Int32, 1, text(b"abcd", &[0, 4])),
        "column `price` (int32): it has offsets, which only utf8 and binary columns have"
    );
}

#[test]
fn invalid_utf8_names_the_row() {
    assert_eq!(
        refused(ColumnType::Utf8, 3, text(b"a\xffb", &[0, 1, 2, 3])),
        "column `price` (utf8): row 1 is not valid UTF-8"
    );
}

#[test]
fn a_character_split_between_rows_is_refused() {
    assert_eq!(
        refused(ColumnType::Utf8, 2, text("ä".as_bytes(), &[0, 1, 2])),
        "column `price` (utf8): row 0 is not valid UTF-8"
    );
}

#[test]
fn a_short_validity_is_refused() {
    let field = Column::nullable("price", ColumnType::Int32);
    let column = ColumnResult { validity: Some(vec![0xff]), ..data(vec![0; 36]) };
    assert_eq!(
        decode_field(&field, 9, column).unwrap_err(),
        "column `price` (int32): its validity has 1 bytes where 9 rows take 2"
    );
}

#[test]
fn validity_bits_past_the_end_are_refused() {
    let field = Column::nullable("price", ColumnType::Int32);
    let column = ColumnResult { validity: Some(vec![0b1001]), ..data(vec![0; 12]) };
    assert_eq!(
        decode_field(&field, 3, column).unwrap_err(),
        "column `price` (int32): its validity has a 1 bit past the last of 3 rows"
    );
}

#[test]
fn a_null_in_a_required_field_is_refused() {
    let column = ColumnResult { validity: Some(vec![0b101]), ..data(vec![0; 12]) };
    assert_eq!(
        refused(ColumnType::Int32, 3, column),
        "column `price` (int32): row 1 is null, but the field is not nullable"
    );
}

#[test]
fn a_validity_without_nulls_is_fine_in_a_required_field() {
    let column = ColumnResult { validity: Some(vec![0b111]), ..data(vec![0; 12]) };
    assert_eq!(decode(ColumnType::Int32, 3, column).unwrap().null_count(), 0);
}

#[test]
fn boolean_bits_past_the_end_are_refused() {
    assert_eq!(
        refused(ColumnType::Boolean, 1, data(vec![0b11])),
        "column `price` (boolean): its data has a 1 bit past the last of 1 rows"
    );
}

#[test]
fn a_boolean_bitmap_of_the_wrong_length_is_refused() {
    assert_eq!(
        refused(ColumnType::Boolean, 8, data(vec![0, 0])),
        "column `price` (boolean): its data has 2 bytes where 8 rows take 1"
    );
}

#[test]
fn a_decimal_past_its_precision_is_refused() {
    let decimal = ColumnType::Decimal128 { precision: 3, scale: 1 };
    let values = |values: [i128; 3]| data(values.iter().flat_map(|v| v.to_le_bytes()).collect());
    assert!(decode(decimal, 3, values([999, -999, 0])).is_ok());
    assert_eq!(
        refused(decimal, 3, values([0, -1000, 0])),
        "column `price` (decimal128(3,1)): row 1 has more than 3 digits"
    );
    assert!(decode(decimal, 3, values([0, 0, i128::MIN])).is_err());
}

#[test]
fn a_null_decimal_may_hold_anything() {
    let field = Column::nullable("d", ColumnType::Decimal128 { precision: 1, scale: 0 });
    let column = ColumnResult { validity: Some(vec![0]), ..data(i128::MAX.to_le_bytes().to_vec()) };
    assert_eq!(decode_field(&field, 1, column).unwrap().null_count(), 1);
}

#[test]
fn no_rows_are_fine_for_every_type() {
    for column_type in TYPES {
        let offsets = matches!(column_type, ColumnType::Utf8 | ColumnType::Binary);
        let column = ColumnResult {
            data: vec![],
            offsets: offsets.then(|| le32(&[0])),
            validity: Some(vec![]),
        };
        assert_eq!(decode(column_type, 0, column).unwrap().len(), 0);
    }
}

#[test]
fn timestamps_must_have_the_rows_length() {
    assert_eq!(timestamps(1, (-7_i64).to_le_bytes().to_vec()).unwrap(), [-7]);
    assert_eq!(
        timestamps(2, vec![0; 8]).unwrap_err().to_string(),
        "the timestamps have 8 bytes where 2 rows take 16"
    );
}

#[test]
fn row_kinds_are_zero_to_three_and_one_for_each_row() {
    assert_eq!(row_kinds(4, vec![0, 1, 2, 3]).unwrap(), [0, 1, 2, 3]);
    assert_eq!(
        row_kinds(2, vec![0, 4]).unwrap_err().to_string(),
        "row 1 has row kind 4; there are 0, 1, 2 and 3"
    );
    assert_eq!(row_kinds(2, vec![0]).unwrap_err().to_string(), "there are 1 row kinds for 2 rows");
}

#[test]
fn indices_come_in_whole_words() {
    assert_eq!(u32s(le32(&[7, u32::MAX])).unwrap().as_ref(), [7, u32::MAX]);
    assert_eq!(
        u32s(vec![0; 5]).unwrap_err().to_string(),
        "5 bytes are no whole number of 4-byte values"
    );
}

#[test]
fn numbers_are_lent_not_copied() {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let sliced = array.slice(1, 2);
    for array in [&array, &sliced] {
        let bytes = array.to_data().buffers()[0].as_ptr() as usize + array.offset() * 8;
        let encoded = Encoded::new(array).unwrap();
        let param = encoded.as_param();
        assert_eq!(param.data.as_ptr() as usize, bytes);
        assert_eq!(param.data.len(), array.len() * 8);
    }
}

#[test]
fn text_of_a_whole_array_is_lent_not_copied() {
    let strings = StringArray::from(vec!["a", "bc"]);
    let (values, offsets) = (strings.values().as_ptr(), strings.offsets().as_ptr());
    let array: ArrayRef = Arc::new(strings);
    let encoded = Encoded::new(&array).unwrap();
    let param = encoded.as_param();
    assert_eq!(param.data.as_ptr(), values);
    assert_eq!(param.offsets.unwrap().as_ptr(), offsets.cast());
}

#[test]
fn offsets_of_a_slice_start_at_zero() {
    let array: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc", "def", "g"]));
    let sliced = array.slice(1, 2);
    let encoded = Encoded::new(&sliced).unwrap();
    let param = encoded.as_param();
    assert_eq!(param.data, b"bcdef");
    assert_eq!(param.offsets.unwrap(), le32(&[0, 2, 5]));
}

#[test]
fn a_null_has_an_empty_range() {
    let offsets = OffsetBuffer::new(vec![0, 1, 3, 4].into());
    let nulls = NullBuffer::from(vec![true, false, true]);
    let strings = StringArray::new(offsets, Buffer::from(b"abcd".as_slice()), Some(nulls));
    let array: ArrayRef = Arc::new(strings);
    let encoded = Encoded::new(&array).unwrap();
    let param = encoded.as_param();
    assert_eq!(param.data, b"ad");
    assert_eq!(param.offsets.unwrap(), le32(&[0, 1, 1, 2]));
    assert_eq!(param.validity.unwrap(), [0b101]);
}

#[test]
fn a_bitmap_has_zeros_past_its_end() {
    let bits = BooleanBuffer::new_set(16);
    assert_eq!(*bitmap(&bits.slice(0, 3)), [0b111]);
    assert_eq!(*bitmap(&bits.slice(8, 3)), [0b111]);
    assert_eq!(*bitmap(&bits.slice(3, 9)), [0xff, 1]);
    assert!(bitmap(&bits.slice(5, 0)).is_empty());
}

#[test]
fn an_arrow_type_that_no_column_has_is_an_error() {
    let array: ArrayRef = Arc::new(arrow_array::UInt8Array::from(vec![1]));
    assert!(Encoded::new(&array).unwrap_err().to_string().contains("UInt8"));
}

const TYPES: [ColumnType; 10] = [
    ColumnType::Boolean,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal128 { precision: 38, scale: 4 },
    ColumnType::Date,
    ColumnType::TimestampMillis,
    ColumnType::Utf8,
    ColumnType::Binary,
];

/// An array of this type made of these numbers.
fn array(column_type: ColumnType, values: &[Option<i64>]) -> ArrayRef {
    let numbers = || values.iter().copied();
    let small = || numbers().map(|v| v.map(|v| i32::try_from(v >> 40).unwrap()));
    let digits = |v: i64| {
        "ä0z".chars().cycle().take(usize::try_from(v.unsigned_abs() % 9).unwrap()).collect()
    };
    match column_type {
        ColumnType::Boolean => {
            Arc::new(numbers().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>())
        }
        ColumnType::Int32 => Arc::new(small().collect::<PrimitiveArray<Int32Type>>()),
        ColumnType::Date => Arc::new(small().collect::<PrimitiveArray<Date32Type>>()),
        ColumnType::Int64 => Arc::new(numbers().collect::<PrimitiveArray<Int64Type>>()),
        ColumnType::TimestampMillis => {
            Arc::new(numbers().collect::<PrimitiveArray<TimestampMillisecondType>>())
        }
        ColumnType::Float32 => {
            Arc::new(small().map(|v| v.map(|v| v as f32)).collect::<PrimitiveArray<Float32Type>>())
        }
        ColumnType::Float64 => Arc::new(
            numbers().map(|v| v.map(|v| v as f64)).collect::<PrimitiveArray<Float64Type>>(),
        ),
        ColumnType::Decimal128 { .. } => Arc::new(
            numbers()
                .map(|v| v.map(i128::from))
                .collect::<PrimitiveArray<Decimal128Type>>()
                .with_data_type(column_type.to_arrow()),
        ),
        ColumnType::Utf8 => Arc::new(
            numbers()
                .map(|v| v.map(digits))
                .collect::<Vec<Option<String>>>()
                .into_iter()
                .collect::<StringArray>(),
        ),
        ColumnType::Binary => Arc::new(
            numbers()
                .map(|v| v.map(i64::to_le_bytes))
                .collect::<Vec<_>>()
                .iter()
                .map(|v| v.as_ref().map(|v| &v[..(v[0] % 9) as usize]))
                .collect::<BinaryArray>(),
        ),
    }
}

/// Types whose values look alike in memory: to a host they are the same.
fn look(column_type: ColumnType) -> u8 {
    match column_type {
        ColumnType::Boolean => 0,
        ColumnType::Int32 | ColumnType::Float32 | ColumnType::Date => 1,
        ColumnType::Int64 | ColumnType::Float64 | ColumnType::TimestampMillis => 2,
        ColumnType::Decimal128 { .. } => 3,
        ColumnType::Utf8 | ColumnType::Binary => 4,
    }
}

#[test]
fn a_column_of_every_other_type_is_refused_for_every_type() {
    for rows in [1, 2, 3, 7, 8, 9, 64] {
        let numbers: Vec<Option<i64>> = (0..).take(rows).map(Some).collect();
        for (declared, given) in TYPES.iter().flat_map(|it| TYPES.map(|given| (*it, given))) {
            let column = into_result(array(given, &numbers)).unwrap();
            let decoded = decode(declared, rows, column);
            let what = format!("{rows} rows of {given} for {declared}");
            // Bytes may be no text.
            if look(declared) != look(given) {
                let error = decoded.expect_err(&what);
                assert!(error.starts_with(&format!("column `price` ({declared}): it")), "{error}");
            } else if declared != ColumnType::Utf8 {
                assert_eq!(decoded.expect(&what).len(), rows);
            }
        }
    }
}

fn a_type() -> impl Strategy<Value = ColumnType> {
    proptest::sample::select(&TYPES[..])
}

#[test]
fn bytes_that_nobody_else_has_are_moved() {
    let data = vec![7_u8; 24];
    let address = data.as_ptr();
    let array = decode(ColumnType::Binary, 2, ColumnResult { data, ..text(&[], &[0, 8, 24]) });
    let column = into_result(array.unwrap()).unwrap();
    assert_eq!((column.data.as_ptr(), column.data.len()), (address, 24));
}

proptest! {
    #[test]
    fn any_slice_of_any_array_survives_the_round_trip(
        column_type in a_type(),
        values in vec(proptest::option::weighted(0.7, any::<i64>()), 0..70),
        ends in (0_usize..70, 0_usize..70),
    ) {
        let array = array(column_type, &values);
        let (a, b) = (ends.0.min(values.len()), ends.1.min(values.len()));
        let slice = array.slice(a.min(b), a.max(b) - a.min(b));
        let field = Column::nullable("c", column_type);
        let column = into_result(Arc::clone(&slice)).unwrap();
        let back = decode_field(&field, slice.len(), column).unwrap();
        prop_assert_eq!(&back, &slice);
        prop_assert_eq!(back.data_type(), slice.data_type());
    }

    #[test]
    fn what_is_lent_is_what_is_copied(
        column_type in a_type(),
        values in vec(proptest::option::of(any::<i64>()), 0..40),
        start in 0_usize..40,
    ) {
        let array = array(column_type, &values);
        let start = start.min(values.len());
        let slice = array.slice(start, values.len() - start);
        let encoded = Encoded::new(&slice).unwrap();
        let param = encoded.as_param();
        let lent = (param.data.to_vec(), param.offsets.map(Vec::from), param.validity.map(Vec::from));
        let owned = into_result(Arc::clone(&slice)).unwrap();
        prop_assert_eq!(lent, (owned.data, owned.offsets, owned.validity));
    }

    #[test]
    fn arbitrary_buffers_never_panic(
        column_type in a_type(),
        nullable in any::<bool>(),
        rows in 0_usize..20,
        data in vec(any::<u8>(), 0..40),
        offsets in proptest::option::of(vec(0_u32..42, 0..12)),
        validity in proptest::option::of(vec(any::<u8>(), 0..3)),
    ) {
        let field = Column { name: "c".to_owned(), column_type, nullable };
        let column = ColumnResult { data, offsets: offsets.map(|o| le32(&o)), validity };
        if let Ok(array) = decode_field(&field, rows, column) {
            prop_assert_eq!(array.len(), rows);
            array.to_data().validate_full().unwrap();
        }
    }
}
