use crate::{Emitter, Key, Open, Record, Result, Row};

/// A stream operator with keyed state. [`export!`](crate::export) makes a component of it.
///
/// The host calls [`open`](Self::open) once for each instance, then
/// [`process`](Self::process) for each row, with [`on_barrier`](Self::on_barrier) between
/// batches, and [`close`](Self::close) at the end of the input. Calls never overlap.
///
/// What an operator keeps in its own fields is a cache: after a failure the instance is
/// dropped, and a new one continues from the last completed checkpoint. What must last
/// belongs in a state.
pub trait Operator: Sized + 'static {
    /// The columns that the operator reads, by name.
    type Input: Row;
    /// What rows are grouped by: fields of the input.
    type Key: Key;
    /// The columns that the operator emits.
    type Output: Row;

    /// What the input is called in a pipeline file.
    const INPUT: &'static str = "input";
    /// What the output is called in a pipeline file.
    const OUTPUT: &'static str = "output";
    /// Whether the operator understands rows that are not inserts: see
    /// [`Record::kind`]. If not, the host gives it none.
    const INPUT_CHANGELOG: bool = false;
    /// Whether the operator emits rows that are not inserts: see [`Emitter::emit_kind`].
    const OUTPUT_CHANGELOG: bool = false;

    /// Declares the states and reads the configuration. Also runs, before anything starts,
    /// to find out what the operator is; it must not depend on anything but the configuration.
    fn open(open: &mut Open<Self::Key>) -> Result<Self>;

    /// The next row. An error fails the batch.
    fn process(
        &mut self,
        row: Self::Input,
        record: &Record<'_, Self::Key>,
        out: &mut Emitter<Self::Output>,
    ) -> Result<()>;

    /// A barrier has reached the operator. What it wrote and emitted when this returns is in
    /// the checkpoint: if it holds anything back in its own fields, it must let go of it here.
    fn on_barrier(&mut self, checkpoint: u64, out: &mut Emitter<Self::Output>) -> Result<()> {
        let _ = (checkpoint, out);
        Ok(())
    }

    /// The input has ended.
    fn close(&mut self, out: &mut Emitter<Self::Output>) -> Result<()> {
        let _ = out;
        Ok(())
    }
}
