//! Values go through columns unchanged, and columns that are not well formed are refused.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use howdah_sdk::columns::{Column, ColumnBuilder, ValueType};
use howdah_sdk::{Date, Decimal, Primitive, Result, Row, Timestamp, Value};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn encode<T: Value>(values: &[T]) -> Column {
    let mut builder = ColumnBuilder::new(T::TYPE, values.len());
    values.iter().for_each(|value| value.write(&mut builder));
    builder.finish()
}

/// Whether the values survive a round trip, and each matches its own row.
fn round_trip<T: Value + PartialEq + std::fmt::Debug>(values: &[T]) -> Result<(), TestCaseError> {
    let column = encode(values);
    column.check(T::TYPE, T::NULLABLE, values.len()).unwrap();
    for (row, value) in values.iter().enumerate() {
        prop_assert_eq!(&T::read(&column, row).unwrap(), value);
        prop_assert!(value.matches(&column, row));
    }
    Ok(())
}

/// Whether `matches` tells apart just what has other bytes, for every pair of values.
fn matches_same_bytes<T: Value>(values: &[T]) -> Result<(), TestCaseError> {
    let column = encode(values);
    for value in values {
        for (row, other) in values.iter().enumerate() {
            let is_same =
                encode(std::slice::from_ref(value)) == encode(std::slice::from_ref(other));
            prop_assert_eq!(value.matches(&column, row), is_same);
        }
    }
    Ok(())
}

/// A test for a type and its `Option`.
macro_rules! round_trips {
    ($($name:ident: $value:expr;)*) => {
        proptest! {$(
            #[test]
            fn $name(values in vec($value, 0..40), nullable in vec(option::of($value), 0..40)) {
                round_trip(&values)?;
                round_trip(&nullable)?;
                matches_same_bytes(&nullable)?;
            }
        )*}
    };
}

fn decimal() -> impl Strategy<Value = Decimal<9, 3>> {
    (-999_999_999_i128..=999_999_999).prop_map(|value| Decimal::from_unscaled(value).unwrap())
}

round_trips! {
    booleans: any::<bool>();
    int32s: any::<i32>();
    int64s: any::<i64>();
    float32s: any::<f32>();
    float64s: any::<f64>();
    decimals: decimal();
    dates: any::<i32>().prop_map(Date::from_days);
    timestamps: any::<i64>().prop_map(Timestamp::from_millis);
    texts: ".{0,12}";
    bytes: vec(any::<u8>(), 0..12);
}

#[test]
fn a_nan_matches_itself_bit_for_bit() {
    let column = encode(&[f64::NAN, -0.0]);
    assert!(Value::matches(&f64::NAN, &column, 0));
    assert!(!Value::matches(&0.0_f64, &column, 1));
}

#[test]
fn an_integer_is_eight_little_endian_bytes() {
    let column = encode(&[1_i64, -2]);
    assert_eq!(column.data, [1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!((column.offsets, column.validity), (None, None));
}

#[test]
fn bits_past_the_last_row_are_zero() {
    let column = encode(&[Some(true); 9]);
    assert_eq!(column.data, [0xFF, 0x01]);
    let column = encode(&[Some(true), None, Some(true)]);
    assert_eq!((column.data, column.validity), (vec![0b101], Some(vec![0b101])));
}

#[test]
fn a_null_text_is_an_empty_range() {
    let column = encode(&[Some("ab".to_owned()), None, Some("c".to_owned())]);
    assert_eq!(column.data, b"abc");
    let offsets: Vec<u8> =
        [0_u32, 2, 2, 3].iter().flat_map(|offset| offset.to_le_bytes()).collect();
    assert_eq!(column.offsets, Some(offsets));
    assert_eq!(column.validity, Some(vec![0b101]));
}

/// The message with which a text column of two rows, one thing spoilt, is refused.
fn refusal(spoil: impl FnOnce(&mut Column)) -> String {
    let mut column = encode(&["ab".to_owned(), "c".to_owned()]);
    spoil(&mut column);
    column.check(ValueType::Utf8, false, 2).unwrap_err().message().to_owned()
}

fn offsets(values: &[u32]) -> Option<Vec<u8>> {
    Some(values.iter().flat_map(|offset| offset.to_le_bytes()).collect())
}

#[test]
fn missing_offsets_are_refused() {
    assert!(refusal(|column| column.offsets = None).contains("no offsets"));
}

#[test]
fn too_few_offsets_are_refused() {
    let refusal = refusal(|column| column.offsets = offsets(&[0, 3]));
    assert_eq!(refusal, "8 bytes of offsets for 2 rows, not 12");
}

#[test]
fn descending_offsets_are_refused() {
    assert!(refusal(|column| column.offsets = offsets(&[0, 4, 3])).contains("do not ascend"));
}

#[test]
fn offsets_that_do_not_start_at_zero_are_refused() {
    assert!(refusal(|column| column.offsets = offsets(&[1, 2, 3])).contains("do not span"));
}

#[test]
fn offsets_past_the_end_are_refused() {
    assert!(refusal(|column| column.offsets = offsets(&[0, 2, 4])).contains("do not span"));
}

#[test]
fn a_null_in_a_column_that_is_not_nullable_is_refused() {
    assert!(refusal(|column| column.validity = Some(vec![0b01])).contains("lacks its value"));
}

#[test]
fn a_short_validity_is_refused() {
    let refusal = refusal(|column| column.validity = Some(Vec::new()));
    assert_eq!(refusal, "0 bytes of validity for 2 rows, not 1");
}

#[test]
fn offsets_of_fixed_width_values_are_refused() {
    let mut column = encode(&[1_i64]);
    column.offsets = offsets(&[0, 8]);
    assert!(column.check(ValueType::Int64, false, 1).is_err());
}

#[test]
fn a_row_past_the_end_is_an_error_and_no_panic() {
    assert!(<i64 as Primitive>::read(&encode(&[1_i64]), 1).is_err());
    assert!(<i64 as Primitive>::read(&encode(&[1_i64]), usize::MAX).is_err());
    assert!(<bool as Primitive>::read(&encode(&[true]), 8).is_err());
    assert!(<String as Primitive>::read(&encode(&["a".to_owned()]), 1).is_err());
}

#[test]
fn a_decimal_with_too_many_digits_is_no_value() {
    assert_eq!(Decimal::<3, 1>::from_unscaled(1_000), None);
    assert_eq!(Decimal::<3, 1>::from_unscaled(-1_000), None);
    let column = encode(&[Decimal::<9, 1>::from_unscaled(1_000).unwrap()]);
    assert!(<Decimal<3, 1> as Primitive>::read(&column, 0).is_err());
}

#[test]
fn a_decimal_is_shown_with_its_point() {
    let show = |unscaled| Decimal::<9, 2>::from_unscaled(unscaled).unwrap().to_string();
    assert_eq!([show(1_234), show(-5), show(0)], ["12.34", "-0.05", "0.00"]);
    assert_eq!(Decimal::<9, 0>::from_unscaled(-7).unwrap().to_string(), "-7");
}

#[derive(Row, Debug, PartialEq)]
struct Mixed {
    r#type: i32,
    #[column(name = "dateTime")]
    date_time: Timestamp,
    note: Option<String>,
}

#[test]
fn a_row_has_the_columns_that_its_fields_say() {
    let names: Vec<_> = Mixed::FIELDS.iter().map(|field| field.name).collect();
    assert_eq!(names, ["type", "dateTime", "note"]);
    let nullable: Vec<_> = Mixed::FIELDS.iter().map(|field| field.nullable).collect();
    assert_eq!(nullable, [false, false, true]);
}

#[test]
fn a_row_is_read_back_field_by_field() {
    let row = || Mixed { r#type: 7, date_time: Timestamp::from_millis(9), note: Some("x".into()) };
    let mut builders: Vec<_> =
        Mixed::FIELDS.iter().map(|field| ColumnBuilder::new(field.value_type, 1)).collect();
    row().write(&mut builders);
    let columns: Vec<_> = builders.into_iter().map(ColumnBuilder::finish).collect();
    assert_eq!(Mixed::read(&columns, 0).unwrap(), row());
    assert!(row().matches(&columns, 0));
    assert!(!Mixed { note: None, ..row() }.matches(&columns, 0));
    assert!(Mixed::read(&columns[..2], 0).is_err());
}
