//! The delegates' children that a killed call has left: its delegates die with it, and their children do not.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::attach::entry::{Entry, Event};
use crate::attach::ledger::{LedgerError, Slot};
use crate::attach::lock::LockError;
use crate::attach::session::Session;
use crate::cni::CniError;
use crate::delegate::start_time;

/// How long a call waits for such children before it ends them.
const WAIT: Duration = Duration::from_secs(10);

/// How long a process may take to die from SIGKILL.
const DEATH_WAIT: Duration = Duration::from_secs(2);

/// Waits for the children of a call that never ended, and ends those that do not end by themselves: they could make
/// something after we have cleaned. Nobody can take their lock afterwards but who has this slot.
pub fn settle(session: &mut Session<'_>, slot: &mut Slot, recorded: Option<&Entry>) -> Result<(), CniError> {
    if recorded.is_some_and(|entry| !entry.may_have_children()) && !slot.has_check() {
        // A delegate may leave a daemon on purpose; it keeps the old file's lock and harms nobody. A file that cannot
        // be removed does not keep a pod's interface.
        session.record.notes.extend(slot.renew_children_lock().err().map(|error| error.to_string()));
        return Ok(());
    }
    // Half of the time is for the delegates.
    let left = session.until.saturating_duration_since(Instant::now());
    if !is_held(slot, Instant::now() + WAIT.min(left / 2)) {
        return Ok(());
    }
    for event in recorded.map(|entry| entry.events.as_slice()).unwrap_or_default() {
        if let Event::Spawned { group, start_time, .. } = event {
            end_group(*group, *start_time, &mut session.record.notes);
        }
    }
    if is_held(slot, Instant::now() + DEATH_WAIT) {
        // Some have left their group, or nobody wrote the groups down; the lock is proof enough.
        let ended = slot.end_children();
        session.record.notes.push(format!("ended processes {ended:?}, left by a call that was killed"));
    }
    match slot.children_lock(Instant::now() + DEATH_WAIT) {
        Err(held @ LedgerError::Lock(LockError::Held { .. })) => Err(held.into()),
        // Whoever needs a lock that cannot be made is told then.
        _ => Ok(()),
    }
}

/// Whether somebody still holds the children's lock. Whoever needs a lock that cannot be made is told then.
fn is_held(slot: &mut Slot, until: Instant) -> bool {
    matches!(slot.children_lock(until), Err(LedgerError::Lock(LockError::Held { .. })))
}

/// Ends a process group of ours. A process of the group's number that was started at another time is
/// somebody else's: numbers are used again.
fn end_group(group: i32, started: u64, notes: &mut Vec<String>) {
    if group <= 1 {
        return;
    }
    // A group whose leader has ended may be anybody's by now; those of ours still hold the lock.
    if start_time(group) != Some(started) {
        return;
    }
    match killpg(Pid::from_raw(group), Signal::SIGKILL) {
        Ok(()) => notes.push(format!("ended process group {group}, left by a call that was killed")),
        Err(Errno::ESRCH) => {}
        Err(errno) => notes.push(format!("process group {group} could not be ended: {errno}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_start_time_is_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(start_time(pid).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time(i32::MAX), None);
    }

    #[test]
    fn a_reused_number_is_left_alone() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut notes = Vec::new();
        end_group(pid, 1, &mut notes);
        assert!(notes.is_empty(), "{notes:?}");
    }
}
