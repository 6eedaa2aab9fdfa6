//! Which columns of the file become which fields of those that take its rows.

use super::column_builder::{ColumnBuilder, Scalar, Value};
use super::columnar::read_type;
use crate::config::{FilterValue, Located, SourceConfig};
use crate::error::{Error, Result, suggestion, suggestion_or_list};
use crate::lines::Origin;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Fields, Schema, SchemaRef};
use howdah_state::{Column, ColumnType};
use std::path::Path;
use std::sync::Arc;

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileShape {
    pub(super) columns: Vec<FileColumn>,
    /// More of them, which are read only where they are named.
    pub(super) hidden: Vec<FileColumn>,
    /// Whether rows may have columns that are not listed.
    pub(super) open: bool,
    /// Whether that is all that is known: any name may be a column.
    pub(super) schemaless: bool,
    /// Whether the types are the file's own; otherwise guesses from a sample.
    pub(super) typed: bool,
    /// Whether rows have kinds, and may take back others.
    pub(crate) is_changelog: bool,
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileColumn {
    pub(super) name: String,
    /// `None`: no value in the sample, or a type that no column here can have.
    pub(super) column_type: Option<ColumnType>,
}

impl FileShape {
    /// That of typed columns.
    pub(super) fn of_schema(schema: &Schema) -> Self {
        let column = |field: &Arc<arrow_schema::Field>| FileColumn {
            name: field.name().clone(),
            column_type: read_type(field.data_type()),
        };
        Self {
            columns: schema.fields().iter().map(column).collect(),
            hidden: Vec::new(),
            open: false,
            schemaless: false,
            typed: true,
            is_changelog: false,
        }
    }

    /// That of columns whose types are guesses.
    pub(super) fn guessed(columns: Vec<FileColumn>, open: bool) -> Self {
        Self {
            columns,
            hidden: Vec::new(),
            open,
            schemaless: false,
            typed: false,
            is_changelog: false,
        }
    }

    fn find(&self, name: &str) -> Option<&FileColumn> {
        self.columns.iter().chain(&self.hidden).find(|column| column.name == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// All columns that are read when nobody says which, with the types that the source states,
    /// else their own or guessed ones.
    pub(crate) fn all(&self, source: &SourceConfig) -> Vec<Column> {
        let stated = |name: &str| {
            let mut schema = source.schema.iter();
            Some(schema.find(|(column, _)| column.value == name)?.1)
        };
        let column = |column: &FileColumn| {
            let guess = (!self.typed).then_some(ColumnType::Utf8);
            let column_type = stated(&column.name).or(column.column_type).or(guess)?;
            Some(Column::nullable(column.name.clone(), column_type))
        };
        self.columns.iter().filter_map(column).collect()
    }
}

/// A field that somebody wants of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) field: Column,
    /// The column that it takes.
    pub(crate) column: String,
    /// The line of the pipeline file that says so; `None`: it has the name of the field.
    pub(crate) line: Option<u32>,
    /// The line of what wants it.
    pub(crate) node_line: u32,
}

/// What is read of each row, and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Columns of the file that are read, filter columns first, with the types they are
    /// read as.
    columns: Vec<Column>,
    /// What the first columns must equal.
    filter: Vec<Scalar>,
    /// Index into `columns`.
    event_time: Option<usize>,
    /// For each field that is wanted, an index into `columns`.
    fields: Vec<usize>,
    /// The fields that are wanted.
    schema: SchemaRef,
    is_changelog: bool,
}

impl Plan {
    /// Matches what is wanted with the columns of the file. What does not fit is named with its
    /// line in the pipeline file.
    pub(crate) fn resolve(
        pipeline_file: &Path,
        source: &SourceConfig,
        wanted: &[Wanted],
        shape: &FileShape,
    ) -> Result<Self> {
        let mut resolver = Resolver { pipeline_file, source, shape, columns: Vec::new() };
        resolver.check_stated_schema()?;
        let filter = resolver.filter(wanted)?;
        let mut fields = Vec::with_capacity(wanted.len());
        let mut errors = Vec::new();
        for wanted in wanted {
            match resolver.field(wanted) {
                Ok(index) => fields.push(index),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors)?;
        let event_time = resolver.event_time()?;
        let columns = resolver.nullability(wanted, &fields, filter.len(), event_time);
        let schema = wanted.iter().map(|wanted| wanted.field.to_arrow()).collect::<Fields>();
        let (schema, is_changelog) = (Arc::new(Schema::new(schema)), shape.is_changelog);
        Ok(Self { columns, filter, event_time, fields, schema, is_changelog })
    }

    /// The columns of the file that are read.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What the first columns must equal.
    pub(super) fn filter(&self) -> &[Scalar] {
        &self.filter
    }

    /// The column with the event time, of those that are read.
    pub(super) fn event_time(&self) -> Option<usize> {
        self.event_time
    }

    /// What is wanted and the event times, from the columns that were read.
    pub(super) fn project(
        &self,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<(RecordBatch, Vec<i64>)> {
        let read = |index: usize| {
            columns.get(index).ok_or_else(|| Error::internal("a column of the source is missing"))
        };
        let mut projected = Vec::with_capacity(self.fields.len());
        for (field, index) in self.schema.fields().iter().zip(&self.fields) {
            let column = read(*index)?;
            projected.push(if column.data_type() == field.data_type() {
                ArrayRef::clone(column)
            } else {
                arrow_cast::cast(column, field.data_type())?
            });
        }
        let event_times = match self.event_time {
            None => vec![0; rows],
            Some(index) => event_times(read(index)?)?,
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), projected, &options)?;
        Ok((batch, event_times))
    }

    /// Whether rows have kinds.
    pub(crate) fn is_changelog(&self) -> bool {
        self.is_changelog
    }

    /// Whether rows have event times.
    pub(crate) fn has_event_time(&self) -> bool {
        self.event_time.is_some()
    }
}

fn event_times(column: &ArrayRef) -> Result<Vec<i64>> {
    if let Some(times) = column.as_primitive_opt::<TimestampMillisecondType>() {
        return Ok(times.values().to_vec());
    }
    let times = column.as_primitive_opt::<Int64Type>();
    Ok(times.ok_or_else(|| Error::internal("event times are no integers"))?.values().to_vec())
}

struct Resolver<'a> {
    pipeline_file: &'a Path,
    source: &'a SourceConfig,
    shape: &'a FileShape,
    /// Columns to read so far.
    columns: Vec<Column>,
}

impl Resolver<'_> {
    /// A column whose type is stated must be there.
    fn check_stated_schema(&self) -> Result<()> {
        for (column, stated) in &self.source.schema {
            let Some(found) = self.shape.find(&column.value) else {
                if self.shape.open {
                    continue;
                }
                return Err(self.no_column(column));
            };
            let own = found.column_type.filter(|_| self.shape.typed);
            if own.is_some_and(|own| !widens(own, *stated)) {
                return Err(self.error(
                    column.line,
                    format!(
                        "column `{}` of {} is {}, which cannot become {stated} without loss",
                        column.value,
                        self.file(),
                        own.map(|own| own.to_string()).unwrap_or_default(),
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The filter columns, which come first.
    fn filter(&mut self, wanted: &[Wanted]) -> Result<Vec<Scalar>> {
        let source = self.source;
        let mut filter = Vec::new();
        for (column, value) in &source.filter {
            self.require(column)?;
            // The operator's type is as good as a stated one, unless another name hides it.
            let declared = || {
                let wanted = wanted.iter().find(|wanted| wanted.field.name == column.value)?;
                (!self.shape.typed).then_some(wanted.field.column_type)
            };
            let column_type = self
                .known_type(&column.value)
                .or_else(declared)
                .or_else(|| self.shape.find(&column.value)?.column_type)
                .unwrap_or_else(|| natural_type(value));
            let scalar = scalar(value, column_type).ok_or_else(|| {
                self.error(
                    column.line,
                    format!(
                        "`{}` in [source.filter] is {}, but the column is {column_type}",
                        column.value,
                        describe(value)
                    ),
                )
            })?;
            self.read(&column.value, column_type);
            filter.push(scalar);
        }
        Ok(filter)
    }

    /// The index of the column that the field comes from.
    fn field(&mut self, source: &Wanted) -> Result<usize> {
        let field = &source.field;
        let line = source.line.unwrap_or(source.node_line);
        let found = self.shape.find(&source.column);
        let may_lack = self.shape.open && field.nullable && source.line.is_none();
        if found.is_none() && !may_lack && !self.shape.schemaless {
            if source.line.is_some() {
                let column = Located { value: source.column.clone(), line };
                return Err(self.no_column(&column));
            }
            return Err(self.error(
                line,
                format!(
                    "the operator wants a column `{0}`, which {1} lacks; name the column that it \
                     is to take: [operator] columns = {{ {0} = \"...\" }}{2}",
                    field.name,
                    self.file(),
                    suggestion(&field.name, self.shape.names()),
                ),
            ));
        }
        let own = found.and_then(|found| found.column_type).filter(|_| self.shape.typed);
        if self.shape.typed && own.is_none() {
            return Err(self.error(
                line,
                format!(
                    "column `{}` of {} has a type that no operator can take",
                    source.column,
                    self.file()
                ),
            ));
        }
        let read = self.known_type(&source.column).or(own).unwrap_or(field.column_type);
        if !widens(read, field.column_type) {
            return Err(self.error(
                line,
                format!(
                    "column `{}` of {} is {read}, but the operator's field `{}` is {}, which \
                     cannot take it without loss",
                    source.column,
                    self.file(),
                    field.name,
                    field.column_type
                ),
            ));
        }
        Ok(self.read(&source.column, read))
    }

    /// The column with the event time.
    fn event_time(&mut self) -> Result<Option<usize>> {
        let source = self.source;
        let Some(column) = &source.event_time else { return Ok(None) };
        self.require(column)?;
        let column_type = self
            .known_type(&column.value)
            .or_else(|| self.shape.find(&column.value)?.column_type)
            .unwrap_or(ColumnType::TimestampMillis);
        if !matches!(column_type, ColumnType::TimestampMillis | ColumnType::Int64) {
            return Err(self.error(
                column.line,
                format!(
                    "`event-time` in [source] is column `{}`, which is {column_type}; it must be \
                     timestamp-millis, or int64 milliseconds since the epoch",
                    column.value
                ),
            ));
        }
        Ok(Some(self.read(&column.value, column_type)))
    }

    /// A column may lack a value when nobody needs one.
    fn nullability(
        &self,
        wanted: &[Wanted],
        fields: &[usize],
        filters: usize,
        event_time: Option<usize>,
    ) -> Vec<Column> {
        let mut columns = self.columns.clone();
        for (index, column) in columns.iter_mut().enumerate() {
            let needed = wanted
                .iter()
                .zip(fields)
                .any(|(wanted, source)| *source == index && !wanted.field.nullable);
            // A row without the value of a filter column is not kept, rather than malformed.
            column.nullable = index < filters || !(needed || event_time == Some(index));
        }
        columns
    }

    /// Adds a column to those that are read.
    fn read(&mut self, name: &str, column_type: ColumnType) -> usize {
        if let Some(index) = self.columns.iter().position(|column| column.name == name) {
            return index;
        }
        self.columns.push(Column::nullable(name, column_type));
        self.columns.len() - 1
    }

    /// The type that a column is read as, or that the pipeline file states.
    fn known_type(&self, name: &str) -> Option<ColumnType> {
        let read = self.columns.iter().find(|column| column.name == name);
        let stated = || {
            let mut schema = self.source.schema.iter();
            Some(schema.find(|(column, _)| column.value == name)?.1)
        };
        read.map(|column| column.column_type).or_else(stated)
    }

    fn require(&self, column: &Located<String>) -> Result<()> {
        match self.shape.find(&column.value) {
            Some(found) if self.shape.typed && found.column_type.is_none() => Err(self.error(
                column.line,
                format!("column `{}` of {} has a type that is not read", column.value, self.file()),
            )),
            Some(_) => Ok(()),
            None if self.shape.schemaless => Ok(()),
            None => Err(self.no_column(column)),
        }
    }

    fn no_column(&self, column: &Located<String>) -> Error {
        self.error(
            column.line,
            format!(
                "{} has no column `{}`{}",
                self.file(),
                column.value,
                suggestion_or_list(&column.value, || self.shape.names(), "it has")
            ),
        )
    }

    fn error(&self, line: u32, message: String) -> Error {
        Error::config(self.pipeline_file, line, message)
    }

    fn file(&self) -> String {
        Origin::of(self.source).to_string()
    }
}

/// Whether every value of one type is a value of the other.
pub(crate) fn widens(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as Type;
    let integer_digits = |integer: ColumnType| match integer {
        Type::Int32 => 10,
        _ => 19,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Type::Int32, Type::Int64 | Type::Float64)
        | (Type::Float32, Type::Float64)
        | (Type::Date, Type::TimestampMillis) => true,
        (Type::Int32 | Type::Int64, Type::Decimal128 { precision, scale }) => {
            precision - scale >= integer_digits(from)
        }
        (
            Type::Decimal128 { precision: from_precision, scale: from_scale },
            Type::Decimal128 { precision, scale },
        ) => scale >= from_scale && precision - scale >= from_precision - from_scale,
        _ => false,
    }
}

/// A constant of the column's type, if the value is one.
fn scalar(value: &FilterValue, column_type: ColumnType) -> Option<Scalar> {
    let value = match value {
        FilterValue::Boolean(boolean) => Value::Boolean(*boolean),
        FilterValue::Integer(integer) => Value::Integer(*integer),
        FilterValue::Float(float) => Value::Float(*float),
        FilterValue::Text(text) => Value::Text(text),
    };
    let mut builder = ColumnBuilder::new(Column::required("constant", column_type), 1);
    builder.append(value).ok()?;
    builder.last()
}

fn natural_type(value: &FilterValue) -> ColumnType {
    match value {
        FilterValue::Boolean(_) => ColumnType::Boolean,
        FilterValue::Integer(_) => ColumnType::Int64,
        FilterValue::Float(_) => ColumnType::Float64,
        FilterValue::Text(_) => ColumnType::Utf8,
    }
}

fn describe(value: &FilterValue) -> String {
    match value {
        FilterValue::Boolean(boolean) => boolean.to_string(),
        FilterValue::Integer(integer) => integer.to_string(),
        FilterValue::Float(float) => float.to_string(),
        FilterValue::Text(text) => format!("the text `{text}`"),
    }
}

#[cfg(test)]
mod tests;
