// SPDX-License-Identifier: GPL-2.0

//! `top`: connections and rates, live.

use super::connections;
use crate::{
    answer::Answer,
    cli::{
        self,
        View, //
    },
    connection::{
        self,
        Connection,
        Sort, //
    },
    counter::Values,
    error::{
        Error,
        Result, //
    },
    human::{
        self,
        or_dash,
        plural, //
    },
    system::System, //
};
use crossterm::{
    cursor::{
        Hide,
        MoveTo,
        Show, //
    },
    event::{
        self,
        Event,
        KeyCode,
        KeyEventKind,
        KeyModifiers, //
    },
    queue,
    style::Print,
    terminal::{
        self,
        Clear,
        ClearType,
        EnterAlternateScreen,
        LeaveAlternateScreen, //
    },
};
use serde_json::json;
use signal_hook::{
    consts::{
        SIGHUP,
        SIGINT,
        SIGTERM, //
    },
    flag, //
};
use std::{
    io::{
        self,
        IsTerminal,
        Write, //
    },
    sync::{
        atomic::{
            AtomicBool,
            Ordering, //
        },
        Arc, //
    },
    thread,
    time::{
        Duration,
        Instant, //
    },
};

/// The longest time after which a signal ends `top`.
const LOOK_FOR_SIGNALS: Duration = Duration::from_millis(200);
const KEYS: &str = "q quit   sort by: m memory  r rate  a age  l latency";
/// Returns the text of a rate.
type Text = fn(u64) -> String;
/// Counters that grow with the load: title, file, text of a rate.
const RATES: [(&str, &str, Text); 5] = [
    ("Calls", "calls", human::count),
    ("in", "read_bytes", human::bytes),
    ("out", "write_bytes", human::bytes),
    ("page waits", "page_waits", human::count),
    ("Reply waits", "reply_waits", human::count),
];

/// Shows frames until a key ends it, or one frame where nobody watches.
pub(crate) fn run(args: &cli::Top, system: &System, json: bool) -> Result<Answer> {
    let view = args.view;
    connection::check_order(system, view.sort)?;
    let watched = io::stdout().is_terminal() && io::stdin().is_terminal();
    if watched && !args.once && !json {
        return live(args, system);
    }
    let before = Look::take(system, view)?;
    thread::sleep(Duration::from_secs_f64(args.interval));
    let frame = Frame::new(Some(&before), Look::take(system, view)?, view);
    let json = json!({
        "interval_seconds": frame.seconds,
        "rates": frame.rates_json(),
        "connections": connections::list(&frame.look.connections),
    });
    Ok(Answer::new(
        frame.lines(system, view).join("\n") + "\n",
        json,
    ))
}

/// The state of the server at one time.
struct Look {
    at: Instant,
    values: Values,
    connections: Vec<Connection>,
}

impl Look {
    /// Reads counters and connections.
    fn take(system: &System, view: View) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            values: system.values()?,
            connections: Connection::all(system, view.peer)?,
        })
    }
}

/// One look with the rates since the look before.
struct Frame {
    look: Look,
    /// The seconds between both looks, 0 for the first one.
    seconds: f64,
    /// The rates of [`RATES`].
    rates: Vec<Option<f64>>,
}

impl Frame {
    /// Compares two looks.
    fn new(before: Option<&Look>, mut look: Look, view: View) -> Self {
        let mut seconds = 0.0;
        let mut rates = vec![None; RATES.len()];
        if let Some(before) = before {
            seconds = (look.at - before.at).as_secs_f64();
            connection::measure(&before.connections, &mut look.connections, seconds);
            let rate = |name| {
                let grown = look
                    .values
                    .get(name)?
                    .checked_sub(before.values.get(name)?)?;
                (seconds > 0.0).then(|| grown as f64 / seconds)
            };
            rates = RATES.iter().map(|(_, name, _)| rate(name)).collect();
        }
        connection::sort(&mut look.connections, view.sort, view.latency);
        Self {
            look,
            seconds,
            rates,
        }
    }

    /// Returns the lines of the frame.
    fn lines(&self, system: &System, view: View) -> Vec<String> {
        let number =
            |name, thing| or_dash(self.look.values.get(name), |number| plural(number, thing));
        let threads = or_dash(system.threads(), |threads| plural(threads, "nfsd thread"));
        let mut lines = vec![
            format!(
                "svcrdma {}: {}, {}, {threads}, {}",
                or_dash(system.version(), |version| version),
                number("connections", "connection"),
                number("listeners", "listener"),
                number("closed_abnormally", "abnormal close")
            ),
            self.rates_line(),
            String::new(),
        ];
        let table = connections::table(&self.look.connections, view).text();
        lines.extend(table.lines().map(str::to_owned));
        lines
    }

    fn rates_line(&self) -> String {
        let rates = RATES
            .iter()
            .zip(&self.rates)
            .map(|((title, _, text), rate)| {
                // Rates are far below 2^53.
                format!(
                    "{title} {}/s",
                    or_dash(*rate, |rate| text(rate.round() as u64))
                )
            });
        rates.collect::<Vec<_>>().join(", ")
    }

    fn rates_json(&self) -> serde_json::Value {
        let rates = RATES.iter().zip(&self.rates);
        let rates = rates.map(|((_, name, _), rate)| (format!("{name}_per_second"), json!(rate)));
        serde_json::Value::Object(rates.collect())
    }
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Quit,
    Sort(Sort),
}

/// Returns what a key asks for.
fn action(code: KeyCode, modifiers: KeyModifiers) -> Option<Action> {
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Action::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::Quit),
        KeyCode::Char('m') => Some(Action::Sort(Sort::Memory)),
        KeyCode::Char('r') => Some(Action::Sort(Sort::Rate)),
        KeyCode::Char('a') => Some(Action::Sort(Sort::Age)),
        KeyCode::Char('l') => Some(Action::Sort(Sort::Latency)),
        _ => None,
    }
}

/// Shows frames in the terminal.
fn live(args: &cli::Top, system: &System) -> Result<Answer> {
    let failed = |error: io::Error| Error::failed("terminal", format!("terminal: {error}"));
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&ended)).map_err(failed)?;
    }
    let mut screen = Screen::enter().map_err(failed)?;
    let mut view = args.view;
    let mut before: Option<Look> = None;
    loop {
        // The module may be replaced meanwhile.
        let (lines, look) = match Look::take(system, view) {
            Ok(look) => {
                let frame = Frame::new(before.as_ref(), look, view);
                (frame.lines(system, view), Some(frame.look))
            }
            Err(error) => (vec![error.to_string()], None),
        };
        screen.draw(&lines).map_err(failed)?;
        match wait(Duration::from_secs_f64(args.interval), &ended).map_err(failed)? {
            Some(Action::Quit) => return Ok(Answer::default()),
            // The rates of the next frame are of a longer time.
            Some(Action::Sort(sort)) => {
                view.sort = sort;
                before = before.or(look);
            }
            None => before = look,
        }
    }
}

/// Waits for a key that asks for something, for a signal, which sets `ended`, or for the end of
/// `time`.
fn wait(time: Duration, ended: &AtomicBool) -> io::Result<Option<Action>> {
    let end = Instant::now() + time;
    loop {
        if ended.load(Ordering::Relaxed) {
            return Ok(Some(Action::Quit));
        }
        let left = end.saturating_duration_since(Instant::now());
        if !event::poll(left.min(LOOK_FOR_SIGNALS))? {
            if left <= LOOK_FOR_SIGNALS {
                return Ok(None);
            }
            continue;
        }
        if let Event::Key(key) = event::read()? {
            let action = action(key.code, key.modifiers);
            if key.kind == KeyEventKind::Press && action.is_some() {
                return Ok(action);
            }
        }
    }
}

/// The terminal while it shows frames. Dropping it restores the terminal.
struct Screen(io::Stdout);

impl Screen {
    /// Switches to the alternate screen.
    fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let mut screen = Self(io::stdout());
        queue!(screen.0, EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Shows lines, as far as they fit above the line with the keys.
    fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let rows = usize::from(height).saturating_sub(1);
        queue!(self.0, MoveTo(0, 0))?;
        for line in lines.iter().take(rows) {
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(
                self.0,
                Print(line),
                Clear(ClearType::UntilNewLine),
                Print("\r\n")
            )?;
        }
        let keys: String = KEYS.chars().take(usize::from(width)).collect();
        queue!(
            self.0,
            Clear(ClearType::FromCursorDown),
            MoveTo(0, height.saturating_sub(1)),
            Print(keys)
        )?;
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do if the terminal is gone.
        let _ = queue!(self.0, LeaveAlternateScreen, Show);
        let _ = self.0.flush();
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let plain = KeyModifiers::NONE;
        assert_eq!(action(KeyCode::Char('q'), plain), Some(Action::Quit));
        assert_eq!(
            action(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Action::Quit)
        );
        assert_eq!(action(KeyCode::Char('c'), plain), None);
        assert_eq!(
            action(KeyCode::Char('r'), plain),
            Some(Action::Sort(Sort::Rate))
        );
        for key in ['m', 'r', 'a', 'l'] {
            assert!(KEYS.contains(&format!(" {key} ")), "{key} is not explained");
        }
    }
}
