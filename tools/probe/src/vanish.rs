// SPDX-License-Identifier: GPL-2.0

//! `vanish`: peers that disappear at every stage of a connection, in every way.
//!
//! The peers are divided into groups of the same kind, and threads process one group after another.

use crate::{
    args::Args,
    error::{Error, Result},
    idle::wait_for_end,
    scenario::{Remains, Scenario, READS},
    stage::Stage,
};
use std::{
    env,
    fmt,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    str::FromStr,
    sync::Mutex,
    thread,
    time::Duration,
    vec, //
};

/// Options of the command.
pub(crate) const OPTIONS: &[&str] = &[
    "stage", "how", "count", "parallel", "pause", "file", "key", "calls",
];

/// The number of peers per group, unless there is a pause between groups.
const GROUP: usize = 8;

/// The way in which a peer disappears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// The peer disconnects.
    Disconnect,
    /// Its queue pair is destroyed; the connection manager is told only at the end of the run.
    Silent,
    /// Its process is killed.
    Kill,
}

impl How {
    const ALL: &'static [Self] = &[Self::Disconnect, Self::Silent, Self::Kill];

    fn name(self) -> &'static str {
        match self {
            Self::Disconnect => "disconnect",
            Self::Silent => "silent",
            Self::Kill => "kill",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for How {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<Self, ()> {
        let found = Self::ALL.iter().find(|how| how.name() == name);
        found.copied().ok_or(())
    }
}

/// Peers that disappear together, at the same stage and in the same way.
#[derive(Clone, Copy, Debug)]
struct Group {
    stage: Stage,
    how: How,
    count: usize,
}

/// A function that takes a group to its stage and makes it disappear. It appends silent peers to
/// the list.
type Vanish<'a> = dyn Fn(Group, &mut Vec<Remains>) -> Result<()> + Sync + 'a;

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let scenario = Scenario {
        target: args.target()?,
        file: args.text("file").map(str::to_owned),
        key: args.text("key").map(|_| args.value("key", 0)).transpose()?,
        calls: args.value("calls", READS)?,
    };
    let stages = choice(args, "stage", Stage::ALL)?;
    if args.text("how") == Some("hold") {
        return hold(&scenario, &stages, args.value("count", stages.len())?);
    }
    let hows = choice(args, "how", How::ALL)?;
    let count = args.value("count", stages.len() * hows.len())?;
    let parallel: usize = args.value("parallel", 4)?;
    let pause = Duration::from_millis(args.value("pause", 0)?);
    let most = if pause.is_zero() { GROUP } else { 1 };
    let spawner = Spawner::new(args);
    let vanish = |group, silent: &mut _| {
        vanish(&scenario, &spawner, group, silent)?;
        thread::sleep(pause);
        Ok(())
    };
    run_all(&vanish, plan(&stages, &hows, count, most), parallel)?;
    println!("{count} peers have vanished");
    Ok(())
}

/// Parses the option `name`, which selects one of `all` or all of them.
fn choice<T: Copy + FromStr>(args: &Args, name: &str, all: &[T]) -> Result<Vec<T>> {
    match args.text(name) {
        None | Some("all") => Ok(all.to_vec()),
        Some(text) => text
            .parse()
            .map(|one| vec![one])
            .map_err(|_| Error::new(format!("--{name}: unknown value \"{text}\""))),
    }
}

/// Distributes `count` peers evenly over all kinds and divides them into groups of at most `most`
/// peers.
fn plan(stages: &[Stage], hows: &[How], count: usize, most: usize) -> Vec<Group> {
    let kinds: Vec<(Stage, How)> = stages
        .iter()
        .flat_map(|&stage| hows.iter().map(move |&how| (stage, how)))
        .collect();
    let mut left: Vec<usize> = (0..kinds.len())
        .map(|kind| (count + kinds.len() - 1 - kind) / kinds.len())
        .collect();
    let mut groups = Vec::new();
    // The kinds alternate, so that different kinds run at the same time.
    while left.iter().any(|&left| left > 0) {
        for (&(stage, how), left) in kinds.iter().zip(&mut left) {
            let count = most.min(*left);
            *left -= count;
            if count > 0 {
                groups.push(Group { stage, how, count });
            }
        }
    }
    groups
}

/// Processes `groups` with `parallel` threads; the first failure stops all of them.
fn run_all(vanish: &Vanish, groups: Vec<Group>, parallel: usize) -> Result<()> {
    let queue = Mutex::new(groups.into_iter());
    let failure = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..parallel.max(1) {
            scope.spawn(|| {
                if let Err(error) = work(vanish, &queue) {
                    lock(&queue).by_ref().for_each(drop);
                    lock(&failure).get_or_insert(error);
                }
            });
        }
    });
    failure.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// Processes groups from `queue` until it is empty.
fn work(vanish: &Vanish, queue: &Mutex<vec::IntoIter<Group>>) -> Result<()> {
    // The connection manager knows silent peers until the thread ends.
    let mut silent = Vec::new();
    loop {
        let Some(group) = lock(queue).next() else {
            return Ok(());
        };
        vanish(group, &mut silent)
            .map_err(|error| Error::new(format!("{}, {}: {error}", group.stage, group.how)))?;
    }
}

/// Locks `mutex`. Poisoning is ignored, as a panic of another thread ends the program anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Takes a group to its stage and makes it disappear.
fn vanish(
    scenario: &Scenario,
    spawner: &Spawner,
    group: Group,
    silent: &mut Vec<Remains>,
) -> Result<()> {
    if group.how == How::Kill {
        return spawner.kill(group);
    }
    let mut peers = (0..group.count)
        .map(|turn| scenario.reach(group.stage, turn))
        .collect::<Result<Vec<_>>>()?;
    if group.how == How::Disconnect {
        return peers.into_iter().try_for_each(Remains::disconnect);
    }
    peers.iter_mut().for_each(Remains::fall_silent);
    silent.append(&mut peers);
    Ok(())
}

/// Takes `count` peers to `stages` in turn and holds them until standard input ends.
fn hold(scenario: &Scenario, stages: &[Stage], count: usize) -> Result<()> {
    let _held = (0..count)
        .map(|turn| scenario.reach(stages[turn % stages.len()], turn))
        .collect::<Result<Vec<_>>>()?;
    println!("holding {count}");
    wait_for_end()
}

/// Starts further processes of this program, which are killed.
struct Spawner {
    args: Vec<String>,
}

impl Spawner {
    /// Prepares the arguments that all processes share.
    fn new(args: &Args) -> Self {
        let mut common = vec![
            "vanish".to_owned(),
            args.host().to_owned(),
            "--how".to_owned(),
            "hold".to_owned(),
        ];
        if let Some(file) = args.text("file") {
            common.extend(["--file".to_owned(), file.to_owned()]);
        }
        if let Some(calls) = args.text("calls") {
            common.extend(["--calls".to_owned(), calls.to_owned()]);
        }
        if args.allow_remote() {
            common.push("--allow-remote".to_owned());
        }
        Self { args: common }
    }

    /// Starts a process that takes `group` to its stage, and kills it.
    fn kill(&self, group: Group) -> Result<()> {
        let program = env::current_exe().map_err(|error| Error::os("starting the child", error))?;
        let mut child = Command::new(program)
            .args(&self.args)
            .args(["--stage", group.stage.name()])
            .args(["--count", &group.count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Error::os("starting the child", error))?;
        let held = wait_for_hold(&mut child);
        let killed = child.kill().and_then(|()| child.wait());
        killed.map_err(|error| Error::os("kill", error))?;
        held
    }
}

/// Waits until `child` reports that its peers have reached their stage.
fn wait_for_hold(child: &mut Child) -> Result<()> {
    let Some(output) = child.stdout.take() else {
        return Err(Error::new("the child has no output"));
    };
    let mut line = String::new();
    BufReader::new(output)
        .read_line(&mut line)
        .map_err(|error| Error::os("output of the child", error))?;
    if line.starts_with("holding") {
        return Ok(());
    }
    Err(Error::new("the child ended before it was killed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_as_many_peers_as_asked_for() {
        for (count, most) in [(0, GROUP), (1, GROUP), (33, GROUP), (1000, GROUP), (100, 1)] {
            let groups = plan(Stage::ALL, How::ALL, count, most);
            assert_eq!(groups.iter().map(|group| group.count).sum::<usize>(), count);
            assert!(groups.iter().all(|group| (1..=most).contains(&group.count)));
        }
    }

    #[test]
    fn the_plan_has_every_kind() {
        let groups = plan(
            Stage::ALL,
            How::ALL,
            Stage::ALL.len() * How::ALL.len(),
            GROUP,
        );
        for &stage in Stage::ALL {
            for &how in How::ALL {
                let same = |group: &&Group| group.stage == stage && group.how == how;
                assert_eq!(groups.iter().filter(same).count(), 1);
            }
        }
    }
}
