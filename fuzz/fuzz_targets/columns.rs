//! The columns that an operator hands over.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    howdah_runtime::fuzzing::columns(data);
});
