//! The name of an engine's configuration: artifacts of one name load in every engine of that name, and in no other.

use std::hash::{Hash as _, Hasher};

use sha2::{Digest as _, Sha256};

/// 16 hexadecimal digits over everything that decides whether an artifact loads: wasmtime's version, the target, and
/// what the configuration compiles in.
pub(crate) fn engine_key(engine: &wasmtime::Engine) -> String {
    let mut hasher = Sha(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The standard library's hashers may differ from compiler to compiler.
struct Sha(Sha256);

impl Hasher for Sha {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
