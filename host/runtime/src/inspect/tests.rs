use super::*;
use DifferenceKind as Kind;

fn inspect(wat: &str) -> Inspection {
    let bytes = wat::parse_str(wat).expect("a component");
    Inspection::of("a.wasm", &bytes).expect("inspected")
}

/// Kind, what, and the WIT of both sides, of each difference that is fatal.
fn differences(wat: &str) -> Vec<(Kind, String, String, String)> {
    let text = |wit: &Option<String>| wit.clone().unwrap_or_default();
    let inspection = inspect(wat);
    let refusals = inspection.refusals();
    refusals
        .map(|difference| {
            let Difference { kind, what, component, host, .. } = difference;
            (*kind, what.clone(), text(component), text(host))
        })
        .collect()
}

fn version() -> String {
    contract::version().expect("a contract")
}

#[test]
fn the_contract_of_this_host_is_the_one_that_it_says_it_implements() {
    assert_eq!(version(), crate::HOST_VERSION);
}

#[test]
fn every_file_of_the_contract_is_known() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let files = std::fs::read_dir(directory).expect("the contract");
    let mut files: Vec<String> = files
        .map(|file| file.expect("a file").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    let mut known: Vec<&str> = CONTRACT_SOURCES.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    assert_eq!(files, known);
}

#[test]
fn operators_of_this_workspace_differ_in_nothing() {
    for (name, path) in howdah_operator_artifacts::ALL {
        let mut inspection = Inspection::read(Path::new(path)).expect("inspected");
        inspection.grant_wasi(true, true);
        assert_eq!(inspection.differences, [], "{name}");
        assert_eq!(inspection.granted.is_empty(), *name != "with-wasi", "{name}");
        assert!(inspection.exports.iter().any(|export| export.contains("/operator@")), "{name}");
    }
}

#[test]
fn facts_are_those_of_the_file() {
    let path = Path::new(howdah_operator_artifacts::LAST_BID);
    let inspection = Inspection::read(path).expect("inspected");
    assert_eq!(inspection.bytes, std::fs::metadata(path).expect("a file").len());
    let rust = |producer: &Producer| producer.field == "language" && producer.name == "Rust";
    assert!(inspection.producers.iter().any(rust), "{:?}", inspection.producers);
    let memories: Vec<_> = inspection.modules.iter().flat_map(|module| &module.memories).collect();
    assert!(matches!(memories.as_slice(), [memory] if memory.minimum_bytes >= 65_536));
    assert!(inspection.wit.contains("process: func(input: input)"), "{}", inspection.wit);
}

#[test]
fn the_language_of_the_component_is_told_from_those_of_modules_in_it() {
    // As the builds of Python, JavaScript and C append it.
    let said = b"\x09producers\x02\x08language\x01\x06Python\x00\x03sdk\x01\x06howdah\x050.1.0";
    let mut bytes = std::fs::read(howdah_operator_artifacts::LAST_BID).expect("a component");
    bytes.extend([0, u8::try_from(said.len()).expect("short")]);
    bytes.extend(said);
    let inspection = Inspection::of("a.wasm", &bytes).expect("inspected");
    let languages = inspection.producers.iter().filter(|producer| producer.field == "language");
    let languages: Vec<_> = languages.map(|found| (found.name.as_str(), found.nested)).collect();
    assert_eq!(languages, [("Rust", true), ("Python", false)]);
    let sdk = inspection.producers.iter().find(|producer| producer.field == "sdk").expect("one");
    assert_eq!((sdk.name.as_str(), sdk.version.as_str()), ("howdah", "0.1.0"));
}

#[test]
fn missing_and_changed_functions_are_named_one_by_one_with_both_signatures() {
    let version = version();
    let found = differences(&format!(
        r#"(component
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $close (canon lift (core func $i "f")))
            (instance $operator (export "close" (func $close)))
            (export "howdah:operator/operator@{version}" (instance $operator)))"#
    ));
    let of = "of howdah:operator/operator";
    let (changed, missing) = found.split_first().expect("differences");
    assert_eq!(
        *changed,
        (
            Kind::Changed,
            format!("has function `close` {of} with another signature"),
            "close: func()".to_owned(),
            "close: func() -> result<list<output>, error>".to_owned(),
        )
    );
    let names = ["describe", "open", "process", "on-barrier"];
    let expected = names.map(|name| (Kind::Missing, format!("lacks function `{name}` {of}")));
    let missing: Vec<_> = missing.iter().map(|(kind, what, ..)| (*kind, what.clone())).collect();
    assert_eq!(missing, expected);
}

/// The imports that a component with this import differs in.
fn import_differences(import: &str) -> Vec<(Kind, String, String, String)> {
    let mut found = differences(&format!("(component (import {import}))"));
    // It exports nothing.
    let last = found.pop().expect("a difference");
    assert_eq!(last.0, Kind::Missing);
    found
}

#[test]
fn a_function_that_the_host_lacks_is_named() {
    let version = version();
    assert_eq!(
        import_differences(&format!(
            r#""howdah:operator/logging@{version}"
               (instance (export "shout" (func (param "words" string))))"#
        )),
        [(
            Kind::Extra,
            format!(
                "imports function `shout` of howdah:operator/logging, which this host ({version}) \
                 does not have"
            ),
            "shout: func(words: string)".to_owned(),
            String::new(),
        )]
    );
}

#[test]
fn a_type_that_has_changed_is_named_where_signatures_read_the_same() {
    let found = import_differences(&format!(
        r#""howdah:operator/logging@{}"
           (instance
            (type $levels (enum "trace" "debug"))
            (export "level" (type $level (eq $levels)))
            (export "enabled" (func (param "level" $level) (result bool))))"#,
        version()
    ));
    let [function, level] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(function.2, function.3, "the signatures read the same");
    assert_eq!(
        *level,
        (
            Kind::Changed,
            "has type `level` of howdah:operator/logging made of other parts".to_owned(),
            "enum level { trace, debug }".to_owned(),
            "enum level { trace, debug, info, warn, error }".to_owned(),
        )
    );
}

#[test]
fn a_type_under_another_name_is_the_same_type() {
    let found = import_differences(&format!(
        r#""howdah:operator/logging@{}"
           (instance
            (type $levels (enum "trace" "debug" "info" "warn" "error"))
            (export "severity" (type $level (eq $levels)))
            (export "enabled" (func (param "level" $level) (result bool))))"#,
        version()
    ));
    assert_eq!(found, []);
}

#[test]
fn imports_of_wasi_are_refused_with_the_way_to_a_pure_component() {
    let inspection = inspect(r#"(component (import "wasi:cli/environment@0.2.0" (instance)))"#);
    let difference = inspection.refusals().next().expect("a difference");
    assert_eq!(difference.kind, Kind::Foreign);
    assert!(difference.to_string().contains("wasi:cli/environment@0.2.0"), "{difference}");
    assert!(difference.to_string().contains("--stub-wasi"), "{difference}");
}

#[test]
fn a_refusal_for_wasi_is_short_and_says_which_grant_is_missing() {
    let import = |name: &str| format!("(import \"wasi:{name}@0.2.3\" (instance))");
    let imports = ["cli/environment", "filesystem/types", "io/streams"].map(import).concat();
    for (host, pipeline, missing) in [
        (
            false,
            false,
            "where both grant it: add [operator.wasi] to the pipeline file, and --allow",
        ),
        (true, false, "the pipeline file does not grant it: add [operator.wasi]"),
        (false, true, "the command line does not allow it: add --allow-wasi"),
    ] {
        let mut inspection = inspect(&format!("(component {imports})"));
        inspection.grant_wasi(host, pipeline);
        let refusal = inspection.refusal().expect("refused");
        assert!(refusal.contains(missing), "{refusal}");
        assert!(
            refusal.contains("wasi:filesystem/types@0.2.3, wasi:io/streams@0.2.3"),
            "{refusal}"
        );
        // One line for WASI and one for the way out, beside what else is wrong.
        assert_eq!(refusal.lines().count(), 5, "{refusal}");
    }
}

#[test]
fn another_version_of_the_contract_is_named() {
    let found = import_differences(r#""howdah:operator/logging@0.9.0" (instance)"#);
    let [(kind, what, ..)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(*kind, Kind::Version);
    assert!(what.contains("howdah:operator@0.9.0"), "{what}");
}

#[test]
fn what_is_no_component_is_refused() {
    let whole = std::fs::read(howdah_operator_artifacts::LAST_BID).expect("a component");
    for (bytes, said) in [
        (b"".as_slice(), "is empty"),
        (b"\0asm\x01\0\0\0", "is a core module, not a component"),
        (b"#!/bin/sh", "is no WebAssembly file"),
        (whole.get(..20_000).expect("long enough"), "is cut off"),
    ] {
        let error = Inspection::of("a.wasm", bytes).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Component);
        assert!(error.to_string().starts_with(&format!("a.wasm {said}")), "{error}");
    }
}

#[test]
fn a_flipped_byte_anywhere_is_an_error_or_facts_but_no_panic() {
    let whole = std::fs::read(howdah_operator_artifacts::LAST_BID).expect("a component");
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x15;
        if let Err(error) = Inspection::of("a.wasm", &bytes) {
            assert_eq!(error.kind(), ErrorKind::Component, "byte {at}: {error}");
        }
    }
}
