//! STATUS: whether an ADD could be served. Cheap, since runtimes ask every few seconds.

use catena_cni::error::code;

use crate::attach::session::Session;
use crate::cni::{CniError, Conf, PipelineRef, Role};
use crate::delegate::Chain;
use crate::inject;
use crate::pipeline::selection::Pipeline;

/// Carries out STATUS: the pipelines must load (else 50), and the delegates that list 1.1.0 agree.
pub fn status(session: &mut Session<'_>, conf: &Conf) -> Result<(), CniError> {
    let unavailable = |error: CniError| CniError { code: code::NOT_AVAILABLE, ..error };
    let modules = session.modules().map_err(unavailable)?;
    for reference in [&PipelineRef::Default, &conf.pipeline] {
        Pipeline::select(reference, session.node, &modules)
            .map_err(|error| unavailable(CniError::from(error)))?;
    }
    inject::point("attach/status");
    let Role::Meta(specs) = &conf.role else { return Ok(()) };
    let bin_dir = session.bin_dir(conf)?;
    let exec = session.exec(conf.name.as_str(), bin_dir.as_deref(), None, session.until);
    for spec in specs {
        let chain = Chain::new(spec.list.clone());
        chain.status(&exec).map_err(|error| CniError::from(error).of_network(&spec.list.name))?;
    }
    Ok(())
}
