//! Planning apart from reading and from carrying out, so that its cost can be measured.

use crate::apply::{affected, look, plan_all};
use crate::context::Context;
use crate::plan::Direction;
use crate::resolve::{self, Tables};
use crate::{Change, Route, RouteError, Scope, Wire};

/// Links and tables as they were read. For benchmarks.
#[doc(hidden)]
#[derive(Debug)]
pub struct Draft {
    context: Context,
    snapshot: Tables,
}

impl Draft {
    /// Reads what [`crate::Table::apply`] reads for these changes.
    pub fn read(wire: &mut impl Wire, changes: &[Change]) -> Result<Draft, Vec<RouteError>> {
        let (context, snapshot) = look(wire, &affected(changes))?;
        Ok(Draft { context, snapshot })
    }

    /// How many requests the changes take, as [`crate::Table::apply`] judges and plans them.
    pub fn requests(&self, scope: &Scope, changes: &[Change]) -> Result<usize, Vec<RouteError>> {
        let target = resolve::changes(&self.context, scope, &self.snapshot, changes)?;
        let own = |route: &Route| scope.covers(route);
        let (plans, errors) = plan_all(&self.context, &self.snapshot, &target.slots, &own, Direction::Forth);
        if errors.is_empty() { Ok(plans.iter().map(|plan| plan.steps.len()).sum()) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hop, Journal, Link, Prefix, RouteSpec, SimulatedTable, Snapshot, Table};

    #[test]
    fn a_draft_changes_nothing() {
        let links = vec![Link::simulated(2, "eth0"), Link::simulated(3, "net1")];
        let mut table = SimulatedTable::new("pod", links, Vec::new());
        let scope = Scope { links: vec![2, 3], tables: vec![254] };
        let spec = |dst: &str, hop| RouteSpec::new(dst.parse::<Prefix>().unwrap(), vec![hop]);
        let via = |gateway: &str, link| spec("0.0.0.0/0", Hop::via(gateway.parse().unwrap(), link));
        let first = [
            Change::Add(spec("10.0.0.0/24", Hop::dev(2))),
            Change::Add(spec("10.1.0.0/24", Hop::dev(3))),
            Change::Add(via("10.0.0.1", 2)),
        ];
        table.apply(&scope, &first, &mut Journal::new()).unwrap();
        let before = Snapshot::take(&mut table).unwrap();

        let swap = [Change::Delete(via("10.0.0.1", 2)), Change::Add(via("10.1.0.1", 3))];
        let draft = Draft::read(&mut table, &swap).unwrap();
        assert!(draft.requests(&scope, &swap).unwrap() > 0);
        assert_eq!(draft.requests(&scope, &[]).unwrap(), 0);
        assert!(draft.requests(&Scope::default(), &swap).is_err());
        assert_eq!(Snapshot::take(&mut table).unwrap(), before);
    }
}
