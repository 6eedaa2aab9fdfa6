//! Makes a component of an operator: the exports, over one driver for each instance.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::bindings::exports::howdah::operator as handlers;
use crate::driver::{self, Driver};
use crate::host::Host;
use crate::log::{self, Level};
use crate::{Error, Operator, Result, wit};

/// The one operator of a component; implemented by [`export!`](crate::export).
#[doc(hidden)]
pub trait Component {
    /// The operator.
    type Operator: Operator;

    /// Whether the handlers are exported too.
    const HAS_HANDLERS: bool;

    /// Where its driver is. A static cannot be generic, so the macro makes it.
    fn slot() -> &'static LocalKey<Slot<Self::Operator>>;
}

/// Holds a driver once the operator is open.
#[doc(hidden)]
#[derive(Default)]
pub struct Slot<O>(RefCell<Option<Driver<O>>>);

impl<O> Slot<O> {
    /// No operator is open.
    pub const fn empty() -> Self {
        Self(RefCell::new(None))
    }
}

fn with_driver<C: Component, T>(
    call: impl FnOnce(&mut Driver<C::Operator>) -> Result<T>,
) -> Result<T, wit::Error> {
    C::slot().with(|slot| match slot.0.borrow_mut().as_mut() {
        Some(driver) => call(driver).map_err(wit::Error::from),
        None => Err(Error::new("`open` must be called first").into()),
    })
}

impl<C: Component> wit::Guest for C {
    fn describe(config: String) -> Result<wit::Spec, wit::Error> {
        report_panics();
        let spec = driver::describe::<C::Operator>(&config)?;
        if !C::HAS_HANDLERS && !spec.timers.is_empty() {
            return Err(Error::new(
                "the operator declares timers, but the component does not export what they call: \
                 use `#[operator]`, or `export!(Operator, handlers)`",
            )
            .into());
        }
        Ok(spec)
    }

    fn open(context: wit::Context) -> Result<(), wit::Error> {
        report_panics();
        let driver = Driver::open(context, Host)?;
        C::slot().with(|slot| *slot.0.borrow_mut() = Some(driver));
        Ok(())
    }

    fn process(input: wit::Input) -> Result<Vec<wit::Output>, wit::Error> {
        with_driver::<C, _>(|driver| driver.process(&input))
    }

    fn on_barrier(checkpoint: u64) -> Result<Vec<wit::Output>, wit::Error> {
        with_driver::<C, _>(|driver| driver.on_barrier(checkpoint))
    }

    fn close() -> Result<Vec<wit::Output>, wit::Error> {
        with_driver::<C, _>(Driver::close)
    }
}

impl<C: Component> handlers::timer_handler::Guest for C {
    fn on_timers(due: wit::Due) -> Result<Vec<wit::Output>, wit::Error> {
        with_driver::<C, _>(|driver| driver.on_timers(&due))
    }
}

impl<C: Component> handlers::watermark_handler::Guest for C {
    fn on_watermark(watermark: i64) -> Result<Vec<wit::Output>, wit::Error> {
        with_driver::<C, _>(|driver| driver.on_watermark(watermark))
    }
}

impl<C: Component> handlers::checkpoint_handler::Guest for C {
    fn on_checkpoint_complete(checkpoint: u64) -> Result<(), wit::Error> {
        with_driver::<C, _>(|driver| driver.on_checkpoint_complete(checkpoint))
    }
}

/// A panic ends in a trap, which tells the host nothing: log the message before it. During
/// `describe` no import may be called, and [`log`] has no host then.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        match panic.location() {
            Some(place) => log::write(Level::Error, format_args!("panic at {place}: {message}")),
            None => log::write(Level::Error, format_args!("panic: {message}")),
        }
    }));
}
