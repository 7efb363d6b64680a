//! Pages of the session list (PROTOCOL-WEB.md "GET /api/sessions").

use crate::support::prelude::*;
use crate::support::session_list::{add_sessions, ids, read_pages};

const NO_METADATA: &str = "'{}'";

fn ids_of(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| format!("s{number}")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pages_have_every_session_once_in_the_order_of_the_list() {
    let world = World::new();
    let (active, mut cli) = world.active_session("/active").await;
    add_sessions(&world, 0..20, NO_METADATA);
    // Sessions that have changed at the same time are ordered by their ids.
    world.db.execute("UPDATE sessions SET updated_at = 1 WHERE id IN ('s7', 's8', 's9')");
    let whole = world.get("/api/sessions").await.ok();
    assert_eq!(whole.get("nextCursor"), None);
    let expected: Vec<String> = std::iter::once(active.clone())
        .chain(ids_of((0..7).chain(10..20)))
        .chain(["s9", "s8", "s7"].map(str::to_owned))
        .collect();
    assert_eq!(ids(&whole), expected);
    for hibernates in [false, true] {
        for limit in [1, 4, 7, 20, 21, 22, 1_000] {
            world.hibernate_if(hibernates).await;
            let pages = read_pages(&world, &format!("limit={limit}")).await;
            assert_eq!(pages.concat(), expected, "{limit}");
            assert!(pages.iter().rev().skip(1).all(|page| page.len() == limit), "{limit}");
        }
    }
    cli.send_keep_alive(&world, &active).await;
    assert_eq!(read_pages(&world, "limit=5").await.concat(), expected);
}

#[tokio::test(start_paused = true)]
async fn pinned_sessions_are_first_in_the_list_until_they_are_unpinned() {
    let world = World::new();
    let (active, _cli) = world.active_session("/active").await;
    add_sessions(&world, 0..3, NO_METADATA);
    let mut web = world.web("all=true").await;
    let pin = |pinned: bool| json!({"pinned": pinned}).to_string();
    for id in ["s2", "s1"] {
        let path = format!("/api/sessions/{id}");
        assert_eq!(world.request("PATCH", &path, pin(true)).await.ok(), json!({"ok": true, "metadataVersion": 1}));
        assert_eq!(web.next_event_of("session-updated").await["data"], json!({"pinned": true}));
    }
    for _ in ["in memory", "after a wake"] {
        assert_eq!(read_pages(&world, "limit=2").await, [vec!["s1", "s2"], vec![active.as_str(), "s0"]]);
        world.hibernate_and_wake().await;
    }
    world.request("PATCH", "/api/sessions/s1", pin(false)).await.ok();
    assert_eq!(web.next_event_of("session-updated").await["data"], json!({"pinned": false}));
    assert_eq!(ids(&world.get("/api/sessions").await.ok()), ["s2", active.as_str(), "s0", "s1"]);
}

#[tokio::test(start_paused = true)]
async fn the_archive_is_paged_separately() {
    let world = World::new();
    add_sessions(&world, 0..30, "iif(i % 3 = 0, '{\"lifecycleState\":\"archived\"}', '{}')");
    for (query, is_listed) in
        [("archived=only", [true, false]), ("archived=include", [true, true]), ("", [false, true])]
    {
        let pages = read_pages(&world, &format!("{query}&limit=4")).await;
        let expected = ids_of((0..30).filter(|number| is_listed[usize::from(number % 3 != 0)]));
        assert_eq!((pages.concat(), pages[0].len()), (expected, 4), "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_list_is_one_page_up_to_a_thousand_sessions_and_several_pages_above() {
    let world = World::new();
    add_sessions(&world, 0..1_000, NO_METADATA);
    let whole = world.get("/api/sessions").await.ok();
    assert_eq!((ids(&whole).len(), whole.get("nextCursor")), (1_000, None));
    add_sessions(&world, 1_000..2_500, NO_METADATA);
    world.hibernate_and_wake().await;
    let pages = read_pages(&world, "").await;
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    assert_eq!(pages.concat(), ids_of(0..2_500));
}

#[tokio::test(start_paused = true)]
async fn a_page_ends_before_2_mebibytes() {
    let world = World::new();
    let text = "printf('%.600c', 'x')";
    let worktree = format!("json_object('basePath', {text}, 'branch', {text}, 'worktreePath', {text})");
    add_sessions(&world, 0..1_000, &format!("json_object('name', {text}, 'worktree', {worktree})"));
    let page = world.get("/api/sessions").await;
    assert!((2 << 20) - 3_000 < page.text.len() && page.text.len() < (2 << 20) + 100, "{}", page.text.len());
    let pages = read_pages(&world, "limit=1000").await;
    assert_eq!((pages.len(), pages.concat()), (2, ids_of(0..1_000)));
}

#[tokio::test(start_paused = true)]
async fn a_cursor_stays_valid_while_sessions_change() {
    let world = World::new();
    add_sessions(&world, 0..20, NO_METADATA);
    let first = world.get("/api/sessions?limit=10").await.ok();
    let cursor = first["nextCursor"].as_str().unwrap();
    // The session of the cursor is deleted. Other sessions move to the front, are added, or leave the list.
    world.request("DELETE", "/api/sessions/s9", "").await.ok();
    world.request("PATCH", "/api/sessions/s3", r#"{"name":"new"}"#).await.ok();
    world.request("PATCH", "/api/sessions/s12", r#"{"name":"new"}"#).await.ok();
    world.post("/api/sessions/s15/archive", &json!({})).await.ok();
    world.create_session("/created").await;
    for hibernates in [false, true] {
        world.hibernate_if(hibernates).await;
        let rest = world.get(&format!("/api/sessions?limit=10&cursor={cursor}")).await.ok();
        assert_eq!(ids(&rest), ids_of((10..20).filter(|number| ![12, 15].contains(number))));
        assert_eq!(rest.get("nextCursor"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_and_a_cursor_are_accepted_in_unusual_forms() {
    let world = World::new();
    world.create_session("/code").await;
    for query in ["limit=&cursor=", "limit=1.0", "cursor=18446744073709551615.", "cursor=1.0.a.b%22%5c"] {
        world.get(&format!("/api/sessions?{query}")).await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_shows_changes_at_once() {
    let world = World::new();
    add_sessions(&world, 0..3, NO_METADATA);
    let path = "/api/sessions?limit=2";
    let before = world.get(path).await.ok();
    assert_eq!(world.get(path).await.ok(), before);
    world.request("PATCH", "/api/sessions/s2", r#"{"name":"new"}"#).await.ok();
    let after = world.get(path).await.ok();
    assert_eq!(ids(&after), ["s2", "s0"]);
    assert_eq!(after["sessions"][0]["metadata"]["name"], "new");
    world.request("DELETE", "/api/sessions/s0", "").await.ok();
    let after = world.get(path).await.ok();
    assert_eq!((ids(&after), after.get("nextCursor")), (vec!["s2".to_owned(), "s1".to_owned()], None::<&Value>));
}
