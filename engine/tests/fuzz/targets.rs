//! What must hold for any bytes, for the parsers of this crate. They panic where something does not.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use catena::attach::attachment::{Attachment, Recorded};
use catena::attach::document;
use catena::attach::entry::{Entry, Event, Intended, SCHEMA, line};
use catena::attach::recording::Recording;
use catena::cni::{CniError, Command, Conf, Invocation, Request, Target};
use catena::delegate::{DeviceInfoFile, Versions, cache};
use catena::node::{At, Grants, Limits, ModuleLock, NodeConfig};
use catena::pipeline::intent::Intent;
use catena::wasm::{Document, Outcome, grants};
use catena_cni::identifier::{ContainerId, IfName};
use catena_cni::json::{self, Value};
use catena_cni::result;
use catena_cni::version::SpecVersion;
use serde_json::json;

use super::values;

/// A complete error: a code, a message, nothing that a terminal would act on.
fn is_clear(error: &CniError) {
    assert_ne!(error.code, 0, "{error:?}");
    let object = error.clone().for_del().to_object(None);
    assert!(!object.msg.is_empty(), "{error:?}");
    let text = format!("{}{}", object.msg, object.details.unwrap_or_default());
    assert!(!text.chars().any(char::is_control), "{text:?}");
    let lower = text.to_lowercase();
    assert!(!lower.contains("not found") && !lower.contains("no such file or directory"), "{text}");
}

/// NAME=VALUE with a NUL after each.
pub(crate) fn environment(bytes: &[u8]) {
    let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((os(&entry[..at]), os(&entry[at + 1..])))
    });
    match Invocation::read(pairs) {
        Err(error) => {
            assert_eq!(error.code, 4);
            is_clear(&error);
        }
        Ok(invocation) => {
            if let Request::Add { target, netns } = &invocation.request {
                assert!(!netns.is_empty() && target.ifname.as_str().len() < 16);
            }
            assert!(
                invocation
                    .request
                    .command()
                    .is_none_or(|command| { command == Command::Version || !invocation.path.is_empty() })
            );
        }
    }
}

/// stdin of every command, and what would be recorded of it.
pub(crate) fn request(bytes: &[u8]) {
    for command in [Command::Add, Command::Del, Command::Check, Command::Gc, Command::Status] {
        match Conf::parse(bytes, command) {
            Err(error) => is_clear(&error),
            Ok(conf) if command == Command::Add => plan(&conf),
            Ok(_) => {}
        }
    }
}

/// What is recorded of a request is read back as it was.
fn plan(conf: &Conf) {
    let target = Target {
        container_id: ContainerId::parse("c1").expect("an id"),
        ifname: IfName::parse("eth0").expect("a name"),
    };
    let attachments = match Attachment::plan(conf, "K8S_POD_NAME=p", &target, "/run/netns/x", Path::new("/d"))
    {
        Err(error) => return is_clear(&error),
        Ok(attachments) => attachments,
    };
    let intended = Intended {
        schema: SCHEMA,
        network: conf.name.as_str().to_owned(),
        container_id: "c1".to_owned(),
        ifname: "eth0".to_owned(),
        mode: "meta".to_owned(),
        boot_id: String::new(),
        netns: "/run/netns/x".to_owned(),
        netns_id: (1, 2),
        netns_cookie: Some(u64::MAX),
        own_netns: false,
        args: "K8S_POD_NAME=p".to_owned(),
        bin_dir: None,
        cache_dir: "/var/lib/cni/catena".to_owned(),
        time: 0,
        pipeline: Vec::new(),
        attachments: attachments.iter().map(Attachment::to_intended).collect(),
    };
    let entry = Entry::read(&line(&intended).expect("JSON")).expect("it was written");
    assert_eq!(entry.intended, intended);
    let read = Recorded::of(&intended);
    for (position, attachment) in attachments.iter().enumerate() {
        let recorded = &intended.attachments[position];
        let back = read.attachment(position, "/run/netns/x").expect("it was written");
        assert_eq!(back.request, attachment.request);
        assert_eq!(back.to_intended(), *recorded);
        let granted = Grants::default();
        let context = attachment.subject.context.text(&[], &granted);
        assert_eq!(back.subject.context.text(&[], &granted), context);
        assert!(json::parse(context.as_bytes()).is_ok_and(|context| context["annotations"] == json!({})));
    }
}

/// stdout of a delegate that succeeded, all the way to the answer in each version.
pub(crate) fn delegate_output(bytes: &[u8]) {
    let Ok(value) = result::from_stdout(bytes, "1.0.0") else { return };
    let raw = document::Delegated::of(&value, "/run/netns/x").document;
    let converted = result::convert(&value, SpecVersion::NEWEST).ok();
    let converted =
        converted.map(|value| Document { format: "cni/1.1.0".to_owned(), text: value.to_string() });
    for document in converted.iter().chain([&raw]) {
        for asked in SpecVersion::ALL {
            match document::answer(document, asked) {
                Err(error) => is_clear(&error),
                Ok(answer) => {
                    assert_eq!(result::version_text(&answer), Some(asked.as_str()));
                    assert!(!json::has_null(&answer), "{answer}");
                    // Nobody converted the other, which may be anything else.
                    if document.format == "cni/1.1.0" && converted.is_some() {
                        values::assert_clean(&answer);
                    }
                }
            }
        }
        let _: Option<Value> = document::cached(document, "0.4.0");
        let _: Vec<String> = document::sandbox_interfaces(document, "/run/netns/x");
    }
}

/// A file of libcni's cache.
pub(crate) fn cache(bytes: &[u8]) {
    if let Ok(result) = cache::parse(bytes) {
        assert!(result.is_object() && result::version_text(&result) != Some(""), "{result}");
        let again = cache::parse(result.to_string().as_bytes());
        // A bare result is a file of the old form; one that looks like the new form is read as that.
        assert!(again.is_ok());
    }
}

/// What a delegate says about the device that it attached.
pub(crate) fn device_info(bytes: &[u8]) {
    match DeviceInfoFile::parse(bytes) {
        Ok(description) => {
            assert!(description.is_object());
            let again = DeviceInfoFile::parse(description.to_string().as_bytes());
            assert_eq!(again, Ok(description));
        }
        Err(cause) => assert!(!cause.chars().any(char::is_control), "{cause:?}"),
    }
}

/// What plugins answered to VERSION.
pub(crate) fn versions_file(bytes: &[u8]) {
    let _: usize = Versions::parse(bytes).len();
}

pub(crate) fn ledger(bytes: &[u8]) {
    let Ok(entry) = Entry::read(bytes) else { return };
    let _: (bool, bool) = (entry.is_finished(), entry.may_have_children());
    let (recorded, attached) = (Recorded::of(&entry.intended), entry.all_attached());
    for (position, attached) in attached.into_iter().enumerate() {
        let _: Option<&[u32]> = attached.and_then(Event::links);
        match recorded.attachment(position, "/run/netns/x") {
            Err(error) => is_clear(&error),
            Ok(attachment) => drop(attachment.to_intended()),
        }
    }
    let mut written = line(&entry.intended).expect("JSON");
    for event in &entry.events {
        written.extend(line(event).expect("JSON"));
    }
    assert_eq!(Entry::read(&written), Ok(entry));
}

fn all_grants() -> Grants {
    let all = json!({
        "publish": ["example.com/a"], "result": ["routes", "dns", "ips", "interfaces"], "config": ["/ipam", "/plugins/0/mtu"],
    });
    Grants::parse(At::Document, &all).expect("grants")
}

/// What a stage answers: a result, a tag, a publication.
pub(crate) fn outcome(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let before = Document { format: "cni/1.1.0".to_owned(), text: r#"{"cniVersion":"1.1.0"}"#.to_owned() };
    for format in ["cni/1.1.0", "cni/0.2.0", "raw", &text] {
        let result = Some(Document { format: format.to_owned(), text: text.clone() });
        for grants in [Grants::default(), all_grants()] {
            let outcome = Outcome { result: result.clone(), ..Outcome::default() };
            if grants::check_outcome(&before, &outcome, &grants, &Limits::default()).is_ok() {
                document::value(result.as_ref().expect("a result")).expect("it was checked");
            }
        }
    }
    let outcome = Outcome {
        tags: text.split(',').map(str::to_owned).collect(),
        publications: vec![("example.com/a".to_owned(), text.clone())],
        ..Outcome::default()
    };
    let _: Result<_, _> = grants::check_outcome(&before, &outcome, &all_grants(), &Limits::default());
}

/// What `admit` made of a config.
pub(crate) fn rewrite(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let before = r#"{"name":"n","plugins":[{"type":"p","ipam":{"type":"host-local"}}]}"#;
    for grants in [Grants::default(), all_grants()] {
        if let Ok(written) = grants::check_rewrite(before, &text, &grants, &Limits::default()) {
            let value = json::parse(written.as_bytes()).expect("it was written");
            assert_eq!(value["plugins"][0]["type"], "p", "a type is never rewritten: {written}");
        }
    }
    let _: Result<_, _> = grants::check_rewrite(&text, before, &all_grants(), &Limits::default());
}

pub(crate) fn intents(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for count in 0..3 {
        if let Ok(intents) = Intent::read_all(&text, count) {
            let written = Value::from(intents.iter().map(Intent::to_value).collect::<Vec<_>>()).to_string();
            assert_eq!(Intent::read_all(&written, count).ok(), Some(intents));
        }
    }
}

pub(crate) fn node_config(bytes: &[u8]) {
    if let Err(error) = NodeConfig::parse(Path::new("/etc/catena/node.json"), bytes) {
        is_clear(&CniError::new(error.code(), error.to_string()));
    }
}

pub(crate) fn module_lock(bytes: &[u8]) {
    if let Err(error) = ModuleLock::parse(Path::new("/var/lib/catena/modules/lock.json"), bytes) {
        is_clear(&CniError::new(error.code(), error.to_string()));
    }
}

/// What a module says that it wants, in its custom section.
pub(crate) fn module_wants(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice(bytes) else { return };
    let at = At::Document.member("catena:wants");
    if let Ok(grants) = Grants::parse(at, &value) {
        assert_eq!(Grants::parse(at, &grants.to_value()), Ok(grants));
    }
}

/// A recording, perhaps another node's.
pub(crate) fn recording(bytes: &[u8]) {
    if let Ok(recording) = Recording::parse(Path::new("recording.json"), bytes) {
        let _: Result<_, _> = recording.outcome();
        let written = serde_json::to_vec(&recording).expect("JSON");
        let again = Recording::parse(Path::new("recording.json"), &written).expect("what was written");
        assert_eq!(again, recording);
    }
}
