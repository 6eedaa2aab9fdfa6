//! An operator that does what its rows and its configuration say, to test what a host makes of
//! it. It is written on the bare bindings, so that nothing stands between the host and the test.
//!
//! With `{"columns": ..}` (see [`Columns`]) rows go through a state and come out as they came in.
//! With `{"timers": ..}` (see [`Timers`]) rows say which timers to set and delete, and what fires
//! comes out, with every watermark and every completed checkpoint.

mod bindings;
mod columns;
mod config;
mod timers;

pub use config::{Columns, Config, Keys, Through, Timers};

use std::cell::RefCell;

use bindings::exports::howdah::operator::operator::{
    CheckpointId, Context, Error, Guest, Input, Output, Spec,
};
use bindings::exports::howdah::operator::{checkpoint_handler, timer_handler, watermark_handler};
use bindings::howdah::operator::types::ErrorKind;

/// The component.
pub struct Scripted;

// Only a component has exports; elsewhere their names would not link.
#[cfg(target_arch = "wasm32")]
bindings::export!(Scripted with_types_in bindings);

enum Script {
    Columns(columns::Script),
    Timers(timers::Script),
}

thread_local! {
    static SCRIPT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

pub(crate) fn error(message: &str) -> Error {
    Error { kind: ErrorKind::Other, message: message.to_owned() }
}

/// Runs the script, which `open` has made.
fn with<R>(run: impl FnOnce(&mut Script) -> Result<R, Error>) -> Result<R, Error> {
    SCRIPT.with_borrow_mut(|script| match script {
        Some(script) => run(script),
        None => Err(error("`open` must be called first")),
    })
}

impl Guest for Scripted {
    fn describe(config: String) -> Result<Spec, Error> {
        match Config::parse(&config)? {
            Config::Columns(config) => columns::describe(&config),
            Config::Timers(config) => Ok(timers::describe(config)),
        }
    }

    fn open(context: Context) -> Result<(), Error> {
        let script = match Config::parse(&context.config)? {
            Config::Columns(config) => Script::Columns(columns::Script::open(config)?),
            Config::Timers(config) => Script::Timers(timers::Script::open(config)?),
        };
        SCRIPT.set(Some(script));
        Ok(())
    }

    fn process(input: Input) -> Result<Vec<Output>, Error> {
        with(|script| match script {
            Script::Columns(script) => script.process(input),
            Script::Timers(script) => script.process(&input),
        })
    }

    fn on_barrier(_: CheckpointId) -> Result<Vec<Output>, Error> {
        Ok(Vec::new())
    }

    fn close() -> Result<Vec<Output>, Error> {
        Ok(Vec::new())
    }
}

impl timer_handler::Guest for Scripted {
    fn on_timers(due: timer_handler::Due) -> Result<Vec<Output>, Error> {
        with(|script| match script {
            Script::Columns(_) => Err(error("this script sets no timers")),
            Script::Timers(script) => script.on_timers(&due),
        })
    }
}

impl watermark_handler::Guest for Scripted {
    fn on_watermark(watermark: i64) -> Result<Vec<Output>, Error> {
        with(|script| match script {
            Script::Columns(_) => Ok(Vec::new()),
            Script::Timers(script) => Ok(script.on_watermark(watermark)),
        })
    }
}

impl checkpoint_handler::Guest for Scripted {
    fn on_checkpoint_complete(checkpoint: CheckpointId) -> Result<(), Error> {
        with(|script| match script {
            Script::Columns(_) => Ok(()),
            Script::Timers(script) => script.on_checkpoint_complete(checkpoint),
        })
    }
}
