//! When an ADD gets where, for `make bench-timeline`. Without the feature `timeline`, which no build that people use
//! has, all of this is nothing.

/// The environment variable that names the file to which a call appends its marks as one line of JSON: a list of
/// `[nanoseconds since the first, what has just been done, whether on the main thread]`.
#[cfg(feature = "timeline")]
pub const VARIABLE: &str = "CATENA_TIMELINE";

#[cfg(feature = "timeline")]
static MARKS: std::sync::Mutex<Vec<(std::time::Instant, &str, bool)>> = std::sync::Mutex::new(Vec::new());

/// Notes that something has just been done.
#[cfg(feature = "timeline")]
pub fn mark(done: &'static str) {
    let is_main = std::thread::current().name() == Some("main");
    let mut marks = MARKS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    marks.push((std::time::Instant::now(), done, is_main));
}

/// Writes what was noted; the last that a call does.
#[cfg(feature = "timeline")]
pub fn write() {
    let Some(file) = std::env::var_os(VARIABLE) else { return };
    let marks = std::mem::take(&mut *MARKS.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    let Some((first, ..)) = marks.first().copied() else { return };
    let line: serde_json::Value = marks
        .into_iter()
        .map(|(at, done, is_main)| {
            let at = u64::try_from((at - first).as_nanos()).unwrap_or(u64::MAX);
            serde_json::json!([at, done, is_main])
        })
        .collect();
    let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
    let written =
        file.and_then(|mut file| std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("catena: {VARIABLE}: {error}");
    }
}

/// Does nothing.
#[cfg(not(feature = "timeline"))]
#[inline(always)]
pub fn mark(_done: &'static str) {}

/// Does nothing.
#[cfg(not(feature = "timeline"))]
#[inline(always)]
pub fn write() {}
