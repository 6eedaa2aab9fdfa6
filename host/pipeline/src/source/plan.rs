//! Which columns of the file become which fields of the operator.

use super::column_builder::{ColumnBuilder, Scalar, Value};
use crate::config::{FilterValue, Located, PipelineConfig, enumerate};
use crate::error::{Error, Result, suggestion};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use howdah_runtime::InputSpec;
use howdah_state::{Column, ColumnType};

/// The columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileShape {
    pub(super) columns: Vec<FileColumn>,
    /// Whether rows may have columns that are not listed.
    pub(super) open: bool,
    /// Whether the types are the file's own; otherwise guesses from a sample.
    pub(super) typed: bool,
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileColumn {
    pub(super) name: String,
    /// `None`: no value in the sample, or a type that no column here can have.
    pub(super) column_type: Option<ColumnType>,
}

impl FileShape {
    fn find(&self, name: &str) -> Option<&FileColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }
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
    /// For each field of the operator's input, an index into `columns`.
    fields: Vec<usize>,
    /// The operator's input.
    schema: SchemaRef,
    /// For each key field, its index in the operator's input.
    key: Vec<usize>,
}

impl Plan {
    /// Matches the operator's input with the columns of the file. What does not fit is named
    /// with its line in the pipeline file.
    pub(crate) fn resolve(
        config: &PipelineConfig,
        input: &InputSpec,
        shape: &FileShape,
    ) -> Result<Self> {
        let mut resolver = Resolver { config, shape, columns: Vec::new() };
        resolver.check_stated_schema()?;
        let filter = resolver.filter(input)?;
        let sources = resolver.field_sources(input)?;
        let mut fields = Vec::with_capacity(input.fields.len());
        for (field, source) in input.fields.iter().zip(&sources) {
            fields.push(resolver.field(field, source)?);
        }
        let event_time = resolver.event_time()?;
        let columns = resolver.nullability(input, &fields, filter.len(), event_time);
        let position = |key: &String| {
            let found = input.fields.iter().position(|field| field.name == *key);
            found.ok_or_else(|| {
                Error::internal(format!("the operator's key field `{key}` is no input field"))
            })
        };
        let key = input.key.iter().map(position).collect::<Result<_>>()?;
        Ok(Self { columns, filter, event_time, fields, schema: input.schema(), key })
    }

    /// The columns of the file that are read.
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What the first columns must equal.
    pub(super) fn filter(&self) -> &[Scalar] {
        &self.filter
    }

    /// Indices of the key columns in the operator's input, in key order.
    pub(crate) fn key(&self) -> &[usize] {
        &self.key
    }

    /// The operator's input and the event times, from the columns that were read.
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

    /// The column of the file that each field of the operator's input takes.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.schema.fields().iter().zip(&self.fields);
        fields.filter_map(|(field, index)| {
            Some((field.name().as_str(), self.columns.get(*index)?.name.as_str()))
        })
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

/// Where a field's values come from.
struct FieldSource {
    column: String,
    /// The line that says so; `None`: it has the name of the field.
    line: Option<u32>,
}

struct Resolver<'a> {
    config: &'a PipelineConfig,
    shape: &'a FileShape,
    /// Columns to read so far.
    columns: Vec<Column>,
}

impl Resolver<'_> {
    /// A column whose type is stated must be there.
    fn check_stated_schema(&self) -> Result<()> {
        for (column, stated) in &self.config.source.schema {
            let Some(found) = self.shape.find(&column.value) else {
                if self.shape.open {
                    continue;
                }
                return Err(self.no_column(column));
            };
            let own = found.column_type.filter(|_| self.shape.typed);
            if own.is_some_and(|own| !widens(own, *stated)) {
                return Err(self.config.error(
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
    fn filter(&mut self, input: &InputSpec) -> Result<Vec<Scalar>> {
        let config = self.config;
        let mut filter = Vec::new();
        for (column, value) in &config.source.filter {
            self.require(column)?;
            // The operator's type is as good as a stated one, unless another name hides it.
            let declared = || {
                let field = input.fields.iter().find(|field| field.name == column.value)?;
                (!self.shape.typed).then_some(field.column_type)
            };
            let column_type = self
                .known_type(&column.value)
                .or_else(declared)
                .or_else(|| self.shape.find(&column.value)?.column_type)
                .unwrap_or_else(|| natural_type(value));
            let scalar = scalar(value, column_type).ok_or_else(|| {
                config.error(
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

    /// For each field of the input, the column that it comes from.
    fn field_sources(&self, input: &InputSpec) -> Result<Vec<FieldSource>> {
        let config = self.config;
        let named = |name: &String| FieldSource { column: name.clone(), line: None };
        let mut sources: Vec<_> = input.fields.iter().map(|field| named(&field.name)).collect();
        let position = |name: &str| input.fields.iter().position(|field| field.name == name);
        for (field, column) in &config.operator.columns {
            let place = position(&field.value).and_then(|index| sources.get_mut(index));
            let Some(place) = place else {
                let known = || input.fields.iter().map(|field| field.name.as_str());
                return Err(config.error(
                    field.line,
                    format!(
                        "the operator's input has no field `{}`{}",
                        field.value,
                        suggestion_or_list(&field.value, known, "it has")
                    ),
                ));
            };
            *place = FieldSource { column: column.value.clone(), line: Some(column.line) };
        }
        let Some(first) = config.operator.key.first() else { return Ok(sources) };
        if config.operator.key.len() != input.key.len() {
            let known: Vec<&str> = input.key.iter().map(String::as_str).collect();
            return Err(config.error(
                first.line,
                format!(
                    "`key` names {} columns, but the operator's key has {}: {}",
                    config.operator.key.len(),
                    input.key.len(),
                    enumerate(&known, "and")
                ),
            ));
        }
        for (field, column) in input.key.iter().zip(&config.operator.key) {
            if *field != column.value && input.key.contains(&column.value) {
                let known: Vec<&str> = input.key.iter().map(String::as_str).collect();
                return Err(config.error(
                    column.line,
                    format!(
                        "`key` gives the column `{}` to the key field `{field}`; the operator's \
                         key is {}, in this order",
                        column.value,
                        enumerate(&known, "and")
                    ),
                ));
            }
            let Some(place) = position(field).and_then(|index| sources.get_mut(index)) else {
                continue;
            };
            if place.line.is_some() && place.column != column.value {
                return Err(config.error(
                    column.line,
                    format!(
                        "`key` takes the key field `{field}` from `{}`, `columns` from `{}`; \
                         leave one of them out",
                        column.value, place.column
                    ),
                ));
            }
            *place = FieldSource { column: column.value.clone(), line: Some(column.line) };
        }
        Ok(sources)
    }

    /// The index of the column that the field comes from.
    fn field(&mut self, field: &Column, source: &FieldSource) -> Result<usize> {
        let config = self.config;
        let line = source.line.unwrap_or(config.operator.component.line);
        let found = self.shape.find(&source.column);
        if found.is_none() && !(self.shape.open && field.nullable && source.line.is_none()) {
            if source.line.is_some() {
                let column = Located { value: source.column.clone(), line };
                return Err(self.no_column(&column));
            }
            return Err(config.error(
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
            return Err(config.error(
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
            return Err(config.error(
                line,
                format!(
                    "column `{}` is {read}, but the operator's field `{}` is {}, which cannot \
                     take it without loss",
                    source.column, field.name, field.column_type
                ),
            ));
        }
        Ok(self.read(&source.column, read))
    }

    /// The column with the event time.
    fn event_time(&mut self) -> Result<Option<usize>> {
        let config = self.config;
        let Some(column) = &config.source.event_time else { return Ok(None) };
        self.require(column)?;
        let column_type = self
            .known_type(&column.value)
            .or_else(|| self.shape.find(&column.value)?.column_type)
            .unwrap_or(ColumnType::TimestampMillis);
        if !matches!(column_type, ColumnType::TimestampMillis | ColumnType::Int64) {
            return Err(config.error(
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
        input: &InputSpec,
        fields: &[usize],
        filters: usize,
        event_time: Option<usize>,
    ) -> Vec<Column> {
        let mut columns = self.columns.clone();
        for (index, column) in columns.iter_mut().enumerate() {
            let needed = input
                .fields
                .iter()
                .zip(fields)
                .any(|(field, source)| *source == index && !field.nullable);
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
            let mut schema = self.config.source.schema.iter();
            Some(schema.find(|(column, _)| column.value == name)?.1)
        };
        read.map(|column| column.column_type).or_else(stated)
    }

    fn require(&self, column: &Located<String>) -> Result<()> {
        match self.shape.find(&column.value) {
            Some(found) if self.shape.typed && found.column_type.is_none() => {
                Err(self.config.error(
                    column.line,
                    format!(
                        "column `{}` of {} has a type that is not read",
                        column.value,
                        self.file()
                    ),
                ))
            }
            Some(_) => Ok(()),
            None => Err(self.no_column(column)),
        }
    }

    fn no_column(&self, column: &Located<String>) -> Error {
        self.config.error(
            column.line,
            format!(
                "{} has no column `{}`{}",
                self.file(),
                column.value,
                suggestion_or_list(&column.value, || self.shape.names(), "it has")
            ),
        )
    }

    fn file(&self) -> std::path::Display<'_> {
        self.config.source.path.value.display()
    }
}

/// A close name, or else all there are.
fn suggestion_or_list<'a, I: Iterator<Item = &'a str>>(
    name: &str,
    known: impl Fn() -> I,
    verb: &str,
) -> String {
    let close = suggestion(name, known());
    if !close.is_empty() {
        return close;
    }
    let known: Vec<&str> = known().collect();
    format!("; {verb} {}", enumerate(&known, "and"))
}

/// Whether every value of one type is a value of the other.
fn widens(from: ColumnType, to: ColumnType) -> bool {
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
