//! Query strings, and the worker's routing of requests. The lines of the input are the query, the method, the path, the host,
//! the origin and the authorization.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, pending, ready};
use session_gateway_hub::auth::jwt::JwtKey;
use session_gateway_hub::auth::token::{TokenVerifier, VerifiedToken};
use session_gateway_hub::http::authentication::Authentication;
use session_gateway_hub::http::cors::Cors;
use session_gateway_hub::http::edge::{Action, Edge, RequestHead, Routing, split_url};
use session_gateway_hub::http::extract::Query;
use session_gateway_hub::log::LogLine;
use session_gateway_hub::model::namespace::Namespace;
use session_gateway_hub::store::places::Databases;
use session_gateway_hub::store::retry::Environment;
use session_gateway_hub::store::{Database, DbError, JoinedRows, Row, Statement};

use super::lines;

const SECRET: &str = "s3cret";
const NOW_MS: u64 = 1_700_000_000_000;

pub fn run(input: &str) {
    let [query, method, path, host, origin, authorization] = lines(input);
    check_parameters(query);
    let (of_host, of_path, of_query) = split_url(query);
    assert!([of_host, of_query].iter().all(|part| query.contains(part)) && of_path.starts_with('/'));
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    for (upgrade, routing) in [(false, "token"), (true, "token"), (true, "host"), (true, "single:team")] {
        let (origin, authorization) = (non_empty(origin), non_empty(authorization));
        let [method, path, query, host] = [method, path, query, host].map(str::to_owned);
        check_routing(
            &RequestHead {
                method,
                path,
                query,
                host,
                authorization,
                origin,
                is_upgrade: upgrade,
                client: String::new(),
            },
            routing,
        );
    }
}

fn check_parameters(query: &str) {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    // Invalid UTF-8 is decoded to U+FFFD. A query with a literal U+FFFD is not checked.
    let is_invalid = pairs.iter().any(|(key, text)| key.contains('\u{fffd}') || text.contains('\u{fffd}'));
    let has_literal = query.contains('\u{fffd}') || query.to_ascii_lowercase().contains("%ef%bf%bd");
    let parsed = Query::parse(query);
    assert!(has_literal || parsed.is_ok() != is_invalid, "{query:?}");
    let Ok(parsed) = parsed else { return };
    for (key, text) in &pairs {
        if pairs.iter().filter(|(other, _)| other == key).count() > 1 {
            assert!(parsed.text(key).is_err() && parsed.number(key, 1..=200).is_err() && parsed.flag(key).is_err());
            continue;
        }
        assert_eq!(parsed.text(key), Ok(Some(text.as_ref()).filter(|text| !text.is_empty())));
        assert_eq!(Query::find_unique(query, key).as_deref(), Some(text.as_ref()));
        if let Ok(number) = parsed.number(key, 1..=200) {
            #[allow(clippy::cast_precision_loss)]
            let value = number.map(|number| number as f64);
            assert_eq!(text.parse().ok(), value);
            assert!(number.is_none_or(|number| (1..=200).contains(&number)));
        }
        if let Ok(Some(flag)) = parsed.flag(key) {
            let words = if flag { ["true", "1", ""] } else { ["false", "0", "0"] };
            assert!(words.contains(&text.to_ascii_lowercase().as_str()));
        }
    }
    let serialized = form_urlencoded::Serializer::new(String::new()).extend_pairs(&pairs).finish();
    let again = Query::parse(&serialized).expect("a valid query");
    assert!(pairs.iter().all(|(key, _)| again.text(key) == parsed.text(key)));
}

/// A database in which every session exists, has the requested namespace, and has no large messages.
struct EmptyDatabase;

impl Database for EmptyDatabase {
    fn batch<'a>(&'a self, statements: &'a mut Vec<Statement>) -> BoxFuture<'a, Result<Vec<Vec<Row>>, DbError>> {
        ready(Ok(vec![Vec::new(); statements.len()])).boxed()
    }

    fn query_joined<'a>(&'a self, _: &'a Statement, limit: u64) -> BoxFuture<'a, Result<JoinedRows, DbError>> {
        ready(Ok(JoinedRows { text: "{}".into(), rows: limit, last_seq: Some(1) })).boxed()
    }
}

/// The environment of requests that do not wait.
struct NoClock;

impl Environment for NoClock {
    fn now(&self) -> u64 {
        NOW_MS
    }

    fn sleep(&self, _: u64) -> BoxFuture<'static, ()> {
        pending().boxed()
    }

    fn random(&self) -> u8 {
        0
    }

    fn log(&self, _: LogLine) {}
}

/// Checks that the worker routes the request at once and without an internal error, and only a valid token to a namespace.
fn check_routing(head: &RequestHead, routing: &str) {
    let tokens = TokenVerifier::new(SECRET, false);
    let cors = Cors::parse("https://console.example").expect("an origin");
    let routing = Routing::parse(routing).expect("a routing");
    let key = JwtKey::parse("0123456789abcdef0123456789abcdef").expect("a valid secret");
    let (db, memory_budget): (Arc<dyn Database>, _) = (Arc::new(EmptyDatabase), Arc::default());
    let authentication = Authentication::new(tokens.clone(), Some(key.clone()), Arc::clone(&db), Arc::new(NoClock));
    let databases = Databases::new(vec![db], "").expect("an open database");
    let edge = Edge::new(authentication, cors, routing.clone(), databases, memory_budget, None);
    let _ = edge.cors.headers(head.origin.as_deref(), &head.host, true);
    let action = edge.route(head, NOW_MS).now_or_never().expect("an action without waiting");
    let bearer = head.authorization.as_deref().and_then(|text| text.split_once(' '));
    let bearer =
        bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim().to_owned());
    let authorized = bearer.or_else(|| Query::find_unique(&head.query, "token")).and_then(|token| {
        // A web token is valid only for the routes of web clients.
        let web_token = || key.verify(&token, NOW_MS as i64 / 1000).filter(|_| head.path.starts_with("/api"));
        tokens.verify(&token).map(|token| token.namespace).or_else(|| web_token().map(|(claims, _)| claims.ns))
    });
    let check_namespace = |namespace: &Namespace| assert_eq!(authorized.as_ref(), Some(namespace), "{head:?}");
    match &action {
        Action::Respond(response) => assert!(!response.status().is_server_error(), "{head:?}: {response:?}"),
        Action::History(history) => {
            check_namespace(&history.namespace);
            let read = edge.read_history(history, &head.query).now_or_never().expect("a page without waiting");
            assert!(!read.status().is_server_error(), "{head:?}: {read:?}");
        }
        Action::Object(namespace, _) => check_namespace(namespace),
        Action::Sse(VerifiedToken { namespace, .. }) | Action::WebSocket(VerifiedToken { namespace, .. }) => {
            check_namespace(namespace)
        }
        Action::CliSocket { namespace, credential: Some(_) } => check_namespace(namespace),
        Action::CliSocket { credential: None, .. } => assert_ne!(routing, Routing::Token),
        Action::BridgedCliSocket => assert_eq!(routing, Routing::Token),
        Action::Authenticate => assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/api/auth")),
        Action::Pair(_) => assert!(head.method == "POST" && head.path.starts_with("/api/devices"), "{head:?}"),
        Action::Answer => assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/api/answers")),
        Action::CheckDatabase => assert_eq!(head.path, "/health"),
        Action::Metrics(_) => panic!("the edge has no token for metrics"),
        Action::Unchecked(_) => panic!("the edge has not seen the token before"),
    }
}
