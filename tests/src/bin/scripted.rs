//! A CNI plugin that does what its config says: `"script": {"ADD": STEP, "DEL": STEP, …}`.
//!
//! STEP has, in the order of their effect: `sh` (a shell script with the CNI environment; its stdout is the
//! plugin's, its failure the plugin's), `result` (printed as JSON, `$CNI_NETNS` and `$CNI_IFNAME` replaced), `exit`.
//! A command without a step: ADD prints `{}`, all others print nothing. Instead of a script in the config, the file
//! /run/scripted/NETWORK.json wins if it exists, so that a test can change what a plugin does between two calls.
//! VERSION prints /run/scripted/versions.json if it exists.
//!
//! Every call but VERSION is logged to /run/scripted/calls.jsonl: command, ifname, netns, args, path, stdin.

use std::fs;
use std::io::{self, Read, Write};
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
    if command == "VERSION" {
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
    log(&command, &conf)?;
    let network = conf["name"].as_str().unwrap_or_default();
    let script = match fs::read(format!("{FOLDER}/{network}.json")) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => conf["script"].clone(),
    };
    let step = &script[&command];
    if let Some(sh) = step["sh"].as_str() {
        let status = Command::new("sh").args(["-euc", sh]).status()?;
        if !status.success() {
            return Ok(status.code().map_or(1, |code| code.to_le_bytes()[0]));
        }
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

fn log(command: &str, conf: &Value) -> io::Result<()> {
    fs::create_dir_all(FOLDER)?;
    let line = json!({
        "command": command,
        "ifname": variable("CNI_IFNAME"),
        "containerId": variable("CNI_CONTAINERID"),
        "netns": variable("CNI_NETNS"),
        "args": variable("CNI_ARGS"),
        "path": variable("CNI_PATH"),
        "stdin": conf,
    });
    let mut file = fs::OpenOptions::new().create(true).append(true).open(format!("{FOLDER}/calls.jsonl"))?;
    file.write_all(format!("{line}\n").as_bytes())
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
