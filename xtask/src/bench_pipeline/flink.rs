//! Apache Flink as a peer: its jars from PyPI, and its whole cluster in one Java process, so that all
//! that it does is the CPU time of that.

use super::pipelines::COLUMNS;
use crate::command::say;
use crate::measure::{self, Measured};
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As in `benches/flink/requirements.txt`.
pub(super) const NAME: &str = "Flink 2.3.0";

/// Errors and warnings go to a file.
const LOG4J: &str = "\
rootLogger.level = WARN
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = ${sys:log.file}
appender.file.append = false
appender.file.layout.type = PatternLayout
";

/// Its jars, and the program that runs statements with them.
pub(super) struct Flink {
    jars: PathBuf,
    program: PathBuf,
}

impl Flink {
    /// Fails when it is not there.
    pub(super) fn find(workspace: &Workspace) -> Result<Self> {
        let jars = setup::flink_jars(workspace).filter(|_| setup::has_java_compiler());
        let Some(jars) = jars else {
            bail!(
                "Flink is not there: get it with `cargo xtask setup --flink` (downloads 330 MB, needs \
                 a JDK of version 17 or 21), or measure without it: `cargo xtask bench pipeline --no-peer`"
            );
        };
        Ok(Self { jars, program: workspace.root.join("benches/flink/RunSql.java") })
    }

    /// Whether it reads the events of a file as they are: a type that it cannot parse would be null, and
    /// cost nothing.
    pub(super) fn check(&self, directory: &Path, csv: &Path, events: u64) -> Result<()> {
        let counts = "SELECT COUNT(seq), COUNT(date_time), COUNT(price) FROM events;\n";
        let settings = "SET 'execution.runtime-mode' = 'batch';\n";
        let printed = self.run(directory, &format!("{settings}{}{counts}", table(csv)))?.stdout;
        // Of 50 events 46 are bids, the last ones.
        let bids = events / 50 * 46 + (events % 50).saturating_sub(4);
        let found: Vec<u64> = printed
            .lines()
            .filter(|line| line.starts_with('|'))
            .flat_map(|line| line.split('|'))
            .filter_map(|cell| cell.trim().parse().ok())
            .collect();
        ensure!(found == [events, events, bids], "Flink does not read the events: {printed}");
        Ok(())
    }

    /// Reads all columns of all events, with the checkpoints that howdah makes, and drops them.
    pub(super) fn pass(&self, directory: &Path, csv: &Path) -> Result<Measured> {
        let checkpoints = directory.join("flink-checkpoints");
        let settings = format!(
            "SET 'execution.checkpointing.interval' = '500 ms';\n\
             SET 'execution.checkpointing.mode' = 'EXACTLY_ONCE';\n\
             SET 'execution.checkpointing.dir' = 'file://{}';\n",
            checkpoints.display()
        );
        let sink = "CREATE TABLE nowhere WITH ('connector' = 'blackhole') LIKE events (EXCLUDING ALL);\n\
                    INSERT INTO nowhere SELECT * FROM events;\n";
        let measured = self.run(directory, &format!("{settings}{}{sink}", table(csv)))?;
        if checkpoints.exists() {
            std::fs::remove_dir_all(&checkpoints)
                .with_context(|| format!("cannot remove {}", checkpoints.display()))?;
        }
        say(&format!("Flink: {:.2} s, {:.2} s of CPU", measured.wall_s, measured.cpu_s));
        Ok(measured)
    }

    fn run(&self, directory: &Path, statements: &str) -> Result<Measured> {
        let file = |name: &str, text: &str| {
            let file = directory.join(name);
            std::fs::write(&file, text)
                .with_context(|| format!("cannot write {}", file.display()))?;
            Ok::<_, anyhow::Error>(file)
        };
        let shared = "SET 'execution.target' = 'local';\n\
                      SET 'parallelism.default' = '1';\n\
                      SET 'pipeline.object-reuse' = 'true';\n";
        let statements = file("flink.sql", &format!("{shared}{statements}"))?;
        let log = directory.join("flink.log");
        let mut java = Command::new("java");
        java.args(["--add-opens=java.base/java.lang=ALL-UNNAMED"])
            .args(["--add-opens=java.base/java.util=ALL-UNNAMED"])
            .arg(format!(
                "-Dlog4j.configurationFile={}",
                file("log4j.properties", LOG4J)?.display()
            ))
            .arg(format!("-Dlog.file={}", log.display()))
            .arg("-cp")
            .arg(self.jars.join("*"))
            .arg(&self.program)
            .arg(statements);
        measure::run(&mut java, &directory.join("stdout"))
            .with_context(|| format!("Flink failed; its log is {}", log.display()))
    }
}

/// The events of a CSV file. Its header is no row that could be parsed.
fn table(csv: &Path) -> String {
    let mut columns = String::new();
    for (name, _, data_type) in COLUMNS {
        // Writing to a string cannot fail.
        let _ =
            write!(columns, "{}`{name}` {data_type}", if columns.is_empty() { "" } else { ", " });
    }
    format!(
        "CREATE TABLE events ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{}', \
         'format' = 'csv', 'csv.null-literal' = '', 'csv.ignore-parse-errors' = 'true');\n",
        csv.display()
    )
}
