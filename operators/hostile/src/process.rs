//! `process`: honest at first, then as the mode says.

use std::hint::black_box;

use crate::bindings::exports::howdah::operator::operator::{Error, Input, Output};
use crate::bindings::howdah::operator::logging::{self, Level};
use crate::bindings::howdah::operator::state::ValueState;
use crate::{Config, Mode, buffers, floods, honest, malformed, other_kinds, spec, state_calls};

/// Clears a terminal, has a NUL and text from right to left, and lines like those of the host.
const UNPRINTABLE: &str = "\x1b[2J\0\u{202e}all\r\nis well\n\u{2028}";

/// The operator, open.
pub(crate) struct Instance {
    config: Config,
    counts: ValueState,
    batches: u32,
}

impl Instance {
    pub(crate) fn open(config: Config) -> Result<Self, Error> {
        Ok(Self { config, counts: ValueState::open(spec::COUNTS)?, batches: 0 })
    }

    pub(crate) fn mode(&self) -> Mode {
        self.config.mode
    }

    pub(crate) fn process(&mut self, input: &Input) -> Result<Vec<Output>, Error> {
        let is_honest = self.batches < self.config.after_batches;
        self.batches = self.batches.saturating_add(1);
        if is_honest {
            return honest::count(&self.counts, input);
        }
        let mode = self.config.mode;
        if let Some(output) = malformed::output(mode) {
            return Ok(vec![output]);
        }
        if let Some(result) = state_calls::call(mode, &self.counts, input.keys.rows) {
            return match mode {
                Mode::StateDropError => Ok(Vec::new()),
                _ => result.map(|()| Vec::new()),
            };
        }
        if let Some(result) = other_kinds::call(mode, input.keys.rows) {
            return result.map(|()| Vec::new());
        }
        match mode {
            Mode::Loop => loop_for_ever(),
            Mode::Allocate => allocate_for_ever(),
            Mode::Panic => panic_on_demand(),
            Mode::PanicAfterPut => {
                honest::count(&self.counts, input)?;
                panic_on_demand();
            }
            Mode::PanicOnSevens => {
                let outputs = honest::count(&self.counts, input)?;
                if honest::auctions(input).any(|auction| auction % 7 == 0) {
                    panic_on_demand();
                }
                return Ok(outputs);
            }
            Mode::Recurse => drop(recurse(0)),
            Mode::Error => return Err(buffers::error("this operator was told to fail")),
            Mode::LeakHandles => floods::leak_handles()?,
            Mode::ForgedHandle => floods::use_forged_handle()?,
            Mode::LogFlood => floods::log_often(),
            Mode::LogLarge => floods::log_much(),
            Mode::ErrorUnprintable => {
                logging::log(Level::Error, UNPRINTABLE);
                return Err(buffers::error(UNPRINTABLE));
            }
            Mode::TenMillionRows => return Ok(vec![floods::rows(10_000_000)]),
            Mode::EmptyOutputs => return Ok((0..3).map(|_| floods::rows(0)).collect()),
            Mode::AliasedOutput => return Ok(vec![floods::aliased_output()]),
            _ => {}
        }
        honest::count(&self.counts, input)
    }
}

pub(crate) fn loop_for_ever() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

pub(crate) fn allocate_for_ever() -> ! {
    let mut hoard: Vec<Vec<u8>> = Vec::new();
    loop {
        hoard.push(black_box(vec![1; 1 << 20]));
    }
}

#[expect(clippy::panic, reason = "it is what the mode asks for")]
pub(crate) fn panic_on_demand() -> ! {
    panic!("this operator was told to panic");
}

#[expect(unconditional_recursion, reason = "it is what the mode asks for")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    recurse(depth.wrapping_add(1)).wrapping_add(frame.iter().sum())
}

/// A panic ends in a trap, which tells the host nothing: log the message before it.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        logging::log(Level::Error, &format!("panic at {place}: {message}"));
    }));
}
