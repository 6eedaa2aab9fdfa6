//! How the schema of a stored table may become the one that is asked for.
//!
//! Schema files are never changed, removed or numbered again: each snapshot, and each data file,
//! names the one that it was written under. Opening a table at a snapshot makes the schema that
//! goes on from there the newest one; where that is the newest already, nothing is written.

use crate::file_system::FileSystem;
use crate::metadata::{TableDirectory, schema_ids};
use crate::schema::{EXPIRES_COLUMN, SHAPE_DIGEST_OPTION, TableSchema, to_paimon};
use crate::{Column, ColumnType, Error, ErrorKind, KeyGroups, Result, StateDescriptor};
use paimon::spec::TableSchema as StoredSchema;
use serde_json::{Value, json};

/// The option with the number of buckets, which is the parallelism.
const BUCKET_OPTION: &str = "bucket";
/// The option with the number of levels.
const LEVELS_OPTION: &str = "num-levels";

/// The schema that a table goes on with.
#[derive(Debug)]
pub(crate) struct NextSchema {
    /// Its file, if it is to be written.
    file: Option<Value>,
    pub(crate) schema: TableSchema,
}

/// Reads the schema with this number.
///
/// # Errors
/// `Corrupt` when it is missing or damaged; `Incompatible` when it is no state table's.
pub(crate) fn read_schema(
    files: &FileSystem,
    table: &TableDirectory,
    id: i64,
) -> Result<TableSchema> {
    TableSchema::of_table(&table.name, &read_stored(files, table, id)?)
        .map_err(|error| error.within(&table.schema(id).display().to_string()))
}

/// Reads the newest schema.
///
/// # Errors
/// `NotFound` when there is none; otherwise as [`read_schema`].
pub(crate) fn read_newest_schema(
    files: &FileSystem,
    table: &TableDirectory,
) -> Result<TableSchema> {
    read_schema(files, table, newest_id(files, table)?)
}

fn newest_id(files: &FileSystem, table: &TableDirectory) -> Result<i64> {
    schema_ids(files, table)?.pop().ok_or_else(|| {
        Error::not_found(format!(
            "{} is no Paimon table: it has no schema file; list_tables names those there are",
            table.root.display()
        ))
    })
}

fn read_stored(files: &FileSystem, table: &TableDirectory, id: i64) -> Result<StoredSchema> {
    let path = table.schema(id);
    if !files.exists(&path)? {
        return Err(Error::corrupt(format!(
            "table {}: {} is missing; restore from a checkpoint",
            table.name,
            path.display()
        )));
    }
    let stored: StoredSchema = serde_json::from_slice(&files.read(&path)?)
        .map_err(|error| Error::corrupt(format!("{} is damaged: {error}", path.display())))?;
    if stored.version() > StoredSchema::CURRENT_VERSION {
        return Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "{} has format {}, newer than {}, the newest known here; use a newer version of \
                 howdah",
                path.display(),
                stored.version(),
                StoredSchema::CURRENT_VERSION
            ),
        ));
    }
    Ok(stored)
}

/// Decides how a table whose snapshot was written under schema `id` goes on as `wanted`. Nothing
/// is written yet. With `rescale`, the parallelism may differ.
///
/// # Errors
/// `Incompatible`, with every difference and what to do about it, when it cannot.
pub(crate) fn plan(
    files: &FileSystem,
    table: &TableDirectory,
    id: i64,
    wanted: &StateDescriptor,
    rescale: bool,
) -> Result<NextSchema> {
    let stored = read_stored(files, table, id)?;
    let shape = TableSchema::of_table(&table.name, &stored)
        .map_err(|error| error.within(&table.schema(id).display().to_string()))?;
    check(&table.name, &shape, wanted, rescale)?;
    let newest = read_stored(files, table, newest_id(files, table)?)?;
    let mut next = serde_json::to_value(&stored).map_err(|error| bad_schema(table, &error))?;
    evolve(table, &mut next, &newest, &shape, wanted)?;
    finish(table, next, &newest)
}

impl NextSchema {
    /// The same with another parallelism, and with levels up to `top`.
    pub(crate) fn rescaled(
        self,
        files: &FileSystem,
        table: &TableDirectory,
        groups: &KeyGroups,
        top: i32,
    ) -> Result<Self> {
        let newest = read_stored(files, table, newest_id(files, table)?)?;
        let mut next = match self.file {
            Some(file) => file,
            None => {
                let stored = read_stored(files, table, self.schema.schema_id)?;
                serde_json::to_value(&stored).map_err(|error| bad_schema(table, &error))?
            }
        };
        let levels = i64::from(top) + 2;
        if let Some(options) = next.get_mut("options").and_then(Value::as_object_mut) {
            options.insert(BUCKET_OPTION.into(), json!(groups.parallelism().to_string()));
            let stored = options.get(LEVELS_OPTION).and_then(Value::as_str);
            if stored.and_then(|text| text.parse::<i64>().ok()).is_none_or(|stored| stored < levels)
            {
                options.insert(LEVELS_OPTION.into(), json!(levels.to_string()));
            }
        }
        finish(table, next, &newest)
    }

    /// Writes the file of the schema, unless it is there. A snapshot that names it comes after.
    pub(crate) fn write(&self, files: &FileSystem, table: &TableDirectory) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let bytes = serde_json::to_vec_pretty(file).map_err(|error| bad_schema(table, &error))?;
        files.replace(&table.schema(self.schema.schema_id), &bytes)
    }
}

fn bad_schema(table: &TableDirectory, error: &serde_json::Error) -> Error {
    Error::corrupt(format!("table {}: its schema cannot be written: {error}", table.name))
}

/// Gives a schema the next number, unless it is the same as the newest one.
fn finish(table: &TableDirectory, mut next: Value, newest: &StoredSchema) -> Result<NextSchema> {
    let same = serde_json::to_value(newest).map_err(|error| bad_schema(table, &error))?;
    // The digest follows from the others, and a table of version 0.1 has none.
    if undigested(&next) == undigested(&same) {
        return Ok(NextSchema { file: None, schema: TableSchema::of_table(&table.name, newest)? });
    }
    set(&mut next, "id", json!(newest.id() + 1));
    set(&mut next, "timeMillis", json!(crate::seam::wall_clock_ms()));
    take_digest(&mut next);
    let schema = decode(table, next.clone())?;
    if let Some(options) = next.get_mut("options") {
        set(options, SHAPE_DIGEST_OPTION, json!(schema.digest()));
    }
    Ok(NextSchema { file: Some(next), schema })
}

/// What of a schema makes it another one, without the digest.
fn undigested(schema: &Value) -> Value {
    let parts = ["fields", "primaryKeys", "partitionKeys", "options"];
    let of_part = |part: &&str| ((*part).to_owned(), schema.get(part).cloned().unwrap_or_default());
    let mut content = Value::Object(parts.iter().map(of_part).collect());
    take_digest(&mut content);
    content
}

fn take_digest(schema: &mut Value) {
    if let Some(options) = schema.get_mut("options").and_then(Value::as_object_mut) {
        options.remove(SHAPE_DIGEST_OPTION);
    }
}

/// A schema is an object: it was decoded as one.
fn set(object: &mut Value, member: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
}

fn decode(table: &TableDirectory, schema: Value) -> Result<TableSchema> {
    let stored: StoredSchema =
        serde_json::from_value(schema).map_err(|error| bad_schema(table, &error))?;
    TableSchema::of_table(&table.name, &stored)
}

/// Changes the columns of a stored schema into those that are asked for. Fields keep their
/// numbers; a new one gets one that no column of this table ever had, unless the newest schema
/// has that very column.
fn evolve(
    table: &TableDirectory,
    next: &mut Value,
    newest: &StoredSchema,
    stored: &TableSchema,
    wanted: &StateDescriptor,
) -> Result<()> {
    let stored_fields = next.get("fields").and_then(Value::as_array).cloned().unwrap_or_default();
    let known = |name: &str| {
        stored_fields.iter().find(|field| field.get("name").and_then(Value::as_str) == Some(name))
    };
    let leading = 1 + stored.key().len();
    let mut fields: Vec<Value> = stored_fields.iter().take(leading).cloned().collect();
    let own = next.get("highestFieldId").and_then(Value::as_i64).unwrap_or(0);
    let mut highest = own.max(i64::from(newest.highest_field_id()));
    for column in wanted_value(stored, wanted) {
        let data_type =
            serde_json::to_value(to_paimon(&column)?).map_err(|error| bad_schema(table, &error))?;
        let mut field = match known(&column.name) {
            Some(field) => field.clone(),
            None => {
                let twin = newest.fields().iter().find(|field| field.name() == column.name);
                let id = match twin.map(|field| (field, serde_json::to_value(field.data_type()))) {
                    Some((field, Ok(found))) if found == data_type => i64::from(field.id()),
                    _ => {
                        highest += 1;
                        highest
                    }
                };
                json!({ "id": id, "name": column.name })
            }
        };
        set(&mut field, "type", data_type);
        fields.push(field);
    }
    set(next, "fields", Value::Array(fields));
    set(next, "highestFieldId", json!(highest));
    Ok(())
}

/// The value columns as they are to be stored: with the one that says when a row ends, if rows
/// have a time to live or ever had one. Rows from before have none, so it may be null then.
fn wanted_value(stored: &TableSchema, wanted: &StateDescriptor) -> Vec<Column> {
    let mut value = wanted.value.clone();
    let before = stored.expires_column().and_then(|at| stored.value.get(at));
    match before {
        Some(column) => value.push(column.clone()),
        None if wanted.ttl_ms.is_some() => {
            value.push(Column::nullable(EXPIRES_COLUMN, ColumnType::TimestampMillis));
        }
        None => {}
    }
    value
}

/// A difference between a stored table and the state that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SchemaChange {
    /// What differs: `value column 2`, `kind`.
    pub what: String,
    /// What is stored: of a column name and type.
    pub stored: String,
    /// What is asked for.
    pub wanted: String,
    /// Why it cannot be, with the way out; `None`: the table is opened so, as it is.
    pub refused: Option<String>,
}

impl std::fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, stored, wanted, refused } = self;
        write!(f, "{what}: stored {stored}, asked for {wanted}")?;
        match refused {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

/// Every difference between what is stored and what is asked for.
pub(crate) fn compare(
    stored: &TableSchema,
    wanted: &StateDescriptor,
    rescale: bool,
) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    let mut differ = |what: &str, stored: String, wanted: String, advice: Option<&str>| {
        if stored != wanted {
            let refused = advice.map(str::to_owned);
            changes.push(SchemaChange { what: what.to_owned(), stored, wanted, refused });
        }
    };
    differ(
        "key groups",
        stored.key_groups.count().to_string(),
        wanted.key_groups.to_string(),
        Some("they are fixed for the life of a table"),
    );
    differ(
        "parallelism",
        stored.key_groups.parallelism().to_string(),
        wanted.parallelism.to_string(),
        if rescale { None } else { Some("restore rescaled to change it") },
    );
    if stored.kind != wanted.kind {
        changes.push(SchemaChange {
            what: "kind".to_owned(),
            stored: stored.kind.to_string(),
            wanted: wanted.kind.to_string(),
            refused: Some("the kind cannot change, nor what of it is the map key".to_owned()),
        });
    }
    let (row_key, _) = wanted.kind.row_key(&wanted.key);
    for at in 0..stored.key().len().max(row_key.len()) {
        let (stored, wanted) = (stored.key().get(at), row_key.get(at));
        if stored != wanted {
            changes.push(difference("key", at, stored, wanted, Some("keys cannot change")));
        }
    }
    let own = stored.expires_column().unwrap_or(stored.value.len());
    let values = stored.value.get(..own).unwrap_or_default();
    for at in 0..values.len().max(wanted.value.len()) {
        let (stored, wanted) = (values.get(at), wanted.value.get(at));
        if stored != wanted {
            changes.push(difference("value", at, stored, wanted, refuse(stored, wanted)));
        }
    }
    changes
}

/// Refuses differences that a table cannot go on with.
fn check(table: &str, stored: &TableSchema, wanted: &StateDescriptor, rescale: bool) -> Result<()> {
    let changes = compare(stored, wanted, rescale);
    let refused = changes.iter().filter(|change| change.refused.is_some());
    let refused: Vec<String> = refused.map(ToString::to_string).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Incompatible,
        format!(
            "state table {table} has another shape than the operator asks for: {}; use the \
             operator that wrote it, or start afresh",
            refused.join("; ")
        ),
    ))
}

/// What to do instead of changing a value column so; `None` when it may be.
fn refuse(stored: Option<&Column>, wanted: Option<&Column>) -> Option<&'static str> {
    match (stored, wanted) {
        (None, Some(new)) if new.nullable => None,
        (None, Some(_)) => Some("make it nullable: rows that are there have no value for it"),
        (Some(_), None) => Some("keep the column: none can be dropped"),
        (Some(stored), Some(wanted)) if stored.name != wanted.name => {
            Some("keep names and order; new columns come last")
        }
        (Some(stored), Some(wanted)) if !widens(stored.column_type, wanted.column_type) => Some(
            "keep the type: only int32 can become int64, float32 float64, and a decimal one with \
             more digits and the same scale",
        ),
        (Some(stored), Some(wanted)) if stored.nullable && !wanted.nullable => {
            Some("keep it nullable: rows that are there may have no value for it")
        }
        _ => None,
    }
}

fn widens(stored: ColumnType, wanted: ColumnType) -> bool {
    use ColumnType as T;
    match (stored, wanted) {
        (T::Int32, T::Int64) | (T::Float32, T::Float64) => true,
        (T::Decimal128 { precision, scale }, T::Decimal128 { precision: wider, scale: same }) => {
            wider >= precision && scale == same
        }
        _ => stored == wanted,
    }
}

fn difference(
    what: &str,
    at: usize,
    stored: Option<&Column>,
    wanted: Option<&Column>,
    advice: Option<&str>,
) -> SchemaChange {
    let describe = |column: Option<&Column>| match column {
        Some(Column { name, column_type, nullable }) => {
            format!("`{name}` {column_type}{}", if *nullable { ", nullable" } else { "" })
        }
        None => "nothing".to_owned(),
    };
    SchemaChange {
        what: format!("{what} column {at}"),
        stored: describe(stored),
        wanted: describe(wanted),
        refused: advice.map(str::to_owned),
    }
}
