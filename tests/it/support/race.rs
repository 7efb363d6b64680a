//! Races: several do something at once, and every order is tried in which it can happen.
//!
//! What is asked of the hub, what a CLI says, each answer of a CLI and each answer of the database is a move. A run makes
//! one move after the other, each when nobody has anything left to do; the next run takes another turning at the last
//! place where there was one, until there is none left. So every await of everybody is passed by everything else.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::World;
use super::cli::{Call, Cli};
use super::rest::{PendingReply, Reply};
use super::web::Web;

/// The order of one run: at each place with several moves, which of them is made.
#[derive(Debug, Default)]
pub struct Schedule {
    turns: Vec<(usize, usize)>,
    at: usize,
}

impl Schedule {
    fn choose(&mut self, moves: usize) -> usize {
        if self.at == self.turns.len() {
            self.turns.push((0, moves));
        }
        let (choice, known) = self.turns[self.at];
        assert_eq!(known, moves, "the same moves lead to the same place");
        self.at += 1;
        choice
    }

    /// Goes on to the next order; `false` when all have been tried.
    fn next(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, moves)) = self.turns.pop() {
            if choice + 1 < moves {
                self.turns.push((choice + 1, moves));
                return true;
            }
        }
        false
    }
}

/// Runs a scene in every order; answers how many there are.
pub async fn in_every_order(scene: impl AsyncFn(&mut Schedule)) -> usize {
    let (mut order, mut runs) = (Schedule::default(), 1);
    loop {
        scene(&mut order).await;
        if !order.next() {
            return runs;
        }
        runs += 1;
        assert!(runs < 20_000, "a scene with too much in it");
    }
}

#[derive(Debug)]
enum Move {
    Ask { method: &'static str, path: String, body: String },
    Say { cli: usize, event: &'static str, payload: Value },
    Close { cli: usize },
    Answer { cli: usize, request: Call },
}

/// What somebody does in a race, by which its outcome is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(usize);

/// A race for one session: everybody in it, and two web clients who watch.
pub struct Race {
    pub world: World,
    pub clis: Vec<Cli>,
    pub watchers: [Web; 2],
    /// What CLIs answer to every call.
    pub result: Value,
    /// The methods that were called, with the CLI that was asked.
    pub called: Vec<(usize, String)>,
    moves: Vec<(Step, Move)>,
    steps: usize,
    replies: BTreeMap<Step, PendingReply>,
    acks: BTreeMap<Step, (usize, u64)>,
    /// What was done, to be shown when something is wrong.
    done: Vec<String>,
}

impl Race {
    /// A race of a world's CLIs, with web clients of a query. What came before it is heard by then. `asleep`: the hub has
    /// slept, and has to ask the database for everything.
    pub async fn of(world: World, query: &str, mut clis: Vec<Cli>, asleep: bool) -> Self {
        let watchers = [world.web(query).await, world.web(query).await];
        super::run_until_idle().await;
        if asleep {
            world.hibernate_and_wake().await;
        }
        for cli in &mut clis {
            cli.socket.drain().await;
        }
        let result = json!({"success": true});
        let (moves, called, done) = (Vec::new(), Vec::new(), Vec::new());
        let (replies, acks) = (BTreeMap::new(), BTreeMap::new());
        Self { world, clis, watchers, result, called, moves, steps: 0, replies, acks, done }
    }

    fn step(&mut self, step: Move) -> Step {
        self.steps += 1;
        self.moves.push((Step(self.steps), step));
        Step(self.steps)
    }

    /// A web client, or a CLI by REST, will ask for something.
    pub fn request(&mut self, method: &'static str, path: &str, body: &Value) -> Step {
        self.step(Move::Ask { method, path: path.to_owned(), body: body.to_string() })
    }

    /// A CLI will say something.
    pub fn emit(&mut self, cli: usize, event: &'static str, payload: Value) -> Step {
        self.step(Move::Say { cli, event, payload })
    }

    /// A CLI will close its socket.
    pub fn close(&mut self, cli: usize) -> Step {
        self.step(Move::Close { cli })
    }

    /// Makes all moves, in this order, until nothing is left.
    pub async fn run(&mut self, order: &mut Schedule) {
        self.world.db.hold_all();
        loop {
            self.hear_calls().await;
            let moves = self.moves.len() + self.world.db.held_count();
            if moves == 0 {
                break;
            }
            let choice = order.choose(moves);
            if choice < self.moves.len() {
                let (step, chosen) = self.moves.remove(choice);
                self.done.push(format!("{chosen:?}"));
                self.make(step, chosen);
            } else {
                self.done.push(format!("the database answers {}", choice - self.moves.len()));
                self.world.db.release_one(choice - self.moves.len());
            }
        }
        self.world.db.release();
    }

    async fn hear_calls(&mut self) {
        super::run_until_idle().await;
        for cli in 0..self.clis.len() {
            while let Some(request) = self.clis[cli].try_call().await {
                self.called.push((cli, request.method.clone()));
                self.step(Move::Answer { cli, request });
            }
        }
    }

    fn make(&mut self, step: Step, chosen: Move) {
        match chosen {
            Move::Ask { method, path, body } => {
                self.replies.insert(step, self.world.start(method, &path, body));
            }
            Move::Say { cli, event, payload } => {
                let ack = self.clis[cli].emit_for_ack(event, &payload);
                self.acks.insert(step, (cli, ack));
            }
            Move::Close { cli } => self.clis[cli].socket.close(),
            Move::Answer { cli, request } => self.clis[cli].respond(&request, &self.result),
        }
    }

    /// What somebody who asked was answered.
    pub async fn reply(&mut self, step: Step) -> Reply {
        self.replies.remove(&step).unwrap().reply().await
    }

    /// What a CLI was answered.
    pub async fn ack(&mut self, step: Step) -> Value {
        let (cli, ack) = self.acks[&step];
        self.clis[cli].wait_for_ack(ack).await
    }

    /// The events that both web clients heard, which must be the same.
    pub async fn events(&mut self) -> Vec<Value> {
        let [one, other] = &mut self.watchers;
        let heard = one.events().await;
        assert_eq!(heard, other.events().await);
        heard
    }

    /// The session as everybody sees it in the end: memory, the database, and after all updates also those who listen,
    /// who heard of each version once and in order.
    pub async fn check_agreement(&mut self, session: &str) -> Value {
        let shown = self.world.get_session(session).await;
        for (version, field) in [("metadataVersion", "metadata"), ("agentStateVersion", "agentState")] {
            let heard: Vec<u64> = self.versions(version).await;
            assert!(heard.is_sorted_by(|a, b| a < b), "{version} {heard:?}");
            assert!(heard.last().is_none_or(|last| *last == shown[version]), "{version} {heard:?} of {shown}");
            assert!(!shown[field].is_null() || shown[version] == 1, "{shown}");
        }
        self.world.hibernate_and_wake().await;
        assert_eq!(self.world.get_session(session).await, shown, "the database has it as memory had it");
        shown
    }

    /// The versions of a value that both web clients heard of; other events stay.
    async fn versions(&mut self, field: &str) -> Vec<u64> {
        let mut of_each = Vec::new();
        for web in &mut self.watchers {
            let mut versions = Vec::new();
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap()["data"][field].as_u64();
            web.0.peek(|text| versions.extend(read(text))).await;
            of_each.push(versions);
        }
        assert_eq!(of_each[0], of_each[1]);
        of_each.remove(0)
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("It happened in this order: {:#?}", self.done);
        }
    }
}
