//! What clients do, and what befalls the hub, in the order that the dice choose.

use serde_json::json;
use session_gateway_hub::hub::peers::subscription::Format;

use super::cli::{Cli, Phase, Role};
use super::database::{Fault, lasting, passing, silence};
use super::ledger::Part;
use super::web::Web;
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::sqlite::On;

/// Something that happens to the world.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    CliMessage,
    CliRepeats,
    UpdateMetadata,
    AskPermission,
    Alive,
    SessionEnd,
    Register,
    Unregister,
    Leave,
    Return,
    Come,
    AnswerLate,
    RunnerState,
    WebMessage,
    WebRepeats,
    Rename,
    Permission,
    PermissionRace,
    Abort,
    Switch,
    Mode,
    Archive,
    Delete,
    Resume,
    Spawn,
    ReadFile,
    Show,
    List,
    WebLeaves,
    WebComes,
    WebDawdles,
    TagRace,
    Foreign,
    Ready,
    Subscribe,
    Unsubscribe,
    Settle,
    Moment,
    Minute,
    LateAlarm,
    Sleep,
    Crash,
    Fault,
    Outage,
    Slow,
    Repair,
}

const STEPS: &[(u64, Step)] = &[
    (14, Step::CliMessage),
    (3, Step::CliRepeats),
    (7, Step::UpdateMetadata),
    (6, Step::AskPermission),
    (5, Step::Alive),
    (2, Step::SessionEnd),
    (2, Step::Register),
    (1, Step::Unregister),
    (4, Step::Leave),
    (3, Step::Return),
    (8, Step::Come),
    (4, Step::AnswerLate),
    (2, Step::RunnerState),
    (6, Step::WebMessage),
    (2, Step::WebRepeats),
    (5, Step::Rename),
    (6, Step::Permission),
    (3, Step::PermissionRace),
    (2, Step::Abort),
    (1, Step::Switch),
    (2, Step::Mode),
    (2, Step::Archive),
    (2, Step::Delete),
    (5, Step::Resume),
    (2, Step::Spawn),
    (4, Step::ReadFile),
    (4, Step::Show),
    (2, Step::List),
    (3, Step::WebLeaves),
    (5, Step::WebComes),
    (4, Step::WebDawdles),
    (1, Step::TagRace),
    (2, Step::Foreign),
    (3, Step::Ready),
    (2, Step::Subscribe),
    (1, Step::Unsubscribe),
    (6, Step::Settle),
    (6, Step::Moment),
    (2, Step::Minute),
    (1, Step::LateAlarm),
    (4, Step::Sleep),
    (3, Step::Crash),
    (5, Step::Fault),
    (1, Step::Outage),
    (2, Step::Slow),
    (3, Step::Repair),
];

impl World {
    /// The world as every run begins: some CLIs and web clients that are about to come.
    pub fn people(&mut self) {
        self.watch(TEAM, None);
        self.watch(NEIGHBOUR, None);
        let tags = 1 + self.dice.below(3);
        for _ in 0..self.dice.between(1, 4) {
            let tag = self.some_tag(TEAM, tags);
            self.clis.push(Cli::new(TEAM, Role::Session { tag, id: None }));
        }
        let tag = self.some_tag(NEIGHBOUR, 1);
        self.clis.push(Cli::new(NEIGHBOUR, Role::Session { tag, id: None }));
        for place in [TEAM, NEIGHBOUR] {
            let machine = self.machine_of(place);
            self.clis.push(Cli::new(place, Role::Machine(machine)));
        }
        for at in 0..self.clis.len() {
            self.cli_comes(at);
        }
        let browsers = if self.dice.chance(50) { self.dice.between(1, 3) } else { 0 };
        for _ in 0..browsers {
            let place = if self.dice.chance(80) { TEAM } else { NEIGHBOUR };
            self.browser_subscribes(place);
        }
    }

    /// A step, and some of what follows from it.
    pub fn step_on(&mut self) {
        let step = self.dice.weighted(STEPS);
        let place = if self.dice.chance(90) { TEAM } else { NEIGHBOUR };
        self.step(format!("{step:?} in {}", self.objects[place].name));
        self.watchers_come_back();
        self.take_step(step, place);
        let turns = match self.dice.below(10) {
            0..3 => 0,
            3..6 => self.dice.below(6),
            6..9 => self.dice.below(40),
            _ => 300,
        };
        self.go_on(turns);
    }

    fn take_step(&mut self, step: Step, place: usize) {
        match step {
            Step::CliMessage
            | Step::CliRepeats
            | Step::UpdateMetadata
            | Step::AskPermission
            | Step::Ready
            | Step::Alive
            | Step::SessionEnd
            | Step::Register
            | Step::Unregister
            | Step::Leave
            | Step::Return
            | Step::AnswerLate
            | Step::RunnerState => self.cli_step(step, place),
            Step::Come => self.somebody_comes(place),
            Step::WebMessage
            | Step::WebRepeats
            | Step::Rename
            | Step::Permission
            | Step::PermissionRace
            | Step::Abort
            | Step::Switch
            | Step::Mode
            | Step::Archive
            | Step::Delete
            | Step::Resume
            | Step::ReadFile
            | Step::Show
            | Step::List => self.web_step(step, place),
            Step::WebLeaves => {
                let there = self.some_web(place, |web| web.link.is_some());
                there.into_iter().for_each(|at| self.web_leaves(at));
            }
            Step::WebComes => self.web_client_comes(place),
            Step::WebDawdles => {
                let there = self.some_web(place, |web| web.link.is_some());
                there.into_iter().for_each(|at| self.web_dawdles(at));
            }
            Step::Spawn => self.spawn(place),
            Step::TagRace => self.tag_race(place),
            Step::Foreign => self.foreign(place),
            Step::Subscribe => self.browser_subscribes(place),
            Step::Unsubscribe => self.browser_unsubscribes(place),
            Step::Settle => self.rest(),
            Step::Moment => {
                let ms = self.dice.between(1, 900);
                self.pass(ms);
            }
            Step::Minute => self.long_time(),
            Step::LateAlarm => self.late = !self.late,
            Step::Sleep => {
                // An object is evicted some ten seconds after the last event.
                self.read_all();
                let ms = self.dice.between(10_000, 12_000);
                self.pass(ms);
                let slept = self.objects[place].sleep();
                self.detail(|| format!("it sleeps: {slept}"));
            }
            Step::Crash => self.crash(place),
            Step::Fault => self.fault(),
            Step::Outage => {
                let on = self.reads_or_writes();
                let error = if self.dice.chance(70) { passing() } else { lasting() };
                self.db.break_down(on, error);
            }
            Step::Slow => {
                let on = self.reads_or_writes();
                self.db.slow_down(on);
            }
            Step::Repair => self.db.repair(),
        }
    }

    // CLIs.

    fn some_cli(&mut self, place: usize, which: impl Fn(&Cli) -> bool) -> Option<usize> {
        let those = self.clis.iter().enumerate().filter(|(_, cli)| cli.place == place && which(cli));
        let those: Vec<usize> = those.map(|(at, _)| at).collect();
        self.dice.pick(&those)
    }

    fn cli_step(&mut self, step: Step, place: usize) {
        let of_session = |cli: &Cli| cli.is_ready() && cli.session().is_some();
        let at = match step {
            Step::RunnerState => self.some_cli(place, |cli| cli.is_ready() && cli.session().is_none()),
            Step::Alive | Step::Leave | Step::AnswerLate | Step::Register | Step::Unregister => {
                self.some_cli(place, Cli::is_ready)
            }
            _ => self.some_cli(place, of_session),
        };
        let Some(at) = at else { return };
        match step {
            Step::CliMessage | Step::Ready => {
                let most = if matches!(step, Step::Ready) { 1 } else { 3 };
                for _ in 0..self.dice.between(1, most) {
                    let local_id = self.new_message(place);
                    let filling = self.message_filling();
                    let text = format!("{}-{local_id}{filling}", self.objects[place].name);
                    self.cli_says(at, &local_id, &text, matches!(step, Step::Ready));
                }
            }
            Step::CliRepeats => self.cli_repeats(at, place),
            Step::UpdateMetadata => self.update_metadata(at),
            Step::AskPermission => self.ask_permission(at),
            Step::Alive => self.cli_lives(at),
            Step::SessionEnd => self.cli_ends(at),
            Step::Register => self.cli_registers(at),
            Step::Unregister => self.cli_unregisters(at),
            Step::Leave => self.cli_leaves(at),
            Step::Return => self.cli_returns(at),
            Step::AnswerLate => {
                if !self.clis[at].owed.is_empty() {
                    let call = self.clis[at].owed.remove(0);
                    self.cli_obeys(at, call);
                }
            }
            _ => self.update_runner_state(at),
        }
    }

    /// The local id of a message that is about to be written; the two namespaces have the same ones.
    pub fn new_message(&mut self, place: usize) -> String {
        format!("m{}", self.ledger(place).fresh())
    }

    /// A CLI sends again what it has not heard of, or what was sent before, by whomever.
    fn cli_repeats(&mut self, at: usize, place: usize) {
        if self.dice.chance(60) {
            return self.cli_sends_again(at);
        }
        let session = self.clis[at].session().unwrap();
        let of_session = |sent: &super::ledger::Sent| sent.session == session && sent.acknowledged && !sent.by_web;
        let sent: Vec<String> = self.ledgers[place]
            .messages
            .iter()
            .filter(|(_, sent)| of_session(sent))
            .map(|(id, _)| id.clone())
            .collect();
        if let Some(local_id) = self.dice.pick(&sent) {
            self.cli_sends(at, &local_id);
        }
    }

    fn update_metadata(&mut self, at: usize) {
        let Some(session) = self.clis[at].session() else { return };
        let (version, mut value) = self.clis[at].values.get(&Part::Metadata).cloned().unwrap_or_default();
        if !value.is_object() {
            return;
        }
        let stale = version > 1 && self.dice.chance(20);
        let expected = if stale { version - 1 } else { version };
        value["n"] = json!(self.fresh());
        self.fill(&mut value);
        self.cli_updates(at, &session, Part::Metadata, expected, value);
    }

    fn update_runner_state(&mut self, at: usize) {
        let Role::Machine(machine) = self.clis[at].role.clone() else { return };
        let expected = self.clis[at].values.get(&Part::RunnerState).map_or(1, |(version, _)| *version);
        let mut value = json!({"n": self.fresh()});
        self.fill(&mut value);
        self.cli_updates(at, &machine, Part::RunnerState, expected, value);
    }

    fn ask_permission(&mut self, at: usize) {
        let place = self.clis[at].place;
        let (_, state) = self.clis[at].values.get(&Part::State).cloned().unwrap_or_default();
        let mut state = if state.is_object() { state } else { json!({}) };
        let request = format!("r{}", self.ledger(place).fresh());
        if !state["requests"].is_object() {
            state["requests"] = json!({});
        }
        state["requests"][&request] = json!({"tool": "T", "arguments": {}});
        self.fill(&mut state);
        let stale = self.dice.chance(10);
        self.cli_updates_state(at, state, Some(request), stale);
    }

    /// One of so many tags, which are this namespace's own, or are used in the other one too.
    fn some_tag(&mut self, place: usize, tags: usize) -> String {
        let name = if self.dice.chance(50) { "shared" } else { self.objects[place].name };
        format!("/{name}-{}", self.dice.below(tags))
    }

    /// A CLI that is away comes; or one more.
    fn somebody_comes(&mut self, place: usize) {
        let away = |cli: &Cli| cli.phase == Phase::Away;
        if let Some(at) = self.some_cli(place, away) {
            return self.cli_comes(at);
        }
        if self.clis.len() < 9 {
            let tag = self.some_tag(place, 3);
            self.clis.push(Cli::new(place, Role::Session { tag, id: None }));
            self.cli_comes(self.clis.len() - 1);
        }
    }

    // The web.

    pub fn some_web(&mut self, place: usize, which: impl Fn(&Web) -> bool) -> Option<usize> {
        let those = self.webs.iter().enumerate().filter(|(_, web)| web.place == place && !web.watches && which(web));
        let those: Vec<usize> = those.map(|(at, _)| at).collect();
        self.dice.pick(&those)
    }

    fn web_client_comes(&mut self, place: usize) {
        let away = |web: &Web| web.link.is_none() && !web.asking;
        if let Some(at) = self.some_web(place, away).filter(|_| self.dice.chance(80)) {
            return self.web_comes(at);
        }
        if self.webs.iter().filter(|web| web.place == place && !web.watches).count() < 3 {
            let session = self.some_session(place).filter(|_| self.dice.chance(70));
            let all = session.is_none() || self.dice.chance(30);
            let format = if self.dice.chance(50) { Format::Json } else { Format::Sse };
            let mut web = Web::new(place, all, session, format, false);
            web.visible = self.dice.chance(20);
            self.webs.push(web);
            self.web_comes(self.webs.len() - 1);
        }
    }

    // What befalls the hub.

    fn reads_or_writes(&mut self) -> On {
        if self.dice.chance(25) { On::Reads } else { On::Writes }
    }

    fn fault(&mut self) {
        let on = self.reads_or_writes();
        let error = if self.dice.chance(70) { passing() } else { lasting() };
        match self.dice.below(10) {
            0..4 => {
                for _ in 0..self.dice.between(1, 3) {
                    self.db.plan(on, Fault::After(passing()));
                }
            }
            4..6 => {
                let error = if self.dice.chance(50) { passing() } else { silence() };
                for _ in 0..self.dice.weighted(&[(6, 1), (3, 2), (1, 6)]) {
                    self.db.plan(On::Writes, Fault::Late(error.clone()));
                }
            }
            _ => {
                for _ in 0..self.dice.weighted(&[(6, 1), (3, 2), (1, 7)]) {
                    self.db.plan(on, Fault::Before(error.clone()));
                }
            }
        }
    }

    /// So much time passes that signs of life, calls or pings run out.
    pub fn long_time(&mut self) {
        self.read_all();
        let ms = self.dice.pick(&[2_000, 6_000, 11_000, 16_000, 31_000, 46_000, 61_000]).unwrap();
        self.pass(ms);
    }

    fn crash(&mut self, place: usize) {
        // The clock never stands still over a restart.
        let ms = self.dice.between(10, 500);
        self.pass(ms);
        self.tear_down(place);
    }
}
