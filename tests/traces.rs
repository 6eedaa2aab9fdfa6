//! A run that sends its spans to a collector, in builds with the feature `opentelemetry`; the others
//! say that they do not.

use crate::support::{Job, input};

#[cfg(not(feature = "opentelemetry"))]
#[test]
fn a_build_without_traces_says_how_to_get_one() {
    let job = Job::last_bid(&input::events(1_000));
    let finished = job.run(&["--otlp-endpoint", "http://localhost:4318"]);
    finished.failed(2, &["--otlp-endpoint", "without traces", "--features opentelemetry"]);
    assert!(!job.state_directory().exists());
}

#[cfg(feature = "opentelemetry")]
mod sent {
    use super::*;
    use crate::support::Finished;
    use crate::support::job::{howdah, quoted};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

    /// A collector that keeps what it is sent.
    struct Collector {
        endpoint: String,
        requests: Arc<Mutex<Vec<Request>>>,
    }

    /// The first line of a request, and its body.
    type Request = (String, Vec<u8>);

    impl Collector {
        fn start() -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let endpoint = format!("http://{}", listener.local_addr().unwrap());
            let requests = Arc::new(Mutex::new(Vec::new()));
            let collector = Self { endpoint, requests: Arc::clone(&requests) };
            let serve = move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    // What was answered is there.
                    let request = take(&stream);
                    requests.lock().unwrap().push(request);
                    write!(stream, "{ANSWER}").unwrap();
                }
            };
            std::thread::Builder::new().name("collector".to_owned()).spawn(serve).unwrap();
            collector
        }

        /// How often these bytes are in what was sent.
        fn count(&self, text: &str) -> usize {
            let requests = self.requests.lock().unwrap();
            let bodies = requests.iter().flat_map(|(_, body)| body.windows(text.len()));
            bodies.filter(|bytes| *bytes == text.as_bytes()).count()
        }

        fn check(&self, texts: &[&str]) {
            for text in texts {
                assert!(self.count(text) > 0, "there is no `{text}`");
            }
            for (line, _) in self.requests.lock().unwrap().iter() {
                assert_eq!(line.trim_end(), "POST /v1/traces HTTP/1.1");
            }
        }
    }

    fn take(stream: &TcpStream) -> Request {
        let mut reader = BufReader::new(stream);
        let mut lines = vec![String::new()];
        while reader.read_line(lines.last_mut().unwrap()).unwrap() > 2 {
            lines.push(String::new());
        }
        let mut lengths = lines.iter().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; lengths.next().unwrap()];
        reader.read_exact(&mut body).unwrap();
        (lines.swap_remove(0), body)
    }

    #[test]
    fn checkpoints_are_traces_whatever_the_number_of_rows() {
        let collector = Collector::start();
        let job = Job::last_bid(&input::events(50_000)).set(
            "source",
            "rate-limit-rows-per-second",
            50_000,
        );
        let summary = job.run(&["--otlp-endpoint", &collector.endpoint]).summary();
        collector.check(&["service.name", "howdah.pipeline", "howdah.tenant", "flush"]);
        let checkpoints = summary["checkpoints"]["completed"].as_u64().unwrap();
        let checkpoints = usize::try_from(checkpoints).unwrap();
        assert_eq!(collector.count("commit"), checkpoints);
        assert_eq!(collector.count("barrier"), 2 * checkpoints, "one for each subtask");
        assert_eq!(collector.count("restore"), 0);
        // What is going on from a checkpoint is sent where the environment says.
        let collector = Collector::start();
        let mut command = job.run_command(&[]);
        command.env(ENDPOINT, format!("{}/", collector.endpoint));
        Finished::of(command.output().unwrap()).success();
        collector.check(&["restore"]);
    }

    #[test]
    fn a_restart_is_a_trace() {
        let collector = Collector::start();
        let job = Job::hostile(&input::events(50_000))
            .set("operator.config", "mode", quoted("panic"))
            .set("operator.config", "after_batches", 0)
            .set("operator.failure", "restart-backoff-ms", 1)
            .set("operator.failure", "restarts", 2);
        job.run(&["--otlp-endpoint", &collector.endpoint]).failed(1, &["told to panic"]);
        collector.check(&["restart"]);
    }

    #[test]
    fn a_rescaling_is_a_trace() {
        let collector = Collector::start();
        let job = Job::last_bid(&input::events(50_000))
            .set("source", "rate-limit-rows-per-second", 5_000)
            .argument("--otlp-endpoint")
            .argument(&collector.endpoint);
        let mut running = job.start();
        job.wait_for_checkpoint(&mut running, 1);
        let rescale = howdah().arg("rescale").arg(job.file()).arg("3").output().unwrap();
        Finished::of(rescale).success();
        running.terminate().success();
        collector.check(&["rescale", "restore"]);
    }

    #[test]
    fn a_collector_that_is_not_there_is_told_of_once_and_holds_nothing_up() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let job = Job::last_bid(&input::events(50_000)).set(
            "source",
            "rate-limit-rows-per-second",
            10_000,
        );
        let mut command = job.run_command(&["--otlp-endpoint", &endpoint]);
        command.env("OTEL_BSP_SCHEDULE_DELAY", "10");
        let finished = Finished::of(command.output().unwrap()).success();
        let told = format!("traces do not arrive at {endpoint}/v1/traces");
        assert_eq!(finished.stderr.matches(&told).count(), 1, "{}", finished.stderr);
        assert_eq!(finished.summary()["finished"], true);
    }

    #[test]
    fn a_collector_that_does_not_answer_does_not_keep_the_run_from_its_end() {
        // It takes connections, and nothing else.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let job = Job::last_bid(&input::events(20_000));
        let finished = job.run(&["--otlp-endpoint", &endpoint]).success();
        assert!(finished.stderr.contains("the last traces were not sent"), "{}", finished.stderr);
        assert_eq!(finished.summary()["finished"], true);
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_before_anything_starts() {
        let job = Job::last_bid(&input::events(1_000));
        let finished = job.run(&["--otlp-endpoint", "localhost:4317"]);
        finished.failed(2, &["--otlp-endpoint: `localhost:4317`", "http://localhost:4318"]);
        let mut command = job.run_command(&[]);
        command.env(ENDPOINT, "grpc://localhost");
        Finished::of(command.output().unwrap()).failed(2, &[ENDPOINT]);
        assert!(!job.state_directory().exists());
    }
}
