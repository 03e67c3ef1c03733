//! Where two JSON documents differ, as JSON pointers (RFC 6901).

use serde_json::Value;

/// Calls `found` for each place where the documents differ: the deepest that still holds the difference, and,
/// inside what one of them has and the other has not, every member as well.
pub fn differences(before: &Value, after: &Value, found: &mut dyn FnMut(&str)) {
    walk(&mut String::new(), Some(before), Some(after), found);
}

fn walk(at: &mut String, before: Option<&Value>, after: Option<&Value>, found: &mut dyn FnMut(&str)) {
    if before == after {
        return;
    }
    let kind = |value: Option<&Value>| match value {
        Some(Value::Object(_)) => 1,
        Some(Value::Array(_)) => 2,
        Some(_) => 3,
        None => 0,
    };
    if kind(before) != kind(after) || kind(before) == 3 {
        found(at);
    }
    let [old, new] = [before, after].map(|value| value.and_then(Value::as_object));
    for key in old.iter().flat_map(|map| map.keys()) {
        let (before, after) = (old.and_then(|map| map.get(key)), new.and_then(|map| map.get(key)));
        step(at, &token(key), before, after, found);
    }
    for (key, after) in
        new.into_iter().flatten().filter(|(key, _)| old.is_none_or(|map| !map.contains_key(*key)))
    {
        step(at, &token(key), None, Some(after), found);
    }
    let [old, new] =
        [before, after].map(|value| value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice));
    for index in 0..old.len().max(new.len()) {
        step(at, &index.to_string(), old.get(index), new.get(index), found);
    }
}

fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn step(
    at: &mut String,
    token: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    found: &mut dyn FnMut(&str),
) {
    let length = at.len();
    at.push('/');
    at.push_str(token);
    walk(at, before, after, found);
    at.truncate(length);
}

/// Whether the place is the granted one or inside it.
pub(crate) fn is_within(place: &str, granted: &str) -> bool {
    place.strip_prefix(granted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn differing(before: &Value, after: &Value) -> Vec<String> {
        let mut places = Vec::new();
        differences(before, after, &mut |place| places.push(place.to_owned()));
        places
    }

    #[test]
    fn places() {
        let before = json!({"a": 1, "b": {"c": [1, 2]}, "d": {"type": "x"}});
        for (after, places) in [
            (json!({"d": {"type": "x"}, "b": {"c": [1, 2]}, "a": 1}), &[][..]),
            (json!({"a": 2, "b": {"c": [1, 2]}, "d": {"type": "x"}}), &["/a"][..]),
            (json!({"a": 1, "b": {"c": [1, 3, 4]}, "d": {"type": "x"}}), &["/b/c/1", "/b/c/2"][..]),
            (json!({"a": 1, "b": {"c": [1, 2]}}), &["/d", "/d/type"][..]),
            (
                json!({"a": 1, "b": {"c": {"x/~": 1}}, "d": {"type": "y"}}),
                &["/b/c", "/b/c/x~1~0", "/b/c/0", "/b/c/1", "/d/type"][..],
            ),
            (json!([]), &["", "/a", "/b", "/b/c", "/b/c/0", "/b/c/1", "/d", "/d/type"][..]),
        ] {
            assert_eq!(differing(&before, &after), places, "{after}");
        }
    }

    #[test]
    fn within() {
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", ""));
        assert!(!is_within("/ab", "/a") && !is_within("/a", "/a/b"));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            "[a-c]".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c/~]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn none_exactly_if_equal(before in any_json(), after in any_json()) {
            prop_assert_eq!(differing(&before, &after).is_empty(), before == after);
        }

        #[test]
        fn each_once(before in any_json(), after in any_json()) {
            let mut places = differing(&before, &after);
            let count = places.len();
            places.sort();
            places.dedup();
            prop_assert_eq!(places.len(), count);
        }
    }
}
