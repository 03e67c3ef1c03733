//! A CNI plugin that does what its config says: `"script": {"ADD": STEP, "DEL": STEP, …}`.
//!
//! STEP has, in the order of their effect: `sh` (a shell script with the CNI environment; its stdout is the
//! plugin's, its failure the plugin's), `text` (printed as it is), `previous` (prints the request's prevResult), `result` (printed as JSON, `$CNI_NETNS` and
//! `$CNI_IFNAME` replaced), `exit`. `"speaks": [VERSION]` beside the steps refuses any other cniVersion as Go plugins do.
//! A command without a step: ADD prints `{}`, all others print nothing. Instead of a
//! script in the config, the file /run/scripted/NETWORK-TYPE.json wins if it exists, then /run/scripted/NETWORK.json,
//! so that a test can change what a plugin does between two calls. VERSION is answered by the file
//! /run/scripted/versions-TYPE.sh, run with sh, then by the text of /run/scripted/versions.json, if they exist. TYPE is
//! the name that the program was started under.
//!
//! Every call but VERSION is logged to /run/scripted/calls.jsonl: plugin, command, ifname, netns, args, path, stdin;
//! of VERSION the TYPE, a line each, to /run/scripted/probes.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use serde_json::{Value, json};

const FOLDER: &str = "/run/scripted";

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            println!("{}", json!({"cniVersion": "1.0.0", "code": 999, "msg": format!("scripted: {error}")}));
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<u8> {
    let command = variable("CNI_COMMAND");
    let kind = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let kind = kind.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if command == "VERSION" {
        append("probes", &kind)?;
        let script = format!("{FOLDER}/versions-{kind}.sh");
        if Path::new(&script).exists() {
            let status = Command::new("sh").arg(script).status()?;
            return Ok(status.code().map_or(1, |code| code.to_le_bytes()[0]));
        }
        let versions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];
        match fs::read_to_string(format!("{FOLDER}/versions.json")) {
            Ok(text) => print!("{text}"),
            Err(_) => println!("{}", json!({"cniVersion": "1.1.0", "supportedVersions": versions})),
        }
        return Ok(0);
    }
    let mut stdin = Vec::new();
    io::stdin().read_to_end(&mut stdin)?;
    let conf: Value = serde_json::from_slice(&stdin)?;
    log(&kind, &command, &conf)?;
    let network = conf["name"].as_str().unwrap_or_default();
    let files = [format!("{FOLDER}/{network}-{kind}.json"), format!("{FOLDER}/{network}.json")];
    let script = match files.iter().find_map(|file| fs::read(file).ok()) {
        Some(text) => serde_json::from_slice(&text)?,
        None => conf["script"].clone(),
    };
    if let Some(spoken) = script["speaks"].as_array()
        && !spoken.contains(&conf["cniVersion"])
    {
        let details = format!("config is {}, plugin supports {}", conf["cniVersion"], script["speaks"]);
        println!("{}", json!({"code": 1, "msg": "incompatible CNI versions", "details": details}));
        return Ok(1);
    }
    let step = &script[&command];
    if let Some(sh) = step["sh"].as_str() {
        let status = Command::new("sh").args(["-euc", sh]).status()?;
        if !status.success() {
            return Ok(status.code().map_or(1, |code| code.to_le_bytes()[0]));
        }
    }
    print!("{}", step["text"].as_str().unwrap_or_default());
    if step["previous"] == true {
        print!("{}", conf["prevResult"]);
    }
    let default = if command == "ADD" && step.is_null() { json!({}) } else { Value::Null };
    let result = step.get("result").unwrap_or(&default);
    if !result.is_null() {
        let text = result
            .to_string()
            .replace("$CNI_NETNS", &variable("CNI_NETNS"))
            .replace("$CNI_IFNAME", &variable("CNI_IFNAME"));
        println!("{text}");
    }
    let exit = step["exit"].as_u64().and_then(|code| u8::try_from(code).ok());
    Ok(exit.unwrap_or(0))
}

fn log(kind: &str, command: &str, conf: &Value) -> io::Result<()> {
    let line = json!({
        "plugin": kind,
        "command": command,
        "ifname": variable("CNI_IFNAME"),
        "containerId": variable("CNI_CONTAINERID"),
        "netns": variable("CNI_NETNS"),
        "args": variable("CNI_ARGS"),
        "path": variable("CNI_PATH"),
        "stdin": conf,
    });
    append("calls.jsonl", &line.to_string())
}

fn append(name: &str, line: &str) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(format!("{FOLDER}/{name}"))?;
    file.write_all(format!("{line}\n").as_bytes())
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
