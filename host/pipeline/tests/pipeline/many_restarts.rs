//! A pipeline that is started again and again in one process holds no more memory and files after
//! many times than after a few.

use crate::common::{Bench, bids, csv, last_bids};
use howdah_pipeline::StartFrom;
use std::process::Command;

/// What could grow.
#[derive(Debug, Clone, Copy)]
struct Held {
    open_files: usize,
    mapped_files: usize,
    threads: usize,
    memory_kib: usize,
}

impl Held {
    fn now(directory: &str) -> Self {
        let text = |path: &str| std::fs::read_to_string(path).expect("a file");
        let status = text("/proc/self/status");
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        let maps = text("/proc/self/maps");
        Self {
            open_files: std::fs::read_dir("/proc/self/fd").expect("a directory").count(),
            mapped_files: maps.lines().filter(|line| line.contains(directory)).count(),
            threads: number("Threads:"),
            memory_kib: number("RssAnon:"),
        }
    }
}

/// In a process of its own, where nothing else takes memory or files.
#[test]
fn nothing_grows_over_many_restarts() {
    let output = Command::new(std::env::current_exe().expect("a path"))
        .args(["many_restarts::rounds", "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("an end");
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}

/// Each run has a few rows more to read, and ends at its end, at a stop, or broken off.
#[test]
#[ignore = "nothing_grows_over_many_restarts runs it in a process of its own"]
fn rounds() {
    let rounds =
        if std::env::var_os("HOWDAH_TEST_FULL").is_some_and(|it| it == "1") { 1_000 } else { 40 };
    let warm_up = rounds / 4;
    let mut bench = Bench::new();
    bench.checkpoint = "interval-ms = 5\nsync = false\nretained = 2\n".into();
    let bids = bids(10 * rounds);
    let directory = bench.path("").display().to_string();
    let mut samples = Vec::new();
    for round in 1..=rounds {
        let known = usize::try_from(10 * round).expect("a number");
        bench.write("events.csv", csv(&bids[..known]));
        let handle = bench.start(StartFrom::Latest).expect("started");
        match round % 3 {
            0 => drop(handle),
            1 => {
                handle.stop();
                handle.wait().expect("a summary");
            }
            _ => drop(handle.wait().expect("a summary")),
        }
        if round >= warm_up && (round - warm_up) % (rounds / 20) == 0 {
            samples.push(Held::now(&directory));
        }
    }
    bench.run().expect("a summary");
    assert_eq!(bench.output(), last_bids(&bids));
    let first = samples[0];
    println!("{rounds} restarts, first {first:?}\nlast {:?}", samples.last());
    for held in samples {
        assert!(held.open_files <= first.open_files + 4, "{held:?} after {first:?}");
        assert_eq!(held.mapped_files, 0, "{held:?}");
        assert!(held.threads <= first.threads + 2, "{held:?} after {first:?}");
        assert!(held.memory_kib < first.memory_kib + 16 * 1024, "{held:?} after {first:?}");
    }
}
