//! Documents as they are written, and as nobody should write them.

use super::*;
use proptest::prelude::*;

fn decode_sample(document: &Document) -> Result<Document> {
    Document::decode("the document", &document.encode().unwrap())
}

#[test]
fn document_comes_back_as_it_was() {
    assert_eq!(decode_sample(&sample()).unwrap(), sample());
}

#[test]
fn payload_comes_back_whatever_it_is() {
    for bytes in [&b""[..], b"{\"a\": 1}", b"\xff\x00", "\u{0}\u{1f600}".as_bytes()] {
        assert_eq!(Payload::new(bytes).bytes().unwrap(), bytes);
    }
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    for path in [
        "../LOCK",
        "/etc/passwd",
        "bucket-0/../../x",
        "bucket-0/..",
        "bucket-0/.x",
        "bucket-0/",
        "bucket-x/a",
        "bucket-/a",
        "bucket-0/a/b",
        "manifest/a\\b",
        "schema/schema-0",
        "snapshot/snapshot-1",
        "bucket-0",
        "",
    ] {
        let mut document = sample();
        document.tables[0].files[0].path = path.into();
        assert_eq!(decode_sample(&document).unwrap_err().kind(), ErrorKind::Corrupt, "{path}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["..", "a/b", "", "a__..__b", "a____b"] {
        let mut document = sample();
        document.tables[0].name = name.into();
        assert!(decode_sample(&document).is_err(), "table {name}");
        let document = Document { tenant: name.into(), ..sample() };
        assert!(decode_sample(&document).is_err(), "tenant {name}");
    }
}

#[test]
fn newer_version_is_refused_with_a_way_out() {
    let bytes = sample().encode().unwrap();
    let text = String::from_utf8(bytes).unwrap().replacen(" 1 ", " 9 ", 1);
    let error = Document::decode("the document", text.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("version 9"), "{error}");
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Document::decode("the document", &bytes).is_err());
        prop_assert!(decode::<Intent>(INTENT, "the intent", &bytes).is_err());
    }

    /// Past the checksum: a body that is anything.
    #[test]
    fn arbitrary_bodies_are_refused(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let sum = xxhash_rust::xxh3::xxh3_64(&body);
        let mut bytes = format!("{CHECKPOINT} {VERSION} {sum:016x}\n").into_bytes();
        bytes.extend(body);
        prop_assert!(Document::decode("the document", &bytes).is_err());
    }

    /// Past the checksum: a document with some of its text changed.
    #[test]
    fn changed_documents_are_refused_or_sound(
        at in any::<prop::sample::Index>(),
        text in "[ -~]{0,8}",
    ) {
        let bytes = sample().encode().unwrap();
        let start = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        let mut body = bytes[start..].to_vec();
        let at = at.index(body.len());
        let end = (at + text.len()).min(body.len());
        body.splice(at..end, text.bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&body);
        let mut bytes = format!("{CHECKPOINT} {VERSION} {sum:016x}\n").into_bytes();
        bytes.extend(body);
        if let Ok(document) = Document::decode("the document", &bytes) {
            prop_assert!(document.check().is_ok());
        }
    }

    #[test]
    fn flipped_bits_are_refused(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut bytes = sample().encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(Document::decode("the document", &bytes).is_err());
    }
}
