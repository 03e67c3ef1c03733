use serde_json::Value;

use super::object::{Object, Problems};
use super::place::At;

/// What a run of a stage may use: the limits that a node may raise or lower for a module, and their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, all memories of a run together.
    pub memory: usize,
    /// Elements, all tables of a run together.
    pub table_elements: usize,
    /// Core instances.
    pub instances: usize,
    /// Tables.
    pub tables: usize,
    /// Linear memories.
    pub memories: usize,
    /// Units of fuel, which are about instructions; a call gets more for each byte that it hands over
    /// ([`FUEL_PER_BYTE`](crate::wasm::limits::FUEL_PER_BYTE)).
    pub fuel: u64,
    /// Bytes of a document that a stage returns.
    pub result: usize,
    /// Calls of `routes` and `links` in one run; of WASI there may be
    /// [more](crate::wasm::limits::wasi_calls).
    pub host_calls: u32,
    /// Log lines that are kept of one run.
    pub log_lines: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A Rust stage begins with 1.1 MiB, a JavaScript one with 9 and a Python one with 12.
            memory: 32 << 20,
            // A JavaScript stage has 7,688.
            table_elements: 32_768,
            // A Python stage has 65.
            instances: 128,
            // No more than instances.
            tables: 128,
            // Adapters need two or three.
            memories: 8,
            // The verdict is the same on a loaded node. A Rust stage needs 0.6 million for a result of 2 KB, a
            // JavaScript one 7.3; all of it is 30 ms on an idle core.
            fuel: 50_000_000,
            result: catena_contract::DOCUMENT,
            // Each costs system calls.
            host_calls: 256,
            log_lines: 64,
        }
    }
}

const MIB: usize = 1 << 20;
const KIB: usize = 1 << 10;

impl Limits {
    /// Reads `limits` of a module; what is absent stays at its default.
    pub(super) fn read(at: At<'_>, value: &Value, problems: &mut Problems) -> Self {
        let mut limits = Self::default();
        let Some(mut object) = Object::new(at, value, problems) else { return limits };
        // The upper ends are far beyond any use, and keep a slip of the finger from being none.
        for (key, slot, unit, most) in [
            ("memoryMiB", &mut limits.memory, MIB, 4096),
            ("tableElements", &mut limits.table_elements, 1, 10_000_000),
            ("instances", &mut limits.instances, 1, 10_000),
            ("tables", &mut limits.tables, 1, 10_000),
            ("memories", &mut limits.memories, 1, 1000),
            ("resultKiB", &mut limits.result, KIB, 16_384),
            ("logLines", &mut limits.log_lines, 1, 10_000),
        ] {
            if let Some(number) = number(&mut object, key, most, problems) {
                *slot = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(unit);
            }
        }
        if let Some(fuel) = number(&mut object, "fuel", 1_000_000_000_000, problems) {
            limits.fuel = fuel;
        }
        if let Some(calls) = number(&mut object, "hostCalls", 100_000, problems) {
            limits.host_calls = u32::try_from(calls).unwrap_or(u32::MAX);
        }
        object.end(problems);
        limits
    }
}

fn number(object: &mut Object<'_>, key: &'static str, most: u64, problems: &mut Problems) -> Option<u64> {
    object.read(key, &format!("a whole number from 1 to {most}"), problems, |value| {
        value.as_u64().filter(|number| (1..=most).contains(number))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: At<'_> = At::Member(&At::Member(&At::Member(&At::Document, "modules"), "x"), "limits");

    fn read(value: Value) -> (Limits, Vec<String>) {
        let mut problems = Problems::default();
        let limits = Limits::read(AT, &value, &mut problems);
        (limits, problems.into_texts())
    }

    #[test]
    fn each_is_raised_or_lowered_alone() {
        let default = Limits::default();
        for (key, number, expected) in [
            ("memoryMiB", 64, Limits { memory: 64 << 20, ..default }),
            ("tableElements", 10, Limits { table_elements: 10, ..default }),
            ("instances", 300, Limits { instances: 300, ..default }),
            ("tables", 3, Limits { tables: 3, ..default }),
            ("memories", 1, Limits { memories: 1, ..default }),
            ("fuel", 500_000_000, Limits { fuel: 500_000_000, ..default }),
            ("resultKiB", 2048, Limits { result: 2 << 20, ..default }),
            ("hostCalls", 1000, Limits { host_calls: 1000, ..default }),
            ("logLines", 1, Limits { log_lines: 1, ..default }),
        ] {
            assert_eq!(read(json!({ key: number })), (expected, Vec::new()), "{key}");
        }
        assert_eq!(read(json!({})).0, default);
    }

    #[test]
    fn what_is_no_limit_is_named() {
        for (value, part) in [
            (json!({"memoryMiB": 0}), "modules.x.limits.memoryMiB must be a whole number from 1 to 4096"),
            (json!({"fuel": 1.5}), "modules.x.limits.fuel"),
            (json!({"hostCalls": -1}), "modules.x.limits.hostCalls"),
            (json!({"stack": 1}), "unknown key modules.x.limits.stack"),
            (json!(1), "modules.x.limits must be an object"),
        ] {
            let (_, problems) = read(value);
            assert!(problems.iter().any(|problem| problem.contains(part)), "{part} in {problems:?}");
        }
    }
}
