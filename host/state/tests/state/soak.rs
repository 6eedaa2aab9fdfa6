//! Many commits with everything on: nothing grows.

use crate::effort::{is_full, scratch};
use crate::fixture::{Fixture, Model, descriptor, eager, files_in, scan};
use howdah_state::*;
use std::path::Path;
use std::process::Command;

/// What could grow.
#[derive(Debug, Clone, Copy)]
struct Held {
    open_files: usize,
    mapped_files: usize,
    memory_kib: usize,
    data_files: usize,
    index_files: usize,
    manifests: usize,
    snapshots: usize,
}

impl Held {
    fn now(warehouse: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap();
        let directory = warehouse.to_str().unwrap();
        let status = text("/proc/self/status");
        let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        Self {
            open_files: std::fs::read_dir("/proc/self/fd").unwrap().count(),
            mapped_files: text("/proc/self/maps").lines().filter(|l| l.contains(directory)).count(),
            memory_kib: memory.trim().trim_end_matches(" kB").parse().unwrap(),
            data_files: files_in(warehouse, "bucket-0").len()
                + files_in(warehouse, "bucket-1").len(),
            index_files: files_in(warehouse, "index").len(),
            manifests: files_in(warehouse, "manifest").len(),
            snapshots: files_in(warehouse, "snapshot").len(),
        }
    }
}

/// In a process of its own, where nothing else takes memory or files.
#[test]
fn nothing_grows_over_many_commits() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["soak::rounds", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "nothing_grows_over_many_commits runs it in a process of its own"]
fn rounds() {
    let rounds = if is_full() { 10_000 } else { 300 };
    let directory = scratch();
    let warehouse = directory.path();
    let (clock, time) = Clock::manual(0);
    let options = StoreOptions { clock, write_buffer_limit_bytes: 16 << 10, ..eager() };
    // Rows live for a hundred rounds.
    let shape = StateDescriptor { ttl_ms: Some(100_000), ..descriptor(2) };
    let mut fixture = Fixture::with_descriptor(warehouse, &shape, options, Restore::Fresh).unwrap();
    let mut model: Vec<(u64, Model)> = Vec::new();
    let mut retained = Vec::new();
    let mut samples = Vec::new();
    for round in 1..=rounds {
        time.set(round as i64 * 1_000);
        // Keys wander, so that old ones are never written again and end in time.
        let ids = (0..60_i64).map(|i| round as i64 * 7 + i * 13 % 500);
        let changed: Model =
            ids.map(|id| (id, (round as i64, Some("x".repeat(id as usize % 40))))).collect();
        fixture.put(&changed).unwrap();
        let gone: Vec<i64> = (0..5).map(|i| round as i64 * 7 + i * 31).collect();
        fixture.delete(&gone).unwrap();
        retained.push((round, fixture.checkpoint(round)));
        retained.drain(..retained.len().saturating_sub(3));
        fixture.table.retain(&retained).unwrap();
        model.push((round, changed));
        model.last_mut().unwrap().1.retain(|id, _| !gone.contains(id));
        model.iter_mut().for_each(|(_, rows)| gone.iter().for_each(|id| drop(rows.remove(id))));
        model.retain(|(written, _)| *written + 100 > round);
        if round % 50 == 0 {
            check(&mut fixture, &model, round as i64 * 7);
        }
        if round >= 100 && round % (rounds / 20) == 0 {
            samples.push(Held::now(warehouse));
        }
    }
    let metrics = fixture.table.metrics();
    println!("{rounds} rounds, {metrics:?}\nfirst {:?}\nlast {:?}", samples[0], samples.last());
    assert!(metrics.merges_total > rounds / 10, "{metrics:?}");
    let memory_kib = samples[0].memory_kib;
    for held in samples {
        // Bounds that do not depend on the number of rounds.
        assert!(held.open_files < 40, "{held:?}");
        assert!(held.mapped_files < 200, "{held:?}");
        assert!(held.data_files < 100, "{held:?}");
        assert!(held.index_files < 60, "{held:?}");
        assert!(held.manifests < 200, "{held:?}");
        assert!(held.snapshots < 40, "{held:?}");
        assert!(held.memory_kib < memory_kib + 32 * 1024, "{held:?} after {memory_kib} KiB");
    }
    let last = retained.last().unwrap().1;
    drop(fixture);
    assert!(scan(warehouse, At::Snapshot(last)).unwrap().len() >= all(&model).len());
}

fn all(model: &[(u64, Model)]) -> Model {
    model.iter().flat_map(|(_, rows)| rows.clone()).collect()
}

fn check(fixture: &mut Fixture, model: &[(u64, Model)], newest: i64) {
    let ids: Vec<i64> = (newest.saturating_sub(2_000).max(0)..newest + 600).collect();
    let wanted: Model = all(model).into_iter().filter(|(id, _)| ids.contains(id)).collect();
    assert_eq!(fixture.get(&ids).unwrap(), wanted);
}
