use serde_json::Value;

use super::ModuleName;
use super::object::{Object, Problems};
use super::place::At;
use super::problem::{Problem, Refused, short};

/// A stage in a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the module.
    pub stage: String,
    /// Its own configuration, an object.
    pub config: Option<Value>,
    /// Runs only if all of these tags are set.
    pub when: Vec<String>,
    /// Does not run if one of these tags is set.
    pub unless: Vec<String>,
    /// What its failure means.
    pub on_error: OnError,
    /// Whether what it does takes effect.
    pub mode: EntryMode,
}

/// `onError`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The attachment fails.
    #[default]
    Fail,
    /// The pipeline goes on without it.
    Skip,
}

impl OnError {
    /// The spelling in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }

    /// Reads the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Fail, Self::Skip].into_iter().find(|one| one.as_str() == text)
    }
}

/// `mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryMode {
    /// It acts.
    #[default]
    Enforce,
    /// It runs, changes nothing, and what it would have done is logged.
    Monitor,
}

impl EntryMode {
    /// The spelling in an entry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Monitor => "monitor",
        }
    }

    /// Reads the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Enforce, Self::Monitor].into_iter().find(|one| one.as_str() == text)
    }
}

impl Entry {
    /// An entry with nothing but its stage.
    pub fn of(stage: &str) -> Self {
        Self {
            stage: stage.to_owned(),
            config: None,
            when: Vec::new(),
            unless: Vec::new(),
            on_error: OnError::default(),
            mode: EntryMode::default(),
        }
    }

    /// Reads a pipeline that a CNI config writes out. Keys are found without regard to case, as Go plugins find
    /// theirs. `at` says where it stands.
    ///
    /// # Errors
    /// Every problem.
    pub fn parse_all(at: &At<'_>, entries: &[Value]) -> Result<Vec<Self>, Refused> {
        let (read, problems) = Self::parse_each(at, entries);
        if problems.is_empty() { Ok(read) } else { Err(Refused(problems)) }
    }

    /// The same where somebody wants to know more than that something is wrong: an entry for each, and every problem.
    /// What cannot be read of an entry is as if it were not there, its stage is then the empty text.
    pub fn parse_each(at: &At<'_>, entries: &[Value]) -> (Vec<Self>, Vec<Problem>) {
        let mut problems = Problems::default();
        let read = Self::read_each(at, entries, true, &mut problems);
        (read, problems.into_vec())
    }

    /// Reads a pipeline of the node's own files.
    pub(super) fn read_all(at: &At<'_>, value: &Value, problems: &mut Problems) -> Vec<Self> {
        match value.as_array() {
            Some(entries) => Self::read_each(at, entries, false, problems),
            None => {
                problems.add(Problem::wrong(at, "an array of pipeline entries", value));
                Vec::new()
            }
        }
    }

    fn read_each(at: &At<'_>, entries: &[Value], any_case: bool, problems: &mut Problems) -> Vec<Self> {
        let read = |(index, value)| Self::read(at.element(index), value, any_case, problems);
        let entries = entries.iter().enumerate().map(read);
        entries.map(|entry| entry.unwrap_or_else(|| Self::of(""))).collect()
    }

    fn read(at: At<'_>, value: &Value, any_case: bool, problems: &mut Problems) -> Option<Self> {
        let mut object = Object::new(at, value, problems)?.with_extensions();
        if any_case {
            object = object.any_case();
        }
        let stage = object.read("stage", "the name of a module", problems, |value| {
            value.as_str().filter(|name| ModuleName::parse(name).is_some())
        });
        if stage.is_none() && object.get("stage").is_none() {
            problems.value(&at, format!("{at} has no stage; name the module that it runs"));
        }
        let stage = stage.unwrap_or_default();
        let config = object.get("config").filter(|config| !config.is_null());
        if let Some(config) = config.filter(|config| !config.is_object()) {
            let at = object.at("config");
            let text = format!("{at} of stage {stage} must be an object, not {}", short(config));
            problems.value(&at, text);
        }
        let config = config.filter(|config| config.is_object());
        let mut tags = |key| {
            let tags = object.read(key, "an array of tags", problems, |value| match value {
                Value::Null => Some(Vec::new()),
                value => value.as_array()?.iter().map(|tag| tag.as_str().map(str::to_owned)).collect(),
            });
            tags.unwrap_or_default()
        };
        let (when, unless) = (tags("when"), tags("unless"));
        let on_error = object
            .read("onError", "\"fail\" or \"skip\"", problems, |value| OnError::parse(value.as_str()?))
            .unwrap_or_default();
        let mode = object
            .read("mode", "\"enforce\" or \"monitor\"", problems, |value| EntryMode::parse(value.as_str()?))
            .unwrap_or_default();
        object.end(problems);
        Some(Self { stage: stage.to_owned(), config: config.cloned(), when, unless, on_error, mode })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(entries: Value) -> Result<Vec<Entry>, Refused> {
        Entry::parse_all(&At::Document.member("pipeline"), entries.as_array().unwrap())
    }

    #[test]
    fn everything_is_read_in_any_case() {
        let entry = json!({
            "Stage": "s", "CONFIG": {"a": 1}, "when": ["x"], "unless": null, "onerror": "skip", "mode": "monitor",
            "example.org/note": 1
        });
        let read = parse(json!([entry])).unwrap();
        let expected = Entry {
            config: Some(json!({"a": 1})),
            when: vec!["x".into()],
            on_error: OnError::Skip,
            mode: EntryMode::Monitor,
            ..Entry::of("s")
        };
        assert_eq!(read, [expected]);
        assert_eq!(parse(json!([{"stage": "s", "config": null}])).unwrap(), [Entry::of("s")]);
    }

    #[test]
    fn every_problem_names_its_place() {
        let refused = parse(json!([
            {"stage": "s", "conf": {}}, {"config": []}, 1, {"stage": "../x", "when": "tag", "onError": "ignore"}
        ]))
        .unwrap_err();
        assert_eq!(refused.0[0].code, catena_cni::error::code::UNSUPPORTED_FIELD);
        let pointers: Vec<&str> = refused.0.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(pointers[..4], ["/pipeline/0/conf", "/pipeline/1", "/pipeline/1/config", "/pipeline/2"]);
        let text = refused.to_string();
        for part in [
            "unknown key pipeline[0].conf",
            "pipeline[1] has no stage",
            "pipeline[1].config of stage",
            "pipeline[2] must be an object",
            "pipeline[3].stage",
            "pipeline[3].when",
            "pipeline[3].onError",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn the_nodes_own_files_are_spelt_as_documented() {
        let mut problems = Problems::default();
        Entry::read_all(
            &At::Document.member("pipelines").member("x"),
            &json!([{"Stage": "s"}]),
            &mut problems,
        );
        let texts = problems.into_texts();
        assert!(texts.iter().any(|text| text.contains("unknown key pipelines.x[0].Stage")), "{texts:?}");
    }
}
