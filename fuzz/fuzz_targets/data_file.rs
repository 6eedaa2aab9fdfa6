//! A data file in every state of damage.
#![no_main]

// Panics of crate parquet on damaged pages are caught and become errors; libFuzzer would end at
// each. One that escapes ends the run all the same.
libfuzzer_sys::fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |data: &[u8]| howdah_state::fuzzing::data_file(data)
);
