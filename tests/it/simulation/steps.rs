//! Random steps: operations of clients, and faults.

use session_gateway_hub::hub::core::peers::subscription::Format;

use super::cli::{Cli, Phase, Role};
use super::database::{Fault, permanent_error, retryable_error, timeout};
use super::web::Web;
use super::world::{NEIGHBOUR, TEAM, World};
use crate::support::sqlite::BatchKind;

#[derive(Debug, Clone, Copy)]
pub enum Step {
    CliMessage,
    CliRepeat,
    UpdateMetadata,
    RequestPermission,
    Alive,
    RunnerAlive,
    SessionEnd,
    Register,
    Unregister,
    Disconnect,
    InvalidPacket,
    Reconnect,
    ConnectCli,
    LateResponse,
    RunnerState,
    WebMessage,
    WebRepeat,
    CancelHeld,
    Rename,
    Permission,
    PermissionRace,
    Abort,
    SwitchToRemote,
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
    FailAlarms,
    SecondAlarm,
    NoAlarms,
    Stall,
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
    (6, Step::RequestPermission),
    (5, Step::Alive),
    (2, Step::RunnerAlive),
    (2, Step::SessionEnd),
    (2, Step::Register),
    (1, Step::Unregister),
    (4, Step::Disconnect),
    (3, Step::InvalidPacket),
    (3, Step::Reconnect),
    (8, Step::ConnectCli),
    (4, Step::LateResponse),
    (2, Step::RunnerState),
    (6, Step::WebMessage),
    (2, Step::WebRepeat),
    (2, Step::CancelHeld),
    (5, Step::Rename),
    (6, Step::Permission),
    (3, Step::PermissionRace),
    (2, Step::Abort),
    (1, Step::SwitchToRemote),
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
    (1, Step::FailAlarms),
    (2, Step::SecondAlarm),
    (1, Step::NoAlarms),
    (1, Step::Stall),
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
        for namespace_index in [TEAM, NEIGHBOUR] {
            let machine = self.machine_id(namespace_index);
            self.clis.push(Cli::new(namespace_index, Role::Machine(machine)));
        }
        for i in 0..self.clis.len() {
            self.cli_connect(i);
        }
        let browsers = if self.rng.chance(50) { self.rng.between(1, 3) } else { 0 };
        for _ in 0..browsers {
            let namespace_index = if self.rng.chance(80) { TEAM } else { NEIGHBOUR };
            self.browser_subscribe(namespace_index);
        }
    }

    /// Takes a random step, then runs a random number of actions.
    pub fn take_random_step(&mut self) {
        let step = self.rng.weighted(STEPS);
        let namespace_index = if self.rng.chance(90) { TEAM } else { NEIGHBOUR };
        self.log_step(format!("{step:?} in {}", self.objects[namespace_index].name));
        self.reconnect_watchers();
        self.take_step(step, namespace_index);
        let actions = match self.rng.below(10) {
            0..3 => 0,
            3..6 => self.rng.below(6),
            6..9 => self.rng.below(40),
            _ => 300,
        };
        self.run_actions(actions);
    }

    fn take_step(&mut self, step: Step, namespace_index: usize) {
        match step {
            Step::CliMessage
            | Step::CliRepeat
            | Step::UpdateMetadata
            | Step::RequestPermission
            | Step::Ready
            | Step::Alive
            | Step::RunnerAlive
            | Step::SessionEnd
            | Step::Register
            | Step::Unregister
            | Step::Disconnect
            | Step::InvalidPacket
            | Step::Reconnect
            | Step::LateResponse
            | Step::RunnerState => self.cli_step(step, namespace_index),
            Step::ConnectCli => {
                self.fill_memory(namespace_index);
                self.connect_some_cli(namespace_index);
            }
            Step::WebMessage
            | Step::WebRepeat
            | Step::CancelHeld
            | Step::Rename
            | Step::Permission
            | Step::PermissionRace
            | Step::Abort
            | Step::SwitchToRemote
            | Step::SetMode
            | Step::Archive
            | Step::Delete
            | Step::Resume
            | Step::ReadFile
            | Step::GetSession
            | Step::ListSessions => self.web_step(step, namespace_index),
            Step::WebDisconnect => {
                let connected = self.pick_web(namespace_index, |web| web.connection.is_some());
                connected.into_iter().for_each(|i| self.web_disconnect(i));
            }
            Step::WebConnect => self.connect_some_web(namespace_index),
            Step::WebPause => {
                let connected = self.pick_web(namespace_index, |web| web.connection.is_some());
                connected.into_iter().for_each(|i| self.web_toggle_pause(i));
            }
            Step::Spawn => self.spawn(namespace_index),
            Step::TagRace => {
                self.fill_memory(namespace_index);
                self.race_for_tag(namespace_index);
            }
            Step::ForeignRequest => self.request_foreign_session(namespace_index),
            Step::Subscribe => self.browser_subscribe(namespace_index),
            Step::Unsubscribe => self.browser_unsubscribe(namespace_index),
            Step::RunUntilIdle => self.run_until_idle_and_check(),
            Step::ShortWait => {
                let ms = self.rng.between(1, 900);
                self.advance(ms);
            }
            Step::LongWait => self.advance_past_timeout(),
            Step::ToggleAlarms => self.are_alarms_delayed = !self.are_alarms_delayed,
            Step::FailAlarms => {
                let count = usize::try_from(self.rng.between(1, 5)).unwrap();
                self.objects[namespace_index].rt.fake.fail_alarms(count);
            }
            Step::SecondAlarm => self.objects[namespace_index].fire_alarm_again(),
            Step::NoAlarms => self.pass_without_alarms(),
            Step::Stall => self.stall(),
            Step::Hibernate => {
                // The platform evicts an object about ten seconds after its last event.
                self.deliver_all_frames();
                let ms = self.rng.between(10_000, 12_000);
                self.advance(ms);
                let hibernated = self.objects[namespace_index].hibernate();
                self.log_detail(|| format!("hibernated: {hibernated}"));
            }
            Step::Crash => self.crash_step(namespace_index),
            Step::Fault => self.inject_fault(),
            Step::Outage => {
                let kind = self.reads_or_writes();
                let error = if self.rng.chance(70) { retryable_error() } else { permanent_error() };
                self.db.fail_all(kind, error);
            }
            Step::SlowDatabase => {
                let kind = self.reads_or_writes();
                self.db.start_slowness(kind);
            }
            Step::EndFaults => self.db.repair(),
        }
    }

    // CLIs.

    /// The index of a random CLI of a namespace.
    fn pick_cli(&mut self, namespace_index: usize, predicate: impl Fn(&Cli) -> bool) -> Option<usize> {
        let matching =
            self.clis.iter().enumerate().filter(|(_, cli)| cli.namespace_index == namespace_index && predicate(cli));
        let matching: Vec<usize> = matching.map(|(i, _)| i).collect();
        self.rng.pick(&matching)
    }

    fn cli_step(&mut self, step: Step, namespace_index: usize) {
        let is_ready_with_session = |cli: &Cli| cli.is_ready() && cli.session().is_some();
        let i = match step {
            Step::RunnerState | Step::RunnerAlive => {
                self.pick_cli(namespace_index, |cli| cli.is_ready() && cli.session().is_none())
            }
            Step::Alive
            | Step::Disconnect
            | Step::InvalidPacket
            | Step::LateResponse
            | Step::Register
            | Step::Unregister => self.pick_cli(namespace_index, Cli::is_ready),
            _ => self.pick_cli(namespace_index, is_ready_with_session),
        };
        let Some(i) = i else { return };
        match step {
            Step::CliMessage | Step::Ready => {
                let max = if matches!(step, Step::Ready) { 1 } else { 3 };
                for _ in 0..self.rng.between(1, max) {
                    let local_id = self.new_local_id(namespace_index);
                    let padding = self.message_padding();
                    let text = format!("{}-{local_id}{padding}", self.objects[namespace_index].name);
                    self.cli_send_new(i, &local_id, &text, matches!(step, Step::Ready));
                }
            }
            Step::CliRepeat => self.cli_send_again(i, namespace_index),
            Step::UpdateMetadata => self.update_metadata(i),
            Step::RequestPermission => self.request_permission(i),
            Step::Alive => self.cli_send_keep_alive(i),
            Step::RunnerAlive => {
                let session = self.pick_session(namespace_index);
                session.into_iter().for_each(|session| self.cli_keep_alive(i, session));
            }
            Step::SessionEnd => self.cli_end_session(i),
            Step::Register => self.cli_register(i),
            Step::Unregister => self.cli_unregister(i),
            Step::Disconnect => self.cli_disconnect(i),
            // The hub closes the socket.
            Step::InvalidPacket => self.clis[i].connection.into_iter().for_each(|id| self.send(id, "x".into())),
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

    /// A local id that is new in the namespace. Both namespaces use the same ids.
    pub fn new_local_id(&mut self, namespace_index: usize) -> String {
        format!("m{}", self.oracle(namespace_index).next_number())
    }

    /// Sends unacknowledged messages again, or a message that any CLI of the session has sent.
    fn cli_send_again(&mut self, i: usize, namespace_index: usize) {
        if self.rng.chance(60) {
            return self.cli_resend(i);
        }
        let session = self.clis[i].session().unwrap();
        let is_repeatable =
            |sent: &super::oracle::SentMessage| sent.session == session && sent.is_acknowledged && !sent.is_from_web;
        let sent: Vec<String> = self.oracles[namespace_index]
            .messages
            .iter()
            .filter(|(_, sent)| is_repeatable(sent))
            .map(|(id, _)| id.clone())
            .collect();
        if let Some(local_id) = self.rng.pick(&sent) {
            self.cli_send(i, &local_id);
        }
    }

    /// A random tag. Half of the tags are used in both namespaces.
    pub fn pick_tag(&mut self, namespace_index: usize, tags: usize) -> String {
        let name = if self.rng.chance(50) { "shared" } else { self.objects[namespace_index].name };
        format!("/{name}-{}", self.rng.below(tags))
    }

    /// Connects a disconnected CLI, or a new one.
    fn connect_some_cli(&mut self, namespace_index: usize) {
        let is_disconnected = |cli: &Cli| cli.phase == Phase::Disconnected;
        if let Some(i) = self.pick_cli(namespace_index, is_disconnected) {
            return self.cli_connect(i);
        }
        if self.clis.len() < 9 {
            let tag = self.pick_tag(namespace_index, 3);
            self.clis.push(Cli::new(namespace_index, Role::Session { tag, id: None }));
            self.cli_connect(self.clis.len() - 1);
        }
    }

    // The web.

    /// The index of a random web client of a namespace that is not a watcher.
    pub fn pick_web(&mut self, namespace_index: usize, predicate: impl Fn(&Web) -> bool) -> Option<usize> {
        let matching = self
            .webs
            .iter()
            .enumerate()
            .filter(|(_, web)| web.namespace_index == namespace_index && !web.is_watcher && predicate(web));
        let matching: Vec<usize> = matching.map(|(i, _)| i).collect();
        self.rng.pick(&matching)
    }

    /// Connects a disconnected web client, or a new one.
    fn connect_some_web(&mut self, namespace_index: usize) {
        let is_disconnected = |web: &Web| web.connection.is_none() && !web.is_connecting;
        if let Some(i) = self.pick_web(namespace_index, is_disconnected).filter(|_| self.rng.chance(80)) {
            return self.web_connect(i);
        }
        if self.webs.iter().filter(|web| web.namespace_index == namespace_index && !web.is_watcher).count() < 3 {
            let session = self.pick_session(namespace_index).filter(|_| self.rng.chance(70));
            let subscribes_to_all = session.is_none() || self.rng.chance(30);
            let format = if self.rng.chance(50) { Format::Json } else { Format::Sse };
            let mut web = Web::new(namespace_index, subscribes_to_all, session, format, false);
            web.is_visible = self.rng.chance(20);
            web.device = self.pick_endpoint(namespace_index).filter(|_| self.rng.chance(50));
            self.webs.push(web);
            self.web_connect(self.webs.len() - 1);
        }
    }

    // Faults.

    fn reads_or_writes(&mut self) -> BatchKind {
        if self.rng.chance(25) { BatchKind::Reads } else { BatchKind::Writes }
    }

    /// Injects a fault into the next operations of the database.
    fn inject_fault(&mut self) {
        let kind = self.reads_or_writes();
        let error = if self.rng.chance(70) { retryable_error() } else { permanent_error() };
        match self.rng.below(10) {
            0..4 => {
                for _ in 0..self.rng.between(1, 3) {
                    self.db.inject(kind, Fault::ResultLost(retryable_error()));
                }
            }
            4..6 => {
                let error = if self.rng.chance(50) { retryable_error() } else { timeout() };
                for _ in 0..self.rng.weighted(&[(6, 1), (3, 2), (1, 6)]) {
                    self.db.inject(BatchKind::Writes, Fault::ExecutedLater(error.clone()));
                }
            }
            _ => {
                for _ in 0..self.rng.weighted(&[(6, 1), (3, 2), (1, 7)]) {
                    self.db.inject(kind, Fault::NotExecuted(error.clone()));
                }
            }
        }
    }

    /// Advances the clock so far that keep-alives, calls or pings time out.
    pub fn advance_past_timeout(&mut self) {
        self.deliver_all_frames();
        let ms = self.rng.pick(&[2_000, 6_000, 11_000, 16_000, 31_000, 46_000, 61_000]).unwrap();
        self.advance(ms);
    }

    fn crash_step(&mut self, namespace_index: usize) {
        // A restart takes time.
        let ms = self.rng.between(10, 500);
        self.advance(ms);
        self.crash_object(namespace_index);
    }
}
