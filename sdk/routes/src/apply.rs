use crate::*;
pub(crate) fn routes(_: &mut impl Wire, _: Family, _: u32) -> Result<Vec<Route>, RouteError> {
    Ok(Vec::new())
}
pub(crate) fn apply(
    _: &mut impl Wire,
    _: &Scope,
    _: &[Change],
    _: &mut Journal,
) -> Result<Applied, ApplyFailure> {
    Ok(Applied::default())
}
#[allow(clippy::too_many_arguments, reason = "skeleton")]
pub(crate) fn replace(
    _: &mut impl Wire,
    _: &Scope,
    _: u32,
    _: Family,
    _: u32,
    _: &[RouteSpec],
    _: bool,
    _: &mut Journal,
) -> Result<Applied, ApplyFailure> {
    Ok(Applied::default())
}
pub(crate) fn undo(_: &mut impl Wire, _: &mut Journal, _: Mark) -> Undo {
    Undo::default()
}
