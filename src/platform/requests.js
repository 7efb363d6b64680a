// What an operator sees of the requests to the worker: an id, a log line for a request that failed, was slow or is sampled, the
// metrics of the isolate, and a data point for Analytics Engine (docs/MONITORING.md).

import { isLogged, isSampled, isWithinLimit, logLine } from './log.js';
import { now } from './timing.js';

/** A request that takes longer is slow. */
const SLOW_MS = 1000;

/** The upper bounds of the histogram's buckets, in seconds. Longer requests are in one more bucket. */
const BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 10, 30];

const REQUEST_ID = 'x-request-id';

/** The hashes of the namespaces that had a log line or a data point. @type {Map<string, string>} */
const hashes = new Map();
const MAX_HASHES = 1000;

/**
 * Returns a route with the counts of its requests: by method and status, and by duration.
 * @param {string} pattern
 */
const newRoute = (pattern) => ({
  pattern,
  /** The key is a number, because texts take longer to look up. @type {Map<number, {method: string, status: number, count: number}>} */
  requests: new Map(),
  buckets: [...BOUNDS, Infinity].map(() => 0),
  seconds: 0,
  count: 0,
});

/** The route of a request whose path belongs to no route. */
const noRoute = newRoute('none');
const routes = [noRoute];

/** A node of the tree of all paths: the nodes of the next literal segment by its hash, that of a parameter, and the route that ends here. */
class PathNode {
  /** @type {Map<number, PathNode>} */
  literals = new Map();
  /** @type {PathNode | undefined} */
  parameter;
  route = noRoute;

  /** Returns the node of the next segment of a pattern. @param {string} segment */
  add(segment) {
    if (segment.startsWith('{')) return (this.parameter ??= new PathNode());
    let hash = 0;
    for (let i = 0; i < segment.length; i += 1) hash = nextHash(hash, segment.charCodeAt(i));
    const node = this.literals.get(hash) ?? new PathNode();
    this.literals.set(hash, node);
    return node;
  }
}

/** Returns the hash of a text with one more character. @param {number} hash @param {number} code */
const nextHash = (hash, code) => (Math.imul(hash, 31) + code) | 0;

const root = new PathNode();

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
    let node = root;
    for (const segment of pattern.split('/').slice(1)) node = node.add(segment);
    node.route = newRoute(pattern);
    routes.push(node.route);
  }
}

const [SLASH, QUESTION_MARK] = [...'/?'].map((text) => text.charCodeAt(0));

/**
 * Returns the route of a request. Reads each character once, and creates no text: it runs for each request. Another segment with the hash of
 * a literal counts as that literal.
 * @param {string} url absolute
 */
function routeOf(url) {
  /** @type {PathNode | undefined} */
  let node = root;
  let hash = 0;
  // The path begins at the first slash after `https://`.
  for (let i = url.indexOf('/', 8) + 1; ; i += 1) {
    const code = i < url.length ? url.charCodeAt(i) : QUESTION_MARK;
    if (code === SLASH || code === QUESTION_MARK) {
      node = node.literals.get(hash) ?? node.parameter;
      if (node === undefined) return noRoute;
      if (code === QUESTION_MARK) return node.route;
      hash = 0;
    } else hash = nextHash(hash, code);
  }
}

/**
 * Starts to observe a request. Returns what the worker reads of it: the runtime creates a new text for each read of `method` and `url`.
 * @param {Request} request
 */
export function begin(request) {
  const { method, url, headers } = request;
  return { request, method, url, headers, startedAt: now(), namespace: /** @type {string | undefined} */ (undefined) };
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
 * @param {ReturnType<typeof begin>} incoming
 * @param {Response} response
 * @param {{METRICS?: {writeDataPoint: (point: object) => void}}} env
 * @param {{waitUntil: (work: Promise<void>) => void}} context
 * @returns {Response}
 */
export function end(incoming, response, env, context) {
  const { status } = response;
  const method = METHODS.indexOf(incoming.method);
  const route = routeOf(incoming.url);
  const ms = now() - incoming.startedAt;
  count(route, method, status, ms);
  const id = nextId();
  const isSignIn = status === 401 && route.pattern === '/api/auth';
  // A page may report for a subscription that has just ended. It then subscribes again.
  const isExpected = status < 400 || (status === 404 && route.pattern === '/api/visibility');
  const level = levelOf(status, !isExpected || ms > SLOW_MS, isSignIn, incoming.namespace !== undefined);
  if ((level !== undefined && isLogged(level)) || env.METRICS !== undefined) {
    const timing = response.headers.get('server-timing') ?? '';
    // A client of a local hub can send any text as its address.
    const client = isSignIn ? (incoming.headers.get('cf-connecting-ip') ?? '').slice(0, 45) : undefined;
    const details = { method: nameOf(method), route: route.pattern, status, client, ms: { total: ms, ...partsOf(timing) }, requestId: id };
    context.waitUntil(report(level, isSignIn, incoming.namespace, details, env.METRICS));
  }
  return addId(response, id);
}

/** Reports a request to the log, unless `level` is undefined, and to Analytics Engine. Not in `end`: a closure there would cost each request. */
async function report(level, isSignIn, namespace, details, metrics) {
  const hash = await hashOf(namespace);
  const fields = JSON.stringify({ namespace: hash, ...details }).slice(1, -1);
  if (level !== undefined) logLine(level, isSignIn ? 'sign-in-refused' : 'request', `,${fields}`);
  const { method, route, status, ms } = details;
  metrics?.writeDataPoint({ indexes: [hash ?? ''], blobs: ['request', method, route, String(status)], doubles: [ms.total] });
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

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS'];

/** Returns the name of a method by its index. Clients may send any method. */
const nameOf = (method) => METHODS[method] ?? 'other';

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

/** Counts a request to a route. `method`: its index. */
function count(route, method, status, ms) {
  const key = 10 * status + method;
  const requests = route.requests.get(key);
  if (requests === undefined) route.requests.set(key, { method: nameOf(method), status, count: 1 });
  else requests.count += 1;
  const seconds = ms / 1000;
  route.seconds += seconds;
  route.count += 1;
  let bucket = 0;
  while (seconds > BOUNDS[bucket]) bucket += 1;
  route.buckets[bucket] += 1;
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
    for (const { method, status, count } of requests.values()) {
      lines.push(`hub_requests_total{method="${method}",route="${pattern}",status="${status}"} ${count}`);
    }
  }
  const name = 'hub_request_duration_seconds';
  lines.push(`# HELP ${name} The time until the response began.`, `# TYPE ${name} histogram`);
  for (const { pattern, buckets, seconds, count } of used) {
    let total = 0;
    buckets.forEach((inBucket, index) => {
      total += inBucket;
      lines.push(`${name}_bucket{route="${pattern}",le="${BOUNDS[index] ?? '+Inf'}"} ${total}`);
    });
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
