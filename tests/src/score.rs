//! Counting cases of the vectors: the same as the reference, different on purpose, failed.

use std::fs;
use std::io::Write;
use std::path::Path;

#[path = "on_purpose.rs"]
pub mod on_purpose;

/// The counts of one file of vectors.
#[derive(Debug)]
pub struct Score {
    file: String,
    same: usize,
    different: usize,
    failed: Vec<String>,
}

impl Score {
    /// `file` is the name in tests/vectors, without `.json`, or that of a part of one.
    pub fn of(file: impl Into<String>) -> Score {
        Score { file: file.into(), same: 0, different: 0, failed: Vec::new() }
    }

    /// One case. `on_purpose` says that the expected answer is ours and not the reference's; then it has to be listed.
    pub fn add(&mut self, id: &str, on_purpose: bool, outcome: Result<(), String>) {
        let rule = on_purpose::rule(&self.file, id);
        let file = &self.file;
        match outcome {
            Ok(()) if on_purpose && rule.is_some() => self.different += 1,
            Ok(()) if on_purpose => {
                self.failed.push(format!("{file} {id}: different, and no rule is listed for it"))
            }
            Ok(()) if rule.is_some() => {
                self.failed.push(format!("{file} {id}: listed as different, but the same"))
            }
            Ok(()) => self.same += 1,
            Err(why) => {
                self.failed.push(format!("{file} {id}: {why} ({})", rule.unwrap_or("as the reference")))
            }
        }
    }

    /// Prints the counts, past the test harness, which would show them only on failure, and leaves them in the folder
    /// CATENA_VECTOR_COUNTS for the sum that `make test` prints. Fails if any case has, if there was none, or if a listed
    /// one was not there.
    pub fn finish(self) {
        let counts = format!(
            "same {}, different on purpose {}, failed {}",
            self.same,
            self.different,
            self.failed.len()
        );
        writeln!(std::io::stderr(), "{}: {counts}", self.file).expect("stderr");
        if let Some(folder) = std::env::var_os("CATENA_VECTOR_COUNTS") {
            let folder = Path::new(&folder);
            fs::create_dir_all(folder).expect("the folder of counts");
            let line = format!("{} {} {}\n", self.same, self.different, self.failed.len());
            fs::write(folder.join(self.file.replace('/', "-")), line).expect("a file of counts");
        }
        assert_ne!(self.same + self.different + self.failed.len(), 0, "{}: no cases", self.file);
        assert!(self.failed.is_empty(), "\n{}", self.failed.join("\n"));
        let listed = on_purpose::count(&self.file);
        assert_eq!(self.different, listed, "{}: cases listed as different on purpose", self.file);
    }
}
