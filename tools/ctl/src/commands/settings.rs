// SPDX-License-Identifier: GPL-2.0

//! `settings`: shows, changes, explains and keeps settings.

use crate::{
    answer::Answer,
    atomic, cli,
    columns::Columns,
    counter::Values,
    error::{
        Error,
        Result, //
    },
    human::{
        or_dash,
        plural, //
    },
    setting::{
        self,
        Setting,
        RELEASE,
        SETTINGS, //
    },
    system::{
        System,
        SYSCTL, //
    },
};
use serde_json::{
    json,
    Value, //
};
use std::{
    collections::BTreeMap,
    fs,
    io, //
};

/// The file that keeps settings.
const KEPT: &str = "/etc/sysctl.d/90-svcrdma.conf";
/// The folders that sysctl(8) reads.
const FOLDERS: [&str; 4] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
];
/// The beginning of the lines of settings.
const PREFIX: &str = "sunrpc.svcrdma.";

/// Runs a subcommand.
pub(crate) fn run(args: &cli::Settings, system: &System) -> Result<Answer> {
    match args {
        cli::Settings::Get { name } => get(system, &named(name)?),
        cli::Settings::Set { name, value } => set(system, one(name)?, *value),
        cli::Settings::Explain { name } => Ok(explain(system, &named(name)?)),
        cli::Settings::Persist { name } => persist(system, name),
    }
}

/// Returns the setting of a name.
fn one(name: &str) -> Result<&'static Setting> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    setting::find(name).ok_or_else(|| {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        Error::failed(
            "no-setting",
            format!("{name} is not a setting, these are: {}", names.join(" ")),
        )
    })
}

/// Returns the settings of some names, or all.
fn named(names: &[String]) -> Result<Vec<&'static Setting>> {
    match names {
        [] => Ok(SETTINGS.iter().collect()),
        names => names.iter().map(|name| one(name)).collect(),
    }
}

/// Shows settings.
fn get(system: &System, settings: &[&'static Setting]) -> Result<Answer> {
    let values = system.values()?;
    if let [setting] = settings {
        if values.get(setting.name).is_none() {
            let text = format!("the loaded svcrdma has no setting {}", setting.name);
            return Err(Error::unknown("old-module", text));
        }
    }
    let mut columns = Columns::new(&["SETTING", ">VALUE", ">DEFAULT", "RANGE", "UNIT"]);
    for setting in settings {
        columns.push(vec![
            setting.name.to_owned(),
            or_dash(values.get(setting.name), |value| value.to_string()),
            setting.default.to_string(),
            setting.range(),
            setting.unit.to_owned(),
        ]);
    }
    Ok(Answer::new(
        columns.text(),
        json!({"settings": list(settings, Some(&values))}),
    ))
}

/// Returns the JSON array, with values if they are known.
fn list(settings: &[&Setting], values: Option<&Values>) -> Vec<Value> {
    let objects = settings.iter().map(|setting| {
        json!({
            "name": setting.name,
            "value": values.and_then(|values| values.get(setting.name)),
            "default": setting.default,
            "min": setting.min,
            "max": setting.max,
            "unit": setting.unit,
            "text": setting.text,
        })
    });
    objects.collect()
}

/// Explains settings. The module need not be loaded.
fn explain(system: &System, settings: &[&'static Setting]) -> Answer {
    let values = system.values().ok();
    let mut text = String::new();
    for setting in settings {
        let value = values.as_ref().and_then(|values| values.get(setting.name));
        let now = value.map_or_else(String::new, |value| format!(", now {value}"));
        text += &format!(
            "{}: {} {}, default {}{now}\n",
            setting.name,
            setting.range(),
            setting.unit,
            setting.default
        );
        text += &wrapped(setting.text);
    }
    Answer::new(text, json!({"settings": list(settings, values.as_ref())}))
}

/// Returns a text in indented lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if line.len() + word.len() > 95 {
            lines += &format!("   {line}\n");
            line.clear();
        }
        line += &format!(" {word}");
    }
    lines + &format!("   {line}\n")
}

/// Changes a setting.
fn set(system: &System, setting: &'static Setting, value: u64) -> Result<Answer> {
    let values = system.values()?;
    let name = setting.name;
    let before = values.get(name).ok_or_else(|| {
        Error::unknown(
            "old-module",
            format!("the loaded svcrdma has no setting {name}"),
        )
    })?;
    if !(setting.min..=setting.max).contains(&value) {
        return Err(refused(setting, value));
    }
    let path = system.root.path(&format!("{SYSCTL}/{name}"));
    fs::write(path, format!("{value}\n")).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => refused(setting, value),
        io::ErrorKind::PermissionDenied => Error::unknown(
            "no-rights",
            format!("{name} cannot be set: only root can, in the host's network namespace"),
        ),
        _ => Error::failed("not-set", format!("{name}: {error}")),
    })?;
    Ok(Answer::new(
        format!("{name}: {before} -> {value}\n"),
        json!({"settings": list(&[setting], Some(&system.values()?)), "before": before}),
    ))
}

/// Returns the error of a value that the module does not accept.
fn refused(setting: &Setting, value: u64) -> Error {
    let text = format!(
        "{} cannot be {value}: {} {}",
        setting.name,
        setting.range(),
        setting.unit
    );
    Error::failed("refused", text)
}

/// Writes settings to the file that is applied when the module is loaded.
fn persist(system: &System, names: &[String]) -> Result<Answer> {
    let values = system.values()?;
    if names.iter().any(|name| name.ends_with(RELEASE)) {
        let text = format!("{RELEASE} is an action and cannot be kept");
        return Err(Error::failed("refused", text));
    }
    let mut kept = match names {
        [] => BTreeMap::new(),
        _ => kept(system, KEPT),
    };
    let all = names.is_empty();
    for setting in named(names)?
        .into_iter()
        .filter(|setting| setting.name != RELEASE)
    {
        let value = values.get(setting.name);
        if let Some(value) = value.filter(|value| !all || *value != setting.default) {
            kept.insert(setting.name.to_owned(), value.to_string());
        }
    }
    write(system, &kept)?;
    let overruled = overruled(system, &kept);
    let mut text = format!("{KEPT}: {}\n", plural(kept.len() as u64, "setting"));
    for (file, name) in &overruled {
        text += &format!("{file} sets {name} too, and is applied later: remove the line there\n");
    }
    let overruled: Vec<Value> = overruled
        .iter()
        .map(|(file, name)| json!({"file": file, "name": name}))
        .collect();
    Ok(Answer::new(
        text,
        json!({"file": KEPT, "kept": kept, "overruled": overruled}),
    ))
}

/// Writes the file, or removes it if no setting is to be kept.
fn write(system: &System, kept: &BTreeMap<String, String>) -> Result {
    let path = system.root.path(KEPT);
    let mut content = "# Written by svcrdmactl settings persist.\n".to_owned();
    for (name, value) in kept {
        content += &format!("{PREFIX}{name} = {value}\n");
    }
    let written = match kept.is_empty() {
        true => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
        false => atomic::write(&path, content.as_bytes(), 0o644),
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Error::unknown(
            "no-rights",
            format!("{KEPT} cannot be written: run this as root"),
        ),
        _ => Error::failed("not-written", format!("{KEPT}: {error}")),
    })
}

/// Returns the settings that a file of sysctl(8) sets.
fn kept(system: &System, path: &str) -> BTreeMap<String, String> {
    let text = system.root.read(path).unwrap_or_default();
    let settings = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().trim_start_matches('-').replace('/', ".");
        Some((
            key.strip_prefix(PREFIX)?.to_owned(),
            value.trim().to_owned(),
        ))
    });
    settings.collect()
}

/// Returns files that are applied after ours and set the same settings to other values. sysctl(8)
/// reads the files in the order of their names, and /etc/sysctl.conf last.
fn overruled(system: &System, ours: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let names = system.root.names(folder).unwrap_or_default();
        let later = names
            .into_iter()
            .filter(|name| name.ends_with(".conf") && name.as_str() > "90-svcrdma.conf");
        files.extend(later.map(|name| format!("{folder}/{name}")));
    }
    files.push("/etc/sysctl.conf".to_owned());
    let mut found = Vec::new();
    for file in files {
        for (name, value) in kept(system, &file) {
            if ours.get(&name).is_some_and(|our| *our != value) {
                found.push((file.clone(), name));
            }
        }
    }
    found
}
