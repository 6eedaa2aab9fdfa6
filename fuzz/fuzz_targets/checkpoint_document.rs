//! The document of a checkpoint, damaged or not one at all.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_state::fuzzing::checkpoint_document(data));
