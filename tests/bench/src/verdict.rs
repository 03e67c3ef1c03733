//! Promises, and whether they are kept.

use serde_json::{Value, json};

/// One promise and how it is kept.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) measured: f64,
    /// The same with the least of all runs instead of the median.
    pub(crate) least: f64,
    pub(crate) budget: f64,
}

impl Verdict {
    pub(crate) fn holds(&self) -> bool {
        self.measured <= self.budget
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({"what": self.what, "unit": self.unit, "measured": self.measured, "least": self.least,
               "budget": self.budget, "holds": self.holds()})
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{:<72} {:>7.2} {:<3} (least {:>5.2})  budget {:>5.2}  {:>4.0} %  {}",
            self.what,
            self.measured,
            self.unit,
            self.least,
            self.budget,
            self.measured / self.budget * 100.0,
            if self.holds() { "holds" } else { "EXCEEDED" }
        )
    }
}

/// All of them in one line.
pub(crate) fn summary(verdicts: &[Verdict]) -> String {
    match verdicts.iter().filter(|verdict| !verdict.holds()).count() {
        0 => format!("all {} budgets hold", verdicts.len()),
        1 => format!("1 of {} budgets is exceeded", verdicts.len()),
        exceeded => format!("{exceeded} of {} budgets are exceeded", verdicts.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(measured: f64) -> Verdict {
        Verdict { what: "an ADD".to_owned(), unit: "ms", measured, least: measured, budget: 2.5 }
    }

    #[test]
    fn a_budget_holds_up_to_itself() {
        assert!(verdict(2.5).holds() && verdict(-0.1).holds());
        assert!(!verdict(2.51).holds() && !verdict(f64::NAN).holds());
        assert!(verdict(2.51).line().ends_with("EXCEEDED"));
        assert_eq!(verdict(1.0).to_value()["holds"], true);
    }

    #[test]
    fn all_in_one_line() {
        assert_eq!(summary(&[verdict(1.0), verdict(2.0)]), "all 2 budgets hold");
        assert_eq!(summary(&[verdict(1.0), verdict(3.0)]), "1 of 2 budgets is exceeded");
        assert_eq!(summary(&[verdict(4.0), verdict(3.0)]), "2 of 2 budgets are exceeded");
    }
}
