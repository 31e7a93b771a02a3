// SPDX-License-Identifier: GPL-2.0

//! Parses the command line: a command, a host and options.

use crate::{
    error::{Error, Result},
    target,
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    net::SocketAddr,
    str::FromStr, //
};

/// Options that take no value.
const FLAGS: &[&str] = &["allow-remote", "json", "quick", "valid"];

/// Options that every command takes.
const COMMON: &[&str] = &["allow-remote"];

/// The arguments that follow the command.
pub(crate) struct Args {
    host: String,
    options: BTreeMap<String, String>,
}

impl Args {
    /// Parses `args`. `known` lists the options of the command.
    pub(crate) fn parse(args: impl Iterator<Item = OsString>, known: &[&str]) -> Result<Self> {
        let mut args = args.map(text);
        let mut host = None;
        let mut options = BTreeMap::new();
        while let Some(arg) = args.next().transpose()? {
            let Some(name) = arg.strip_prefix("--") else {
                if host.replace(arg).is_some() {
                    return Err(Error::new("more than one host"));
                }
                continue;
            };
            if !COMMON.iter().chain(known).any(|&known| known == name) {
                return Err(Error::new(format!("unknown option --{name}")));
            }
            let value = match FLAGS.contains(&name) {
                true => String::new(),
                false => args
                    .next()
                    .transpose()?
                    .ok_or_else(|| Error::new(format!("--{name} needs a value")))?,
            };
            options.insert(name.to_owned(), value);
        }
        let host = host.ok_or_else(|| Error::new("no host given"))?;
        Ok(Self { host, options })
    }

    /// Returns the host exactly as the user wrote it.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address of the server.
    pub(crate) fn target(&self) -> Result<SocketAddr> {
        target::resolve(&self.host, self.allow_remote())
    }

    /// Returns true if the results are to be printed as JSON.
    pub(crate) fn json(&self) -> bool {
        self.options.contains_key("json")
    }

    /// Returns true if a sample of the cases is to be tried instead of all of them.
    pub(crate) fn quick(&self) -> bool {
        self.options.contains_key("quick")
    }

    /// Returns true if hosts beyond the networks of this host are allowed.
    pub(crate) fn allow_remote(&self) -> bool {
        self.options.contains_key("allow-remote")
    }

    /// Returns the value of the option `name`, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Returns the value of the option `name`, or `default` if it was not given.
    pub(crate) fn value<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| Error::new(format!("--{name}: bad value \"{text}\""))),
        }
    }
}

/// Converts an argument to a string.
fn text(arg: OsString) -> Result<String> {
    arg.into_string()
        .map_err(|arg| Error::new(format!("not UTF-8: {arg:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn parse(line: &str) -> Result<Args> {
        Args::parse(line.split(' ').map(OsString::from), &["count"])
    }

    #[test]
    fn options_may_stand_anywhere() {
        for line in ["--count 3 here", "here --count 3"] {
            let args = parse(line).unwrap();
            assert_eq!(args.host(), "here");
            assert_eq!(args.value("count", 0).unwrap(), 3);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["--count 3", "here there", "here --what", "here --count"] {
            assert!(parse(line).is_err(), "{line}");
        }
        // Flags of other commands, too.
        assert!(parse("here --json").is_err());
        let bytes = [OsString::from_vec(vec![0xff])];
        assert!(Args::parse(bytes.into_iter(), &[]).is_err());
        assert!(parse("here --count x").unwrap().value("count", 0).is_err());
    }
}
