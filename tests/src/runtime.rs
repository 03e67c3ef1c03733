//! A container runtime in small: calls plugins as libcni does, for catena and for the twin without it.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::trace::{self, Tracee};
use crate::world::{self, OWN_BIN, Output, PLUGIN_BIN, World};

/// One container and interface, as a runtime names it.
#[derive(Debug, Clone)]
pub struct Pod<'w> {
    pub world: &'w World,
    pub id: String,
    /// CNI_NETNS.
    pub netns: String,
    pub ifname: String,
    /// CNI_ARGS.
    pub args: String,
    /// CNI_PATH.
    pub path: String,
    /// More environment, such as CATENA_ROOT.
    pub env: Vec<(String, String)>,
}

/// What a plugin answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub what: String,
    pub output: Output,
}

/// A CNI error object.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: i64,
    pub msg: String,
    pub details: String,
    pub elapsed: Duration,
}

impl<'w> Pod<'w> {
    /// A pod with a fresh network namespace `name` and container id `id-NAME`.
    pub fn new(world: &'w World, name: &str) -> Pod<'w> {
        world.pod(name);
        Pod::existing(world, name)
    }

    /// The pod of that name whose network namespace is there already.
    pub fn existing(world: &'w World, name: &str) -> Pod<'w> {
        Pod {
            world,
            id: format!("id-{name}"),
            netns: format!("/run/netns/{name}"),
            ifname: "eth0".into(),
            args: format!(
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name};K8S_POD_UID=uid-{name}"
            ),
            path: format!("{OWN_BIN}:{PLUGIN_BIN}"),
            env: Vec::new(),
        }
    }

    /// The same pod after its namespace was closed: CNI_NETNS is empty.
    pub fn without_netns(&self) -> Pod<'w> {
        Pod { netns: String::new(), ..self.clone() }
    }

    /// Removes the network namespace behind everybody's back.
    pub fn vanish(&self) {
        let name = self.netns.rsplit('/').next().unwrap_or_default();
        self.world.sh(&format!("ip netns del {name}"));
        // The kernel takes a namespace apart in the background; the ends of its veth pairs go with it.
        let end = Instant::now() + Duration::from_secs(10);
        while crate::state::links(self.world, None).iter().any(|link| link == "VETH0") && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Gives a process the environment of a call.
    pub fn describe(&self, process: &mut Command, command: &str) {
        process
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &self.id)
            .env("CNI_NETNS", &self.netns)
            .env("CNI_IFNAME", &self.ifname)
            .env("CNI_ARGS", &self.args)
            .env("CNI_PATH", &self.path)
            .envs(self.env.iter().map(|(key, value)| (key, value)));
    }

    /// Starts a plugin under the tracer.
    pub fn trace(&self, plugin: &str, command: &str, conf: &Value) -> Tracee {
        let mut process = trace::command(self.world, &self.find(plugin));
        self.describe(&mut process, command);
        Tracee::start(process, conf.to_string().as_bytes())
    }

    /// A plugin's file, in the first folder of the path that has one.
    fn find(&self, plugin: &str) -> String {
        let mut folders = self.path.split(':');
        let has = |folder: &&str| self.world.path(&format!("{folder}/{plugin}")).exists();
        format!("{}/{plugin}", folders.find(has).unwrap_or(OWN_BIN))
    }

    /// Calls one plugin with `stdin` as it is.
    pub fn call_raw(&self, plugin: &str, command: &str, stdin: &[u8]) -> Reply {
        let mut process = self.world.command(&self.find(plugin));
        self.describe(&mut process, command);
        Reply {
            what: format!("{plugin} {command} {}", String::from_utf8_lossy(stdin)),
            output: world::finish(process, stdin),
        }
    }

    /// Calls one plugin.
    pub fn call(&self, plugin: &str, command: &str, conf: &Value) -> Reply {
        self.call_raw(plugin, command, conf.to_string().as_bytes())
    }

    /// ADD of catena.
    pub fn add(&self, conf: &Value) -> Reply {
        self.call("catena", "ADD", conf)
    }

    /// CHECK of catena, with the result of ADD as every runtime sends it.
    pub fn check(&self, conf: &Value, result: &Value) -> Reply {
        self.call("catena", "CHECK", &with_previous(conf, Some(result)))
    }

    /// DEL of catena; runtimes send the result of ADD if they still have it.
    pub fn del(&self, conf: &Value, result: Option<&Value>) -> Reply {
        self.call("catena", "DEL", &with_previous(conf, result))
    }

    /// What libcni's cache holds about a delegate's attachment: its result.
    pub fn cached(&self, network: &str, ifname: &str) -> Value {
        let file = format!("/var/lib/cni/catena/results/{network}-{}-{ifname}", self.id);
        let cache: Value = serde_json::from_str(&self.world.read(&file)).expect("a cache file is JSON");
        assert_eq!(cache["kind"], "cniCacheV1", "{file}");
        assert_eq!(cache["containerId"], self.id.as_str(), "{file}");
        assert_eq!(cache["ifName"], ifname, "{file}");
        assert_eq!(cache["networkName"], network, "{file}");
        cache["result"].clone()
    }

    /// The network status of this pod, from the file for other programs.
    pub fn status(&self, network: &str) -> Vec<Value> {
        let file = format!("/run/catena/status/{network}-{}-{}.json", self.id, self.ifname);
        let status: Value = serde_json::from_str(&self.world.read(&file)).expect("a status is JSON");
        status.as_array().unwrap_or_else(|| panic!("{file}: not a list: {status}")).clone()
    }

    /// ADD of a list or single config by libcni's rules.
    pub fn add_list(&self, list: &Value) -> Value {
        let mut result = None;
        for plugin in plugins(list) {
            let reply = self.call(kind(&plugin), "ADD", &with_previous(&plugin, result.as_ref()));
            result = Some(reply.result());
        }
        result.unwrap_or_else(|| panic!("a list without plugins: {list}"))
    }

    /// CHECK of a list or single config by libcni's rules.
    pub fn check_list(&self, list: &Value, result: &Value) {
        for plugin in plugins(list) {
            self.call(kind(&plugin), "CHECK", &with_previous(&plugin, Some(result))).done();
        }
    }

    /// DEL of a list or single config by libcni's rules.
    pub fn del_list(&self, list: &Value, result: Option<&Value>) {
        for plugin in plugins(list).iter().rev() {
            self.call(kind(plugin), "DEL", &with_previous(plugin, result)).done();
        }
    }
}

impl Reply {
    /// The JSON documents on stdout; anything else there is an error.
    fn documents(&self) -> Vec<Value> {
        serde_json::Deserializer::from_str(&self.output.stdout)
            .into_iter()
            .map(|document| document.unwrap_or_else(|error| self.fail(&format!("stdout: {error}"))))
            .collect()
    }

    fn fail(&self, problem: &str) -> ! {
        panic!(
            "{problem}\ncall: {}\nexit {:?} signal {:?} after {:?}\nstdout: {}\nstderr: {}",
            self.what,
            self.output.exit,
            self.output.signal,
            self.output.elapsed,
            self.output.stdout,
            self.output.stderr
        )
    }

    fn not_held(&self) {
        if self.output.held {
            self.fail("somebody still holds its stdout or stderr, which keeps a runtime waiting");
        }
    }

    /// Success with exactly one JSON object: the answer to ADD and VERSION.
    pub fn result(&self) -> Value {
        self.not_held();
        let documents = self.documents();
        match (self.output.exit, documents.as_slice()) {
            (Some(0), [result]) if result.is_object() => result.clone(),
            (Some(0), _) => self.fail("not exactly one JSON object on stdout"),
            _ => self.fail("failed, should have succeeded"),
        }
    }

    /// Success of a command that has no answer.
    pub fn done(&self) {
        self.not_held();
        if self.output.exit != Some(0) {
            self.fail("failed, should have succeeded");
        }
        if self.documents().len() > 1 {
            self.fail("more than one document on stdout");
        }
    }

    /// Failure with exactly one complete CNI error object.
    pub fn failure(&self) -> Failure {
        self.not_held();
        match self.output.exit {
            Some(1..) => {}
            Some(0) => self.fail("succeeded, should have failed"),
            _ => self.fail("died"),
        }
        let documents = self.documents();
        let [error] = documents.as_slice() else {
            self.fail("not exactly one document on stdout");
        };
        let text = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(code) = error.get("code").and_then(Value::as_i64) else {
            self.fail("an error object without code");
        };
        let Some(msg) = text("msg").filter(|msg| !msg.is_empty()) else {
            self.fail("an error object without msg");
        };
        if text("cniVersion").is_none() {
            self.fail("an error object without cniVersion");
        }
        Failure { code, msg, details: text("details").unwrap_or_default(), elapsed: self.output.elapsed }
    }

    /// Failure with this code and all these words in msg or details.
    pub fn fails_with(&self, code: i64, words: &[&str]) -> Failure {
        let failure = self.failure();
        if failure.code != code {
            self.fail(&format!("code {}, should be {code}", failure.code));
        }
        for word in words {
            if !failure.text().to_lowercase().contains(&word.to_lowercase()) {
                self.fail(&format!("the error does not say {word:?}"));
            }
        }
        failure
    }
}

impl Failure {
    /// msg and details together.
    pub fn text(&self) -> String {
        format!("{}; {}", self.msg, self.details)
    }
}

/// The config with a prevResult, or without any.
pub fn with_previous(conf: &Value, result: Option<&Value>) -> Value {
    let mut conf = conf.clone();
    let object = conf.as_object_mut().expect("a config object");
    object.remove("prevResult");
    if let Some(result) = result {
        object.insert("prevResult".into(), result.clone());
    }
    conf
}

/// The single configs of a list, each with the list's name and version, as a runtime sends them.
pub fn plugins(list: &Value) -> Vec<Value> {
    let Some(plugins) = list.get("plugins").and_then(Value::as_array) else {
        return vec![list.clone()];
    };
    plugins
        .iter()
        .map(|plugin| {
            let mut plugin: Map<String, Value> = plugin.as_object().expect("a plugin").clone();
            plugin.insert("name".into(), list["name"].clone());
            plugin.insert("cniVersion".into(), list["cniVersion"].clone());
            Value::Object(plugin)
        })
        .collect()
}

fn kind(plugin: &Value) -> &str {
    plugin["type"].as_str().expect("a plugin's type")
}

/// The GC request for catena with the attachments that are still valid.
pub fn gc_conf(conf: &Value, valid: &[(&str, &str)]) -> Value {
    let mut conf = conf.clone();
    let set: Vec<Value> =
        valid.iter().map(|(id, ifname)| json!({"containerID": id, "ifname": ifname})).collect();
    conf["cni.dev/valid-attachments"] = json!(set);
    conf["cni.dev/attachments"] = json!(set);
    conf
}
