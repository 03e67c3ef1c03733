//! Tries entries again whose DEL failed or was killed, after a call's own work: CRI-O never repeats a DEL.

use std::time::{Duration, Instant};

use crate::attach::del;
use crate::attach::delete::Deletion;
use crate::attach::ledger::{Found, LedgerError, Slot};
use crate::attach::lock::LockError;
use crate::attach::session::Session;

/// How much longer a call may take for this.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first pause; each failure doubles it, up to an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// The pause after so many failures.
fn pause(attempts: u64) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(9);
    (FIRST_PAUSE * (1 << doublings)).min(Duration::from_secs(3600))
}

/// Tries one failed entry again, if any is due; not the one that this call was about. What happens is noted,
/// since it is not what the caller asked for.
pub fn one(session: &mut Session<'_>, own: &str) {
    if Instant::now() >= session.until {
        return;
    }
    let stems = match session.ledger.failed_stems() {
        Ok(stems) => stems,
        Err(error) => {
            session.record.notes.push(error.to_string());
            return;
        }
    };
    let due: Vec<String> = stems
        .into_iter()
        .filter(|stem| stem != own)
        .filter(|stem| {
            session.ledger.failed_attempts(stem).is_ok_and(|(attempts, age)| age >= pause(attempts))
        })
        .collect();
    // A call that is at work on one needs no help.
    let free = due.into_iter().find_map(|stem| match session.lock_to_delete(stem.clone(), Instant::now()) {
        Err(LedgerError::Lock(LockError::Held { .. })) => None,
        locked => Some((stem, locked)),
    });
    let Some((stem, locked)) = free else { return };
    let until = session.until;
    session.until = Instant::now() + PATIENCE;
    let attachments = std::mem::take(&mut session.record.attachments);
    let outcome = locked.map_err(|error| error.to_string()).and_then(|slot| again(session, slot));
    session.record.attachments = attachments;
    session.until = until;
    session.record.notes.push(match outcome {
        Ok(()) => format!("an earlier DEL that had failed was done: {stem}"),
        Err(text) => format!("an earlier DEL failed again: {stem}: {text}"),
    });
}

fn again(session: &mut Session<'_>, mut slot: Slot) -> Result<(), String> {
    match slot.read().map_err(|error| error.to_string())? {
        Found::Entry(entry) => {
            // The runtime has long closed the namespace, or will ask again itself.
            let netns = Some(entry.intended.netns.clone()).filter(|path| !path.is_empty());
            let deletion = Deletion { entry: *entry, netns, open: None, recorded: true };
            del::carry_out(session, slot, &deletion).map_err(|error| error.msg)
        }
        Found::Nothing => slot.remove().map_err(|error| error.to_string()),
        Found::Damaged(error) => {
            let text = format!("{error}; its delegates are unknown, so nothing could be done");
            slot.mark_failed().map_err(|error| error.to_string())?;
            Err(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_an_hour() {
        assert_eq!(pause(1), Duration::from_secs(10));
        assert_eq!(pause(2), Duration::from_secs(20));
        assert_eq!(pause(9), Duration::from_secs(2560));
        assert_eq!(pause(100), Duration::from_secs(3600));
    }
}
