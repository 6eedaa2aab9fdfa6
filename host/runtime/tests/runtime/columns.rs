//! Any column survives the way from the host through the operator and its states and back.

use crate::support::{Start, keys_of, scripted};
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMillisecondType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Decimal128Array, Int64Array,
    PrimitiveArray, RecordBatch, StringArray,
};
use howdah_runtime::Input;
use howdah_state::{Column, ColumnType};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::json;
use std::sync::Arc;

const WAYS: [&str; 6] = ["nothing", "value", "list", "map", "map-key", "reducing"];
const KEYS: [&str; 3] = ["current", "selected", "explicit"];

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        Just(ColumnType::Boolean),
        Just(ColumnType::Int32),
        Just(ColumnType::Int64),
        Just(ColumnType::Float32),
        Just(ColumnType::Float64),
        (1_u8..=38)
            .prop_flat_map(|precision| (Just(precision), 0..=precision))
            .prop_map(|(precision, scale)| ColumnType::Decimal128 { precision, scale }),
        Just(ColumnType::Date),
        Just(ColumnType::TimestampMillis),
        Just(ColumnType::Utf8),
        Just(ColumnType::Binary),
    ]
}

fn primitive<T: ArrowPrimitiveType>(rows: usize, nulls: bool) -> BoxedStrategy<ArrayRef>
where
    T::Native: Arbitrary + 'static,
{
    let values = prop::collection::vec(optional(nulls, any::<T::Native>()), rows);
    values.prop_map(|v| Arc::new(v.into_iter().collect::<PrimitiveArray<T>>()) as ArrayRef).boxed()
}

/// Values, of which some are null if any may be.
fn optional<S: Strategy>(nulls: bool, values: S) -> impl Strategy<Value = Option<S::Value>> {
    let is_null = prop::bool::weighted(0.3).prop_map(move |null| null && nulls);
    (is_null, values).prop_map(|(is_null, value)| (!is_null).then_some(value))
}

/// An array of so many rows, some of which are null if any may be.
fn array(column_type: ColumnType, rows: usize, nulls: bool) -> BoxedStrategy<ArrayRef> {
    macro_rules! others {
        ($array:ty, $values:expr) => {{
            let values = prop::collection::vec(optional(nulls, $values), rows);
            values.prop_map(|v| Arc::new(<$array>::from_iter(v)) as ArrayRef).boxed()
        }};
    }
    match column_type {
        ColumnType::Int32 => primitive::<Int32Type>(rows, nulls),
        ColumnType::Int64 => primitive::<Int64Type>(rows, nulls),
        ColumnType::Float32 => primitive::<Float32Type>(rows, nulls),
        ColumnType::Float64 => primitive::<Float64Type>(rows, nulls),
        ColumnType::Date => primitive::<Date32Type>(rows, nulls),
        ColumnType::TimestampMillis => primitive::<TimestampMillisecondType>(rows, nulls),
        ColumnType::Boolean => others!(BooleanArray, any::<bool>()),
        ColumnType::Utf8 => others!(StringArray, ".{0,12}"),
        ColumnType::Binary => others!(BinaryArray, prop::collection::vec(any::<u8>(), 0..12)),
        ColumnType::Decimal128 { precision, scale } => {
            let bound = 10_i128.pow(u32::from(precision));
            let value = optional(nulls, 1 - bound..bound);
            prop::collection::vec(value, rows)
                .prop_map(move |values| {
                    let array = values.into_iter().collect::<Decimal128Array>();
                    let scale = i8::try_from(scale).unwrap();
                    Arc::new(array.with_precision_and_scale(precision, scale).unwrap()) as ArrayRef
                })
                .boxed()
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    /// The first is the number of the row, and with the second, if that may be, the key.
    fields: Vec<Column>,
    columns: Vec<ArrayRef>,
    row_kinds: Option<Vec<u8>>,
    way: &'static str,
    keys: &'static str,
}

fn case() -> impl Strategy<Value = Case> {
    // Arrays may begin within their buffers.
    let shape = (0_usize..40, 0_usize..10, prop::sample::select(&WAYS[..]));
    let shape = (shape, prop::collection::vec((column_type(), any::<bool>()), 2..7));
    shape.prop_flat_map(|((rows, offset, way), types)| {
        let mut fields = vec![Column::required("row", ColumnType::Int64)];
        for (index, (column_type, nullable)) in types.into_iter().enumerate() {
            let key = way == "map-key" || index == 0;
            if key && !column_type.is_key_type() {
                fields.push(Column::required(format!("f{index}"), ColumnType::Utf8));
            } else {
                let nullable = nullable && !key;
                fields.push(Column { name: format!("f{index}"), column_type, nullable });
            }
        }
        let columns: Vec<BoxedStrategy<ArrayRef>> = fields
            .iter()
            .skip(1)
            .map(|field| {
                let array = array(field.column_type, rows + offset, field.nullable);
                array.prop_map(move |array| array.slice(offset, rows)).boxed()
            })
            .collect();
        let row_kinds = prop::option::of(prop::collection::vec(0_u8..4, rows));
        (Just(fields), columns, row_kinds, Just(way), prop::sample::select(&KEYS[..])).prop_map(
            move |(fields, mut columns, row_kinds, way, keys)| {
                columns.insert(0, Arc::new(Int64Array::from_iter_values((0..).take(rows))));
                Case { fields, columns, row_kinds, way, keys }
            },
        )
    })
}

fn survives(case: &Case) -> TestCaseResult {
    let field = |f: &Column| json!([f.name, f.column_type.to_string(), f.nullable]);
    let fields: Vec<_> = case.fields.iter().map(field).collect();
    let config = json!({"columns": {
        "fields": fields,
        "key": ["row", "f0"],
        "through": case.way,
        "keys": case.keys,
    }});
    let start = Start { config: config.to_string(), ..Start::mode("") };
    let mut running = start.open(&scripted()).unwrap();
    let schema = running.spec.inputs[0].schema();
    let batch = RecordBatch::try_new(schema, case.columns.clone()).unwrap();
    let (keys, row_keys) = keys_of(&running.spec, &batch);
    let rows = batch.num_rows();
    let timestamps: Vec<i64> = (0..).take(rows).collect();
    for _ in 0..2 {
        let outputs = running.instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: case.row_kinds.as_deref(),
            timestamps: &timestamps,
            keys: keys.clone(),
            row_keys: &row_keys,
        });
        let outputs = outputs.map_err(|error| TestCaseError::fail(error.to_string()))?;
        if rows == 0 {
            prop_assert!(outputs.is_empty());
            continue;
        }
        prop_assert_eq!(outputs.len(), 1);
        let output = &outputs[0];
        prop_assert_eq!(&output.batch, &batch);
        prop_assert_eq!(&output.timestamps, &timestamps);
        prop_assert_eq!(&output.row_kinds, &case.row_kinds);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn any_column_survives_every_way(case in case()) {
        survives(&case)?;
    }
}

#[test]
fn row_kinds_are_kept_from_an_operator_that_takes_inserts_only() {
    let mut running = Start::mode("none").open(&crate::support::hostile()).unwrap();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![1]))];
    let batch = RecordBatch::try_new(running.spec.inputs[0].schema(), columns).unwrap();
    let (keys, row_keys) = keys_of(&running.spec, &batch);
    let mut process = |kinds: &[u8]| {
        running.instance.process(Input {
            port: 0,
            batch: &batch,
            row_kinds: Some(kinds),
            timestamps: &[0],
            keys: keys.clone(),
            row_keys: &row_keys,
        })
    };
    process(&[0]).unwrap();
    let error = process(&[3]).unwrap_err().to_string();
    assert!(error.ends_with("input 0 takes inserts only, but has other row kinds"), "{error}");
    let error = process(&[]).unwrap_err().to_string();
    assert!(error.ends_with("a batch of 1 rows came with row kinds that are none"), "{error}");
    process(&[0]).unwrap();
}
