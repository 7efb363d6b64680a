//! A world: two namespaces on one database, with their clients, and the turns that things take in it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::channel::mpsc;
use serde_json::Value;
use session_gateway_hub::http::history::{Reader, read_messages};
use session_gateway_hub::hub::ports::Runtime;
use session_gateway_hub::store::response_budget::ResponseBudget;

use super::cli::Cli;
use super::database::{CallId, Remote};
use super::dice::Dice;
use super::large::allowance;
use super::ledger::{Ledger, Stay};
use super::object::{Answer, Mail, Object};
use super::pushes::Pushes;
use super::replies::Purpose;
use super::scheduler::{Life, Scheduler, TaskId, lock};
use super::web::Web;
use crate::support::runtime::{Frame, SocketKey};
use crate::support::sqlite::Sqlite;

/// The namespace that the story is about, and the other one on the same database.
pub const TEAM: usize = 0;
pub const NEIGHBOUR: usize = 1;

/// What is handed to nobody stops the world after so many turns.
const ENDLESS: usize = 200_000;

/// A socket as its client knows it.
pub type LinkId = u64;

/// Who is at the client's end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Cli(usize),
    Web(usize),
    Nobody,
}

/// What is on its way from a client to the hub.
#[derive(Debug)]
pub enum Outgoing {
    Text(String),
    Close,
}

/// A socket.
pub struct Link {
    pub place: usize,
    pub key: SocketKey,
    pub end: End,
    /// Whether its client lets what it hears pile up.
    pub dawdles: bool,
    frames: mpsc::UnboundedReceiver<Frame>,
    inbox: VecDeque<Frame>,
    pub outbox: VecDeque<Outgoing>,
}

/// A request that waits for its answer.
pub struct Asked {
    pub place: usize,
    pub life: Life,
    pub purpose: Purpose,
    /// How many faults the database had when it was asked.
    pub faults: u64,
}

/// Two sessions that are put together: the messages of both get new numbers.
#[derive(Debug, Clone)]
pub struct Shift {
    pub place: usize,
    pub old: String,
    pub new: String,
}

/// The record of a run, for a person who reads why it failed.
#[derive(Default)]
pub struct Log {
    pub lines: Vec<String>,
    /// Whether everything stands in it, or only the steps.
    pub whole: bool,
}

/// Something that can happen next.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Task(TaskId),
    Call(CallId),
    /// A frame arrives at the hub.
    Arrival(LinkId),
    /// A client reads a frame.
    Reading(LinkId),
    Mail,
    Alarm(usize),
    /// A push service has a message of an object.
    Push(usize, u64),
}

pub struct World {
    pub dice: Dice,
    pub log: Arc<Mutex<Log>>,
    pub scheduler: Arc<Scheduler>,
    pub db: Arc<Remote>,
    pub objects: [Object; 2],
    pub ledgers: [Ledger; 2],
    pub links: BTreeMap<LinkId, Link>,
    pub clis: Vec<Cli>,
    pub webs: Vec<Web>,
    pub asked: BTreeMap<u64, Asked>,
    pub mail: Mail,
    /// Whether alarms ring late at the moment.
    pub late: bool,
    /// How often an object was torn down, which may lose what was to be told.
    pub crashes: u64,
    /// Who got which session of a tag that many asked for at once.
    pub races: BTreeMap<u64, String>,
    /// Sessions that are put together, or may be.
    pub shifts: Vec<Shift>,
    /// Sessions as they were shown to be compared with the database.
    pub shown: Vec<(usize, Value)>,
    pub pushes: Pushes,
    /// How many more messages and values may be larger than a row; none where there are no such things.
    pub large_left: Option<u64>,
    last: u64,
}

/// A text for a person to read, not longer than is bearable.
pub fn short(mut text: String) -> String {
    let longest = text.floor_char_boundary(4_000);
    if longest < text.len() {
        text.truncate(longest);
        text.push_str("...");
    }
    text
}

impl World {
    pub fn new(seed: u64, log: Arc<Mutex<Log>>) -> Self {
        let scheduler = Arc::new(Scheduler::default());
        let db = Arc::new(Remote::new(Arc::new(Sqlite::with_schema())));
        let mail = Mail::default();
        let object =
            |name, first| Object::new(name, seed, first, Arc::clone(&db), Arc::clone(&scheduler), Arc::clone(&mail));
        Self {
            dice: Dice::of(seed),
            log,
            objects: [object("team", 1), object("neighbour", 1_000_000)],
            scheduler,
            db,
            ledgers: [Ledger::default(), Ledger::default()],
            links: BTreeMap::new(),
            clis: Vec::new(),
            webs: Vec::new(),
            asked: BTreeMap::new(),
            mail,
            late: false,
            crashes: 0,
            races: BTreeMap::new(),
            shifts: Vec::new(),
            shown: Vec::new(),
            pushes: Pushes::default(),
            large_left: allowance(seed),
            last: 0,
        }
    }

    pub fn now(&self) -> u64 {
        self.objects[TEAM].rt.now()
    }

    /// A number that nothing else has in this world.
    pub fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Notes a step.
    pub fn step(&self, text: impl AsRef<str>) {
        let line = format!("{:>7} {}", self.now() % 10_000_000, text.as_ref());
        lock(&self.log).lines.push(short(line));
    }

    /// Notes what only whoever reads closely wants to know.
    pub fn detail(&self, text: impl FnOnce() -> String) {
        if lock(&self.log).whole {
            let text = text();
            self.step(format!("    {text}"));
        }
    }

    pub fn ledger(&mut self, place: usize) -> &mut Ledger {
        &mut self.ledgers[place]
    }

    /// Somebody heard of a session.
    pub fn learn(&mut self, place: usize, id: &str, tag: &str) {
        if self.ledger(place).learn(id, tag) {
            self.watch(place, Some(id));
        }
    }

    /// Two sessions are about to be put together.
    pub fn shift(&mut self, place: usize, old: &str, new: &str) {
        for id in [old, new] {
            self.ledger(place).session(id).shifting = true;
        }
        self.ledger(place).session(old).stay = Stay::Doubtful;
        self.ledger(place).merges += 1;
        self.shifts.push(Shift { place, old: old.to_owned(), new: new.to_owned() });
    }

    // Requests.

    /// Sends a request.
    pub fn request(&mut self, place: usize, method: &str, path: &str, body: String, purpose: Purpose) -> u64 {
        let number = self.ask(place, self.objects[place].life(), purpose);
        self.detail(|| format!("?{number} {method} {path} {body}"));
        self.objects[place].request(number, method, path, body);
        number
    }

    /// Reads a session's history as a CLI does, from its worker.
    pub fn page(&mut self, place: usize, session: &str, query: String, purpose: Purpose) -> u64 {
        let number = self.ask(place, 0, purpose);
        self.detail(|| format!("?{number} messages of {session} {query}"));
        let (db, mail) = (Arc::clone(&self.db), Arc::clone(&self.mail));
        let (namespace, session) = (self.objects[place].namespace(), session.to_owned());
        let budget = ResponseBudget::new(usize::MAX, usize::MAX);
        let read = async move {
            let page =
                read_messages(&*db, &budget, Reader::Cli, (&namespace, &session), &query).await.map(|page| page.text);
            lock(&mail).push_back((number, Answer::Page(page)));
        };
        self.scheduler.spawn(0, read.boxed());
        number
    }

    /// Notes that somebody waits for an answer.
    pub fn ask(&mut self, place: usize, life: Life, purpose: Purpose) -> u64 {
        let number = self.fresh();
        // A fault of before may still be on its way, or on somebody's mind.
        let faults = self.db.heard_faults();
        self.asked.insert(number, Asked { place, life, purpose, faults });
        number
    }

    // Sockets.

    /// Adds a socket that the object opened.
    pub fn add_link(
        &mut self,
        place: usize,
        end: End,
        key: SocketKey,
        frames: mpsc::UnboundedReceiver<Frame>,
    ) -> LinkId {
        let id = self.fresh();
        let link = Link { place, key, end, dawdles: false, frames, inbox: VecDeque::new(), outbox: VecDeque::new() };
        self.links.insert(id, link);
        id
    }

    /// Sends a frame; it arrives when its turn comes.
    pub fn send(&mut self, link: LinkId, text: String) {
        self.detail(|| format!("{link}> {text}"));
        if let Some(link) = self.links.get_mut(&link) {
            link.outbox.push_back(Outgoing::Text(text));
        }
    }

    /// The client's end of a socket is gone: of what is on its way some is lost, and its close arrives, or never does.
    pub fn cut(&mut self, id: LinkId) {
        let arrives = self.dice.chance(85);
        let kept = self.dice.below(4);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.end = End::Nobody;
        link.outbox.truncate(kept);
        if arrives {
            link.outbox.push_back(Outgoing::Close);
        }
    }

    fn arrive(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let (place, key) = (link.place, link.key);
        match link.outbox.pop_front() {
            Some(Outgoing::Text(text)) => self.objects[place].text(key, text),
            Some(Outgoing::Close) => self.objects[place].closed(key),
            None => {}
        }
    }

    fn read(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(frame) = link.inbox.pop_front() else { return };
        let (place, end) = (link.place, link.end);
        self.detail(|| match &frame {
            Frame::Text(text) => format!("{id}< {text}"),
            Frame::Closed { code, .. } => format!("{id}< closed {code}"),
        });
        if let Frame::Text(text) = &frame {
            self.check_isolation(place, text);
        }
        if matches!(frame, Frame::Closed { .. }) {
            self.links.remove(&id);
        }
        match end {
            End::Cli(cli) => self.cli_hears(cli, frame),
            End::Web(web) => self.web_hears(web, frame),
            End::Nobody => {}
        }
    }

    /// Nothing of the other namespace is heard.
    pub fn check_isolation(&self, place: usize, text: &str) {
        let other = 1 - place;
        let name = self.objects[other].name;
        assert!(!text.contains(name), "{} heard of {name}: {text}", self.objects[place].name);
        let theirs = self.ledgers[other].sessions.keys().find(|id| text.contains(id.as_str()));
        assert!(theirs.is_none(), "{} heard of a session of {name}: {text}", self.objects[place].name);
    }

    // Turns.

    fn turns(&mut self) -> Vec<Turn> {
        self.look_at_pushes();
        let mut turns: Vec<Turn> = self.scheduler.ready().into_iter().map(Turn::Task).collect();
        turns.extend(self.db.movable().into_iter().map(Turn::Call));
        for (id, link) in &mut self.links {
            while let Ok(frame) = link.frames.try_recv() {
                link.inbox.push_back(frame);
            }
            if link.end == End::Nobody {
                link.inbox.clear();
            }
            turns.extend((!link.inbox.is_empty() && !link.dawdles).then_some(Turn::Reading(*id)));
            turns.extend((!link.outbox.is_empty()).then_some(Turn::Arrival(*id)));
        }
        turns.extend((!lock(&self.mail).is_empty()).then_some(Turn::Mail));
        for place in [TEAM, NEIGHBOUR] {
            turns.extend((!self.late && self.objects[place].alarm_is_due()).then_some(Turn::Alarm(place)));
            let posted = self.objects[place].rt.outbox.movable(self.now());
            turns.extend(posted.into_iter().map(|number| Turn::Push(place, number)));
        }
        turns
    }

    /// Something happens, if anything can.
    fn turn(&mut self) -> bool {
        let turns = self.turns();
        let Some(turn) = self.dice.pick(&turns) else { return false };
        match turn {
            Turn::Task(id) => self.scheduler.poll(id),
            Turn::Call(id) => {
                self.detail(|| self.db.describe(id));
                self.db.step(id);
            }
            Turn::Arrival(id) => self.arrive(id),
            Turn::Reading(id) => self.read(id),
            Turn::Mail => self.open_mail(),
            Turn::Alarm(place) => {
                self.detail(|| format!("the alarm of {place} rings"));
                self.objects[place].ring();
            }
            Turn::Push(place, number) => self.push_moves(place, number),
        }
        true
    }

    fn open_mail(&mut self) {
        let Some((number, answer)) = lock(&self.mail).pop_front() else { return };
        let asked = self.asked.remove(&number).expect("an answer came twice");
        self.detail(|| format!("!{number} {answer}"));
        self.answered(asked, Some(answer));
    }

    /// Clients read what has come.
    pub fn read_all(&mut self) {
        self.links.values_mut().for_each(|link| link.dawdles = false);
        let waiting = |turn: Turn| if let Turn::Reading(link) = turn { Some(link) } else { None };
        loop {
            let links: Vec<LinkId> = self.turns().into_iter().filter_map(waiting).collect();
            if links.is_empty() {
                return;
            }
            for link in links {
                self.read(link);
            }
        }
    }

    /// So many things happen, or fewer when there are not as many.
    pub fn go_on(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.turn() {
                return;
            }
        }
    }

    /// Everything happens that can, until nobody has anything left to do but to wait for a client or the clock.
    pub fn settle(&mut self) {
        self.links.values_mut().for_each(|link| link.dawdles = false);
        for _ in 0..ENDLESS {
            if self.turn() {
                continue;
            }
            if self.objects.iter().all(|object| object.rt.fake.sleeping() == 0 && object.rt.outbox.is_empty()) {
                return self.db.come_to_rest();
            }
            // Somebody waits a moment before he tries again, or for a push service.
            self.pass(50);
        }
        panic!("it does not come to rest");
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        let now = self.now() + ms;
        self.objects.iter().for_each(|object| object.rt.fake.set_now(now));
    }

    // Upheavals.

    /// An object is torn down; its sockets are gone with it.
    pub fn tear_down(&mut self, place: usize) {
        let life = self.objects[place].life();
        self.pushes_are_lost(place);
        for link in self.links.values_mut().filter(|link| link.place == place) {
            link.outbox.clear();
        }
        self.objects[place].tear_down();
        self.db.bury(&mut self.dice);
        self.crashes += 1;
        // What the object has answered is on its way; the rest is never answered.
        let answered: Vec<u64> = lock(&self.mail).iter().map(|(number, _)| *number).collect();
        let lost: Vec<u64> = self.asked.iter().filter(|(_, asked)| asked.life == life).map(|(n, _)| *n).collect();
        for number in lost.into_iter().filter(|number| !answered.contains(number)) {
            if let Some(asked) = self.asked.remove(&number) {
                self.answered(asked, None);
            }
        }
    }

    /// What makes a sign of life worthless, counted: `faults` of the database, and the rest.
    pub fn upheavals(&self, place: usize, session: &str, faults: u64) -> u64 {
        let ends = self.ledgers[place].sessions.get(session).map_or(0, |known| known.ends);
        faults + self.crashes + ends
    }

    /// A session that is surely there, or one that may be.
    pub fn some_session(&mut self, place: usize) -> Option<String> {
        let there = self.ledgers[place].present();
        self.dice.pick(&there)
    }

    /// Whether a session is surely there.
    pub fn is_there(&self, place: usize, session: &str) -> bool {
        self.ledgers[place].sessions.get(session).is_some_and(|known| known.stay == Stay::Sure)
    }
}
