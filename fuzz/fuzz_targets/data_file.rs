//! A data file in every state of damage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_state::fuzzing::data_file(data));
