//! A host for unit tests: a pod with links and routes that behave as the kernel's do, without root and without
//! wasm.
//!
//! ```
//! use catena_sdk::testing::{TestCall, TestHost};
//! use catena_sdk::{Call, Document, Error, Host, Module, Outcome, Stage};
//! use serde_json::json;
//!
//! struct NoDefault;
//! impl Module for NoDefault {
//!     type Config = serde_json::Value;
//! }
//! impl Stage for NoDefault {
//!     fn add(_: &Call<Self::Config>, _: &Document, host: &Host) -> Result<Outcome, Error> {
//!         for route in host.default_routes(catena_sdk::route::Family::V4)? {
//!             host.delete(&route)?;
//!         }
//!         Ok(Outcome::unchanged().tag("no-default"))
//!     }
//! }
//!
//! let pod = TestHost::new(&["net1"]).route("10.1.0.0/24 dev net1").route("default via 10.1.0.1 dev net1");
//! let outcome = pod.add::<NoDefault>(&TestCall::new("net1"), &json!({"cniVersion": "1.1.0"})).unwrap();
//! assert_eq!(outcome.tags, ["no-default"]);
//! assert_eq!(pod.routes(), ["10.1.0.0/24 dev net1 scope link"]);
//! ```

mod calls;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::rc::Rc;

use catena_cni::error::code;
use catena_contract::{self as contract, Refusal};
use catena_routes::{Journal, Link, Mark, Scope, SimulatedTable, Table, Wire};
use serde_json::{Map, Value, json};

use crate::call::read_config;
use crate::route::{Family, MAIN};
use crate::{
    Action, Admit, Arrange, Call, Candidate, Command, Context, Document, Error, Host, Intent, Level, Mode,
    Module, Outcome, Problem, Settings, Stage, Verdict,
};

pub(crate) use calls::Calls;

/// A pod and what a stage did to it.
#[derive(Debug, Clone)]
pub struct TestHost {
    links: Vec<Link>,
    routes: Vec<catena_routes::Route>,
    pod: Rc<RefCell<Pod>>,
    wants: Option<Wants>,
}

/// What a module asks for by way of grants that no import stands for.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default)]
struct Wants {
    result: Vec<String>,
    publish: Vec<String>,
}

#[derive(Debug, Default)]
struct Pod {
    table: SimulatedTable,
    scope: Scope,
    journal: Journal,
    logs: Vec<(Level, String)>,
    calls: u32,
    /// The failed calls: number and error.
    failed: Vec<(u32, String)>,
    read_only: bool,
    gone: bool,
}

impl TestHost {
    /// A pod with the links of the attachment that is looked at. They are up and have no routes.
    pub fn new(attachment_links: &[&str]) -> TestHost {
        let mut host = TestHost { links: Vec::new(), routes: Vec::new(), pod: Rc::default(), wants: None };
        for name in attachment_links {
            host = host.link(name);
            host.pod.borrow_mut().scope.links.push(host.links.len() as u32 + 1);
        }
        host.pod.borrow_mut().scope.tables = vec![MAIN];
        host
    }

    /// One more link of the pod, which is not the attachment's. Its hardware address is 02:00:00:00:00:NN with
    /// its index.
    pub fn link(mut self, name: &str) -> TestHost {
        let index = self.links.len() as u32 + 2;
        self.links.push(Link::simulated(index, name));
        self.rebuilt()
    }

    /// The module is granted another routing table.
    pub fn table(self, table: u32) -> TestHost {
        self.pod.borrow_mut().scope.tables.push(table);
        self
    }

    /// The module is granted routes without a link (`@none`), such as blackholes.
    pub fn routes_without_link(self) -> TestHost {
        self.pod.borrow_mut().scope.links.push(0);
        self
    }

    /// The module is granted what it wants and no more: `wants` is the text that
    /// [`export_stage!`](crate::export_stage) has. Without this it may change and publish whatever it likes.
    ///
    /// # Panics
    /// On a text that is no JSON object of grants.
    pub fn wants(mut self, wants: &str) -> TestHost {
        self.wants = Some(serde_json::from_str(wants).unwrap_or_else(|e| panic!("{wants}: {e}")));
        self
    }

    /// The sandbox has gone: every call fails.
    pub fn gone(self) -> TestHost {
        self.pod.borrow_mut().gone = true;
        self
    }

    /// One more route, as `ip route` writes it: `default via 10.1.0.1 dev net1 metric 100`. Its protocol is boot
    /// unless said (`proto ra`).
    ///
    /// # Panics
    /// On a text that is no route.
    pub fn route(mut self, text: &str) -> TestHost {
        let route =
            catena_routes::Route::parse(text, &self.links).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        self.routes.push(route);
        self.rebuilt()
    }

    fn rebuilt(self) -> TestHost {
        self.pod.borrow_mut().table = SimulatedTable::new("test", self.links.clone(), self.routes.clone());
        self
    }

    /// The routes of the main table as `ip route` writes them, IPv4 first, each family in the kernel's order.
    pub fn routes(&self) -> Vec<String> {
        let mut pod = self.pod.borrow_mut();
        let mut texts = Vec::new();
        for family in Family::ALL {
            let routes = pod.table.routes(family, MAIN).unwrap_or_default();
            texts.extend(routes.iter().map(|route| route.brief(&self.links)));
        }
        texts
    }

    /// What was changed so far, in order, as a person reads it: one line for each route that was added or deleted.
    /// What an error undid is not among them.
    pub fn changes(&self) -> Vec<String> {
        self.pod.borrow().journal.describe()
    }

    /// A setting of `net.ipv6.conf.LINK`.
    pub fn sysctl(&self, link: &str, key: &str) -> Option<String> {
        self.pod.borrow_mut().table.sysctl(link, key).ok().flatten()
    }

    /// What was logged.
    pub fn logs(&self) -> Vec<(Level, String)> {
        self.pod.borrow().logs.clone()
    }

    /// How many capability calls were made that could have failed.
    pub fn calls(&self) -> u32 {
        self.pod.borrow().calls
    }

    /// Calls `arrange` for these attachments (the contract's JSON array). As in catena, an answer that is no arrangement
    /// of them is an error (code 106), and so is a failed call.
    pub fn arrange<M: Arrange>(&self, call: &TestCall, attachments: &Value) -> Result<Vec<Intent>, Error> {
        let attachments = Candidate::read_all(&attachments.to_string())?;
        let intents =
            self.guarded(true, |host| M::arrange(&call.typed::<M>(Command::Add)?, &attachments, host))?;
        self.none_failed(&[])?;
        size("an answer", intents.iter().map(Intent::to_value).collect::<Value>().to_string().len())?;
        if intents.len() != attachments.len() {
            let (are, should) = (intents.len(), attachments.len());
            return Err(unusable(code::BAD_OUTCOME, format!("{are} intents for {should} attachments")));
        }
        intents.iter().try_for_each(|intent| {
            Family::ALL.into_iter().try_for_each(|family| match intent.family(family) {
                Action::Override(gateways) if gateways.is_empty() => {
                    Err(unusable(code::BAD_OUTCOME, "override without gateways"))
                }
                Action::Override(gateways) => {
                    match gateways.iter().find(|gateway| Family::of(**gateway) != family) {
                        Some(gateway) => Err(unusable(
                            code::BAD_OUTCOME,
                            format!("gateway {gateway} is of the other family"),
                        )),
                        None => Ok(()),
                    }
                }
                _ => Ok(()),
            })
        })?;
        Ok(intents)
    }

    /// Calls `admit` for a config, which in meta mode is a list (`plugins`). As in catena, a rewrite that is no object,
    /// or that nobody would get, is an error (code 106), and so is a failed call. Whether the node grants it is not asked
    /// here.
    pub fn admit<M: Admit>(&self, call: &TestCall, config: &Value) -> Result<Verdict, Error> {
        let verdict = self.guarded(true, |host| M::admit(&call.typed::<M>(Command::Add)?, config, host))?;
        self.none_failed(&[])?;
        if let Verdict::Rewrite(config) = &verdict {
            size("a config", config.to_string().len())?;
        }
        match &verdict {
            Verdict::Rewrite(_) if call.mode == Mode::Chained => Err(unusable(
                code::BAD_OUTCOME,
                "in chained mode there is no delegate that would get the config",
            )),
            Verdict::Rewrite(config) if !config.is_object() => {
                Err(unusable(code::BAD_OUTCOME, "the config that it wrote is not an object"))
            }
            _ => Ok(verdict),
        }
    }

    /// Runs the stage on a result, as after the delegate's ADD. As in catena, an error undoes the routes, a failed call
    /// that the outcome does not tolerate is an error, and so is an outcome that the contract does not allow (codes 103,
    /// 105 and 106). Of grants it has what [`TestHost::wants`] says.
    pub fn add<M: Stage>(&self, call: &TestCall, result: &Value) -> Result<Outcome, Error> {
        self.add_document::<M>(call, &document(result))
    }

    /// The same for a document of any format.
    pub fn add_document<M: Stage>(&self, call: &TestCall, document: &Document) -> Result<Outcome, Error> {
        let mark = self.pod.borrow().journal.mark();
        let done = self.guarded(false, |host| M::add(&call.typed::<M>(Command::Add)?, document, host));
        let done = done.and_then(|outcome| self.judged(document, outcome));
        if done.is_err() {
            self.undo(mark);
        }
        done
    }

    /// Runs the stage as after the delegate's CHECK; route changes are denied, and a failed call is an error.
    pub fn check<M: Stage>(&self, call: &TestCall, result: &Value) -> Result<(), Error> {
        let document = document(result);
        self.guarded(true, |host| M::check(&call.typed::<M>(Command::Check)?, &document, host))?;
        self.judged(&document, Outcome::unchanged()).map(drop)
    }

    /// Runs the stage as before the delegate's DEL; route changes are denied, and a failed call is an error (which
    /// catena logs).
    pub fn del<M: Stage>(&self, call: &TestCall, result: &Value) -> Result<(), Error> {
        let document = document(result);
        self.guarded(true, |host| M::del(&call.typed::<M>(Command::Del)?, &document, host))?;
        self.judged(&document, Outcome::unchanged()).map(drop)
    }

    fn guarded<T>(&self, read_only: bool, work: impl FnOnce(&Host) -> T) -> T {
        {
            let mut pod = self.pod.borrow_mut();
            pod.read_only = read_only;
            pod.failed.clear();
        }
        work(&Host { calls: Calls::new(self.pod.clone(), self.links.clone()) })
    }

    /// The rules are the engine's.
    fn judged(&self, before: &Document, outcome: Outcome) -> Result<Outcome, Error> {
        let has_failed = |call: u32| self.pod.borrow().failed.iter().any(|(failed, _)| *failed == call);
        let granted = |list: fn(&Wants) -> &Vec<String>, what: &str| {
            self.wants.as_ref().is_none_or(|wants| list(wants).iter().any(|one| one == what))
        };
        if let Some(after) = &outcome.result {
            size("a result", after.text.len())?;
            let granted = |member: contract::Member| granted(|wants| &wants.result, member.as_str());
            contract::result(plain(before), plain(after), granted).map_err(refused)?;
        }
        contract::tags(&outcome.tags).map_err(refused)?;
        let granted = |key: &str| granted(|wants| &wants.publish, key);
        contract::publications(&outcome.publications, granted).map_err(refused)?;
        contract::tolerations(&outcome.tolerated, has_failed).map_err(refused)?;
        self.none_failed(&outcome.tolerated)?;
        Ok(outcome)
    }

    /// Whether all calls succeeded, but for those that are tolerated.
    fn none_failed(&self, tolerated: &[(u32, String)]) -> Result<(), Error> {
        let pod = self.pod.borrow();
        let tolerated = |call: u32| tolerated.iter().any(|(tolerated, _)| *tolerated == call);
        let swallowed: Vec<&str> = pod
            .failed
            .iter()
            .filter(|(call, _)| !tolerated(*call))
            .map(|(_, error)| error.as_str())
            .collect();
        if swallowed.is_empty() { Ok(()) } else { Err(Error::failed(swallowed.join("; "))) }
    }

    fn undo(&self, mark: Mark) {
        let pod = &mut *self.pod.borrow_mut();
        let undo = pod.table.undo(&mut pod.journal, mark);
        assert!(undo.exact, "the simulated table could not be restored: {undo:?}");
    }
}

/// What catena says of an answer that it does not take.
fn unusable(code: u32, why: impl std::fmt::Display) -> Error {
    Error::Failed { code, message: format!("the stage's answer cannot be used: {why}"), details: None }
}

/// Whether a document is no larger than catena takes.
fn size(of: &str, bytes: usize) -> Result<(), Error> {
    if bytes > contract::DOCUMENT {
        return Err(unusable(code::LIMIT, format!("more than {} bytes of {of}", contract::DOCUMENT)));
    }
    Ok(())
}

fn refused(refusal: Refusal) -> Error {
    let code = match refusal {
        Refusal::Bad(_) => code::BAD_OUTCOME,
        Refusal::Ungranted { .. } => code::DENIED,
        Refusal::Limit { .. } => code::LIMIT,
    };
    unusable(code, refusal)
}

fn plain(document: &Document) -> contract::Document<'_> {
    contract::Document { format: &document.format, text: &document.text }
}

/// Judges a config as `catenactl check` would.
pub fn validate<M: Settings>(config: &Value) -> Vec<Problem> {
    match read_config(&config.to_string()) {
        Ok(config) => M::validate(&config),
        Err(e) => vec![Problem { path: String::new(), message: e.to_string() }],
    }
}

/// A result of its own version, `raw` where it names none that is known.
pub fn document(result: &Value) -> Document {
    let version =
        catena_cni::result::version_text(result).and_then(catena_cni::version::SpecVersion::from_text);
    let format = version.map_or("raw".to_owned(), |version| format!("cni/{}", version.as_str()));
    Document { format, text: result.to_string() }
}

/// A call, in meta mode unless said otherwise, of an attachment that is the primary and asked for nothing.
#[derive(Debug, Clone)]
pub struct TestCall {
    mode: Mode,
    container_id: String,
    network: String,
    ifname: String,
    position: u32,
    config: Value,
    context: Map<String, Value>,
}

impl TestCall {
    /// For the attachment with that interface.
    pub fn new(ifname: &str) -> TestCall {
        let context =
            json!({"schema": 1, "sandbox": "/run/netns/test", "primary": true, "name": "default/test"});
        TestCall {
            mode: Mode::Meta,
            container_id: "test".to_owned(),
            network: "test".to_owned(),
            ifname: ifname.to_owned(),
            position: 0,
            config: json!({}),
            context: context.as_object().cloned().unwrap_or_default(),
        }
    }

    /// The attachment's CNI network; `test` unless said.
    pub fn network(mut self, network: &str) -> TestCall {
        network.clone_into(&mut self.network);
        self
    }

    /// CNI_CONTAINERID; `test` unless said.
    pub fn container(mut self, container_id: &str) -> TestCall {
        container_id.clone_into(&mut self.container_id);
        self
    }

    /// catena is the last plugin of somebody else's list.
    pub fn chained(mut self) -> TestCall {
        self.mode = Mode::Chained;
        self
    }

    /// An attachment beside the primary.
    pub fn secondary(mut self, position: u32) -> TestCall {
        self.position = position;
        self.with("primary", json!(false))
    }

    /// The pipeline entry's config.
    pub fn config(mut self, config: Value) -> TestCall {
        self.config = config;
        self
    }

    /// What was arranged for the attachment.
    pub fn intent(self, intent: &Intent) -> TestCall {
        self.with("intent", intent.to_value())
    }

    /// Any member of the context.
    pub fn with(mut self, key: &str, value: Value) -> TestCall {
        self.context.insert(key.to_owned(), value);
        self
    }

    fn typed<M: Module>(&self, command: Command) -> Result<Call<M::Config>, Error> {
        Ok(Call {
            command,
            mode: self.mode,
            container_id: self.container_id.clone(),
            network: self.network.clone(),
            ifname: self.ifname.clone(),
            position: self.position,
            config: read_config(&self.config.to_string())?,
            context: Context::read(&Value::Object(self.context.clone()).to_string())?,
        })
    }
}
