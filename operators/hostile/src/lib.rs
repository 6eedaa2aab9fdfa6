//! An operator that misbehaves on demand, to test that a host stands it.
//!
//! It is written on the bare bindings, since the SDK would not let it do most of this. Its
//! configuration is `{"mode": "...", "after_batches": 3}`: see [`Mode`] for the modes. Until
//! that many batches have been processed (by default none), and in mode `none` for ever, it
//! counts the rows of each auction and emits the count with each row, as it should.

mod bindings;
mod buffers;
mod floods;
mod honest;
mod malformed;
mod mode;
mod other_kinds;
mod process;
mod spec;
mod state_calls;

pub use mode::{Config, Mode};

use std::cell::RefCell;

use bindings::exports::howdah::operator::operator::{
    CheckpointId, Context, Error, Guest, Input, Output, Spec,
};
use bindings::exports::howdah::operator::{checkpoint_handler, timer_handler, watermark_handler};
use process::Instance;

/// The component.
pub struct Hostile;

// Only a component has exports; elsewhere their names would not link.
#[cfg(target_arch = "wasm32")]
bindings::export!(Hostile with_types_in bindings);

thread_local! {
    static INSTANCE: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

impl Guest for Hostile {
    fn describe(config: String) -> Result<Spec, Error> {
        spec::describe(&Config::parse(&config)?)
    }

    fn open(context: Context) -> Result<(), Error> {
        process::report_panics();
        let instance = Instance::open(Config::parse(&context.config)?)?;
        INSTANCE.set(Some(instance));
        Ok(())
    }

    fn process(input: Input) -> Result<Vec<Output>, Error> {
        INSTANCE.with_borrow_mut(|instance| match instance {
            Some(instance) => instance.process(&input),
            None => Err(buffers::error("`open` must be called first")),
        })
    }

    fn on_barrier(_: CheckpointId) -> Result<Vec<Output>, Error> {
        match mode() {
            Mode::BarrierPanic => process::panic_on_demand(),
            _ => Ok(Vec::new()),
        }
    }

    fn close() -> Result<Vec<Output>, Error> {
        match mode() {
            Mode::ClosePanic => process::panic_on_demand(),
            _ => Ok(Vec::new()),
        }
    }
}

/// The mode of the open instance.
fn mode() -> Mode {
    INSTANCE.with_borrow(|instance| instance.as_ref().map(Instance::mode).unwrap_or_default())
}

impl timer_handler::Guest for Hostile {
    fn on_timers(due: timer_handler::Due) -> Result<Vec<Output>, Error> {
        match mode() {
            Mode::TimersPanic => process::panic_on_demand(),
            Mode::TimersMalformed => Ok(vec![malformed::timers(due.keys.rows)]),
            _ => Ok(Vec::new()),
        }
    }
}

impl watermark_handler::Guest for Hostile {
    fn on_watermark(_: i64) -> Result<Vec<Output>, Error> {
        match mode() {
            Mode::WatermarkPanic => process::panic_on_demand(),
            Mode::WatermarkUsesCurrent => other_kinds::use_current().map(|()| Vec::new()),
            _ => Ok(Vec::new()),
        }
    }
}

impl checkpoint_handler::Guest for Hostile {
    fn on_checkpoint_complete(_: CheckpointId) -> Result<(), Error> {
        match mode() {
            Mode::CheckpointPanic => process::panic_on_demand(),
            Mode::CheckpointSetsTimers => other_kinds::set_timers(),
            _ => Ok(()),
        }
    }
}
