//! The columns of a state table: as Paimon has them, and as its data files do.

use crate::{Column, ColumnType, Error, KeyEncoder, KeyGroups, Result, StateDescriptor};
use arrow_schema::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef};
use paimon::spec::{
    BigIntType, BooleanType, DataType, DateType, DecimalType, DoubleType, FloatType, IntType,
    Schema, TimestampType, VarBinaryType, VarCharType,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Paimon numbers its own columns from the top of the range.
const SEQUENCE_NUMBER_ID: i32 = i32::MAX - 1;
const VALUE_KIND_ID: i32 = i32::MAX - 2;

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

/// The shape of a state table. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TableSchema {
    pub(crate) encoder: KeyEncoder,
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
    pub(crate) fn new(
        key: &[Column],
        value: &[Column],
        key_groups: KeyGroups,
        schema_id: i64,
    ) -> Result<Self> {
        let encoder = KeyEncoder::new(key)?;
        check_names(key, value)?;
        let mut fields = vec![Field::new(KEY_GROUP_COLUMN, ArrowType::Int32, false)];
        fields.extend(key.iter().chain(value).map(Column::to_arrow));
        let rows = Arc::new(ArrowSchema::new(fields.clone()));
        let mut in_file = vec![
            with_id(Field::new("_SEQUENCE_NUMBER", ArrowType::Int64, false), SEQUENCE_NUMBER_ID),
            with_id(Field::new("_VALUE_KIND", ArrowType::Int8, false), VALUE_KIND_ID),
        ];
        in_file.extend(fields.into_iter().zip(0..).map(|(field, id)| with_id(field, id)));
        Ok(Self {
            encoder,
            value: value.into(),
            key_groups,
            rows,
            file: Arc::new(ArrowSchema::new(in_file)),
            schema_id,
        })
    }

    pub(crate) fn key(&self) -> &[Column] {
        self.encoder.columns()
    }

    /// The shape of a table on disk.
    pub(crate) fn of_table(name: &str, schema: &paimon::spec::TableSchema) -> Result<Self> {
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
        let groups = KeyGroups::new(option(KEY_GROUPS_OPTION)?, option("bucket")?)?;
        let columns: Vec<Column> = schema
            .fields()
            .iter()
            .skip(1)
            .map(|field| from_paimon(name, field.name(), field.data_type()))
            .collect::<Result<_>>()?;
        let (key, value) = columns.split_at_checked(key_columns).ok_or_else(|| {
            Error::corrupt(format!("table {name} has fewer columns than its key should"))
        })?;
        Self::new(key, value, groups, schema.id())
    }
}

fn with_id(field: Field, id: i32) -> Field {
    field.with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]))
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

/// The Paimon schema of a state table.
pub(crate) fn paimon_schema(descriptor: &StateDescriptor) -> Result<Schema> {
    let mut builder =
        Schema::builder().column(KEY_GROUP_COLUMN, DataType::Int(IntType::with_nullable(false)));
    for column in descriptor.key.iter().chain(&descriptor.value) {
        builder = builder.column(&column.name, to_paimon(column)?);
    }
    let mut primary_key = vec![KEY_GROUP_COLUMN.to_owned()];
    primary_key.extend(descriptor.key.iter().map(|column| column.name.clone()));
    builder = builder.primary_key(primary_key).option("bucket", descriptor.parallelism.to_string());
    for (key, value) in OPTIONS {
        builder = builder.option(key, value);
    }
    builder
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

fn from_paimon(table: &str, name: &str, data_type: &DataType) -> Result<Column> {
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
