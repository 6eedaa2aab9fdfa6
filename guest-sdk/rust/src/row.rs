use crate::columns::{Column, ColumnBuilder, ValueType};
use crate::{Error, Result, wit};

/// A column of a [`Row`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    /// Unique in its row.
    pub name: &'static str,
    /// What its values are.
    pub value_type: ValueType,
    /// Whether a row may lack a value.
    pub nullable: bool,
}

/// A struct whose fields are columns. Derive it: `#[derive(Row)]`.
///
/// A field's name is the column's; `#[column(name = "...")]` on the field sets another. A field that
/// is a row itself says `#[column(flatten)]`: its columns come in its place.
///
/// ```
/// use howdah_sdk::prelude::*;
///
/// #[derive(Row)]
/// struct Bid { bidder: i64, price: i64 }
///
/// #[derive(Row)]
/// struct RankedBid {
///     auction: i64,
///     #[column(flatten)]
///     bid: Bid,
///     rank: i64,
/// }
///
/// let names: Vec<_> = RankedBid::FIELDS.iter().map(|field| field.name).collect();
/// assert_eq!(names, ["auction", "bidder", "price", "rank"]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a row",
    note = "derive it: #[derive(Row)] on a struct with named fields"
)]
pub trait Row: Sized {
    /// The columns, in the order of the struct's fields.
    const FIELDS: &'static [Field];

    /// Reads one row of columns that fit [`FIELDS`](Self::FIELDS).
    fn read(columns: &[Column], row: usize) -> Result<Self>;

    /// Adds this row to the builders, one for each of [`FIELDS`](Self::FIELDS).
    fn write(&self, columns: &mut [ColumnBuilder]);

    /// Whether this row equals, bit for bit, that row of the columns.
    fn matches(&self, columns: &[Column], row: usize) -> bool;
}

/// A struct whose fields are what rows are grouped by. Derive it: `#[derive(Key)]`.
///
/// Each field is a field of the operator's input, with the same name and type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    note = "derive it: #[derive(Key)] on a struct with named fields"
)]
pub trait Key: Row {}

/// Builders for the columns of `R`.
pub(crate) fn builders<R: Row>(capacity: usize) -> Vec<ColumnBuilder> {
    builders_of(R::FIELDS, capacity)
}

/// Builders for the columns of these fields.
pub(crate) fn builders_of(fields: &[Field], capacity: usize) -> Vec<ColumnBuilder> {
    fields.iter().map(|field| ColumnBuilder::new(field.value_type, capacity)).collect()
}

pub(crate) fn finish(builders: Vec<ColumnBuilder>) -> Vec<Column> {
    builders.into_iter().map(ColumnBuilder::finish).collect()
}

/// The rows as columns.
pub(crate) fn encode<'a, R: Row + 'a>(rows: impl ExactSizeIterator<Item = &'a R>) -> Vec<Column> {
    let mut columns = builders::<R>(rows.len());
    rows.for_each(|row| row.write(&mut columns));
    finish(columns)
}

/// Checks that the columns hold `rows` rows of `R`.
pub(crate) fn check<R: Row>(columns: &[Column], rows: usize) -> Result<()> {
    check_fields(R::FIELDS, columns, |field, column| {
        column.check(field.value_type, field.nullable, rows)
    })
}

/// The same as [`check`], but any row may lack any value.
pub(crate) fn check_lengths<R: Row>(columns: &[Column], rows: usize) -> Result<()> {
    check_fields(R::FIELDS, columns, |field, column| column.check_lengths(field.value_type, rows))
}

pub(crate) fn check_fields(
    fields: &[Field],
    columns: &[Column],
    check: impl Fn(&Field, &Column) -> Result<()>,
) -> Result<()> {
    if columns.len() != fields.len() {
        return Err(wrong_column_count(fields.len(), columns.len()));
    }
    fields.iter().zip(columns).try_for_each(|(field, column)| {
        check(field, column).map_err(|error| error.context(format!("column `{}`", field.name)))
    })
}

/// The fields of `R` as the boundary has them.
pub(crate) fn fields<R: Row>() -> Vec<wit::Field> {
    wit_fields(R::FIELDS)
}

/// Fields as the boundary has them.
pub(crate) fn wit_fields(fields: &[Field]) -> Vec<wit::Field> {
    fields
        .iter()
        .map(|field| wit::Field {
            name: field.name.to_owned(),
            type_: field.value_type,
            nullable: field.nullable,
        })
        .collect()
}

/// How many fields there are, for the derive macro.
#[expect(clippy::indexing_slicing, reason = "it is done when the crate is compiled")]
pub const fn count_fields(parts: &[&[Field]]) -> usize {
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        count += parts[part].len();
        part += 1;
    }
    count
}

/// All fields one after the other, for the derive macro. Two with the same name do not compile.
#[expect(clippy::indexing_slicing, reason = "it is done when the crate is compiled")]
pub const fn join_fields<const N: usize>(parts: &[&[Field]]) -> [Field; N] {
    let mut all = [Field { name: "", value_type: ValueType::Boolean, nullable: false }; N];
    let (mut count, mut part) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            let field = parts[part][index];
            let mut other = 0;
            while other < count {
                assert!(!is_same(all[other].name, field.name), "two columns have the same name");
                other += 1;
            }
            all[count] = field;
            count += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

#[expect(clippy::indexing_slicing, reason = "it is done when the crate is compiled")]
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut index = 0;
    while index < one.len() && index < other.len() && one[index] == other[index] {
        index += 1;
    }
    index == one.len() && index == other.len()
}

/// For the derive macro.
#[cold]
pub fn wrong_column_count(wanted: usize, got: usize) -> Error {
    Error::invalid_argument(format!("{got} columns, not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk_macros::Row;

    #[derive(Row, Debug, PartialEq)]
    struct Bid {
        price: i64,
        note: Option<String>,
    }

    #[derive(Row, Debug, PartialEq)]
    struct Ranked {
        auction: i64,
        #[column(flatten)]
        bid: Bid,
        rank: i32,
    }

    fn ranked(price: i64, note: Option<&str>) -> Ranked {
        let bid = Bid { price, note: note.map(str::to_owned) };
        Ranked { auction: 1, bid, rank: 2 }
    }

    #[test]
    fn the_columns_of_a_flattened_row_lie_among_the_others() {
        let rows = [ranked(10, None), ranked(20, Some("late"))];
        let columns = encode(rows.iter());
        check::<Ranked>(&columns, 2).unwrap();
        assert_eq!(Bid::read(&columns[1..3], 1).unwrap(), rows[1].bid);
        assert_eq!(Ranked::read(&columns, 1).unwrap(), rows[1]);
        assert!(rows[1].matches(&columns, 1));
        assert!(!rows[1].matches(&columns, 0));
    }

    #[test]
    fn a_row_with_a_flattened_one_takes_the_columns_of_both() {
        let mut columns = encode([ranked(10, None)].iter());
        columns.push(columns[0].clone());
        assert!(Ranked::read(&columns, 0).is_err());
        columns.truncate(3);
        assert!(Ranked::read(&columns, 0).is_err());
    }
}
