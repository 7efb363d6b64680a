//! Random steps: what clients do, and faults.

use serde_json::json;
use session_gateway_hub::hub::peers::subscription::Format;

use super::cli::{Cli, Phase, Role};
use super::database::{Fault, permanent_error, retryable_error, timeout};
use super::oracle::ValueKind;
use super::web::Web;
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::sqlite::BatchKind;

#[derive(Debug, Clone, Copy)]
pub enum Step {
    CliMessage,
    CliRepeat,
    UpdateMetadata,
    AskPermission,
    Alive,
    SessionEnd,
    Register,
    Unregister,
    Disconnect,
    Reconnect,
    ConnectCli,
    LateResponse,
    RunnerState,
    WebMessage,
    WebRepeat,
    Rename,
    Permission,
    PermissionRace,
    Abort,
    Switch,
    SetMode,
    Archive,
    Delete,
    Resume,
    Spawn,
    ReadFile,
    GetSession,
    ListSessions,
    WebDisconnect,
    WebConnect,
    WebPause,
    TagRace,
    ForeignRequest,
    Ready,
    Subscribe,
    Unsubscribe,
    RunUntilIdle,
    ShortWait,
    LongWait,
    ToggleAlarms,
    Hibernate,
    Crash,
    Fault,
    Outage,
    SlowDatabase,
    EndFaults,
}

const STEPS: &[(u64, Step)] = &[
    (14, Step::CliMessage),
    (3, Step::CliRepeat),
    (7, Step::UpdateMetadata),
    (6, Step::AskPermission),
    (5, Step::Alive),
    (2, Step::SessionEnd),
    (2, Step::Register),
    (1, Step::Unregister),
    (4, Step::Disconnect),
    (3, Step::Reconnect),
    (8, Step::ConnectCli),
    (4, Step::LateResponse),
    (2, Step::RunnerState),
    (6, Step::WebMessage),
    (2, Step::WebRepeat),
    (5, Step::Rename),
    (6, Step::Permission),
    (3, Step::PermissionRace),
    (2, Step::Abort),
    (1, Step::Switch),
    (2, Step::SetMode),
    (2, Step::Archive),
    (2, Step::Delete),
    (5, Step::Resume),
    (2, Step::Spawn),
    (4, Step::ReadFile),
    (4, Step::GetSession),
    (2, Step::ListSessions),
    (3, Step::WebDisconnect),
    (5, Step::WebConnect),
    (4, Step::WebPause),
    (1, Step::TagRace),
    (2, Step::ForeignRequest),
    (3, Step::Ready),
    (2, Step::Subscribe),
    (1, Step::Unsubscribe),
    (6, Step::RunUntilIdle),
    (6, Step::ShortWait),
    (2, Step::LongWait),
    (1, Step::ToggleAlarms),
    (4, Step::Hibernate),
    (3, Step::Crash),
    (5, Step::Fault),
    (1, Step::Outage),
    (2, Step::SlowDatabase),
    (3, Step::EndFaults),
];

impl World {
    /// Adds the initial CLIs, runners and browsers.
    pub fn add_initial_clients(&mut self) {
        self.add_watcher(TEAM, None);
        self.add_watcher(NEIGHBOUR, None);
        let tags = 1 + self.rng.below(3);
        for _ in 0..self.rng.between(1, 4) {
            let tag = self.pick_tag(TEAM, tags);
            self.clis.push(Cli::new(TEAM, Role::Session { tag, id: None }));
        }
        let tag = self.pick_tag(NEIGHBOUR, 1);
        self.clis.push(Cli::new(NEIGHBOUR, Role::Session { tag, id: None }));
        for ns in [TEAM, NEIGHBOUR] {
            let machine = self.machine_id(ns);
            self.clis.push(Cli::new(ns, Role::Machine(machine)));
        }
        for i in 0..self.clis.len() {
            self.cli_connect(i);
        }
        let browsers = if self.rng.chance(50) { self.rng.between(1, 3) } else { 0 };
        for _ in 0..browsers {
            let ns = if self.rng.chance(80) { TEAM } else { NEIGHBOUR };
            self.browser_subscribe(ns);
        }
    }

    /// Takes a random step, then runs a random number of actions.
    pub fn take_random_step(&mut self) {
        let step = self.rng.weighted(STEPS);
        let ns = if self.rng.chance(90) { TEAM } else { NEIGHBOUR };
        self.step(format!("{step:?} in {}", self.objects[ns].name));
        self.reconnect_watchers();
        self.take_step(step, ns);
        let turns = match self.rng.below(10) {
            0..3 => 0,
            3..6 => self.rng.below(6),
            6..9 => self.rng.below(40),
            _ => 300,
        };
        self.run_steps(turns);
    }

    fn take_step(&mut self, step: Step, ns: usize) {
        match step {
            Step::CliMessage
            | Step::CliRepeat
            | Step::UpdateMetadata
            | Step::AskPermission
            | Step::Ready
            | Step::Alive
            | Step::SessionEnd
            | Step::Register
            | Step::Unregister
            | Step::Disconnect
            | Step::Reconnect
            | Step::LateResponse
            | Step::RunnerState => self.cli_step(step, ns),
            Step::ConnectCli => self.connect_some_cli(ns),
            Step::WebMessage
            | Step::WebRepeat
            | Step::Rename
            | Step::Permission
            | Step::PermissionRace
            | Step::Abort
            | Step::Switch
            | Step::SetMode
            | Step::Archive
            | Step::Delete
            | Step::Resume
            | Step::ReadFile
            | Step::GetSession
            | Step::ListSessions => self.web_step(step, ns),
            Step::WebDisconnect => {
                let there = self.pick_web(ns, |web| web.connection.is_some());
                there.into_iter().for_each(|i| self.web_disconnect(i));
            }
            Step::WebConnect => self.connect_some_web(ns),
            Step::WebPause => {
                let there = self.pick_web(ns, |web| web.connection.is_some());
                there.into_iter().for_each(|i| self.web_toggle_pause(i));
            }
            Step::Spawn => self.spawn(ns),
            Step::TagRace => self.tag_race(ns),
            Step::ForeignRequest => self.request_foreign_session(ns),
            Step::Subscribe => self.browser_subscribe(ns),
            Step::Unsubscribe => self.browser_unsubscribe(ns),
            Step::RunUntilIdle => self.settle_and_check(),
            Step::ShortWait => {
                let ms = self.rng.between(1, 900);
                self.advance(ms);
            }
            Step::LongWait => self.advance_past_timeout(),
            Step::ToggleAlarms => self.alarms_delayed = !self.alarms_delayed,
            Step::Hibernate => {
                // The platform evicts an object about ten seconds after its last event.
                self.receive_all();
                let ms = self.rng.between(10_000, 12_000);
                self.advance(ms);
                let slept = self.objects[ns].hibernate();
                self.detail(|| format!("hibernated: {slept}"));
            }
            Step::Crash => self.crash_step(ns),
            Step::Fault => self.fault(),
            Step::Outage => {
                let on = self.reads_or_writes();
                let error = if self.rng.chance(70) { retryable_error() } else { permanent_error() };
                self.db.fail_all(on, error);
            }
            Step::SlowDatabase => {
                let on = self.reads_or_writes();
                self.db.slow(on);
            }
            Step::EndFaults => self.db.repair(),
        }
    }

    // CLIs.

    fn pick_cli(&mut self, ns: usize, which: impl Fn(&Cli) -> bool) -> Option<usize> {
        let those = self.clis.iter().enumerate().filter(|(_, cli)| cli.ns == ns && which(cli));
        let those: Vec<usize> = those.map(|(i, _)| i).collect();
        self.rng.pick(&those)
    }

    fn cli_step(&mut self, step: Step, ns: usize) {
        let of_session = |cli: &Cli| cli.is_ready() && cli.session().is_some();
        let i = match step {
            Step::RunnerState => self.pick_cli(ns, |cli| cli.is_ready() && cli.session().is_none()),
            Step::Alive | Step::Disconnect | Step::LateResponse | Step::Register | Step::Unregister => {
                self.pick_cli(ns, Cli::is_ready)
            }
            _ => self.pick_cli(ns, of_session),
        };
        let Some(i) = i else { return };
        match step {
            Step::CliMessage | Step::Ready => {
                let most = if matches!(step, Step::Ready) { 1 } else { 3 };
                for _ in 0..self.rng.between(1, most) {
                    let local_id = self.new_message(ns);
                    let filling = self.message_filling();
                    let text = format!("{}-{local_id}{filling}", self.objects[ns].name);
                    self.cli_send_new(i, &local_id, &text, matches!(step, Step::Ready));
                }
            }
            Step::CliRepeat => self.cli_repeat(i, ns),
            Step::UpdateMetadata => self.update_metadata(i),
            Step::AskPermission => self.ask_permission(i),
            Step::Alive => self.cli_send_keep_alive(i),
            Step::SessionEnd => self.cli_end_session(i),
            Step::Register => self.cli_register(i),
            Step::Unregister => self.cli_unregister(i),
            Step::Disconnect => self.cli_disconnect(i),
            Step::Reconnect => self.cli_reconnect(i),
            Step::LateResponse => {
                if !self.clis[i].unanswered_calls.is_empty() {
                    let call = self.clis[i].unanswered_calls.remove(0);
                    self.cli_execute(i, call);
                }
            }
            _ => self.update_runner_state(i),
        }
    }

    /// A new local id. Both namespaces use the same ids.
    pub fn new_message(&mut self, ns: usize) -> String {
        format!("m{}", self.oracle(ns).next_number())
    }

    /// Sends unacknowledged messages again, or a message that any CLI of the session has sent.
    fn cli_repeat(&mut self, i: usize, ns: usize) {
        if self.rng.chance(60) {
            return self.cli_resend(i);
        }
        let session = self.clis[i].session().unwrap();
        let of_session =
            |sent: &super::oracle::SentMessage| sent.session == session && sent.acknowledged && !sent.by_web;
        let sent: Vec<String> =
            self.oracles[ns].messages.iter().filter(|(_, sent)| of_session(sent)).map(|(id, _)| id.clone()).collect();
        if let Some(local_id) = self.rng.pick(&sent) {
            self.cli_send(i, &local_id);
        }
    }

    fn update_metadata(&mut self, i: usize) {
        let Some(session) = self.clis[i].session() else { return };
        let (version, mut value) = self.clis[i].values.get(&ValueKind::Metadata).cloned().unwrap_or_default();
        if !value.is_object() {
            return;
        }
        let stale = version > 1 && self.rng.chance(20);
        let expected = if stale { version - 1 } else { version };
        value["n"] = json!(self.next_number());
        self.fill(&mut value);
        self.cli_update_value(i, &session, ValueKind::Metadata, expected, value);
    }

    fn update_runner_state(&mut self, i: usize) {
        let Role::Machine(machine) = self.clis[i].role.clone() else { return };
        let expected = self.clis[i].values.get(&ValueKind::RunnerState).map_or(1, |(version, _)| *version);
        let mut value = json!({"n": self.next_number()});
        self.fill(&mut value);
        self.cli_update_value(i, &machine, ValueKind::RunnerState, expected, value);
    }

    fn ask_permission(&mut self, i: usize) {
        let ns = self.clis[i].ns;
        let (_, state) = self.clis[i].values.get(&ValueKind::AgentState).cloned().unwrap_or_default();
        let mut state = if state.is_object() { state } else { json!({}) };
        let request = format!("r{}", self.oracle(ns).next_number());
        if !state["requests"].is_object() {
            state["requests"] = json!({});
        }
        state["requests"][&request] = json!({"tool": "T", "arguments": {}});
        self.fill(&mut state);
        let stale = self.rng.chance(10);
        self.cli_update_state(i, state, Some(request), stale);
    }

    /// A random tag. Half of the tags are used in both namespaces.
    fn pick_tag(&mut self, ns: usize, tags: usize) -> String {
        let name = if self.rng.chance(50) { "shared" } else { self.objects[ns].name };
        format!("/{name}-{}", self.rng.below(tags))
    }

    /// Connects a disconnected CLI, or a new one.
    fn connect_some_cli(&mut self, ns: usize) {
        let away = |cli: &Cli| cli.phase == Phase::Disconnected;
        if let Some(i) = self.pick_cli(ns, away) {
            return self.cli_connect(i);
        }
        if self.clis.len() < 9 {
            let tag = self.pick_tag(ns, 3);
            self.clis.push(Cli::new(ns, Role::Session { tag, id: None }));
            self.cli_connect(self.clis.len() - 1);
        }
    }

    // The web.

    pub fn pick_web(&mut self, ns: usize, which: impl Fn(&Web) -> bool) -> Option<usize> {
        let those = self.webs.iter().enumerate().filter(|(_, web)| web.ns == ns && !web.is_watcher && which(web));
        let those: Vec<usize> = those.map(|(i, _)| i).collect();
        self.rng.pick(&those)
    }

    fn connect_some_web(&mut self, ns: usize) {
        let away = |web: &Web| web.connection.is_none() && !web.is_connecting;
        if let Some(i) = self.pick_web(ns, away).filter(|_| self.rng.chance(80)) {
            return self.web_connect(i);
        }
        if self.webs.iter().filter(|web| web.ns == ns && !web.is_watcher).count() < 3 {
            let session = self.pick_session(ns).filter(|_| self.rng.chance(70));
            let all = session.is_none() || self.rng.chance(30);
            let format = if self.rng.chance(50) { Format::Json } else { Format::Sse };
            let mut web = Web::new(ns, all, session, format, false);
            web.visible = self.rng.chance(20);
            self.webs.push(web);
            self.web_connect(self.webs.len() - 1);
        }
    }

    // Faults.

    fn reads_or_writes(&mut self) -> BatchKind {
        if self.rng.chance(25) { BatchKind::Reads } else { BatchKind::Writes }
    }

    fn fault(&mut self) {
        let on = self.reads_or_writes();
        let error = if self.rng.chance(70) { retryable_error() } else { permanent_error() };
        match self.rng.below(10) {
            0..4 => {
                for _ in 0..self.rng.between(1, 3) {
                    self.db.inject(on, Fault::After(retryable_error()));
                }
            }
            4..6 => {
                let error = if self.rng.chance(50) { retryable_error() } else { timeout() };
                for _ in 0..self.rng.weighted(&[(6, 1), (3, 2), (1, 6)]) {
                    self.db.inject(BatchKind::Writes, Fault::Late(error.clone()));
                }
            }
            _ => {
                for _ in 0..self.rng.weighted(&[(6, 1), (3, 2), (1, 7)]) {
                    self.db.inject(on, Fault::Before(error.clone()));
                }
            }
        }
    }

    /// Advances the clock so far that keep-alives, calls or pings time out.
    pub fn advance_past_timeout(&mut self) {
        self.receive_all();
        let ms = self.rng.pick(&[2_000, 6_000, 11_000, 16_000, 31_000, 46_000, 61_000]).unwrap();
        self.advance(ms);
    }

    fn crash_step(&mut self, ns: usize) {
        // A restart takes time.
        let ms = self.rng.between(10, 500);
        self.advance(ms);
        self.crash_object(ns);
    }
}
