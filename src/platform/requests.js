// What an operator sees of the requests to the worker: an id, a log line for a request that failed, was slow or is sampled, the
// metrics of the isolate, and a data point for Analytics Engine (docs/MONITORING.md).

import { isLogged, isSampled, isWithinLimit, logLine } from './log.js';
import { now } from './timing.js';

/** A request that takes longer is slow. */
const SLOW_MS = 1000;

/** The upper bounds of the histogram's buckets, in seconds. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 10, 30];

const REQUEST_ID = 'x-request-id';

/** The property of a forwarded request that has its namespace. A weak map of all requests would make garbage collections slower. */
const NAMESPACE = Symbol('namespace');

/** The hashes of the namespaces that had a log line or a data point. @type {Map<string, string>} */
const hashes = new Map();
const MAX_HASHES = 1000;

/**
 * Returns a route with the counts of its requests: by method and status, and by duration.
 * @param {string} pattern
 */
const newRoute = (pattern) => ({
  pattern,
  /** @type {Map<string, Map<number, number>>} */
  requests: new Map(),
  buckets: BOUNDS.map(() => 0),
  seconds: 0,
  count: 0,
});

/** The route of a request whose path belongs to no route. */
const noRoute = newRoute('none');
const routes = [noRoute];
/** The routes by the segments of their paths: a parameter has the key `{}`, and the route the key `ROUTE`. */
const tree = new Map();
const ROUTE = Symbol('route');

/** How often objects were loaded and freed in this isolate. */
export const objects = { loaded: 0, evicted: 0 };
const reportedObjects = { ...objects };

/** The ids of the isolate's requests: a random prefix, and a number that is scrambled, so that clients cannot count the requests. */
const ids = { /** @type {string | undefined} */ prefix: undefined, factor: 0, count: 0 };

/**
 * Sets the routes.
 * @param {string} patterns their paths in lines, with parameters in braces
 */
export function configureRoutes(patterns) {
  for (const pattern of patterns.split('\n')) {
    let node = tree;
    for (const segment of pattern.split('/').slice(1)) {
      const key = segment.startsWith('{') ? '{}' : segment;
      if (!node.has(key)) node.set(key, new Map());
      node = node.get(key);
    }
    const route = newRoute(pattern);
    routes.push(route);
    node.set(ROUTE, route);
  }
}

/** Records the namespace of a request, for its log line. */
export function noteNamespace(request, namespace) {
  request[NAMESPACE] = namespace;
}

/** Returns the route of a request. @param {string} url absolute @returns {ReturnType<typeof newRoute>} */
function routeOf(url) {
  const query = url.indexOf('?');
  const end = query === -1 ? url.length : query;
  let node = tree;
  // The path begins at the first slash after the host. Its segments are not split into an array, because this runs for each request.
  for (let slash = url.indexOf('/', url.indexOf('://') + 3); slash < end; ) {
    const next = url.indexOf('/', slash + 1);
    const segmentEnd = next === -1 || next > end ? end : next;
    const segment = url.slice(slash + 1, segmentEnd);
    node = node.get(segment) ?? node.get('{}');
    if (node === undefined) return noRoute;
    slash = segmentEnd;
  }
  return node.get(ROUTE) ?? noRoute;
}

/** Starts to observe a request. @param {Request} request */
export function begin(request) {
  return { request, startedAt: now(), id: nextId() };
}

/** Returns a unique id. A random number for each request would take more CPU time than the rest of the observation. */
function nextId() {
  if (ids.prefix === undefined) {
    ids.prefix = crypto.randomUUID().slice(0, 18);
    [ids.factor] = crypto.getRandomValues(new Uint32Array(1));
  }
  ids.count += 1;
  // An odd factor maps each number to another one, modulo 2^32.
  return `${ids.prefix}-${(Math.imul(ids.count, ids.factor | 1) >>> 0).toString(16)}`;
}

/**
 * Ends the observation of a request: adds its id to the response, counts it, and reports it to the log and to Analytics Engine.
 * @param {ReturnType<typeof begin>} observed
 * @param {Response} response
 * @param {{METRICS?: {writeDataPoint: (point: object) => void}}} env
 * @param {{waitUntil: (work: Promise<void>) => void}} context
 * @returns {Response}
 */
export function end({ request, startedAt, id }, response, env, context) {
  const { status } = response;
  const method = knownMethod(request.method);
  const route = routeOf(request.url);
  const ms = now() - startedAt;
  count(route, method, status, ms);
  const withId = addId(response, id);
  const isSignIn = status === 401 && route.pattern === '/api/auth';
  // A page may report for a subscription that has just ended. It then subscribes again.
  const isExpected = status < 400 || (status === 404 && route.pattern === '/api/visibility');
  const level = levelOf(status, !isExpected || ms > SLOW_MS, isSignIn, request[NAMESPACE] !== undefined);
  const isReported = (level !== undefined && isLogged(level)) || env.METRICS !== undefined;
  if (!isReported) return withId;
  const timing = response.headers.get('server-timing') ?? '';
  // A client of a local hub can send any text as its address.
  const client = isSignIn ? (request.headers.get('cf-connecting-ip') ?? '').slice(0, 45) : undefined;
  const report = async () => {
    const namespace = await hashOf(request[NAMESPACE]);
    const details = { namespace, method, route: route.pattern, status, client, ms: { total: ms, ...partsOf(timing) }, requestId: id };
    if (level !== undefined) logLine(level, isSignIn ? 'sign-in-refused' : 'request', `,${JSON.stringify(details).slice(1, -1)}`);
    env.METRICS?.writeDataPoint({ indexes: [namespace ?? ''], blobs: ['request', method, route.pattern, String(status)], doubles: [ms] });
  };
  context.waitUntil(report());
  return withId;
}

/**
 * Returns the hash by which log lines name a namespace, as `hash_of_namespace` in `src/log.rs` does: that function cannot be called after
 * the loss of the wasm instance.
 * @param {string | undefined} namespace
 */
async function hashOf(namespace) {
  if (namespace === undefined) return undefined;
  let hash = hashes.get(namespace);
  if (hash === undefined) {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(namespace)));
    hash = [...digest.subarray(0, 6)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    if (hashes.size >= MAX_HASHES) hashes.clear();
    hashes.set(namespace, hash);
  }
  return hash;
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS']);

/** Clients may send any method. */
const knownMethod = (method) => (METHODS.has(method) ? method : 'other');

function addId(response, id) {
  try {
    response.headers.set(REQUEST_ID, id);
    return response;
  } catch {
    // The headers of a forwarded response can't be changed. The response of an upgrade can't be rebuilt.
    if (response.status === 101) return response;
    const rebuilt = new Response(response.body, response);
    rebuilt.headers.set(REQUEST_ID, id);
    return rebuilt;
  }
}

/**
 * Returns the level of a request's line; undefined for a request that is not logged. Lines about refused and slow requests are limited. Lines
 * about sign-ins, about namespaces and about strangers have separate limits, so that a stranger cannot hide the other lines.
 */
function levelOf(status, isWarning, isSignIn, hasNamespace) {
  if (status >= 500) return 'error';
  if (!isWarning) return isSampled() ? 'info' : undefined;
  const kind = isSignIn ? 'sign-in-refused' : hasNamespace ? 'request of a namespace' : 'request of a stranger';
  return isWithinLimit(kind) ? 'warn' : undefined;
}

/** Reads the durations of a `Server-Timing` header, in milliseconds. @param {string} header */
function partsOf(header) {
  const parts = {};
  for (const [, name, ms] of header.matchAll(/(?:^|, )(object|d1|worker);dur=(\d+)/g)) parts[name] = Number(ms);
  return parts;
}

/** Counts a request to a route. */
function count(route, method, status, ms) {
  let statuses = route.requests.get(method);
  if (statuses === undefined) {
    statuses = new Map();
    route.requests.set(method, statuses);
  }
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const seconds = ms / 1000;
  route.seconds += seconds;
  route.count += 1;
  const bucket = BOUNDS.findIndex((bound) => seconds <= bound);
  if (bucket !== -1) route.buckets[bucket] += 1;
}

/** Reports the objects that were loaded and evicted since the last report to Analytics Engine. */
export function reportObjects({ METRICS }) {
  const doubles = [objects.loaded - reportedObjects.loaded, objects.evicted - reportedObjects.evicted];
  // Evictions are counted at the next load.
  if (doubles[0] === 0) return;
  METRICS.writeDataPoint({ indexes: [''], blobs: ['isolate'], doubles });
  Object.assign(reportedObjects, objects);
}

/** Returns the metrics of the isolate as text for Prometheus (text format 0.0.4). */
export function isolateMetrics() {
  const used = routes.filter(({ count }) => count > 0);
  const lines = ['# HELP hub_requests_total Requests to the worker.', '# TYPE hub_requests_total counter'];
  for (const { pattern, requests } of used) {
    for (const [method, statuses] of requests) {
      for (const [status, count] of statuses) {
        lines.push(`hub_requests_total{method="${method}",route="${pattern}",status="${status}"} ${count}`);
      }
    }
  }
  const name = 'hub_request_duration_seconds';
  lines.push(`# HELP ${name} The time until the response began.`, `# TYPE ${name} histogram`);
  for (const { pattern, buckets, seconds, count } of used) {
    let total = 0;
    buckets.forEach((inBucket, index) => {
      total += inBucket;
      lines.push(`${name}_bucket{route="${pattern}",le="${BOUNDS[index]}"} ${total}`);
    });
    lines.push(`${name}_bucket{route="${pattern}",le="+Inf"} ${count}`);
    lines.push(`${name}_sum{route="${pattern}"} ${seconds}`, `${name}_count{route="${pattern}"} ${count}`);
  }
  lines.push(
    '# HELP hub_objects_loaded_total Objects of namespaces that this isolate loaded.',
    '# TYPE hub_objects_loaded_total counter',
    `hub_objects_loaded_total ${objects.loaded}`,
    '# HELP hub_objects_evicted_total Objects of namespaces that left memory, counted when they are loaded again.',
    '# TYPE hub_objects_evicted_total counter',
    `hub_objects_evicted_total ${objects.evicted}`,
  );
  return `${lines.join('\n')}\n`;
}
