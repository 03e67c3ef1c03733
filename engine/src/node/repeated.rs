//! Keys that a JSON object has more than once. Readers differ in which of them counts, so in a file of the node none
//! does.

use std::collections::BTreeSet;

use super::place::At;

enum Frame {
    Object { seen: BTreeSet<String>, key: String, expects_key: bool },
    Array { index: usize },
}

/// Where a repeated key stands.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated {
    /// As the other problems of a file name places: `modules.x.grants`, `pipelines.p[0].stage`.
    pub text: String,
    /// As a JSON pointer.
    pub pointer: String,
}

/// The places of repeated keys, one for each repetition. What is no JSON has none; whoever reads it says so.
pub fn repeated(json: &[u8]) -> Vec<Repeated> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' => {
                frames.push(Frame::Object { seen: BTreeSet::new(), key: String::new(), expects_key: true })
            }
            b'[' => frames.push(Frame::Array { index: 0 }),
            b'}' | b']' => drop(frames.pop()),
            b',' => match frames.last_mut() {
                Some(Frame::Object { expects_key, .. }) => *expects_key = true,
                Some(Frame::Array { index }) => *index += 1,
                None => {}
            },
            b'"' => {
                at = end_of_string(json, at);
                if let Some(Frame::Object { seen, key, expects_key }) = frames.last_mut()
                    && std::mem::take(expects_key)
                    && let Some(Ok(name)) = json.get(start..at).map(serde_json::from_slice::<String>)
                {
                    let is_new = seen.insert(name.clone());
                    *key = name;
                    if !is_new {
                        found.push(place(&frames));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The place behind the quotation mark that ends a string, whose text begins at `at`.
fn end_of_string(json: &[u8], mut at: usize) -> usize {
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

fn place(frames: &[Frame]) -> Repeated {
    let (mut text, mut pointer) = (String::new(), String::new());
    for frame in frames {
        match frame {
            Frame::Object { key, .. } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
                pointer.push_str(&At::Document.member(key).pointer());
            }
            Frame::Array { index } => {
                text.push_str(&format!("[{index}]"));
                pointer.push_str(&At::Document.element(*index).pointer());
            }
        }
    }
    Repeated { text, pointer }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repetitions_are_named_with_their_place() {
        for (json, places) in [
            (r#"{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}"#, &[][..]),
            (r#"{"a": 1, "a": 1}"#, &["a"]),
            (r#"{"a": "a", "\u0061": ["a", "a"], "a": {}}"#, &["a", "a"]),
            (r#"{"m": {"x": {"g": {}, "l": "{\"l\": 1, \"l\"", "g": 2}, "x": {}}}"#, &["m.x.g", "m.x"]),
            (r#"{"p": {"q": [{"stage": "a"}, {"stage": "a", "stage": "b"}]}}"#, &["p.q[1].stage"]),
            (r#"[[{"k\\": 1, "k\"": 2, "k\\": 3}]]"#, &["[0][0].k\\"]),
            ("\"a", &[]),
            ("}]{", &[]),
        ] {
            let found: Vec<String> = repeated(json.as_bytes()).into_iter().map(|place| place.text).collect();
            assert_eq!(found, places, "{json}");
        }
    }

    #[test]
    fn the_place_is_a_pointer_too() {
        let found = repeated(br#"{"p": {"a/b": [{}, {"stage": "a", "stage": "b"}]}}"#);
        assert_eq!(found[0].pointer, "/p/a~1b/1/stage");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            repeated(&bytes);
        }

        #[test]
        fn what_serde_writes_has_none(keys in prop::collection::btree_map(".*", ".*", 0..5)) {
            prop_assert_eq!(repeated(&serde_json::to_vec(&keys).unwrap()), []);
        }
    }
}
