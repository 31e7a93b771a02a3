// SPDX-License-Identifier: GPL-2.0

//! Numbers for people.

/// Returns an amount of memory with three digits: `812K`, `1.21M`.
pub(crate) fn kib(kib: u64) -> String {
    scaled(kib, 1024, &["K", "M", "G", "T"])
}

/// Returns a number of bytes in the same form.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes, 1024, &["", "K", "M", "G", "T"])
}

/// Returns a count in thousands, millions and so on: `12.3k`.
pub(crate) fn count(count: u64) -> String {
    scaled(count, 1000, &["", "k", "M", "G", "T"])
}

/// Divides `n` by `step` until it has at most three digits, or no unit is left.
fn scaled(n: u64, step: u64, units: &[&str]) -> String {
    let mut divisor = 1;
    let mut units = units.iter().copied();
    let mut unit = units.next().unwrap_or("");
    while n / divisor >= 1000 {
        let Some(next) = units.next() else { break };
        unit = next;
        divisor *= step;
    }
    let value = n as f64 / divisor as f64;
    match divisor {
        1 => format!("{n}{unit}"),
        _ if value < 10.0 => format!("{value:.2}{unit}"),
        _ if value < 100.0 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// Returns a time in its two largest units: `3d04h`, `5m07s`.
pub(crate) fn seconds(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Returns a time of microseconds: `512us`, `1.02ms`, `8.39s`.
pub(crate) fn microseconds(us: u64) -> String {
    scaled(us, 1000, &["us", "ms", "s"])
}

/// Returns the text of a value, or `-` if there is none.
pub(crate) fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

/// Returns `"1 THING"` or `"N THINGs"`.
pub(crate) fn plural(n: u64, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(kib(0), "0K");
        assert_eq!(kib(812), "812K");
        assert_eq!(kib(1234), "1.21M");
        assert_eq!(bytes(123_456_789), "118M");
        assert_eq!(count(12_345), "12.3k");
        assert_eq!(count(u64::MAX), "18446744T");
        assert_eq!(microseconds(512), "512us");
        assert_eq!(microseconds(1024), "1.02ms");
        assert_eq!(microseconds(1 << 31), "2147s");
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!(seconds(59), "59s");
        assert_eq!(seconds(307), "5m07s");
        assert_eq!(seconds(7260), "2h01m");
        assert_eq!(seconds(3 * 86400 + 4 * 3600 + 59), "3d04h");
    }
}
