//! Deletion vectors, with and without a sound checksum.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_state::fuzzing::deletion_vector(data));
