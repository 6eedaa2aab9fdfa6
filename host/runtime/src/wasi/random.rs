//! `wasi:random`: numbers that a seed decides.

use super::interface;
use crate::host::HostState;
use sha2::{Digest, Sha256};
use wasmtime::component::Linker;

/// Bytes that one call may ask for.
const BYTES_LIMIT: u64 = 1 << 20;

/// An endless sequence of bytes: the SHA-256 of seed and position, block by block.
#[derive(Debug)]
pub(super) struct Random {
    seed: [u8; 32],
    blocks: u64,
}

impl Random {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let seed = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(name).finalize();
        Self { seed: seed.into(), blocks: 0 }
    }

    fn block(&mut self) -> [u8; 32] {
        let position = self.blocks.to_le_bytes();
        self.blocks += 1;
        Sha256::new().chain_update(self.seed).chain_update(position).finalize().into()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length.next_multiple_of(32));
        while bytes.len() < length {
            bytes.extend_from_slice(&self.block());
        }
        bytes.truncate(length);
        bytes
    }

    fn number(&mut self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.block();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl HostState {
    fn random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > BYTES_LIMIT {
            wasmtime::bail!("it asked for {length} random bytes at once, more than {BYTES_LIMIT}");
        }
        let length = usize::try_from(length)?;
        Ok(self.wasi()?.lasting.random.bytes(length))
    }

    fn random_number(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wasi()?.lasting.random.number())
    }
}

pub(super) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    for (name, bytes, number) in [
        ("random", "get-random-bytes", "get-random-u64"),
        ("insecure", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let mut random = interface(linker, &format!("wasi:random/{name}"))?;
        random.func_wrap(bytes, |mut store, (length,): (u64,)| {
            Ok((store.data_mut().random_bytes(length)?,))
        })?;
        random.func_wrap(number, |mut store, (): ()| Ok((store.data_mut().random_number()?,)))?;
    }
    let mut seed = interface(linker, "wasi:random/insecure-seed")?;
    seed.func_wrap("insecure-seed", |mut store, (): ()| {
        let host = store.data_mut();
        Ok(((host.random_number()?, host.random_number()?),))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_and_the_name_decide_every_byte() {
        let bytes = |seed, name| Random::new(seed, name).bytes(100);
        assert_eq!(bytes(1, "a"), bytes(1, "a"));
        assert_ne!(bytes(1, "a"), bytes(2, "a"));
        assert_ne!(bytes(1, "a"), bytes(1, "b"));
    }

    #[test]
    fn no_number_comes_twice() {
        let mut random = Random::new(0, "a");
        assert_ne!(random.number(), random.number());
        assert_ne!(random.bytes(33), random.bytes(33));
        assert_eq!(random.bytes(0), [0_u8; 0]);
    }
}
