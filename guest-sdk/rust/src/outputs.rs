use crate::{Emitter, Field, Result, Row, Timestamp, wit};

/// What an operator writes: a [`Row`] for one output, a struct of emitters for several, or `()`
/// for none.
///
/// ```
/// use howdah_sdk::prelude::*;
/// # #[derive(Row, Debug, PartialEq)] struct Bid { auction: i64, price: i64 }
/// # #[derive(Row, Debug, PartialEq)] struct Total { auction: i64, price: i64 }
///
/// #[derive(Outputs)]
/// struct Out {
///     /// The new total.
///     #[output(changelog)]
///     totals: Emitter<Total>,
///     /// Bids that came too late.
///     #[output(name = "late-bids")]
///     late: Emitter<Bid>,
/// }
/// ```
///
/// On each field, `#[output(..)]` may say `name = "..."` (else the field's) and `changelog`.
/// A [`TestHost`](crate::testing::TestHost) returns what was emitted as a tuple with the events
/// of each.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no output of an operator",
    note = "derive `Row` for a struct of columns, or `Outputs` for a struct of emitters"
)]
pub trait Outputs: Sized + 'static {
    /// The outputs.
    const PORTS: &'static [OutputPort];

    /// What `process` and its like emit to.
    type Emitters;

    /// What a test sees of it.
    #[cfg(not(target_arch = "wasm32"))]
    type Events;

    /// Emitters for a call. `changelog` is for an output that does not say it itself.
    #[doc(hidden)]
    fn emitters(changelog: bool, time: Timestamp, capacity: usize) -> Self::Emitters;

    /// Sets the event time of what is emitted next.
    #[doc(hidden)]
    fn set_time(emitters: &mut Self::Emitters, time: Timestamp);

    /// What was emitted.
    #[doc(hidden)]
    fn finish(emitters: Self::Emitters) -> Result<Vec<wit::Output>>;

    /// What was emitted, as a test sees it.
    #[doc(hidden)]
    #[cfg(not(target_arch = "wasm32"))]
    fn events(outputs: &[wit::Output]) -> Result<Self::Events>;
}

/// One output of an operator.
#[derive(Debug, Clone, Copy)]
pub struct OutputPort {
    /// Empty: the operator says ([`Operator::OUTPUT`](crate::Operator::OUTPUT)).
    pub name: &'static str,
    /// Its columns.
    pub fields: &'static [Field],
    /// Whether it has rows that are not inserts.
    pub changelog: bool,
}

impl<R: Row + 'static> Outputs for R {
    const PORTS: &'static [OutputPort] =
        &[OutputPort { name: "", fields: R::FIELDS, changelog: false }];

    type Emitters = Emitter<R>;
    #[cfg(not(target_arch = "wasm32"))]
    type Events = Vec<crate::testing::Event<R>>;

    fn emitters(changelog: bool, time: Timestamp, capacity: usize) -> Emitter<R> {
        Emitter::new(0, changelog, time, capacity)
    }

    #[inline]
    fn set_time(emitters: &mut Emitter<R>, time: Timestamp) {
        emitters.set_time(time);
    }

    fn finish(emitters: Emitter<R>) -> Result<Vec<wit::Output>> {
        let mut outputs = Vec::new();
        emitters.finish(&mut outputs)?;
        Ok(outputs)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn events(outputs: &[wit::Output]) -> Result<Self::Events> {
        crate::testing::events(outputs, 0)
    }
}

impl Outputs for () {
    const PORTS: &'static [OutputPort] = &[];

    type Emitters = ();
    #[cfg(not(target_arch = "wasm32"))]
    type Events = ();

    fn emitters(_: bool, _: Timestamp, _: usize) {}

    fn set_time((): &mut (), _: Timestamp) {}

    fn finish((): ()) -> Result<Vec<wit::Output>> {
        Ok(Vec::new())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn events(_: &[wit::Output]) -> Result<()> {
        Ok(())
    }
}
