//! Amounts of a budget as they are typed and pasted: `usd=5,tokens=100000,model_calls=10,wall_clock=10m`.

use std::borrow::Cow;

use weir_events::Allowance;
use weir_spec::parse_duration;
use weir_types::{Explain, Fault};

/// Text that is no budget.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BudgetError {
    /// Not `name=amount`.
    #[error("`{0}` says no amount")]
    NoAmount(String),
    /// Not something that is limited.
    #[error("there is no budget of `{0}`")]
    Unknown(String),
    /// Not an amount of it.
    #[error("`{amount}` is no amount of `{name}`")]
    Amount {
        /// What is limited.
        name: &'static str,
        /// As given.
        amount: String,
    },
    /// Nothing is given.
    #[error("that budget gives nothing")]
    Nothing,
}

impl Explain for BudgetError {
    fn code(&self) -> &'static str {
        "cli::budget"
    }

    fn help(&self) -> Cow<'static, str> {
        "write `--budget usd=5`, or `tokens=N`, `model_calls=N` or `wall_clock=10m`; several with commas between them"
            .into()
    }

    fn fault(&self) -> Fault {
        Fault::Input
    }
}

/// Reads a budget.
pub(crate) fn parse(text: &str) -> Result<Allowance, BudgetError> {
    let short = |text: &str| text.chars().take(40).collect::<String>();
    let mut given = Allowance::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, amount) = part.split_once('=').ok_or_else(|| BudgetError::NoAmount(short(part)))?;
        let wrong = |name| BudgetError::Amount { name, amount: short(amount) };
        let number = |name| amount.replace('_', "").parse::<u64>().map_err(|_| wrong(name));
        match name {
            "usd" => {
                let amount = amount.strip_prefix('$').unwrap_or(amount);
                given.nano = Some(amount.parse().map_err(|_| wrong("usd"))?);
            }
            "tokens" => given.tokens = Some(number("tokens")?),
            "model_calls" => given.model_calls = Some(number("model_calls")?),
            "wall_clock" => {
                let time = parse_duration(amount).map_err(|_| wrong("wall_clock"))?;
                given.wall_clock_ms = u64::try_from(time.as_millis()).ok();
            }
            other => return Err(BudgetError::Unknown(short(other))),
        }
    }
    let amounts = [given.nano.map(|nano| nano.0), given.tokens, given.model_calls, given.wall_clock_ms];
    match amounts.iter().flatten().any(|amount| *amount > 0) {
        true => Ok(given),
        false => Err(BudgetError::Nothing),
    }
}

/// A budget as it is typed.
pub(crate) use weir_engine::budget_flag as flag;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_is_what_was_meant() {
        for text in ["usd=5.00", "usd=0.0001,tokens=9", "model_calls=3,wall_clock=90s", "wall_clock=1500ms"] {
            assert_eq!(flag(&parse(text).unwrap()), text);
        }
        assert_eq!(
            flag(&parse("usd=$5, tokens=10_000, wall_clock=10m").unwrap()),
            "usd=5.00,tokens=10000,wall_clock=600s"
        );
    }

    #[test]
    fn what_is_no_budget_is_told() {
        let refused = |text| parse(text).unwrap_err().to_string();
        assert_eq!(refused("5"), "`5` says no amount");
        assert_eq!(refused("usd=-5"), "`-5` is no amount of `usd`");
        assert_eq!(refused("euros=5"), "there is no budget of `euros`");
        assert_eq!(refused("tokens=many"), "`many` is no amount of `tokens`");
        assert_eq!(refused("wall_clock=long"), "`long` is no amount of `wall_clock`");
        for nothing in ["", ",", "usd=0", "tokens=0,usd=0.0"] {
            assert_eq!(refused(nothing), "that budget gives nothing");
        }
    }
}
