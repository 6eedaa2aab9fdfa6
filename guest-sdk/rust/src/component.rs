//! Makes a component of an operator: the exports, over one driver for each instance.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::LocalKey;

use crate::driver::{self, Driver};
use crate::host::Imports;
use crate::log::{self, Level};
use crate::{Error, Operator, Result, wit};

/// The one operator of a component; implemented by [`export!`](crate::export).
#[doc(hidden)]
pub trait Component {
    /// The operator.
    type Operator: Operator;

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
        Ok(driver::describe::<C::Operator>(&config)?)
    }

    fn open(context: wit::Context) -> Result<(), wit::Error> {
        report_panics();
        let driver = Driver::open(context, Rc::new(Imports))?;
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

/// Makes the crate a component whose operator is this type.
///
/// The crate must be a `cdylib`; once for each crate. On anything but WebAssembly it only
/// checks that the type is an operator, so the same crate can be tested natively.
#[macro_export]
macro_rules! export {
    ($operator:ty) => {
        const _: fn() = || {
            fn is_operator<O: $crate::Operator>() {}
            is_operator::<$operator>();
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Exported;

            impl $crate::__private::Component for Exported {
                type Operator = $operator;

                fn slot() -> &'static ::std::thread::LocalKey<$crate::__private::Slot<$operator>> {
                    ::std::thread_local! {
                        static SLOT: $crate::__private::Slot<$operator> =
                            const { $crate::__private::Slot::empty() };
                    }
                    &SLOT
                }
            }

            $crate::bindings::export!(
                Exported with_types_in $crate::bindings
            );
        };
    };
}
