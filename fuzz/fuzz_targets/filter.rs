//! The filter file beside a data file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_state::fuzzing::filter(data));
