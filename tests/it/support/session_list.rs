//! Namespaces with many sessions, and the pages of their list.

use std::ops::Range;

use super::prelude::*;

/// Adds the inactive sessions `s<number>` to the database. In the session list, a lower number comes first. `metadata`: an SQL string
/// with the JSON of the fields besides `path` and `host`.
pub fn add_sessions(world: &World, numbers: Range<usize>, metadata: &str) {
    world.db.execute(&format!(
        "WITH RECURSIVE n(i) AS (SELECT {} UNION ALL SELECT i + 1 FROM n WHERE i < {} - 1)
        INSERT INTO sessions (id, namespace, tag, seq, created_at, updated_at, active_at, thinking_at, active, thinking,
          metadata, metadata_version, agent_state_version)
        SELECT 's' || i, 'team', '/' || i, 0, 0, 100000 - i, 0, 0, 0, 0,
          json_patch('{{\"path\":\"/code\",\"host\":\"box\"}}', {metadata}), 1, 1 FROM n",
        numbers.start, numbers.end
    ));
}

/// The ids of the sessions in a response.
pub fn ids(list: &Value) -> Vec<String> {
    list["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

/// Reads all pages of the list. `query` has further parameters. Returns the ids of each page.
pub async fn read_pages(world: &World, query: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.get(&format!("/api/sessions?{query}&cursor={cursor}")).await.ok();
        pages.push(ids(&page));
        match page.get("nextCursor") {
            Some(next) => cursor = next.as_str().unwrap().to_owned(),
            None => return pages,
        }
    }
}
