//! A reader that goes away, as `head` does, is no failure.

use crate::support::job::howdah;
use crate::support::{Finished, Job, input};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn rows_of_a_state_can_be_cut_off() {
    let job = Job::last_bid(&input::events(20_000));
    job.run_to_end();
    for output in ["text", "csv", "json"] {
        let mut command = howdah();
        command.args(["state", "scan"]).arg(job.file()).args([job.state, "--output", output]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Far less than the table; the rest does not fit into the pipe.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let finished = Finished::of(child.wait_with_output().unwrap()).success();
        assert_eq!(finished.stderr, "", "{output}");
    }
}
