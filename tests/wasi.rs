//! An operator gets WASI where the pipeline file and the command line both say so, and `howdah check`
//! says beforehand whether it would.

use crate::support::{Finished, Job, job};
use std::path::Path;

/// A job whose operator reads `rates/file` and then writes `rates/new`.
fn reading() -> Job {
    let job = Job::with_wasi(Path::new("orders.csv"));
    let orders = "key,verb,path\n1,read,file\n1,append,new\n";
    std::fs::write(job.directory().join("orders.csv"), orders).unwrap();
    std::fs::create_dir(job.directory().join("rates")).unwrap();
    std::fs::write(job.directory().join("rates/file"), "some rates").unwrap();
    job
}

/// With the directory granted by the pipeline file.
fn granted(access: &str) -> Job {
    let directory = format!("{{ path = \"rates\", access = \"{access}\" }}");
    reading().set("operator.wasi.directories", "\"/rates\"", directory)
}

/// `--allow-wasi`, and one more option with the directory of the job.
fn allow(job: &Job, option: &str) -> [String; 3] {
    ["--allow-wasi".to_owned(), option.to_owned(), job.directory().display().to_string()]
}

fn run(job: &Job, arguments: &[String]) -> Finished {
    job.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn check(job: &Job, arguments: &[&str]) -> Finished {
    let mut command = job::howdah();
    command.arg("check").arg(howdah_operator_artifacts::WITH_WASI).args(arguments);
    Finished::of(command.current_dir(job.directory()).output().unwrap())
}

/// What the operator answered, in order.
fn answers(job: &Job) -> String {
    let parts = std::fs::read_dir(job.output_directory()).unwrap();
    let parts = parts.map(|part| part.unwrap().path());
    let parts =
        parts.filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    parts.map(|part| std::fs::read_to_string(part).unwrap()).collect()
}

#[test]
fn without_the_command_line_or_the_pipeline_file_it_is_refused_before_anything_starts() {
    let imports = "wasi:filesystem/types@0.2.3";
    let job = reading();
    let refused = run(&job, &[]).failed(1, &[imports, "where both grant it"]);
    assert!(refused.stderr.lines().count() <= 5, "{}", refused.stderr);
    let missing = "the pipeline file does not grant it: add [operator.wasi]";
    run(&job, &allow(&job, "--allow-read")).failed(1, &[imports, missing]);
    let job = granted("read");
    run(&job, &[]).failed(1, &[imports, "the command line does not allow it: add --allow-wasi"]);
    run(&job, &["--allow-wasi".to_owned()]).failed(1, &["--allow-read", "rates"]);
    assert!(!job.state_directory().exists());
}

#[test]
fn with_both_it_reads_and_does_not_write() {
    let job = granted("read");
    run(&job, &allow(&job, "--allow-read")).summary();
    assert_eq!(answers(&job), "{\"text\":\"some rates\"}\n{\"text\":\"error: read-only\"}\n");
    assert!(!job.directory().join("rates/new").exists());
}

#[test]
fn to_write_must_be_allowed_too() {
    let job = granted("read-write");
    run(&job, &allow(&job, "--allow-read")).failed(1, &["--allow-write"]);
    run(&job, &allow(&job, "--allow-write")).summary();
    assert_eq!(std::fs::read(job.directory().join("rates/new")).unwrap(), b"appended");
}

#[test]
fn check_says_which_interfaces_are_imported_and_whether_they_are_granted() {
    let job = granted("read");
    let refused = check(&job, &[]).failed(1, &["--allow-wasi"]);
    for interface in ["wasi:filesystem/types@0.2.3", "wasi:random/random@0.2.3"] {
        assert!(refused.stderr.contains(interface), "{}", refused.stderr);
    }
    let text = check(&job, &["--allow-wasi"]).success().stdout;
    assert!(text.contains("granted       wasi:"), "{text}");

    let file = job.file().display().to_string();
    let directory = job.directory().display().to_string();
    let against = ["--against", &file, "--allow-wasi", "--allow-read", &directory];
    check(&job, &against).success();
    check(&job, &against[..3]).failed(1, &["--allow-read"]);
    let not_granted = reading();
    let file = not_granted.file().display().to_string();
    check(&not_granted, &["--against", &file, "--allow-wasi"]).failed(1, &["[operator.wasi]"]);
}

#[test]
fn a_directory_needs_allow_wasi() {
    let job = granted("read");
    run(&job, &["--allow-read".to_owned(), "rates".to_owned()]).failed(2, &["--allow-wasi"]);
}
