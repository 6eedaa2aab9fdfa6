//! Write howdah operators in Rust: typed state, one record at a time.
//!
//! An operator is a struct whose fields are its states, and a function that takes the next
//! row. The SDK makes a WebAssembly component of it that speaks in columns and batches.
//!
//! ```
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//!
//! /// The columns that come in; an `Option` is a column that may lack values.
//! #[derive(Row, Clone, Debug, PartialEq)]
//! struct Reading { sensor: String, celsius: f64 }
//!
//! /// Rows are grouped by these columns of the input.
//! #[derive(Key)]
//! struct Sensor { sensor: String }
//!
//! /// The columns of the state, one row for each sensor.
//! #[derive(Row, Clone, Debug, PartialEq)]
//! struct Highest { celsius: f64 }
//!
//! /// Emits each reading that is the highest of its sensor so far.
//! #[derive(States)]
//! struct Records { highest: ValueState<Sensor, Highest> }
//!
//! #[operator]
//! impl Records {
//!     fn process(
//!         &mut self,
//!         reading: Reading,
//!         record: &Record<Sensor>,
//!         out: &mut Emitter<Reading>,
//!     ) -> Result<()> {
//!         let highest = self.highest.get(record)?;
//!         if highest.is_none_or(|highest| reading.celsius > highest.celsius) {
//!             self.highest.put(record, Highest { celsius: reading.celsius });
//!             out.emit(&reading);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! // A component is for a host; the operator itself is ordinary Rust.
//! fn main() -> Result<()> {
//!     let reading = |celsius| Reading { sensor: "attic".to_owned(), celsius };
//!     let mut host = TestHost::<Records>::new()?;
//!     let records = host.process([reading(19.5), reading(21.0), reading(20.0)])?;
//!     assert_eq!(records, [Event::insert(reading(19.5)), Event::insert(reading(21.0))]);
//!
//!     let attic = Sensor { sensor: "attic".to_owned() };
//!     assert_eq!(host.value("highest", &attic)?, Some(Highest { celsius: 21.0 }));
//!     Ok(())
//! }
//! ```
//!
//! # Concepts
//!
//! **Rows.** `#[derive(Row)]` turns the fields of a struct into columns. The types are `bool`,
//! `i32`, `i64`, `f32`, `f64`, [`Decimal<P, S>`](Decimal), [`Date`], [`Timestamp`], `String`,
//! `Vec<u8>`, and an `Option` of each. The host matches the input's columns by name and sends
//! only those. `#[derive(Key)]` is the same for what rows are grouped by; floats and `Option`s
//! are no keys.
//!
//! **States.** A [`ValueState`] has at most one row for each key, a [`ListState`] any number in
//! order, a [`MapState`] one under each map key, a [`ReducingState`] one that the host folds. The host
//! keeps each as a table with the key's and the row's fields as columns, which other engines can
//! read. Calls take the [`Record`], which knows its key. They are cheap: the first read of a batch
//! loads what all of the batch's keys have with one call to the host, and when the batch ends, one
//! call writes what has really changed. `#[derive(States)]` opens the fields of an operator;
//! [`Open`] does it by hand.
//!
//! **Time.** [`Timers`] wait for the watermark or the host's clock, and call
//! [`on_timer`](Operator::on_timer) for their key. Module [`window`] has tumbling, hopping and session
//! windows. [`CurrentKey::now`] and [`now`] are the clock.
//!
//! **Joins, rankings, counts.** Modules [`join`], [`top`] and [`distinct`] have states for them.
//!
//! **Inputs and outputs.** An operator reads a [`Row`] or an enum of several ([`Inputs`]), and emits to
//! an [`Emitter`] or a struct of several ([`Outputs`]). Whole columns at once: [`Batch`].
//!
//! **Failure.** An [`Error`] or a panic fails the batch: what it wrote and emitted is dropped, the
//! instance too, and the pipeline continues from its last checkpoint. So what an operator keeps
//! in fields that are no states is a cache at most. A panic's message reaches the host's log.
//!
//! **Changelogs.** An operator that says [`INPUT_CHANGELOG`](Operator::INPUT_CHANGELOG) gets
//! updates and deletions too ([`Record::kind`], [`ValueState::apply`]); one that says
//! [`OUTPUT_CHANGELOG`](Operator::OUTPUT_CHANGELOG) may emit them ([`Emitter::emit_change`],
//! [`Emitter::emit_update`], [`Emitter::emit_delete`]). What a state becomes goes out once for each
//! batch from [`finish_batch`](Operator::finish_batch), with [`ValueState::each_change`].
//!
//! **Configuration.** [`Open::config`] reads the operator's table of the pipeline file into a
//! struct of yours. It links a JSON parser, so an operator without configuration stays small.
//!
//! **Tests.** [`testing::TestHost`] runs the operator natively, over states in memory, with
//! barriers, crashes, watermarks and a clock set by hand.

// The derive macros name this crate by its name, in its own tests and examples too.
extern crate self as howdah_sdk;

mod batch;
#[doc(hidden)]
pub mod bindings;
pub mod columns;
#[cfg(target_arch = "wasm32")]
mod component;
pub mod distinct;
mod driver;
mod emitter;
mod error;
mod export;
mod host;
mod inputs;
pub mod join;
pub mod log;
pub mod metrics;
mod open;
mod operator;
mod outputs;
mod record;
pub mod reduce;
mod row;
mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod top;
mod value;
pub mod window;

pub use batch::Batch;
pub use emitter::Emitter;
pub use error::{Error, ErrorKind, Result};
pub use host::now;
pub use howdah_sdk_macros::{Inputs, Key, Outputs, Reduce, Row, States, operator};
pub use inputs::{InputPort, Inputs};
pub use open::{Open, State, StateOptions, States, Subtask};
pub use operator::{Emitters, Operator};
pub use outputs::{OutputPort, Outputs};
pub use record::{CurrentKey, Keys, Record, RowKind, Timer};
pub use reduce::Reduce;
pub use row::{Field, Key, Row};
pub use state::{ListState, MapState, ReducingState, StateRows, TakenRows, Timers, ValueState};
pub use value::{Date, Decimal, KeyValue, Primitive, TimeOfDay, Timestamp, Value};

/// What an operator's file needs: `use howdah_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::metrics::{Counter, Gauge, Histogram};
    pub use crate::{
        Batch, CurrentKey, Date, Decimal, Emitter, Error, Inputs, Key, Keys, ListState, MapState,
        Open, Operator, Outputs, Record, Reduce, ReducingState, Result, Row, RowKind, States,
        Timer, Timers, Timestamp, ValueState, log, operator,
    };
}

/// What the macros of this crate expand to. No part of the API.
#[doc(hidden)]
pub mod __private {
    #[cfg(target_arch = "wasm32")]
    pub use crate::component::{Component, Slot};
    pub use crate::reduce::fields as reduce;
    pub use crate::row::{count_fields, join_fields, wrong_column_count};
    #[cfg(not(target_arch = "wasm32"))]
    pub use crate::testing::events;
    pub use crate::wit::Output;
    pub use howdah_sdk_stateful::export_stateful;
}

/// The types of the boundary, under one short name.
mod wit {
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::exports::howdah::operator::operator::Guest;
    pub use crate::bindings::exports::howdah::operator::operator::Output;
    pub(crate) use crate::bindings::exports::howdah::operator::operator::{
        Context, Input, InputSpec, OutputSpec, Spec, StateKind, StateSpec, TimeDomain, TimerSpec,
        Ttl, TtlUpdate,
    };
    pub(crate) use crate::bindings::exports::howdah::operator::timer_handler::Due;
    pub(crate) use crate::bindings::howdah::operator::state::{Keys, ListRows, MapRange, Rows};
    pub(crate) use crate::bindings::howdah::operator::types::{Batch, Error, Field, KeyColumns};
    #[cfg(target_arch = "wasm32")]
    pub(crate) use crate::bindings::howdah::operator::{clock, logging, metrics};
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) use crate::bindings::{
        exports::howdah::operator::operator::Reducer,
        howdah::operator::{state::MapRows, types::Column},
    };
}

/// The page for newcomers compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// What must not compile.
///
/// ```compile_fail,E0277
/// #[derive(howdah_sdk::Row)]
/// struct Unsigned { count: u64 }
/// ```
///
/// ```compile_fail,E0277
/// #[derive(howdah_sdk::Row)]
/// struct Twice { count: Option<Option<i64>> }
/// ```
///
/// ```compile_fail,E0277
/// #[derive(howdah_sdk::Key)]
/// struct Float { celsius: f64 }
/// ```
///
/// ```compile_fail,E0277
/// #[derive(howdah_sdk::Key)]
/// struct Nullable { user: Option<String> }
/// ```
///
/// ```compile_fail,E0080
/// #[derive(howdah_sdk::Row)]
/// struct Huge { amount: howdah_sdk::Decimal<39, 0> }
/// fn main() {
///     let _ = <Huge as howdah_sdk::Row>::FIELDS;
/// }
/// ```
///
/// ```compile_fail,E0080
/// #[derive(howdah_sdk::Row)]
/// struct Money { price: i64 }
/// #[derive(howdah_sdk::Row)]
/// struct Bid { price: i64, #[column(flatten)] money: Money }
/// fn main() {
///     let _ = <Bid as howdah_sdk::Row>::FIELDS;
/// }
/// ```
///
/// ```compile_fail,E0277
/// use howdah_sdk::prelude::*;
/// #[derive(Row, Reduce, Clone)]
/// struct Totals { #[reduce(sum)] name: String }
/// ```
///
/// ```compile_fail
/// use howdah_sdk::prelude::*;
/// #[derive(Row, Reduce, Clone)]
/// struct Totals { sum: i64 }
/// ```
///
/// ```compile_fail
/// use howdah_sdk::prelude::*;
/// #[derive(Row)] struct Bid { auction: i64 }
/// #[derive(Key)] struct Auction { auction: i64 }
/// #[derive(Key)] struct Person { id: i64 }
/// // A state of another key.
/// #[derive(States)] struct Wrong { bids: ListState<Person, Bid> }
/// #[operator]
/// impl Wrong {
///     fn process(&mut self, _: Bid, _: &Record<Auction>, _: &mut Emitter<Bid>) -> Result<()> {
///         Ok(())
///     }
/// }
/// ```
#[cfg(doctest)]
struct Mistakes;
