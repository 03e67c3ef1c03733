//! The answer: one JSON document on stdout, and the exit status.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use catena_cni::version::{SpecVersion, reply_document};
use nix::unistd::dup2_stdout;

use super::error::CniError;

/// The right to answer, once. While it exists, whatever anybody prints to stdout goes to stderr, and no child gets
/// the descriptor that the caller reads.
#[derive(Debug)]
pub struct Reply {
    out: File,
}

impl Reply {
    /// Takes file descriptor 1 away from everybody else. Call it first of all, before there are threads.
    pub fn take() -> io::Result<Self> {
        // A close-on-exec duplicate above 2.
        let copy = io::stdout().as_fd().try_clone_to_owned()?;
        dup2_stdout(io::stderr())?;
        Ok(Self { out: File::from(copy) })
    }

    /// The text of a result or of the reply to VERSION; exit status 0.
    pub fn result(self, document: String) -> ExitCode {
        self.write(document, ExitCode::SUCCESS)
    }

    /// CHECK, DEL, GC and STATUS say nothing when they succeed.
    pub fn nothing(self) -> ExitCode {
        ExitCode::SUCCESS
    }

    /// What VERSION answers.
    pub fn versions(self) -> ExitCode {
        self.result(reply_document().to_string())
    }

    /// An error object; exit status 1. `version` is the request's, if it is known.
    pub fn error(self, error: &CniError, version: Option<SpecVersion>) -> ExitCode {
        self.write(error.to_object(version).to_value().to_string(), ExitCode::FAILURE)
    }

    fn write(mut self, mut document: String, then: ExitCode) -> ExitCode {
        document.push('\n');
        match self.out.write_all(document.as_bytes()) {
            Ok(()) => then,
            // The caller has gone (EPIPE) or never gave a stdout: it cannot have taken this for a success, and nobody
            // but a person can be told.
            Err(error) => {
                eprintln!("catena: the answer could not be written to stdout: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// What a person gets who runs the plugin by hand.
pub fn about() -> String {
    let versions: Vec<&str> = SpecVersion::ALL.iter().map(|version| version.as_str()).collect();
    format!(
        "catena {}: a CNI plugin that runs other CNI plugins through a sandboxed WebAssembly pipeline; a container \
         runtime calls it with CNI_COMMAND set\nCNI protocol versions supported: {}",
        env!("CARGO_PKG_VERSION"),
        versions.join(", ")
    )
}
