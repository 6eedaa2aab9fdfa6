//! The columns of a state table: as Paimon has them, and as its data files do.

use crate::{Column, ColumnType, Error, KeyEncoder, KeyGroups, Result, StateDescriptor, StateKind};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef};
use paimon::spec::{
    BigIntType, BooleanType, DataType, DateType, DecimalType, DoubleType, FloatType, IntType,
    Schema, TimestampType, VarBinaryType, VarCharType,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Paimon numbers its own columns from the top of the range.
const SEQUENCE_NUMBER_ID: i32 = i32::MAX - 1;
const VALUE_KIND_ID: i32 = i32::MAX - 2;
/// Where Parquet keeps the number of a column.
const FIELD_ID: &str = "PARQUET:field_id";

/// How many columns of a data file come before the key columns:
/// `_SEQUENCE_NUMBER`, `_VALUE_KIND` and `kg`.
pub(crate) const LEADING_COLUMNS: usize = 3;

/// Key groups run from 0 to less than this.
pub(crate) const KEY_GROUP_COLUMN: &str = "kg";

/// Table options that fix what is on disk; an existing table must have them all.
const OPTIONS: [(&str, &str); 5] = [
    ("bucket-key", KEY_GROUP_COLUMN),
    ("merge-engine", "deduplicate"),
    ("deletion-vectors.enabled", "true"),
    ("file.format", "parquet"),
    // One level for each sorted run.
    ("num-levels", "64"),
];

/// The option that keeps the number of key groups beside the table.
const KEY_GROUPS_OPTION: &str = "howdah.key-groups";
/// The option that says how many of the columns after `kg` are the key's.
const KEY_COLUMNS_OPTION: &str = "howdah.key-columns";
/// The option that says what the rows of a key are to the operator; value state without it.
const KIND_OPTION: &str = "howdah.kind";
/// The option that says how many of the columns after the key are the map key's.
const MAP_KEY_COLUMNS_OPTION: &str = "howdah.map-key-columns";
/// The option that says how each value column is folded.
const REDUCERS_OPTION: &str = "howdah.reducers";

/// The option with the digest of the shape; tables of version 0.1 have none.
pub(crate) const SHAPE_DIGEST_OPTION: &str = "howdah.shape-digest";

/// The column of a list state that keeps the elements of a key in order.
pub(crate) const POSITION_COLUMN: &str = "position";
/// The column of timers that says when they are due.
pub(crate) const TIME_COLUMN: &str = "time";
/// The column that says when a row with a time to live ends; last of the value columns.
pub(crate) const EXPIRES_COLUMN: &str = "expires_at";

/// The shape of a state table. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TableSchema {
    pub(crate) kind: StateKind,
    /// Of row keys: all columns of the primary key after `kg`. For value state that is the key.
    pub(crate) encoder: KeyEncoder,
    /// Of keys as the operator knows them.
    pub(crate) key_encoder: KeyEncoder,
    /// As stored: [`EXPIRES_COLUMN`] is the last one when rows have a time to live.
    pub(crate) value: Arc<[Column]>,
    pub(crate) key_groups: KeyGroups,
    /// `kg`, key columns, value columns.
    pub(crate) rows: SchemaRef,
    /// What a data file holds: the leading columns, key columns, value columns.
    pub(crate) file: SchemaRef,
    /// Number of Paimon's schema file.
    pub(crate) schema_id: i64,
}

impl TableSchema {
    /// `value` as stored.
    pub(crate) fn new(
        kind: &StateKind,
        key: &[Column],
        value: &[Column],
        key_groups: KeyGroups,
        schema_id: i64,
    ) -> Result<Self> {
        let key_encoder = KeyEncoder::new(key)?;
        let (row_key, grouping) = kind.row_key(key);
        let encoder = KeyEncoder::for_rows(&row_key, grouping)?;
        check_names(&row_key, value)?;
        let mut fields = vec![Field::new(KEY_GROUP_COLUMN, ArrowType::Int32, false)];
        fields.extend(row_key.iter().chain(value).map(Column::to_arrow));
        let rows = Arc::new(ArrowSchema::new(fields.clone()));
        let mut in_file = vec![
            with_id(Field::new("_SEQUENCE_NUMBER", ArrowType::Int64, false), SEQUENCE_NUMBER_ID),
            with_id(Field::new("_VALUE_KIND", ArrowType::Int8, false), VALUE_KIND_ID),
        ];
        in_file.extend(fields.into_iter().zip(0..).map(|(field, id)| with_id(field, id)));
        Ok(Self {
            kind: kind.clone(),
            encoder,
            key_encoder,
            value: value.into(),
            key_groups,
            rows,
            file: Arc::new(ArrowSchema::new(in_file)),
            schema_id,
        })
    }

    /// Columns of the row key.
    pub(crate) fn key(&self) -> &[Column] {
        self.encoder.columns()
    }

    /// Which of the value columns, if any, says when a row ends.
    pub(crate) fn expires_column(&self) -> Option<usize> {
        let last = self.value.len().checked_sub(1)?;
        (self.value.get(last)?.name == EXPIRES_COLUMN).then_some(last)
    }

    /// The shape that the content of a schema file says.
    pub(crate) fn decode(table: &str, file: &[u8]) -> Result<Self> {
        let stored = serde_json::from_slice(file)
            .map_err(|error| Error::corrupt(format!("table {table}: bad schema: {error}")))?;
        Self::of_table(table, &stored)
    }

    /// The shape of a table on disk.
    ///
    /// # Errors
    /// `Incompatible` when it is no state table; `Corrupt` when it is not the shape that was
    /// written.
    pub(crate) fn of_table(name: &str, schema: &paimon::spec::TableSchema) -> Result<Self> {
        let shape = Self::unchecked(name, schema)?;
        let written = schema.options().get(SHAPE_DIGEST_OPTION);
        if written.is_none_or(|written| *written == shape.digest()) {
            return Ok(shape);
        }
        Err(Error::corrupt(format!(
            "table {name}: its columns or options are not those that were written; the file is \
             damaged, or something else than howdah changed it: restore from a checkpoint"
        )))
    }

    /// A digest of all that reading and writing rows depends on.
    pub(crate) fn digest(&self) -> String {
        let key_columns = self.key_encoder.columns().len();
        let (row_key_columns, groups) = (self.key().len(), &self.key_groups);
        let mut text = format!(
            "{} {key_columns} {row_key_columns} {} {}\n",
            self.kind,
            groups.count(),
            groups.parallelism()
        );
        let columns = self.file.fields().iter().skip(LEADING_COLUMNS);
        for (column, field) in self.key().iter().chain(self.value.iter()).zip(columns) {
            let id = field.metadata().get(FIELD_ID).map_or("", String::as_str);
            let Column { name, column_type, nullable } = column;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{id} {nullable} {column_type} {name}");
        }
        format!("{:016x}", xxh3_64(text.as_bytes()))
    }

    fn unchecked(name: &str, schema: &paimon::spec::TableSchema) -> Result<Self> {
        let option = |key: &str| -> Result<u32> {
            let text = schema.options().get(key);
            text.and_then(|text| text.parse().ok()).ok_or_else(|| {
                Error::new(
                    crate::ErrorKind::Incompatible,
                    format!(
                        "table {name} is no state table of howdah: its option {key} is missing"
                    ),
                )
            })
        };
        let key_columns = option(KEY_COLUMNS_OPTION)? as usize;
        let text = |key: &str| schema.options().get(key).map_or("", String::as_str);
        let map_key_columns: usize = text(MAP_KEY_COLUMNS_OPTION).parse().unwrap_or(0);
        let groups = KeyGroups::new(option(KEY_GROUPS_OPTION)?, option("bucket")?)?;
        let columns: Vec<Column> = schema
            .fields()
            .iter()
            .skip(1)
            .map(|field| from_paimon(name, field.name(), field.data_type()))
            .collect::<Result<_>>()?;
        let (kind, key, value) = StateKind::of_columns(
            text(KIND_OPTION),
            &columns,
            key_columns,
            map_key_columns,
            text(REDUCERS_OPTION),
        )
        .ok_or_else(|| {
            Error::new(
                crate::ErrorKind::Incompatible,
                format!(
                    "table {name} is no state table that this version knows: its columns do not \
                     fit its option {KIND_OPTION} `{}`",
                    text(KIND_OPTION)
                ),
            )
        })?;
        let ids = schema.fields().iter().map(paimon::spec::DataField::id);
        Ok(Self::new(&kind, &key, &value, groups, schema.id())?.with_field_ids(ids))
    }

    /// With the numbers of the columns as they are in the table: columns that came later have
    /// higher ones, wherever they stand.
    fn with_field_ids(mut self, ids: impl Iterator<Item = i32>) -> Self {
        let own = self.file.fields().iter().take(LEADING_COLUMNS - 1);
        let mut fields: Vec<Field> = own.map(|field| field.as_ref().clone()).collect();
        fields.extend(
            self.rows.fields().iter().zip(ids).map(|(f, id)| with_id(f.as_ref().clone(), id)),
        );
        self.file = Arc::new(ArrowSchema::new(fields));
        self
    }
}

fn with_id(field: Field, id: i32) -> Field {
    field.with_metadata(HashMap::from([(FIELD_ID.to_owned(), id.to_string())]))
}

fn check_names(key: &[Column], value: &[Column]) -> Result<()> {
    let mut seen = std::collections::HashSet::from([KEY_GROUP_COLUMN]);
    for column in key.iter().chain(value) {
        if column.name.is_empty() || column.name.starts_with('_') {
            return Err(Error::invalid(format!(
                "column name `{}` is reserved; begin it with a letter",
                column.name
            )));
        }
        if !seen.insert(&column.name) {
            return Err(Error::invalid(format!(
                "column name `{}` is taken; choose another (`{KEY_GROUP_COLUMN}` is the key group)",
                column.name
            )));
        }
    }
    Ok(())
}

/// The Paimon schema of a state table whose shape has this digest.
pub(crate) fn paimon_schema(descriptor: &StateDescriptor, digest: String) -> Result<Schema> {
    let mut builder =
        Schema::builder().column(KEY_GROUP_COLUMN, DataType::Int(IntType::with_nullable(false)));
    let (row_key, _) = descriptor.kind.row_key(&descriptor.key);
    for column in row_key.iter().chain(&descriptor.stored_value()) {
        builder = builder.column(&column.name, to_paimon(column)?);
    }
    let mut primary_key = vec![KEY_GROUP_COLUMN.to_owned()];
    primary_key.extend(row_key.iter().map(|column| column.name.clone()));
    builder = builder.primary_key(primary_key).option("bucket", descriptor.parallelism.to_string());
    for (key, value) in OPTIONS {
        builder = builder.option(key, value);
    }
    match &descriptor.kind {
        StateKind::Map { map_key } => {
            builder = builder.option(MAP_KEY_COLUMNS_OPTION, map_key.len().to_string());
        }
        StateKind::Reducing { reducers } => {
            let names: Vec<_> = reducers.iter().map(ToString::to_string).collect();
            builder = builder.option(REDUCERS_OPTION, names.join(","));
        }
        StateKind::Value | StateKind::List | StateKind::Timers => {}
    }
    builder
        .option(SHAPE_DIGEST_OPTION, digest)
        .option(KIND_OPTION, descriptor.kind.name())
        .option(KEY_GROUPS_OPTION, descriptor.key_groups.to_string())
        .option(KEY_COLUMNS_OPTION, descriptor.key.len().to_string())
        .build()
        .map_err(|error| Error::invalid(format!("the state cannot be a table: {error}")))
}

/// The Paimon type of a column.
pub(crate) fn to_paimon(column: &Column) -> Result<DataType> {
    let nullable = column.nullable;
    let invalid = |error: paimon::Error| {
        Error::invalid(format!("column `{}` cannot be stored: {error}", column.name))
    };
    Ok(match column.column_type {
        ColumnType::Boolean => DataType::Boolean(BooleanType::with_nullable(nullable)),
        ColumnType::Int32 => DataType::Int(IntType::with_nullable(nullable)),
        ColumnType::Int64 => DataType::BigInt(BigIntType::with_nullable(nullable)),
        ColumnType::Float32 => DataType::Float(FloatType::with_nullable(nullable)),
        ColumnType::Float64 => DataType::Double(DoubleType::with_nullable(nullable)),
        ColumnType::Decimal128 { precision, scale } => DataType::Decimal(
            DecimalType::with_nullable(nullable, u32::from(precision), u32::from(scale))
                .map_err(invalid)?,
        ),
        ColumnType::Date => DataType::Date(DateType::with_nullable(nullable)),
        ColumnType::TimestampMillis => {
            DataType::Timestamp(TimestampType::with_nullable(nullable, 3).map_err(invalid)?)
        }
        ColumnType::Utf8 => DataType::VarChar(
            VarCharType::with_nullable(nullable, VarCharType::MAX_LENGTH).map_err(invalid)?,
        ),
        ColumnType::Binary => DataType::VarBinary(
            VarBinaryType::try_new(nullable, VarBinaryType::MAX_LENGTH).map_err(invalid)?,
        ),
    })
}

pub(crate) fn from_paimon(table: &str, name: &str, data_type: &DataType) -> Result<Column> {
    let column_type = match data_type {
        DataType::Boolean(_) => ColumnType::Boolean,
        DataType::Int(_) => ColumnType::Int32,
        DataType::BigInt(_) => ColumnType::Int64,
        DataType::Float(_) => ColumnType::Float32,
        DataType::Double(_) => ColumnType::Float64,
        DataType::Decimal(decimal) => ColumnType::Decimal128 {
            precision: u8::try_from(decimal.precision()).unwrap_or(38),
            scale: u8::try_from(decimal.scale()).unwrap_or(38),
        },
        DataType::Date(_) => ColumnType::Date,
        DataType::Timestamp(timestamp) if timestamp.precision() == 3 => ColumnType::TimestampMillis,
        DataType::VarChar(_) => ColumnType::Utf8,
        DataType::VarBinary(_) => ColumnType::Binary,
        other => {
            return Err(Error::new(
                crate::ErrorKind::Incompatible,
                format!("column `{name}` of table {table} has type {other:?}, which no state has"),
            ));
        }
    };
    Ok(Column { name: name.to_owned(), column_type, nullable: data_type.is_nullable() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest is kept in tables: with another one, they would pass for damaged.
    #[test]
    fn digest_of_a_shape_stays_what_it_is() {
        let key = [Column::required("id", ColumnType::Int64)];
        let value = [
            Column::nullable("price", ColumnType::Decimal128 { precision: 18, scale: 2 }),
            Column::required("at", ColumnType::TimestampMillis),
        ];
        let groups = KeyGroups::new(128, 2).unwrap();
        let shape = TableSchema::new(&StateKind::Value, &key, &value, groups, 0).unwrap();
        assert_eq!(shape.digest(), "e9dbb0df22d133e4");
    }

    #[test]
    fn digest_tells_the_key_of_a_map_from_its_values() {
        let columns = ["id", "item", "count"].map(|name| Column::required(name, ColumnType::Int64));
        let [id, item, count] = columns;
        let groups = KeyGroups::new(128, 2).unwrap();
        let digest = |map_key: &[Column], value: &[Column]| {
            let kind = StateKind::Map { map_key: map_key.to_vec() };
            let key = std::slice::from_ref(&id);
            TableSchema::new(&kind, key, value, groups.clone(), 0).unwrap().digest()
        };
        let (one, two) = ([item.clone()], [item, count.clone()]);
        assert_ne!(digest(&one, &[count]), digest(&two, &[]));
    }
}
