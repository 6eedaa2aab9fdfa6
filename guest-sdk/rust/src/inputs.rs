use crate::columns::{Column, ColumnBuilder};
use crate::{Field, Result, Row, row};

/// What an operator reads: a [`Row`] for one input, or an enum with one for each of several.
///
/// ```
/// use howdah_sdk::prelude::*;
///
/// #[derive(Row)]
/// struct Person { id: i64, name: String }
/// #[derive(Row)]
/// struct Auction { id: i64, seller: i64 }
///
/// /// Persons and their auctions, both grouped by the person.
/// #[derive(Inputs)]
/// enum Event {
///     #[input(key("id"))]
///     Person(Person),
///     #[input(name = "auctions", key("seller"))]
///     Auction(Auction),
/// }
/// ```
///
/// On each variant, `#[input(..)]` may say
///
/// * `name = "..."`: what it is called in a pipeline file; else the variant's, in `snake_case`;
/// * `key("...", ..)`: its fields that are the key, in the order of the
///   [`Key`](crate::Key)'s; else those with the same names;
/// * `changelog`: the operator understands rows of it that are not inserts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of an operator",
    note = "derive `Row` for a struct, or `Inputs` for an enum with a row in each variant"
)]
pub trait Inputs: Sized + 'static {
    /// The inputs.
    const PORTS: &'static [InputPort];

    /// Reads one row of an input.
    #[doc(hidden)]
    fn read(port: usize, columns: &[Column], row: usize) -> Result<Self>;

    /// Which input the row belongs to.
    #[doc(hidden)]
    fn port(&self) -> usize;

    /// Adds the row to the builders of its input.
    #[doc(hidden)]
    fn write(&self, columns: &mut [ColumnBuilder]);
}

/// One input of an operator.
#[derive(Debug, Clone, Copy)]
pub struct InputPort {
    /// Empty: the operator says ([`Operator::INPUT`](crate::Operator::INPUT)).
    pub name: &'static str,
    /// Its columns.
    pub fields: &'static [Field],
    /// The fields that are the key; empty: those with the names of the key's fields.
    pub key: &'static [&'static str],
    /// Whether it has rows that are not inserts.
    pub changelog: bool,
}

impl<R: Row + 'static> Inputs for R {
    const PORTS: &'static [InputPort] =
        &[InputPort { name: "", fields: R::FIELDS, key: &[], changelog: false }];

    #[inline]
    fn read(_: usize, columns: &[Column], row: usize) -> Result<Self> {
        R::read(columns, row)
    }

    fn port(&self) -> usize {
        0
    }

    fn write(&self, columns: &mut [ColumnBuilder]) {
        R::write(self, columns);
    }
}

/// Checks that the columns hold `rows` rows of the input.
pub(crate) fn check(port: &InputPort, columns: &[Column], rows: usize) -> Result<()> {
    row::check_fields(port.fields, columns, |field, column| {
        column.check(field.value_type, field.nullable, rows)
    })
}
