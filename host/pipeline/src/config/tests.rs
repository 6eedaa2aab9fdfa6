use super::*;
use crate::ErrorKind;
use crate::graph::{Consumer, Producer};
use howdah_runtime::{Access, DirectoryGrant};

/// A directory with the files that the examples name, and the path of a pipeline file in it.
fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("events.csv"), "a,b\n").expect("written");
    std::fs::write(directory.path().join("last-bid.wasm"), "").expect("written");
    let file = directory.path().join("q18.toml");
    (directory, file)
}

const WHOLE: &str = r#"
name = "q18"
parallelism = 2
state-directory = "state"

[checkpoint]
interval-ms = 250

[source]
path = "events.csv"
event-time = "date_time"
filter = { event_type = 2 }
on-error = "dead-letter"
schema = { seq = "int64" }

[operator]
name = "last-bid"
component = "last-bid.wasm"
key = ["bidder", "auction"]
columns = { price = "p" }
config = { top = 3, names = ["a", "b"], deep = { on = true } }
limits = { memory-bytes = 1_000_000 }

[sink]
type = "files"
path = "out"
format = "ndjson"
"#;

/// What is wrong with the example after a change, without the directory.
fn refused(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "{from}");
    let (directory, file) = directory();
    let error = PipelineConfig::parse(&file, &WHOLE.replace(from, to)).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    error.to_string().replace(&format!("{}/", directory.path().display()), "")
}

#[test]
fn a_whole_file_is_read() {
    let (directory, file) = directory();
    let config = PipelineConfig::parse(&file, WHOLE).expect("a configuration");
    let at = |name: &str| directory.path().join(name);
    assert_eq!(config.state_directory, at("state"));
    assert_eq!(config.warehouse(), at("state/warehouse"));
    assert_eq!(config.checkpoint.interval_ms, 250);
    assert_eq!(config.sources[0].format, Format::Csv);
    assert_eq!(config.sources[0].path, Located { value: at("events.csv"), line: 10 });
    assert_eq!(
        config.sources[0].dead_letter_file(),
        Some(at("state/dead-letter.ndjson").as_path())
    );
    assert_eq!(config.sources[0].filter[0].1, FilterValue::Integer(2));
    assert_eq!(config.links[0].key[1], Located { value: "auction".into(), line: 19 });
    assert_eq!(config.operators[0].config, r#"{"deep":{"on":true},"names":["a","b"],"top":3}"#);
    assert_eq!(config.operators[0].limits.memory_bytes, 1_000_000);
    assert_eq!(config.sinks[0].format, Format::Ndjson);
}

#[test]
fn defaults_fill_what_is_left_out() {
    let (directory, file) = directory();
    let text = "name = \"q\"\n[source]\npath = \"events.csv\"\n[operator]\nname = \"o\"\n\
                component = \"last-bid.wasm\"\n[sink]\ntype = \"stdout\"\n";
    let config = PipelineConfig::parse(&file, text).expect("a configuration");
    assert_eq!((config.operators[0].parallelism, config.key_groups), (1, 1024));
    assert_eq!(config.state_directory, directory.path().join(".howdah/q"));
    assert_eq!(config.tenant, "default");
    let checkpoint = CheckpointConfig {
        interval_ms: 500,
        retained: 3,
        sync: true,
        snapshot_retained_ms: 60_000,
        least_pause_ms: 0,
        timeout_ms: 600_000,
        tolerated_failures: 0,
    };
    assert_eq!(config.checkpoint, checkpoint);
    assert_eq!(config.sources[0].on_error, OnError::Fail);
    assert_eq!(config.operators[0].config, "{}");
    assert_eq!(config.sinks[0].format, Format::Ndjson);
}

#[test]
fn an_unknown_key_is_refused_with_a_suggestion() {
    assert_eq!(
        refused("interval-ms", "interval"),
        "q18.toml:7: unknown key `interval` in [checkpoint]; did you mean `interval-ms`?"
    );
}

#[test]
fn an_unknown_key_that_is_close_to_none_is_refused_with_all_there_are() {
    assert_eq!(
        refused("interval-ms", "zzz"),
        "q18.toml:7: unknown key `zzz` in [checkpoint]; [checkpoint] takes interval-ms, retained, \
         sync, snapshot-retained-ms, least-pause-ms, timeout-ms and tolerated-failures"
    );
}

#[test]
fn an_unknown_table_is_refused_with_a_suggestion() {
    assert_eq!(
        refused("[checkpoint]", "[checkpoints]"),
        "q18.toml:6: unknown key `checkpoints`; did you mean `checkpoint`?"
    );
}

#[test]
fn a_wrong_type_is_refused_with_both_types() {
    assert_eq!(
        refused("interval-ms = 250", "interval-ms = \"fast\""),
        "q18.toml:7: `interval-ms` in [checkpoint] must be a whole number, not a string"
    );
    assert_eq!(
        refused("\"auction\"]", "2]"),
        "q18.toml:19: `key` in [operator] must be a string, not a whole number"
    );
}

#[test]
fn a_number_out_of_range_is_refused_with_the_range() {
    assert_eq!(
        refused("parallelism = 2", "parallelism = 0"),
        "q18.toml:3: `parallelism` is 0; it must be 1 to 256"
    );
    assert_eq!(
        refused("interval-ms = 250", "interval-ms = -1"),
        "q18.toml:7: `interval-ms` in [checkpoint] is -1; it must be 1 to 31622400000"
    );
}

#[test]
fn an_unknown_word_is_refused_with_those_there_are() {
    assert_eq!(
        refused("\"dead-letter\"", "\"deadletter\""),
        "q18.toml:13: `on-error` in [source] is `deadletter`; it must be fail, skip or \
         dead-letter; did you mean `dead-letter`?"
    );
    assert_eq!(
        refused("format = \"ndjson\"", "format = \"avro\""),
        "q18.toml:27: `format` in [sink] is `avro`; it must be csv, ndjson or parquet"
    );
}

#[test]
fn an_unknown_column_type_is_refused_with_ours() {
    assert_eq!(
        refused("seq = \"int64\"", "seq = \"bigint\""),
        "q18.toml:14: `seq` in [source.schema] is `bigint` is no column type; there are boolean, \
         int32, int64, float32, float64, decimal128(precision,scale), date, timestamp-millis, \
         utf8 and binary; did you mean `int64`?"
    );
}

#[test]
fn a_missing_key_is_named() {
    assert_eq!(refused("name = \"q18\"\n", ""), "q18.toml:1: the file lacks `name`");
    assert_eq!(refused("path = \"events.csv\"\n", ""), "q18.toml:9: [source] lacks `path`");
}

#[test]
fn a_missing_table_is_named() {
    let sink = &WHOLE[WHOLE.find("[sink]").expect("a sink")..];
    assert_eq!(refused(sink, ""), "q18.toml:1: there is no [sink] table");
}

#[test]
fn a_missing_component_is_refused() {
    assert_eq!(
        refused("\"last-bid.wasm\"", "\"lost.wasm\""),
        "q18.toml:18: the component lost.wasm does not exist; build the operator, or mend the path"
    );
}

#[test]
fn a_missing_source_file_is_refused() {
    assert_eq!(refused("\"events.csv\"", "\"lost.csv\""), "q18.toml:10: lost.csv does not exist");
}

#[test]
fn an_extension_without_a_format_is_refused() {
    assert_eq!(
        refused("\"events.csv\"", "\"events.txt\""),
        "q18.toml:10: the extension of `events.txt` says no format; add format = \"csv\", \
         \"ndjson\" or \"parquet\""
    );
}

#[test]
fn a_name_that_cannot_be_a_directory_is_refused() {
    assert_eq!(
        refused("name = \"q18\"", "name = \"../q18\""),
        "q18.toml:2: `name` is `../q18`; a name has 1 to 64 letters, digits, `_` and `-`"
    );
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    let message = refused("parallelism = 2", "parallelism = = 2");
    assert!(message.starts_with("q18.toml:3: "), "{message}");
}

#[test]
fn a_dead_letter_file_needs_the_setting() {
    assert_eq!(
        refused("on-error = \"dead-letter\"", "on-error = \"skip\"\ndead-letter = \"x\""),
        "q18.toml:14: `dead-letter` in [source] needs on-error = \"dead-letter\""
    );
}

#[test]
fn a_path_for_standard_output_is_refused() {
    assert_eq!(
        refused("type = \"files\"", "type = \"stdout\""),
        "q18.toml:26: `path` in [sink] is for type = \"files\" or \"paimon\"; remove it"
    );
}

#[test]
fn a_pipeline_file_that_never_ends_or_never_begins_is_refused() {
    let error = PipelineConfig::load(Path::new("/dev/zero")).expect_err("refused");
    assert_eq!(error.to_string(), "/dev/zero:1: a pipeline file must be a regular file");
    let (_directory, file) = directory();
    std::fs::write(&file, "#".repeat((1 << 20) + 1)).expect("written");
    let error = PipelineConfig::load(&file).expect_err("refused");
    assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
}

#[test]
fn snapshots_that_would_be_gone_under_a_reader_are_refused_with_the_reason() {
    let setting = "interval-ms = 250\nsnapshot-retained-ms = 4999";
    assert_eq!(
        refused("interval-ms = 250", setting),
        "q18.toml:8: `snapshot-retained-ms` in [checkpoint] is 4999; it must be 5000 to \
         31622400000; with less, a reader may see a snapshot that is half removed"
    );
}

#[test]
fn a_number_that_json_does_not_have_is_named() {
    assert_eq!(
        refused("top = 3", "top = nan"),
        "q18.toml:21: `top` in [operator.config] is nan, and JSON has finite numbers alone"
    );
}

#[test]
fn a_key_that_is_there_twice_is_named() {
    assert_eq!(
        refused("parallelism = 2", "parallelism = 2\nparallelism = 3"),
        "q18.toml:4: duplicate key `parallelism`"
    );
}

#[test]
fn the_reference_file_is_accepted() {
    let (_directory, file) = directory();
    std::fs::write(&file, include_str!("../../../../examples/reference.toml")).expect("written");
    let config = PipelineConfig::load(&file).expect("accepted");
    assert_eq!(config.checkpoint.interval_ms, 500);
    assert_eq!(config.operators[0].limits, Limits::default());
    assert_eq!(config.operators[0].restart, RestartPolicy::default());
}

#[test]
fn what_an_operator_gets_of_wasi_is_read() {
    let (directory, file) = directory();
    assert_eq!(
        PipelineConfig::parse(&file, WHOLE).expect("a configuration").operators.remove(0).wasi,
        None
    );
    let granted = "[operator.wasi]\nrandom-seed = 7\n[operator.wasi.directories]\n\
                   \"/rates\" = \"rates\"\n\"/log\" = { path = \"log\", access = \"read-write\" }\n\
                   [sink]";
    let text = WHOLE.replace("[sink]", granted);
    let wasi =
        PipelineConfig::parse(&file, &text).expect("a configuration").operators.remove(0).wasi;
    let wasi = wasi.expect("a grant");
    assert_eq!((wasi.random_seed, wasi.written_limit_bytes), (7, 64 << 20));
    let mut granted = wasi.directories;
    granted.sort_by(|a, b| a.name.cmp(&b.name));
    let expected = [("/log", "log", Access::ReadWrite), ("/rates", "rates", Access::Read)];
    let expected = expected.map(|(name, path, access)| DirectoryGrant {
        name: name.into(),
        path: directory.path().join(path),
        access,
    });
    assert_eq!(granted, expected);
}

#[test]
fn what_an_operator_cannot_get_of_wasi_is_named() {
    for (stated, what) in [
        ("\"rates\" = \"rates\"", "must begin with /"),
        ("\"/rates\" = { path = \"rates\", access = \"write\" }", "must be read or read-write"),
        ("\"/rates\" = { access = \"read\" }", "lacks `path`"),
        ("\"/rates\" = 1", "must be a string"),
    ] {
        let error = refused("[sink]", &format!("[operator.wasi.directories]\n{stated}\n[sink]"));
        assert!(error.contains(what), "{error}");
    }
    let error = refused("[sink]", "[operator.wasi]\nnetwork = true\n[sink]");
    assert!(error.contains("unknown key `network` in [operator.wasi]"), "{error}");
}

/// Two sources that an operator joins, whose rows another one counts.
const GRAPH: &str = r#"
name = "q18"
parallelism = 3
[sink.counts]
input = "count"
type = "null"
[sink.late]
input = "join.late"
type = "files"
path = "late"
[operator.count]
component = "last-bid.wasm"
input = "join.joined"
parallelism = 1
key = ["auction"]
[operator.join]
component = "last-bid.wasm"
[operator.join.inputs]
right = { from = "b", key = ["id"], columns = { price = "p" } }
left = "a"
[source.a]
path = "events.csv"
on-error = "dead-letter"
[source.b]
path = "events.csv"
filter = { x = 1 }
idle-after-ms = 250
"#;

#[test]
fn nodes_with_names_are_linked_and_operators_come_in_the_order_of_rows() {
    let (directory, file) = directory();
    let config = PipelineConfig::parse(&file, GRAPH).expect("a configuration");
    let operators: Vec<_> =
        config.operators.iter().map(|it| (it.name.as_str(), it.parallelism)).collect();
    assert_eq!(operators, [("join", 3), ("count", 1)]);
    let sources: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(sources, ["a", "b"]);
    let idle: Vec<_> = config.sources.iter().map(|source| source.idle_after_ms).collect();
    assert_eq!(idle, [0, 250]);
    let letters = directory.path().join(".howdah/q18/dead-letter-a.ndjson");
    assert_eq!(config.sources[0].dead_letter_file(), Some(letters.as_path()));
    let output = |link: &Link| link.output.as_ref().map(|output| output.value.clone());
    let links: Vec<_> =
        config.links.iter().map(|link| (link.from, output(link), link.to)).collect();
    let expected = [
        (Producer::Operator(0), Some("joined".to_owned()), Consumer::Operator(1)),
        (Producer::Source(1), None, Consumer::Operator(0)),
        (Producer::Source(0), None, Consumer::Operator(0)),
        (Producer::Operator(1), None, Consumer::Sink(0)),
        (Producer::Operator(0), Some("late".to_owned()), Consumer::Sink(1)),
    ];
    assert_eq!(links, expected);
    assert_eq!(config.links[1].key, [Located { value: "id".into(), line: 19 }]);
    assert_eq!(config.links[1].columns[0].1.value, "p");
    assert_eq!(config.links[0].key[0].value, "auction");
}

#[test]
fn an_input_may_be_those_of_several() {
    let (_directory, file) = directory();
    let text = GRAPH
        .replace("input = \"count\"", "input = [\"count\", \"a\"]")
        .replace("left = \"a\"", "left = [\"a\", \"b\"]")
        .replace("from = \"b\"", "from = [\"b\", \"a\"]")
        .replace("input = \"join.joined\"", "input = [\"join.joined\"]");
    let config = PipelineConfig::parse(&file, &text).expect("a configuration");
    let port = |link: &Link| link.input.as_ref().map(|input| input.value.clone());
    let (left, right) = (Some("left".to_owned()), Some("right".to_owned()));
    let links: Vec<_> = config.links.iter().map(|link| (link.from, port(link), link.to)).collect();
    let expected = [
        (Producer::Operator(0), None, Consumer::Operator(1)),
        (Producer::Source(1), right.clone(), Consumer::Operator(0)),
        (Producer::Source(0), right, Consumer::Operator(0)),
        (Producer::Source(0), left.clone(), Consumer::Operator(0)),
        (Producer::Source(1), left, Consumer::Operator(0)),
        (Producer::Operator(1), None, Consumer::Sink(0)),
        (Producer::Source(0), None, Consumer::Sink(0)),
        (Producer::Operator(0), None, Consumer::Sink(1)),
    ];
    assert_eq!(links, expected);
    assert_eq!(config.links[2].key, config.links[1].key);
    for (stated, expected) in [
        ("[]", "`left` in [operator.join.inputs] names nothing"),
        ("[\"a\", 1]", "must be a string, not a whole number"),
        ("1", "must be a string or a list of strings, not a whole number"),
        ("[\"a\", \"zz\"]", "there is no source or operator `zz`"),
    ] {
        let text = GRAPH.replace("left = \"a\"", &format!("left = {stated}"));
        let error = PipelineConfig::parse(&file, &text).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn all_that_is_wrong_with_a_file_is_told_in_its_order() {
    let (directory, file) = directory();
    let text = GRAPH
        .replace("parallelism = 3", "parallelism = 0\ntenant = \"a b\"")
        .replace("input = \"count\"", "input = \"cuont\"")
        .replace("type = \"null\"", "type = \"nul\"")
        .replace("columns = {", "colums = {")
        .replace("left = \"a\"", "left = \"zz\"")
        .replace("component = \"last-bid.wasm\"\ninput", "name = \"count\"\ninput")
        .replace("path = \"events.csv\"\nfilter", "filter");
    let error = PipelineConfig::parse(&file, &text).expect_err("refused").to_string();
    let shown = error.replace(&format!("{}/", directory.path().display()), "");
    assert_eq!(
        shown.lines().collect::<Vec<_>>(),
        [
            "q18.toml:3: `parallelism` is 0; it must be 1 to 256",
            "q18.toml:4: `tenant` is `a b`; a name has 1 to 64 letters, digits, `_` and `-`",
            "q18.toml:6: there is no source or operator `cuont`; did you mean `count`?",
            "q18.toml:7: `type` in [sink.counts] is `nul`; it must be files, paimon, stdout, null or \
             kafka; did you mean `null`?",
            "q18.toml:12: [operator.count] lacks `component`",
            "q18.toml:13: leave `name` out: the operator is called `count`",
            "q18.toml:20: unknown key `colums` in [operator.join.inputs.right]; did you mean \
             `columns`?",
            "q18.toml:21: there is no source or operator `zz`; there are a, b, count and join",
            "q18.toml:25: [source.b] lacks `path`",
        ]
    );
}

#[test]
fn files_that_are_not_there_are_all_told() {
    let message = refused("\"last-bid.wasm\"", "\"lost.wasm\"");
    assert_eq!(message.lines().count(), 1, "{message}");
    let (_directory, file) = directory();
    let text = GRAPH.replace("events", "lost").replace("last-bid.wasm", "lost.wasm");
    let message = PipelineConfig::parse(&file, &text).expect_err("refused").to_string();
    assert_eq!(message.lines().count(), 4, "{message}");
}

#[test]
fn several_subtasks_read_what_can_be_shared() {
    let error = refused("[source]\n", "[source]\nparallelism = 2\n");
    for expected in [
        "`parallelism` in [source] is for a directory, a pattern",
        "`parallelism` in [source] does not go with on-error = \"dead-letter\"",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    let (_directory, file) = directory();
    let parsed = |text: &str| PipelineConfig::parse(&file, text).expect("a configuration");
    let shared =
        GRAPH.replace("path = \"events.csv\"\nfilter", "path = \"*.csv\"\nparallelism = 3\nfilter");
    let parallelism: Vec<_> = parsed(&shared).sources.iter().map(|it| it.parallelism).collect();
    assert_eq!(parallelism, [1, 3]);
}

#[test]
fn two_sinks_on_standard_output_are_refused() {
    let (directory, file) = directory();
    let files = "type = \"files\"\npath = \"late\"";
    let text = GRAPH.replace("\"null\"", "\"stdout\"").replace(files, "type = \"stdout\"");
    let error = PipelineConfig::parse(&file, &text).expect_err("refused").to_string();
    let shown = error.replace(&format!("{}/", directory.path().display()), "");
    assert_eq!(
        shown,
        "q18.toml:7: sink `late` writes to standard output, as `counts` does; one can"
    );
}

/// What is wrong with a pipeline that reads a topic with these settings.
#[cfg(feature = "kafka")]
fn topic_with(properties: &str) -> Result<PipelineConfig> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("o.wasm"), "").expect("written");
    let text = format!(
        "name = \"q\"\n[source]\nconnector = \"kafka\"\nbrokers = \"b:1\"\ntopic = \"t\"\n\
         [source.properties]\n{properties}\n[operator]\nname = \"o\"\ncomponent = \"o.wasm\"\n\
         [sink]\ntype = \"null\"\n"
    );
    PipelineConfig::parse(&directory.path().join("q.toml"), &text)
}

#[cfg(feature = "kafka")]
#[test]
fn what_the_client_of_kafka_is_built_without_is_refused_with_its_line() {
    for (properties, what) in [
        ("\"security.protocol\" = \"SASL_SSL\"", "built without TLS"),
        ("\"sasl.mechanism\" = \"SCRAM-SHA-256\"", "take PLAIN"),
        ("\"client.rack\" = \"a\"", "client.rack"),
    ] {
        let error = topic_with(properties).expect_err("refused").to_string();
        assert!(error.contains(":7: ") && error.contains(what), "{error}");
    }
    let plain = "\"security.protocol\" = \"sasl_plaintext\"\n\"sasl.mechanism\" = \"PLAIN\"";
    topic_with(plain).expect("taken");
}

#[cfg(feature = "kafka")]
#[test]
fn values_of_settings_of_kafka_are_not_shown() {
    let config = topic_with("\"sasl.password\" = \"secret\"").expect("a configuration");
    let shown = format!("{config:?}");
    assert!(shown.contains("sasl.password") && !shown.contains("secret"), "{shown}");
}
