//! Query strings, and what the worker makes of a request with one. The input's lines are the query, the method, the path,
//! the host, the origin and the authorization.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use session_gateway_hub::auth::jwt::JwtKey;
use session_gateway_hub::auth::token::AccessTokens;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Bearer, Edge, RequestHead, Routing, split_url};
use session_gateway_hub::http::query::Query;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement};

use super::lines;

const SECRET: &str = "s3cret";
const NOW_MS: u64 = 1_700_000_000_000;

pub fn run(input: &str) {
    let [query, method, path, host, origin, authorization] = lines(input);
    parameters(query);
    let (of_host, of_path, of_query) = split_url(query);
    assert!([of_host, of_query].iter().all(|part| query.contains(part)) && of_path.starts_with('/'));
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    for (upgrade, routing) in [(false, "token"), (true, "token"), (true, "host"), (true, "single:team")] {
        let (origin, authorization) = (given(origin), given(authorization));
        let [method, path, query, host] = [method, path, query, host].map(str::to_owned);
        decided(&RequestHead { method, path, query, host, authorization, origin, is_upgrade: upgrade }, routing);
    }
}

fn parameters(query: &str) {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let mut keys: Vec<_> = pairs.iter().map(|(key, _)| key).collect();
    keys.sort();
    let twice = keys.windows(2).any(|pair| pair[0] == pair[1]);
    // What was no UTF-8 reads as U+FFFD; where somebody wrote that one, it can't be told apart here.
    let broken = pairs.iter().any(|(key, text)| key.contains('\u{fffd}') || text.contains('\u{fffd}'));
    let written = query.contains('\u{fffd}') || query.to_ascii_lowercase().contains("%ef%bf%bd");
    let parsed = Query::parse(query);
    assert!(written || parsed.is_ok() != (twice || broken), "{query:?}");
    let Ok(parsed) = parsed else { return };
    for (key, text) in &pairs {
        assert_eq!(parsed.text(key), Some(text.as_ref()));
        assert_eq!(Query::find_unique(query, key).as_deref(), Some(text.as_ref()));
        if let Ok(number) = parsed.number(key, 1..=200) {
            assert_eq!(text.parse().ok(), number);
            assert!(number.is_some_and(|number| (1..=200).contains(&number)));
        }
        if let Ok(flag) = parsed.flag(key) {
            assert_eq!(
                flag.map(|flag| if flag { ["true", "1"] } else { ["false", "0"] }.contains(&text.as_ref())),
                Some(true)
            );
        }
    }
    let written = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
    let again = Query::parse(&written).expect("what was written");
    assert!(pairs.iter().all(|(key, text)| again.text(key) == Some(text)));
}

/// A database in which every session is the asker's and has no messages that do not fit a page.
struct Empty;

impl Database for Empty {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        ready(Ok(vec![Vec::new(); statements.len()])).boxed()
    }

    fn query_joined<'a>(&'a self, _: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        ready(Ok(JoinedRows { text: "{}".into(), rows: limit, last_seq: Some(1), in_parts: false })).boxed()
    }
}

/// Whatever is asked, it is answered at once and without a fault of the hub's; and only a good token opens a namespace.
fn decided(head: &RequestHead, routing: &str) {
    let tokens = AccessTokens::new(SECRET, false);
    let cors = Cors::parse("https://console.example").expect("an origin");
    let routing = Routing::parse(routing).expect("a way");
    let key = JwtKey::parse("0123456789abcdef0123456789abcdef").expect("a valid secret");
    let edge = Edge::new(tokens.clone(), cors, routing.clone(), Some(key.clone()), Arc::new(Empty));
    let _ = edge.cors.headers(head.origin.as_deref(), &head.host, true);
    let action = edge.route(head, NOW_MS, || None).now_or_never().expect("nothing to wait for");
    let bearer = head.authorization.as_deref().and_then(|text| text.split_once(' '));
    let bearer =
        bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim().to_owned());
    let shown = bearer.or_else(|| Query::find_unique(&head.query, "token")).and_then(|token| {
        // A web client's token opens the web client's routes alone.
        let of_web = || key.verify(&token, NOW_MS as i64 / 1000).filter(|_| head.path.starts_with("/api"));
        tokens.verify(&token).or_else(|| of_web().map(|verified| verified.claims.ns))
    });
    let opened = |namespace: &Namespace| assert_eq!(shown.as_ref(), Some(namespace), "{head:?}");
    match &action {
        Action::Respond(response) => assert!(!response.status().is_server_error(), "{head:?}: {response:?}"),
        Action::Object(namespace) => opened(namespace),
        Action::Sse(Bearer { namespace, .. }) | Action::WebSocket(Bearer { namespace, .. }) => opened(namespace),
        Action::CliSocket { namespace, authenticated: true } => opened(namespace),
        Action::CliSocket { authenticated: false, .. } => assert_ne!(routing, Routing::Token),
        Action::BridgedCliSocket => assert_eq!(routing, Routing::Token),
        Action::Authenticate => assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/api/auth")),
    }
}
