//! The part of the Kubernetes Container Runtime Interface (runtime.v1) that makes and ends pods, over gRPC on a Unix
//! socket. Field numbers are those of the CRI's api.proto.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

/// Longer than any call of a test takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    namespace: String,
}

#[derive(Clone, PartialEq, Message)]
struct LinuxConfig {
    #[prost(string, tag = "1")]
    cgroup_parent: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodConfig {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "8")]
    linux: Option<LinuxConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct RunRequest {
    #[prost(message, optional, tag = "1")]
    config: Option<PodConfig>,
}

#[derive(Clone, PartialEq, Message)]
struct PodId {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(bool, tag = "2")]
    verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
struct NetworkStatus {
    #[prost(string, tag = "1")]
    ip: String,
}

#[derive(Clone, PartialEq, Message)]
struct PodStatus {
    #[prost(message, optional, tag = "5")]
    network: Option<NetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<PodStatus>,
    #[prost(map = "string, string", tag = "2")]
    info: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// A client of one runtime.
#[derive(Debug)]
pub struct Cri {
    socket: PathBuf,
    runtime: Runtime,
}

/// A pod that runs.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub id: String,
    /// What the kubelet would report.
    pub ip: String,
    /// The path of its network namespace.
    pub netns: String,
    /// The process that holds it.
    pub pid: u64,
}

impl Cri {
    /// A client for the socket.
    pub fn new(socket: &Path) -> Cri {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime for the client");
        Cri { socket: socket.to_owned(), runtime }
    }

    /// Makes a pod; the error is the runtime's text.
    pub fn run(&self, name: &str) -> Result<Sandbox, String> {
        let config = PodConfig {
            metadata: Some(Metadata {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                namespace: "default".to_owned(),
            }),
            linux: Some(LinuxConfig { cgroup_parent: "/catena-tests".to_owned() }),
        };
        let PodId { id } = self.call("RunPodSandbox", &RunRequest { config: Some(config) })?;
        let response: StatusResponse =
            self.call("PodSandboxStatus", &StatusRequest { id: id.clone(), verbose: true })?;
        let info: Value = response
            .info
            .get("info")
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| format!("no info about pod {id}"))?;
        let namespaces = info["runtimeSpec"]["linux"]["namespaces"].as_array().cloned().unwrap_or_default();
        let network = namespaces.iter().find(|namespace| namespace["type"] == "network");
        Ok(Sandbox {
            id,
            ip: response.status.and_then(|status| status.network).unwrap_or_default().ip,
            netns: network.and_then(|network| network["path"].as_str()).unwrap_or_default().to_owned(),
            pid: info["pid"].as_u64().unwrap_or_default(),
        })
    }

    /// Stops a pod, which ends its network.
    pub fn stop(&self, id: &str) -> Result<(), String> {
        self.call::<_, Empty>("StopPodSandbox", &PodId { id: id.to_owned() }).map(drop)
    }

    /// Removes a stopped pod.
    pub fn remove(&self, id: &str) -> Result<(), String> {
        self.call::<_, Empty>("RemovePodSandbox", &PodId { id: id.to_owned() }).map(drop)
    }

    fn call<Q: Message, A: Message + Default>(&self, method: &str, request: &Q) -> Result<A, String> {
        let answer = self.runtime.block_on(async {
            let call = unary(&self.socket, method, request.encode_to_vec());
            tokio::time::timeout(PATIENCE, call).await.map_err(|_| "no answer in time".to_owned())?
        });
        let bytes = answer.map_err(|error| format!("{method}: {error}"))?;
        A::decode(bytes).map_err(|error| format!("{method}: {error}"))
    }
}

/// One gRPC call over a connection of its own: a message has a flag and its length before it.
async fn unary(socket: &Path, method: &str, message: Vec<u8>) -> Result<Bytes, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = UnixStream::connect(socket).await.map_err(|error| text(&error))?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    let request = http::Request::post(format!("http://localhost/runtime.v1.RuntimeService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|error| text(&error))?;
    let mut client = client.ready().await.map_err(|error| text(&error))?;
    let (response, mut send) = client.send_request(request, false).map_err(|error| text(&error))?;
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).map_err(|error| text(&error))?);
    framed.extend_from_slice(&message);
    send.send_data(framed.freeze(), true).map_err(|error| text(&error))?;

    let (head, mut body) = response.await.map_err(|error| text(&error))?.into_parts();
    let mut answer = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|error| text(&error))?;
        // Without this the other side stops after its first window.
        body.flow_control().release_capacity(chunk.len()).map_err(|error| text(&error))?;
        answer.extend_from_slice(&chunk);
    }
    let trailers = body.trailers().await.map_err(|error| text(&error))?.unwrap_or(head.headers);
    let word = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match word("grpc-status") {
        "0" if answer.len() >= 5 => {
            answer.advance(5);
            Ok(answer.freeze())
        }
        status => Err(format!("status {status}: {}", percent_decoded(word("grpc-message")))),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}
