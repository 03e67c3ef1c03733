//! One attachment, planned from the config or read back from the ledger.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use catena_cni::error::code;
use catena_cni::list::NetworkList;
use serde_json::{Map, Value, json};

use crate::attach::entry::{Intended, IntendedAttachment};
use crate::cni::{AttachmentSpec, CniError, Conf, Role, Target};
use crate::delegate::{self, Chain, DEVICE_INFO, DeviceInfoFile};
use crate::pipeline::context::{Context, annotations};
use crate::pipeline::intent::{Intent, Request};
use crate::pipeline::run::Subject;

/// What is to be attached, and how its stages are told about it.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What stages see.
    pub subject: Subject,
    /// What it asks for.
    pub request: Request,
    /// Its delegates; none in chained mode.
    pub chain: Option<Chain>,
    /// Where a delegate may describe the device that it attaches.
    pub device_info: Option<DeviceInfoFile>,
}

impl Attachment {
    /// The attachments of a config, in order. `devices` is the folder for device information.
    pub fn plan(
        conf: &Conf,
        args: &str,
        target: &Target,
        sandbox: &str,
        devices: &Path,
    ) -> Result<Vec<Attachment>, CniError> {
        match &conf.role {
            Role::Chained => {
                let context = Context {
                    sandbox: sandbox.to_owned(),
                    primary: true,
                    name: conf.name.as_str().to_owned(),
                    nad: None,
                    args: args.to_owned(),
                    runtime_config: conf.runtime_config.clone(),
                    annotations: Arc::new(annotations(&conf.runtime_config)),
                    request: json!({}),
                    intent: Intent::default(),
                    attachments: 1,
                    delegate_version: None,
                    device_info: None,
                };
                let subject = Subject {
                    position: 0,
                    network: conf.name.as_str().to_owned(),
                    ifname: target.ifname.as_str().to_owned(),
                    context,
                    monitored: BTreeMap::new(),
                };
                Ok(vec![Attachment { subject, request: Request::Absent, chain: None, device_info: None }])
            }
            Role::Meta(specs) => {
                let names = conf.interfaces(&target.ifname)?;
                let annotations = Arc::new(annotations(&conf.runtime_config));
                Ok(specs
                    .iter()
                    .zip(names)
                    .enumerate()
                    .map(|(position, (spec, ifname))| {
                        let primary = position == 0;
                        let mut runtime_config = spec.capability_args(primary, &conf.runtime_config);
                        // A file that the runtime names is the runtime's: it is passed on, neither read nor removed.
                        let device_info = match runtime_config.contains_key(DEVICE_INFO) {
                            true => None,
                            false => DeviceInfoFile::wanted(
                                devices,
                                &spec.list,
                                target.container_id.as_str(),
                                ifname.as_str(),
                            ),
                        };
                        if let Some(file) = &device_info {
                            let path = Value::from(file.path().display().to_string());
                            runtime_config.insert(DEVICE_INFO.to_owned(), path);
                        }
                        let context = Context {
                            sandbox: sandbox.to_owned(),
                            primary,
                            name: spec.status_name(),
                            nad: spec.nad.clone(),
                            args: args.to_owned(),
                            runtime_config,
                            annotations: Arc::clone(&annotations),
                            request: request_value(spec),
                            intent: Intent::default(),
                            attachments: specs.len(),
                            delegate_version: None,
                            device_info: None,
                        };
                        let subject = Subject {
                            position,
                            network: spec.list.name.clone(),
                            ifname: ifname.as_str().to_owned(),
                            context,
                            monitored: BTreeMap::new(),
                        };
                        let chain = Some(Chain::new(spec.list.clone()));
                        Attachment { subject, request: request(spec), chain, device_info }
                    })
                    .collect())
            }
        }
    }

    /// For the ledger.
    pub fn to_intended(&self) -> IntendedAttachment {
        let context = &self.subject.context;
        IntendedAttachment {
            ifname: self.subject.ifname.clone(),
            network: self.subject.network.clone(),
            name: context.name.clone(),
            nad: context.nad.clone(),
            config: self.chain.as_ref().map(|chain| chain.text().to_owned()),
            device_info: self.device_info.as_ref().map(|file| file.path().display().to_string()),
            capability_args: Value::Object(context.runtime_config.clone()).to_string(),
            request: context.request.clone(),
            intent: context.intent.to_value(),
        }
    }

    /// As delegates are told about it.
    pub fn at<'a>(&'a self, container_id: &'a str, netns: Option<&'a str>) -> delegate::Attachment<'a> {
        delegate::Attachment {
            container_id,
            ifname: &self.subject.ifname,
            netns,
            args: &self.subject.context.args,
            capability_args: &self.subject.context.runtime_config,
        }
    }

    /// Removes what is kept beside the ledger: the result in libcni's cache, and the device's description.
    pub fn remove_files(&self, cache_dir: &Path, container_id: &str) -> Vec<CniError> {
        let cached = self.chain.as_ref().map_or(Ok(()), |chain| {
            delegate::cache::remove(cache_dir, &chain.list.name, container_id, &self.subject.ifname)
        });
        let described = self.device_info.as_ref().map_or(Ok(()), DeviceInfoFile::remove);
        let cached = cached.err().map(|error| CniError::new(code::IO, error.to_string()));
        let described = described.err().map(|error| CniError::new(error.code(), error.to_string()));
        cached.into_iter().chain(described).collect()
    }

    /// `network/interface`, for messages.
    pub fn name(&self) -> String {
        format!("{}/{}", self.subject.network, self.subject.ifname)
    }
}

/// The attachments of a ledger entry, to be read back one by one.
#[derive(Debug)]
pub struct Recorded<'a> {
    intended: &'a Intended,
    /// The pod's, which the runtime gave to the primary alone; read once for all.
    annotations: Result<Arc<Map<String, Value>>, String>,
}

impl<'a> Recorded<'a> {
    /// Of this entry.
    pub fn of(intended: &'a Intended) -> Self {
        let arguments = intended.attachments.first().map_or_else(|| Ok(Map::new()), arguments);
        Self { intended, annotations: arguments.map(|arguments| Arc::new(annotations(&arguments))) }
    }

    /// One of them. What cannot be read is an error that names it.
    ///
    /// `sandbox` is what CNI_NETNS says now.
    pub fn attachment(&self, position: usize, sandbox: &str) -> Result<Attachment, CniError> {
        let intended = self.intended;
        let recorded = &intended.attachments[position];
        let damaged = |what: &str, cause: String| {
            CniError::new(
                code::IO,
                format!("ledger: {what} of {}/{}: {cause}", recorded.network, recorded.ifname),
            )
        };
        let chain = match &recorded.config {
            None => None,
            Some(config) => Some(Chain::new(
                NetworkList::parse(config.as_bytes())
                    .map_err(|error| damaged("config", error.to_string()))?,
            )),
        };
        let runtime_config = arguments(recorded).map_err(|cause| damaged("capability arguments", cause))?;
        let annotations = self
            .annotations
            .clone()
            .map_err(|cause| damaged("capability arguments of the primary", cause))?;
        let intent = Intent::from_value(&recorded.intent, position)
            .map_err(|error| damaged("intent", error.to_string()))?;
        let request =
            read_request(&recorded.request).map_err(|cause| damaged("request", cause.to_owned()))?;
        let context = Context {
            sandbox: sandbox.to_owned(),
            primary: position == 0,
            name: recorded.name.clone(),
            nad: recorded.nad.clone(),
            args: intended.args.clone(),
            runtime_config,
            annotations,
            request: recorded.request.clone(),
            intent,
            attachments: intended.attachments.len(),
            delegate_version: None,
            device_info: None,
        };
        let subject = Subject {
            position,
            network: recorded.network.clone(),
            ifname: recorded.ifname.clone(),
            context,
            monitored: BTreeMap::new(),
        };
        let device_info = recorded.device_info.as_ref().map(DeviceInfoFile::at);
        Ok(Attachment { subject, request, chain, device_info })
    }
}

/// Capability arguments as they are recorded.
fn arguments(recorded: &IntendedAttachment) -> Result<Map<String, Value>, String> {
    serde_json::from_str(&recorded.capability_args).map_err(|error| error.to_string())
}

fn request(spec: &AttachmentSpec) -> Request {
    match &spec.default_route {
        Some(gateways) => Request::DefaultRoute(gateways.clone()),
        None if spec.default_route_none => Request::None,
        None => Request::Absent,
    }
}

/// What an attachment asks for, as stages see it.
fn request_value(spec: &AttachmentSpec) -> Value {
    let mut value = Map::new();
    if let Some(gateways) = &spec.default_route {
        let gateways: Vec<String> = gateways.iter().map(ToString::to_string).collect();
        value.insert("defaultRoute".to_owned(), Value::from(gateways));
    }
    if spec.default_route_none {
        value.insert("defaultRouteNone".to_owned(), Value::from(true));
    }
    if !spec.ips.is_empty() {
        value.insert("ips".to_owned(), Value::from(spec.ips.clone()));
    }
    if let Some(mac) = &spec.mac {
        value.insert("mac".to_owned(), Value::from(mac.as_str()));
    }
    Value::Object(value)
}

fn read_request(value: &Value) -> Result<Request, &'static str> {
    if value.get("defaultRouteNone").is_some() {
        return Ok(Request::None);
    }
    let Some(gateways) = value.get("defaultRoute") else { return Ok(Request::Absent) };
    let gateways = gateways.as_array().ok_or("defaultRoute is not a list")?;
    let gateways: Result<Vec<IpAddr>, _> = gateways
        .iter()
        .map(|gateway| {
            gateway.as_str().and_then(|text| text.parse().ok()).ok_or("a gateway is not an address")
        })
        .collect();
    Ok(Request::DefaultRoute(gateways?))
}
