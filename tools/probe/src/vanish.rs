// SPDX-License-Identifier: GPL-2.0

//! `vanish`: peers that disappear at every stage of a connection, in every way.
//!
//! The peers are divided into groups of the same kind, and threads process one group after another.

use crate::{
    error::{Error, Outcome, Result},
    idle::{holding, wait_for_end},
    output::{Format, Output},
    run::Run,
    scenario::{Remains, Scenario, READS},
    stage::{Choice, Stage},
    target::Server, //
};
use clap::value_parser;
use std::{
    env,
    fmt,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
    vec, //
};

/// Connect and disappear at some stage, repeatedly
#[derive(Debug, clap::Args)]
pub(crate) struct Vanish {
    #[command(flatten)]
    server: Server,
    /// Stage to reach. The default does not include overrun-seen, which waits until all Calls have
    /// arrived or the server has closed the connection, and the misbehaviour of unasked and
    /// invalidation
    #[arg(long, value_enum, default_value_t = Choice::All)]
    stage: Choice,
    /// Way to disappear; hold: stay connected until standard input ends
    #[arg(long, value_enum, default_value_t = Ways::All)]
    how: Ways,
    /// Peers; one of each kind by default
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Threads, each with a group of up to 8 peers at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..))]
    parallel: u32,
    /// Milliseconds to wait after each peer; groups then have one peer
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause: u64,
    /// File of at least 128 KiB below the root of NFS version 4, for write-chunk, reply-chunk and
    /// no-receive-reads
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Key of a memory registration of the server, for invalidation
    #[arg(long, value_name = "KEY")]
    key: Option<u32>,
    /// READs of each peer, for no-receive-reads
    #[arg(long, value_name = "N", default_value_t = READS, value_parser = value_parser!(u32).range(1..))]
    calls: u32,
}

/// The value of the option `--how`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ways {
    All,
    Disconnect,
    Silent,
    Kill,
    Hold,
}

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

/// Peers that disappear together, at the same stage and in the same way.
#[derive(Clone, Copy, Debug)]
struct Group {
    stage: Stage,
    how: How,
    count: usize,
}

/// A function that takes a group to its stage and makes it disappear. It appends silent peers to
/// the list.
type Leave<'a> = dyn Fn(Group, &mut Vec<Remains>) -> Result<()> + Sync + 'a;

impl Run for Vanish {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let scenario = self.scenario()?;
        let stages = self.stage.stages();
        let hows = match self.how {
            Ways::Hold => return self.hold(output, &scenario, &stages),
            Ways::All => How::ALL,
            Ways::Disconnect => &[How::Disconnect],
            Ways::Silent => &[How::Silent],
            Ways::Kill => &[How::Kill],
        };
        let count = self.count_or(stages.len() * hows.len());
        self.run_all(&scenario, &stages, hows, count)?;
        output.line(format_args!("{count} peers have vanished"));
        output.set("vanished", count);
        Ok(())
    }
}

impl Vanish {
    /// Returns the number of peers.
    fn count_or(&self, kinds: usize) -> usize {
        self.count.map_or(kinds, |count| count as usize)
    }

    fn scenario(&self) -> Result<Scenario> {
        Ok(Scenario {
            target: self.server.target()?,
            file: self.file.clone(),
            key: self.key,
            calls: self.calls,
        })
    }

    /// Takes peers to `stages` in turn and holds them until standard input ends.
    fn hold(&self, output: &mut Output, scenario: &Scenario, stages: &[Stage]) -> Result {
        let count = self.count_or(stages.len());
        let _held = (0..count)
            .map(|turn| scenario.reach(stages[turn % stages.len()], turn))
            .collect::<Result<Vec<_>>>()?;
        holding(output, count);
        wait_for_end()
    }

    /// Lets `count` peers of all kinds disappear.
    fn run_all(&self, scenario: &Scenario, stages: &[Stage], hows: &[How], count: usize) -> Result {
        let pause = Duration::from_millis(self.pause);
        let most = if pause.is_zero() { GROUP } else { 1 };
        let spawner = Spawner::new(self);
        let leave = |group, silent: &mut _| {
            vanish(scenario, &spawner, group, silent)?;
            thread::sleep(pause);
            Ok(())
        };
        run_all(&leave, plan(stages, hows, count, most), self.parallel)
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
fn run_all(leave: &Leave, groups: Vec<Group>, parallel: u32) -> Result<()> {
    let queue = Mutex::new(groups.into_iter());
    let failure = Mutex::new(None);
    let fail = |error| {
        lock(&queue).by_ref().for_each(drop);
        lock(&failure).get_or_insert(error);
    };
    let work = || work(leave, &queue).unwrap_or_else(fail);
    thread::scope(|scope| {
        for _ in 0..parallel {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                return fail(Error::os("thread", error));
            }
        }
    });
    failure.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// Processes groups from `queue` until it is empty.
fn work(leave: &Leave, queue: &Mutex<vec::IntoIter<Group>>) -> Result<()> {
    // The connection manager knows silent peers until the thread ends.
    let mut silent = Vec::new();
    loop {
        let Some(group) = lock(queue).next() else {
            return Ok(());
        };
        leave(group, &mut silent)
            .map_err(|error| error.within(format_args!("{}, {}", group.stage, group.how)))?;
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

/// Starts further processes of this program, which are killed.
struct Spawner {
    args: Vec<String>,
}

impl Spawner {
    /// Prepares the arguments that all processes share.
    fn new(options: &Vanish) -> Self {
        let mut args = vec!["vanish".to_owned()];
        args.extend(options.server.arguments());
        args.push("--how=hold".to_owned());
        args.push(format!("--calls={}", options.calls));
        args.extend(options.file.as_ref().map(|file| format!("--file={file}")));
        args.extend(options.key.map(|key| format!("--key={key}")));
        Self { args }
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
        return Err(Error::unavailable("the child has no output"));
    };
    let mut line = String::new();
    BufReader::new(output)
        .read_line(&mut line)
        .map_err(|error| Error::os("output of the child", error))?;
    if line.starts_with("holding") {
        return Ok(());
    }
    let status = child.wait().map_err(|error| Error::os("wait", error))?;
    Err(ended(status.code()))
}

/// Returns the error of a child that ended with `status` before it was killed.
fn ended(status: Option<i32>) -> Error {
    let text = "the child ended before it was killed";
    match Outcome::of_status(status) {
        Outcome::Finding => Error::new(text),
        _ => Error::unavailable(text),
    }
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
    fn a_child_that_fails_on_this_side_says_nothing_about_the_server() {
        assert_eq!(ended(Some(1)).outcome(), Outcome::Finding);
        assert_eq!(ended(Some(3)).outcome(), Outcome::Untested);
        assert_eq!(ended(None).outcome(), Outcome::Untested);
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
