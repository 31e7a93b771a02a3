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
        self,
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
/// The first line of that file.
const WRITTEN: &str = "# Written by svcrdmactl settings persist.";
/// The most characters of a value in a column.
const WIDTH: usize = 20;
/// The beginning of the lines of settings.
const PREFIX: &str = "sunrpc.svcrdma.";

/// Runs a subcommand.
pub(crate) fn run(args: &cli::Settings, system: &System) -> Result<Answer> {
    match args {
        cli::Settings::Get { name } => get(system, &named(name)?),
        cli::Settings::Set { name, value } => set(system, one(name)?, &value.join(" ")),
        cli::Settings::Explain { name } => Ok(explain(system, &named(name)?)),
        cli::Settings::Persist { name } => persist(system, name),
    }
}

/// Returns the setting of a name.
fn one(name: &str) -> Result<&'static Setting> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    setting::find(name).ok_or_else(|| {
        let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        Error::failed("no-setting", format!("{name} is not a setting"))
            .with_action(format!("choose one of {}", names.join(" ")))
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
        if values.setting(setting).is_none() {
            return Err(system::old_module(&format!("setting {}", setting.name)));
        }
    }
    let mut columns = Columns::new(&["SETTING", ">VALUE", ">DEFAULT", "RANGE", "UNIT"]);
    let mut long = String::new();
    for setting in settings {
        let value = values.setting(setting);
        if let Some(value) = value.as_ref().filter(|value| value.len() > WIDTH) {
            long += &format!("{} = {value}\n", setting.name);
        }
        columns.push(vec![
            setting.name.to_owned(),
            or_dash(value, cell),
            setting.default(),
            setting.range(),
            setting.unit().to_owned(),
        ]);
    }
    Ok(Answer::new(
        columns.text() + &long,
        json!({"settings": list(settings, Some(&values))}),
    ))
}

/// Returns a value for a column, and the number of its parts if it is too long.
fn cell(value: String) -> String {
    if value.len() > WIDTH {
        format!("({} below)", value.split(' ').count())
    } else {
        value
    }
}

/// Returns the JSON array, with values if they are known.
fn list(settings: &[&Setting], values: Option<&Values>) -> Vec<Value> {
    let objects = settings.iter().map(|setting| {
        let value = values.and_then(|values| values.setting(setting));
        let bounds = setting.bounds();
        json!({
            "name": setting.name,
            "value": value.map(|value| setting.json(&value)),
            "default": setting.json(&setting.default()),
            "min": bounds.map(|(min, _)| min),
            "max": bounds.map(|(_, max)| max),
            "unit": setting.unit(),
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
        let value = values.as_ref().and_then(|values| values.setting(setting));
        let now = value.map_or_else(String::new, |value| format!(", now {value}"));
        text += &format!(
            "{}: {} {}, default {}{now}\n",
            setting.name,
            setting.range(),
            setting.unit(),
            setting.default()
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
fn set(system: &System, setting: &'static Setting, value: &str) -> Result<Answer> {
    let values = system.values()?;
    let name = setting.name;
    let before = values
        .setting(setting)
        .ok_or_else(|| system::old_module(&format!("setting {name}")))?;
    if !setting.accepts(value) {
        return Err(refused(setting, value));
    }
    let path = system.root.path(&format!("{SYSCTL}/{name}"));
    fs::write(path, format!("{value}\n")).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => refused(setting, value),
        io::ErrorKind::PermissionDenied => {
            Error::unknown("no-rights", format!("{name} cannot be set"))
                .with_action("run this as root, in the host's network namespace")
        }
        _ => Error::failed("not-set", format!("{name}: {error}")),
    })?;
    let values = system.values()?;
    let after = values.setting(setting).unwrap_or_else(|| value.to_owned());
    let mut text = format!("{name}: {before} -> {after}\n");
    let other = last_file(system, name, |_| false).filter(|(_, value)| *value != after);
    if let Some((file, value)) = &other {
        text += &format!(
            "{file} sets {name} to {value} at the next start of nfs-server: svcrdmactl settings persist {name}\n"
        );
    }
    let other = other.map(|(file, value)| json!({"file": file, "value": setting.json(&value)}));
    Ok(Answer::new(
        text,
        json!({
            "settings": list(&[setting], Some(&values)),
            "before": setting.json(&before),
            "at_next_start": other,
        }),
    ))
}

/// Returns the error of a value that the module does not accept.
fn refused(setting: &Setting, value: &str) -> Error {
    let text = format!("{} cannot be \"{value}\"", setting.name);
    let action = format!("give {} {}", setting.range(), setting.unit());
    Error::failed("refused", text).with_action(action)
}

/// Writes settings to the file that is applied when the module is loaded.
fn persist(system: &System, names: &[String]) -> Result<Answer> {
    let values = system.values()?;
    if names.iter().any(|name| name.ends_with(RELEASE)) {
        let text = format!("{RELEASE} is an action and cannot be kept");
        return Err(Error::failed("refused", text));
    }
    let all = names.is_empty();
    let chosen = named(names)?;
    let to_keep = chosen.iter().filter_map(|setting| {
        let value = values.setting(setting)?;
        let is_other = |(_, other): (String, String)| other != value;
        let is_changed = value != setting.default()
            || last_file(system, setting.name, |file| file == KEPT).is_some_and(is_other);
        let is_kept = setting.name != RELEASE && (!all || is_changed);
        is_kept.then_some((setting.name, value))
    });
    let before = content_of(system, KEPT)?;
    let is_replaced = |name: &str| all || chosen.iter().any(|setting| setting.name == name);
    let content = with_settings(&before, is_replaced, &to_keep.collect());
    let kept = settings_in(&content);
    let overruled = overruled(system, &kept)?;
    write(system, &content)?;
    Ok(persisted(&overruled, &kept))
}

/// Returns the content of a file of sysctl(8), which is empty if there is no such file.
///
/// # Errors
///
/// If the file cannot be read or is not UTF-8. Its lines would be lost if it were taken for empty.
fn content_of(system: &System, file: &str) -> Result<String> {
    match fs::read_to_string(system.root.path(file)) {
        Ok(content) => Ok(content),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(String::new()),
            io::ErrorKind::PermissionDenied => Err(Error::unknown(
                "no-rights",
                format!("{file} cannot be read: run this as root"),
            )),
            _ => Err(Error::failed("unreadable", format!("{file}: {error}"))),
        },
    }
}

/// Returns the lines of a file of sysctl(8), with `settings` instead of those that are replaced.
fn with_settings(
    before: &str,
    is_replaced: impl Fn(&str) -> bool,
    settings: &BTreeMap<&str, String>,
) -> String {
    let others = before
        .lines()
        .filter(|line| !setting_of(line).is_some_and(|(name, _)| is_replaced(&name)));
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    if before.is_empty() && !settings.is_empty() {
        lines.push(WRITTEN.to_owned());
    }
    let kept = settings.iter();
    lines.extend(kept.map(|(name, value)| format!("{PREFIX}{name} = {value}")));
    if lines.iter().all(|line| line == WRITTEN) {
        lines.clear();
    }
    let mut content = String::new();
    for line in lines {
        content += &line;
        content.push('\n');
    }
    content
}

/// Returns the answer after the file was written.
fn persisted(overruled: &[(String, String)], kept: &BTreeMap<String, String>) -> Answer {
    let mut text = format!("{KEPT}: {}\n", plural(kept.len() as u64, "setting"));
    for (file, name) in overruled {
        text += &format!("{file} sets {name} too, and is applied later: remove the line there\n");
    }
    let invalid: Vec<&String> = kept
        .iter()
        .filter(|(name, value)| !is_valid(name, value))
        .map(|(name, _)| name)
        .collect();
    for name in &invalid {
        text += &format!(
            "{KEPT} sets {name} to a value that svcrdma refuses: svcrdmactl settings persist {name}\n"
        );
    }
    let overruled: Vec<Value> = overruled
        .iter()
        .map(|(file, name)| json!({"file": file, "name": name}))
        .collect();
    let json = json!({"file": KEPT, "kept": kept, "overruled": overruled, "invalid": invalid});
    Answer::new(text, json)
}

/// Returns true unless the module refuses the value, or has no such setting.
fn is_valid(name: &str, value: &str) -> bool {
    setting::find(name).is_some_and(|setting| setting.accepts(value))
}

/// Writes the file, or removes it if nothing is left in it.
fn write(system: &System, content: &str) -> Result {
    let path = system.root.path(KEPT);
    let written = if content.is_empty() {
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    } else {
        atomic::write(&path, content.as_bytes(), 0o644)
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Error::unknown("no-rights", format!("{KEPT} cannot be written"))
                .with_action("run this as root")
        }
        _ => Error::failed("not-written", format!("{KEPT}: {error}")),
    })
}

/// Returns the name and the value of a setting of ours in a line of a file of sysctl(8).
fn setting_of(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim().trim_start_matches('-').replace('/', ".");
    let name = key.strip_prefix(PREFIX)?.to_owned();
    Some((name, value.trim().to_owned()))
}

/// Returns the settings in the content of a file of sysctl(8).
fn settings_in(content: &str) -> BTreeMap<String, String> {
    content.lines().filter_map(setting_of).collect()
}

/// Returns the files of sysctl(8) in the order in which it applies them, ours included. It reads the
/// files in the order of their names, one of each name, and /etc/sysctl.conf last.
fn files(system: &System) -> Vec<String> {
    let mut folders = BTreeMap::new();
    for folder in FOLDERS {
        let names = system.root.names(folder).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            folders.entry(name).or_insert(folder);
        }
    }
    let files = folders
        .iter()
        .map(|(name, folder)| format!("{folder}/{name}"));
    files.chain(["/etc/sysctl.conf".to_owned()]).collect()
}

/// Returns files that are applied after ours and set the same settings to other values.
fn overruled(system: &System, ours: &BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
    let name_of = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    let files = files(system);
    let later = files
        .iter()
        .filter(|file| file.ends_with("/sysctl.conf") || name_of(file) > name_of(KEPT));
    let mut found = Vec::new();
    for file in later {
        let content = content_of(system, file)?;
        for (name, value) in settings_in(&content) {
            if ours.get(&name).is_some_and(|our| *our != value) {
                found.push((file.clone(), name));
            }
        }
    }
    Ok(found)
}

/// Returns the last file that sets a setting, apart from those that `is_left_out` names, and the value
/// there. A file that cannot be read counts as empty.
fn last_file(
    system: &System,
    name: &str,
    is_left_out: impl Fn(&str) -> bool,
) -> Option<(String, String)> {
    let files = files(system).into_iter().rev();
    files.filter(|file| !is_left_out(file)).find_map(|file| {
        let content = content_of(system, &file).unwrap_or_default();
        Some((file, settings_in(&content).remove(name)?))
    })
}
