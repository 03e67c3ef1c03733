//! One invocation, from the environment to the exit code.

use std::env;
use std::mem;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_cni::error::code;
use catena_cni::json;
use catena_cni::version::SpecVersion;

use crate::attach::add::{add, mode_of};
use crate::attach::check::check;
use crate::attach::del::del;
use crate::attach::gc::gc;
use crate::attach::session::{Session, not_allowed};
use crate::attach::status::status;
use crate::cni::{self, CniError, Command, Conf, Invocation, Level, Problems, Reply, Request, stdin};
use crate::node::{At, Deadlines, NodeConfig, Root};
use crate::report::log;
use crate::report::record::Record;
use crate::wasm::{Mode, preparer};
use crate::{heap, inject, panic, timeline};

/// Does what the environment asks for. Whatever happens, a panic included, stdout gets one JSON document
/// where the CNI specification wants one, and nothing else.
pub fn run() -> ExitCode {
    timeline::mark("main begins");
    heap::settle();
    let reply = match Reply::take() {
        Ok(reply) => reply,
        Err(error) => {
            eprintln!("catena: stdout cannot be used: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Before all else: nothing that an ADD does itself takes longer than making the modules ready.
    let command = env::var("CNI_COMMAND").ok().and_then(|word| Command::from_text(&word));
    if command == Some(Command::Add) {
        preparer::start();
    }
    timeline::mark("stdout is put aside, a thread begins to make the modules ready");
    let mut asked = Asked::default();
    let outcome = panic::caught(|| carry_out(&mut asked)).unwrap_or_else(Err);
    let outcome = if asked.is_del { outcome.map_err(CniError::for_del) } else { outcome };
    let exit = match outcome {
        Ok(Answer::About) => {
            eprintln!("{}", cni::about());
            reply.nothing()
        }
        Ok(Answer::Versions) => reply.versions(),
        Ok(Answer::Nothing) => reply.nothing(),
        Ok(Answer::Result(result)) => reply.result(result),
        Err(error) => reply.error(&error, asked.version),
    };
    timeline::mark("the answer is written");
    timeline::write();
    exit
}

/// What an error's document has to suit, as far as it is known.
#[derive(Debug, Default)]
struct Asked {
    version: Option<SpecVersion>,
    is_del: bool,
}

enum Answer {
    About,
    Versions,
    Nothing,
    Result(String),
}

fn carry_out(asked: &mut Asked) -> Result<Answer, CniError> {
    let start = Instant::now();
    let invocation = Invocation::read(env::vars_os())?;
    let Some(command) = invocation.request.command() else { return Ok(Answer::About) };
    if command == Command::Version {
        return Ok(Answer::Versions);
    }
    let is_del = command == Command::Del;
    asked.is_del = is_del;
    let root = Root::from_env();
    let loaded = panic::caught(|| NodeConfig::load(&root));
    let node = loaded.and_then(|node| node.map_err(|error| CniError::new(error.code(), error.to_string())));
    let deadlines = node.as_ref().map_or_else(|_| Deadlines::default(), |node| node.deadlines.clone());
    set_alarm(&deadlines);
    let until = start + deadlines.call;
    timeline::mark("environment and node.json are read");
    let stdin = stdin::read(until)?;
    let conf = Conf::parse(&stdin, command);
    asked.version = match &conf {
        Ok(conf) => Some(conf.cni_version),
        Err(_) => asked_version(&stdin),
    };
    // What is wrong in the node's file must not keep a pod's interface: DEL goes by the ledger.
    let (node, node_problem) = match node {
        Ok(node) => (node, None),
        Err(problem) if is_del => (NodeConfig::default(), Some(problem)),
        // No pipeline of the node can load then.
        Err(problem) if command == Command::Status && problem.code != code::INTERNAL => {
            return Err(CniError { code: code::NOT_AVAILABLE, ..problem });
        }
        Err(problem) => return Err(problem),
    };
    let logged = match &conf {
        Ok(conf) => panic::caught(|| start_log(conf, &root, &node)).unwrap_or_else(Err),
        Err(_) => Ok(()),
    };
    let mut problems = Problems::default();
    // A log that cannot be written must not keep a pod's interface.
    let unlogged = match logged {
        Err(error) if is_del => Some(error),
        // Perhaps there is more to tell.
        Err(error) if command == Command::Add => {
            problems.add(error);
            None
        }
        Err(error) => return Err(error),
        Ok(()) => None,
    };
    let mut record = describe(&invocation.request, command, conf.as_ref().ok());
    record.notes.extend(unlogged.map(|error| error.msg));
    inject::point("call/session");
    timeline::mark("stdin and config are read");
    let outcome = match Session::start(&root, &node, &invocation, until) {
        Ok(mut session) => {
            session.node_problem = node_problem;
            session.problems = problems;
            mem::swap(&mut session.record, &mut record);
            let outcome = panic::caught(|| dispatch(&mut session, &stdin, conf)).unwrap_or_else(Err);
            record = session.record;
            outcome
        }
        Err(error) => {
            problems.add(error);
            problems.or(None)
        }
    };
    // What was done stands, even where telling of it fails.
    if let Err(problem) = panic::caught(|| write_log(&record, &outcome, start)) {
        eprintln!("catena: the log line could not be written: {}", problem.msg);
    }
    outcome
}

fn dispatch(
    session: &mut Session<'_>,
    stdin: &[u8],
    conf: Result<Conf, CniError>,
) -> Result<Answer, CniError> {
    let conf = conf.and_then(|conf| supported(session, conf));
    let nothing = |()| Answer::Nothing;
    let request = session.invocation.request.clone();
    match &request {
        Request::About => Ok(Answer::About),
        Request::Version => Ok(Answer::Versions),
        Request::Add { target, netns } => add(session, &conf?, target, netns).map(Answer::Result),
        Request::Check { target, netns } => check(session, &conf?, target, netns).map(nothing),
        Request::Del { target, netns } => {
            del(session, stdin, conf.as_ref().map_err(Clone::clone), target, netns.as_deref()).map(nothing)
        }
        Request::Gc => gc(session, &conf?).map(nothing),
        Request::Status => status(session, &conf?).map(nothing),
    }
}

/// What a call may take beyond `callSeconds` and `rollbackSeconds`: retrying one failed DEL (5 s), and processes
/// that do not die at once.
const GRACE: Duration = Duration::from_secs(10);

/// The last resort, for what has no deadline of its own, such as a caller that does not read the answer: SIGALRM
/// ends us, and DEL cleans up as after any kill. Delegates do not inherit it (alarm(2)).
fn set_alarm(deadlines: &Deadlines) {
    let all = deadlines.call + deadlines.rollback + GRACE;
    nix::unistd::alarm::set(u32::try_from(all.as_secs()).unwrap_or(u32::MAX));
}

/// The version for the error about a config that is otherwise unusable.
fn asked_version(stdin: &[u8]) -> Option<SpecVersion> {
    let value = json::parse(stdin).ok()?;
    let text = json::get(value.as_object()?, "cniVersion")?.as_str()?;
    SpecVersion::from_text(text)
}

/// What a valid config may still ask for in vain.
fn supported(session: &mut Session<'_>, conf: Conf) -> Result<Conf, CniError> {
    match conf.refuse_nested(session.invocation.nested.as_deref()) {
        Err(error) if matches!(session.invocation.request, Request::Add { .. }) => {
            session.problems.add(error)
        }
        other => other?,
    }
    let ignored = conf.ignored.iter().map(|key| format!("{key} has no effect"));
    session.record.notes.extend(ignored);
    Ok(conf)
}

fn start_log(conf: &Conf, root: &Root, node: &NodeConfig) -> Result<(), CniError> {
    inject::point("call/log");
    let file = match &conf.log.file {
        Some(file) if !node.paths.allows_log(file) => {
            return Err(not_allowed(&At::Document.member("logFile"), file, "log"));
        }
        Some(file) => Some(root.join(file)),
        None => None,
    };
    log::start(file.as_deref(), conf.log.level, conf.log.to_stderr)
        .map_err(|error| CniError::new(code::IO, error.to_string()))
}

fn describe(request: &Request, command: Command, conf: Option<&Conf>) -> Record {
    let mut record = Record { command: command.as_str(), ..Record::default() };
    if let Some(conf) = conf {
        record.network = conf.name.as_str().to_owned();
        record.mode = match mode_of(conf) {
            Mode::Meta => "meta",
            Mode::Chained => "chained",
        };
    }
    if let Request::Add { target, .. } | Request::Check { target, .. } | Request::Del { target, .. } = request
    {
        record.container_id = target.container_id.as_str().to_owned();
        record.ifname = target.ifname.as_str().to_owned();
    }
    record
}

/// One line for the invocation. At level `panic` only internal errors are written.
fn write_log(record: &Record, outcome: &Result<Answer, CniError>, start: Instant) {
    inject::point("report/log");
    let record = || record.to_value(start.elapsed()).to_string();
    match outcome {
        Ok(_) => tracing::info!(record = record(), outcome = "ok"),
        Err(error) if error.code != code::INTERNAL && log::level() == Some(Level::Panic) => {}
        Err(error) => tracing::error!(
            record = record(),
            outcome = "error",
            code = error.code,
            msg = error.msg,
            details = error.details.join("; ")
        ),
    }
}
