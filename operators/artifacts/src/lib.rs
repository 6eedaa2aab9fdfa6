//! Every operator of this workspace as a WebAssembly component, for tests, benches and the
//! demo: the build script builds them, this crate says where they are.
//!
//! ```
//! for (name, path) in howdah_operator_artifacts::ALL {
//!     println!("{name} is {path}");
//! }
//! ```

include!(concat!(env!("OUT_DIR"), "/components.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of a component: the magic number, and a version that no core module has.
    const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0D, 0, 1, 0];

    #[test]
    fn every_operator_is_a_component() {
        assert_eq!((ALL.len(), NEXMARK.len()), (43, 29));
        for (name, path) in ALL {
            let bytes = std::fs::read(path).unwrap();
            assert!(bytes.starts_with(&COMPONENT), "{name}");
        }
    }

    #[test]
    fn an_operator_written_with_the_sdk_stays_small() {
        for path in [LAST_BID, AUCTION_STATS] {
            let bytes = std::fs::metadata(path).unwrap().len();
            assert!(bytes < 128 << 10, "{path} has {bytes} bytes");
        }
    }
}
