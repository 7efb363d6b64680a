/** Tests of what is logged and counted of the requests to the worker. */

import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { configureLog } from './log.js';
import { begin, configureRoutes, end, isolateMetrics, objects, reportObjects } from './requests.js';

configureRoutes(
  ['/api/sessions', '/api/sessions/{id}', '/api/devices/{id}', '/api/devices/codes', '/api/devices/codes/{deviceId}', '/socket.io/'].join(
    '\n',
  ),
);

let time = 0;
mock.method(performance, 'now', () => time);
mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 1) });
const random = mock.method(Math, 'random', () => 0.5);

/**
 * Answers a request to the worker.
 * @returns the id of the response, and the log lines
 */
async function answer({ path = '/api/sessions/one', status = 200, ms = 5 } = {}) {
  const lines = [];
  const write = (line) => lines.push(JSON.parse(line));
  const consoles = ['log', 'warn', 'error'].map((name) => mock.method(console, /** @type {'log'} */ (name), write));
  const observed = begin(new Request(`https://hub.example${path}`));
  time += ms;
  const reports = [];
  const context = { waitUntil: (report) => reports.push(report) };
  const id = end(observed, new Response(null, { status }), {}, context).headers.get('x-request-id');
  await Promise.all(reports);
  for (const method of consoles) method.mock.restore();
  return { id, lines };
}

test('a request that is slow or failed has a line with its id, and of the others as many as the sample rate says', async () => {
  configureLog('info', 10_000);
  assert.deepEqual((await answer()).lines, []);
  assert.deepEqual((await answer({ ms: 1_000 })).lines, []);
  const slow = await answer({ ms: 1_001 });
  const expected = { time: '2026-01-01T00:00:00.000Z', event: 'request', method: 'GET', route: '/api/sessions/{id}' };
  assert.deepEqual(slow.lines, [{ ...expected, level: 'warn', status: 200, ms: { total: 1_001 }, requestId: slow.id }]);
  const failed = await answer({ status: 503 });
  assert.deepEqual(failed.lines, [{ ...expected, level: 'error', status: 503, ms: { total: 5 }, requestId: failed.id }]);
  random.mock.mockImplementation(() => 0.00999);
  assert.deepEqual(
    (await answer()).lines.map(({ level }) => level),
    ['info'],
  );
  random.mock.mockImplementation(() => 0.01);
  assert.deepEqual((await answer()).lines, []);
  configureLog('warn', 1_000_000);
  assert.deepEqual((await answer()).lines, []);
  configureLog('error', 1_000_000);
  assert.deepEqual((await answer({ status: 404 })).lines, []);
  assert.equal((await answer({ status: 500 })).lines.length, 1);
});

test('of refused requests, 60 a minute have a line, and the next minute begins with the number of the omitted ones', async () => {
  configureLog('info', 0);
  mock.timers.tick(60_000);
  const lines = [];
  for (let n = 0; n < 75; n += 1) lines.push(...(await answer({ status: 401 })).lines);
  assert.equal(lines.length, 60);
  assert.equal((await answer({ status: 500 })).lines.length, 1, 'errors are not limited');
  mock.timers.tick(60_000);
  const [omitted, next] = (await answer({ status: 401 })).lines;
  assert.deepEqual([omitted.event, omitted.kind, omitted.count], ['lines-omitted', 'request of a stranger', 15]);
  assert.equal(next.event, 'request');
});

test('the metrics of the isolate have the requests by route and status, and the times by route', async () => {
  await answer({ path: '/api/sessions?cursor=secret', ms: 30 });
  await answer({ path: '/api/sessions', ms: 2_000, status: 503 });
  await answer({ path: '/nowhere/secret', status: 404 });
  const text = isolateMetrics();
  for (const line of [
    'hub_requests_total{method="GET",route="/api/sessions",status="200"} 1',
    'hub_requests_total{method="GET",route="/api/sessions",status="503"} 1',
    'hub_requests_total{method="GET",route="none",status="404"} 1',
    'hub_request_duration_seconds_bucket{route="/api/sessions",le="0.025"} 0',
    'hub_request_duration_seconds_bucket{route="/api/sessions",le="0.05"} 1',
    'hub_request_duration_seconds_bucket{route="/api/sessions",le="+Inf"} 2',
    'hub_request_duration_seconds_sum{route="/api/sessions"} 2.03',
  ]) {
    assert.ok(text.split('\n').includes(line), `${line}\n${text}`);
  }
  assert.ok(!text.includes('secret'));
});

test('a request belongs to the route with its literal segments, else to the one with a parameter there', async () => {
  const paths = [
    '/api/devices/codes',
    '/api/devices/codes/',
    '/api/devices/codes/7?a=/b',
    '/api/devices/codex',
    '/api/devices/a/b',
    '/socket.io/?EIO=4',
    '/',
  ];
  for (const path of paths) await answer({ path, status: 299 });
  const counted = [...isolateMetrics().matchAll(/route="([^"]*)",status="299"} (\d+)/g)].map(([, route, count]) => [route, Number(count)]);
  assert.deepEqual(Object.fromEntries(counted), {
    none: 2,
    '/api/devices/{id}': 1,
    '/api/devices/codes': 1,
    '/api/devices/codes/{deviceId}': 2,
    '/socket.io/': 1,
  });
});

test('the objects that an isolate loads and loses are in its metrics, and once in a data point', () => {
  const points = [];
  const env = { METRICS: { writeDataPoint: (point) => points.push(point) } };
  objects.loaded += 3;
  objects.evicted += 1;
  for (let n = 0; n < 2; n += 1) reportObjects(env);
  objects.loaded += 1;
  reportObjects(env);
  assert.deepEqual(points, [
    { indexes: [''], blobs: ['isolate'], doubles: [3, 1] },
    { indexes: [''], blobs: ['isolate'], doubles: [1, 0] },
  ]);
  assert.match(isolateMetrics(), /^hub_objects_loaded_total 4\n[^]*^hub_objects_evicted_total 1$/m);
});
