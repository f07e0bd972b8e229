//! As much of PromQL as it takes to see what an expression names, and whether it can be an expression at all.

use std::collections::BTreeSet;

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    /// Identifiers that start with the prefix of our metrics; label values are not looked into.
    pub(crate) metrics: BTreeSet<String>,
    /// Variables of a dashboard, without the dollar sign, inside of strings too.
    pub(crate) variables: BTreeSet<String>,
}

/// Reads an expression.
///
/// # Errors
///
/// What is wrong with it: brackets, quotes, or a duration.
pub(crate) fn read(expression: &str) -> Result<Named, String> {
    let mut named = Named::default();
    let mut open = Vec::new();
    let mut rest = expression.trim();
    if rest.is_empty() {
        return Err("it is empty".into());
    }
    let mut last = String::new();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' | '`' => {
                let length = quoted(rest, first).ok_or("a string does not end")?;
                named.variables.extend(variables(&rest[..length]));
                length
            }
            '(' | '{' | '[' => {
                open.push(first);
                if first == '[' {
                    let range = rest[1..].split(']').next().unwrap_or_default();
                    range.split(':').try_for_each(|part| duration(part.trim()))?;
                }
                1
            }
            ')' | '}' | ']' => {
                let expected = match first {
                    ')' => '(',
                    '}' => '{',
                    _ => '[',
                };
                if open.pop() != Some(expected) {
                    return Err(format!("{first:?} closes nothing"));
                }
                1
            }
            '$' => {
                let length = 1 + word(&rest[1..]);
                named.variables.insert(rest[1..length].to_owned());
                length
            }
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let length = word(rest);
                let found = &rest[..length];
                if last == "offset" {
                    duration(found)?;
                }
                if found.starts_with("tallyweir_") {
                    named.metrics.insert(found.to_owned());
                }
                found.clone_into(&mut last);
                length
            }
            _ => first.len_utf8(),
        };
        rest = &rest[length..];
    }
    match open.last() {
        None => Ok(named),
        Some(bracket) => Err(format!("{bracket:?} is never closed")),
    }
}

/// Bytes of the string that `text` starts with, quotes included.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn word(text: &str) -> usize {
    text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':')
        .unwrap_or(text.len())
}

fn variables(text: &str) -> impl Iterator<Item = String> {
    text.split('$').skip(1).map(|after| after[..word(after)].to_owned())
}

/// Whether a text is a duration as Prometheus writes it, such as `1h30m`; a dashboard's variable passes for one.
///
/// # Errors
///
/// When it is not.
pub(crate) fn duration(text: &str) -> Result<(), String> {
    const UNITS: [&str; 7] = ["y", "w", "d", "h", "m", "s", "ms"];
    if text.starts_with("$__") {
        return Ok(());
    }
    let wrong = || format!("{text:?} is no duration");
    let (mut rest, mut least) = (text, 0);
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let after = &rest[digits..];
        let letters = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let unit = UNITS.iter().position(|unit| *unit == &after[..letters]).ok_or_else(wrong)?;
        if digits == 0 || unit < least {
            return Err(wrong());
        }
        (rest, least) = (&after[letters..], unit + 1);
    }
    if text.is_empty() { Err(wrong()) } else { Ok(()) }
}

#[test]
fn metrics_and_variables_are_found_and_label_values_are_not() {
    let named = read(
        "sum by (job) (rate(tallyweir_a_total{kind!~\"tallyweir_b|x\", job=~\"$job\"}[$__rate_interval])) / tallyweir_c offset 5m",
    )
    .unwrap();
    assert_eq!(named.metrics, ["tallyweir_a_total", "tallyweir_c"].map(str::to_owned).into());
    assert_eq!(named.variables, ["__rate_interval", "job"].map(str::to_owned).into());
}

#[test]
fn what_prometheus_would_refuse_is_refused() {
    for wrong in
        ["", " ", "sum(a", "sum(a))", "sum(a]", "a{b=\"c}", "rate(a[5])", "rate(a[m5])", "a offset 5x"]
    {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
    for (text, good) in
        [("5m", true), ("1h30m", true), ("1m1h", false), ("500ms", true), ("5", false), ("", false)]
    {
        assert_eq!(duration(text).is_ok(), good, "{text:?}");
    }
}
