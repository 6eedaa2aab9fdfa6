//! Messages for the host's log, which adds the pipeline, the operator and the subtask.
//!
//! ```
//! # fn f(auction: i64) {
//! use howdah_sdk::log;
//! log::warn!("auction {auction} has a bid before it opened");
//! # }
//! ```
//!
//! A message of a level that the host does not keep is not even formatted. While the host
//! asks the operator what it is (before it starts), messages are dropped.

use std::fmt;

use crate::host;

#[doc(inline)]
pub use crate::__warn as warn;
#[doc(inline)]
pub use crate::bindings::howdah::operator::logging::Level;
#[doc(inline)]
pub use crate::{__debug as debug, __error as error, __info as info, __trace as trace};

/// Writes one message, if the host keeps messages of its level.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    if let Some(host) = host::running().filter(|host| host.log_enabled(level)) {
        host.log(level, &message.to_string());
    }
}

/// Logs what helps only the author of the operator.
#[doc(hidden)]
#[macro_export]
macro_rules! __trace {
    ($($message:tt)+) => {
        $crate::log::write($crate::log::Level::Trace, ::core::format_args!($($message)+))
    };
}

/// Logs what helps to find a fault.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug {
    ($($message:tt)+) => {
        $crate::log::write($crate::log::Level::Debug, ::core::format_args!($($message)+))
    };
}

/// Logs what somebody who runs the pipeline wants to know.
#[doc(hidden)]
#[macro_export]
macro_rules! __info {
    ($($message:tt)+) => {
        $crate::log::write($crate::log::Level::Info, ::core::format_args!($($message)+))
    };
}

/// Logs that something is wrong, but the operator goes on.
#[doc(hidden)]
#[macro_export]
macro_rules! __warn {
    ($($message:tt)+) => {
        $crate::log::write($crate::log::Level::Warn, ::core::format_args!($($message)+))
    };
}

/// Logs that something is wrong and the operator cannot go on.
#[doc(hidden)]
#[macro_export]
macro_rules! __error {
    ($($message:tt)+) => {
        $crate::log::write($crate::log::Level::Error, ::core::format_args!($($message)+))
    };
}
