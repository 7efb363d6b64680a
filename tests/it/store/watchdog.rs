//! The watchdog of the database: after which time a query without an answer counts as lost.

use futures::future::BoxFuture;

use crate::support::prelude::*;
use crate::support::runtime::FakeRuntime;
use session_gateway_hub::limits::{DB_RETRY_PERIOD_MS, DB_TIMEOUT_MS};
use session_gateway_hub::log::LogLine;
use session_gateway_hub::store::retry::Environment;
use session_gateway_hub::store::watchdog::{DB_SILENCE_MS, Watchdog};
use session_gateway_hub::store::{Statement, secrets};

/// A step of the clock, in milliseconds.
const STEP_MS: u64 = 500;

struct TestEnvironment(Arc<FakeRuntime>);

impl Environment for TestEnvironment {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'static, ()> {
        self.0.sleep(ms)
    }

    fn random(&self) -> u8 {
        0
    }

    fn log(&self, _: LogLine) {}
}

struct Fixture {
    db: Arc<Sqlite>,
    rt: Arc<FakeRuntime>,
    watchdog: Watchdog,
}

impl Fixture {
    fn new() -> Self {
        let (db, rt) = (Arc::new(Sqlite::with_schema()), Arc::new(FakeRuntime::new("team")));
        let watchdog = Watchdog::new(Arc::clone(&db) as _, Box::new(TestEnvironment(Arc::clone(&rt))));
        Self { db, rt, watchdog }
    }

    /// Makes a query that never returns. Returns after how many milliseconds it counts as lost. `meanwhile` runs after each
    /// step of the clock.
    async fn ms_until_lost(&self, kind: BatchKind, meanwhile: impl AsyncFn()) -> u64 {
        self.db.never_return_next(kind);
        let mut batch = vec![match kind {
            BatchKind::Reads => Statement::new("SELECT count(*) FROM secrets", []),
            BatchKind::Writes => Statement::new(secrets::INSERT, ["name".into(), "value".into()]),
        }];
        let started_at = self.rt.now();
        let mut query = self.watchdog.batch(&mut batch);
        loop {
            if let std::task::Poll::Ready(result) = futures::poll!(&mut query) {
                assert!(result.unwrap_err().is_outcome_unknown());
                return self.rt.now() - started_at;
            }
            self.rt.set_now(self.rt.now() + STEP_MS);
            meanwhile().await;
        }
    }
}

#[tokio::test]
async fn a_query_counts_as_lost_when_a_later_probe_of_the_watchdog_is_answered() {
    for kind in [BatchKind::Reads, BatchKind::Writes] {
        let fixture = Fixture::new();
        let lost_after_ms = fixture.ms_until_lost(kind, async || ()).await;
        assert!((DB_SILENCE_MS..=2 * DB_SILENCE_MS).contains(&lost_after_ms), "{lost_after_ms}");
    }
}

#[tokio::test]
async fn the_time_until_a_query_counts_as_lost_doubles_with_each_lost_query_up_to_the_timeout() {
    let fixture = Fixture::new();
    let times = each(0..6, async |_| fixture.ms_until_lost(BatchKind::Reads, async || ()).await).await;
    assert!(times.is_sorted() && times.last() == Some(&DB_TIMEOUT_MS), "{times:?}");
    fixture.rt.set_now(fixture.rt.now() + DB_RETRY_PERIOD_MS);
    assert_eq!(
        fixture.ms_until_lost(BatchKind::Reads, async || ()).await,
        times[0],
        "after {DB_RETRY_PERIOD_MS} ms without a lost query, a query counts as lost as early as at first"
    );
}

#[tokio::test]
async fn the_answer_to_a_later_query_shows_without_a_probe_that_an_earlier_query_is_lost() {
    let fixture = Fixture::new();
    let later = Statement::new("SELECT 1 AS seq, '1' AS body, 0 AS parts", []);
    let max_rows = 1;
    let make_later_query = async || drop(fixture.watchdog.query_joined(&later, max_rows).await.unwrap());
    let lost_after_ms = fixture.ms_until_lost(BatchKind::Writes, make_later_query).await;
    assert!(lost_after_ms <= 2 * DB_SILENCE_MS, "{lost_after_ms}");
    let is_probe = |batch: &Vec<Statement>| batch[0].sql == "SELECT 1";
    assert!(!fixture.db.read_batches().iter().any(is_probe), "no probe is needed");
}
