use crate::{Batch, Error, Inputs, Key, Keys, Open, Outputs, Record, Result, Timer, Timestamp};

/// What an operator emits to: an [`Emitter`](crate::Emitter), or a struct of some.
pub type Emitters<O> = <<O as Operator>::Output as Outputs>::Emitters;

/// A stream operator with keyed state. [`#[operator]`](crate::operator) implements it for a type
/// whose methods are called like these, and makes a component of it.
///
/// The host calls [`open`](Self::open) once for each instance, then
/// [`process`](Self::process) for each row and [`on_timer`](Self::on_timer) for each timer,
/// with [`on_barrier`](Self::on_barrier) between batches, and [`close`](Self::close) at the end of
/// the input. Calls never overlap.
///
/// What an operator keeps in its own fields is a cache: after a failure the instance is
/// dropped, and a new one continues from the last completed checkpoint. What must last
/// belongs in a state.
pub trait Operator: Sized + 'static {
    /// The rows that the operator reads: a [`Row`](crate::Row), or an enum of several.
    type Input: Inputs;
    /// What rows are grouped by: fields of the input.
    type Key: Key;
    /// The rows that the operator emits: a [`Row`](crate::Row), a struct of several emitters, or
    /// `()`.
    type Output: Outputs;

    /// What the input is called in a pipeline file, if there is one.
    const INPUT: &'static str = "input";
    /// What the output is called in a pipeline file, if there is one.
    const OUTPUT: &'static str = "output";
    /// Whether the operator understands rows that are not inserts: see
    /// [`Record::kind`]. If not, the host gives it none.
    const INPUT_CHANGELOG: bool = false;
    /// Whether the operator emits rows that are not inserts: see
    /// [`Emitter::emit_kind`](crate::Emitter::emit_kind).
    const OUTPUT_CHANGELOG: bool = false;
    /// Whether [`prepare`](Self::prepare) is to be called. `#[operator]` sets it.
    const PREPARES: bool = false;

    /// Declares the states and reads the configuration. Also runs, before anything starts,
    /// to find out what the operator is; it must not depend on anything but the configuration.
    fn open(open: &mut Open<Self::Key>) -> Result<Self>;

    /// Runs for each row of a batch before [`process`](Self::process) does for the first: the
    /// place to say which entries of a [`MapState`](crate::MapState) it will read
    /// ([`want`](crate::MapState::want)), so that one call to the host brings them all.
    fn prepare(&mut self, row: &Self::Input, record: &Record<'_, Self::Key>) -> Result<()> {
        let _ = (row, record);
        Ok(())
    }

    /// The next row. An error fails the batch.
    fn process(
        &mut self,
        row: Self::Input,
        record: &Record<'_, Self::Key>,
        out: &mut Emitters<Self>,
    ) -> Result<()>;

    /// All rows of a batch are processed: the place to emit what became of the states of its `keys`
    /// ([`ValueState::each_change`](crate::ValueState::each_change)), once for each key and not for
    /// each row. What is emitted here has the latest event time of the rows, so it is late only where
    /// all of them are. A [`process_batch`](Self::process_batch) of one's own does not call it.
    fn finish_batch(&mut self, keys: &Keys<'_, Self::Key>, out: &mut Emitters<Self>) -> Result<()> {
        let _ = (keys, out);
        Ok(())
    }

    /// The next batch, as columns. Calls [`process`](Self::process) for each row, then
    /// [`finish_batch`](Self::finish_batch); an operator that would rather work on whole columns has
    /// a method of its own here.
    fn process_batch(
        &mut self,
        batch: &Batch<'_, Self::Input, Self::Key>,
        out: &mut Emitters<Self>,
    ) -> Result<()> {
        crate::driver::process_rows(self, batch, out)
    }

    /// The next timer that is due, see [`Timers`](crate::Timers). Those of a key come in the order
    /// of their times, each with the state as the one before left it.
    fn on_timer(&mut self, timer: &Timer<'_, Self::Key>, out: &mut Emitters<Self>) -> Result<()> {
        let _ = (timer, out);
        Err(Error::new("a timer is due, but the operator has no `on_timer`"))
    }

    /// The watermark has risen to this: no row with an event time at or before it is expected any
    /// more, of any input, and all timers of event time at or before it have fired. At the end of
    /// all inputs it is [`Timestamp::MAX`].
    fn on_watermark(&mut self, watermark: Timestamp, out: &mut Emitters<Self>) -> Result<()> {
        let _ = (watermark, out);
        Ok(())
    }

    /// A barrier has reached the operator. What it wrote and emitted when this returns is in
    /// the checkpoint: if it holds anything back in its own fields, it must let go of it here.
    fn on_barrier(&mut self, checkpoint: u64, out: &mut Emitters<Self>) -> Result<()> {
        let _ = (checkpoint, out);
        Ok(())
    }

    /// A checkpoint is complete: the operator will never go back to one before. Comes late, and
    /// not for every checkpoint. State and timers cannot be changed here.
    fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<()> {
        let _ = checkpoint;
        Ok(())
    }

    /// The input has ended.
    fn close(&mut self, out: &mut Emitters<Self>) -> Result<()> {
        let _ = out;
        Ok(())
    }
}
