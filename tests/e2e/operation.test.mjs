/** What an operator sees of a running hub: log lines, metrics and the status of a namespace. */

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import http from 'node:http';
import { after, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { ANALYTICS_WORKER, SECRET, startHub } from './lib/hub.mjs';

const METRICS_TOKEN = 'a token for metrics';

const hub = await startHub({ after }, { vars: { LOG_LEVEL: 'debug', LOG_SAMPLE_RATE: '1', METRICS_TOKEN } });

const hashOf = (namespace) => createHash('sha256').update(namespace).digest('hex').slice(0, 12);

/** Waits for the log line of a response. */
async function lineOf({ headers }) {
  const id = headers['x-request-id'];
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]+$/);
  return eventually(() => hub.logLines().find(({ requestId }) => requestId === id), `the log line of ${id}`);
}

/** Reads metrics in the text format of Prometheus: the values by their names with labels. */
async function readMetrics(query = '') {
  const response = await fetch(`${hub.url}/metrics${query}`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const samples = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(samples.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]));
}

test('the log line of a request has its route, namespace, status and times, and the id of the response', async () => {
  const web = hub.web('logged');
  const { id } = await web.openSession({ tag: 'logged' });
  const { time, ms, requestId, ...line } = await lineOf(await web.get(`/api/sessions/${id}?secret=query`));
  assert.deepEqual(line, {
    level: 'info',
    event: 'request',
    namespace: hashOf('logged'),
    method: 'GET',
    route: '/api/sessions/{id}',
    status: 200,
  });
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
  assert.deepEqual(Object.keys(ms), ['total', 'object', 'd1', 'worker']);
  const missing = await lineOf(await web.get('/api/sessions/none'));
  assert.deepEqual([missing.level, missing.status, missing.route], ['warn', 404, '/api/sessions/{id}']);
  const unknown = await lineOf(await web.get('/api/a/path/of/nobody'));
  assert.deepEqual([unknown.status, unknown.route], [404, 'none']);
  const page = await lineOf(await web.get(`/api/sessions/${id}/messages`));
  assert.deepEqual([page.namespace, page.route], [hashOf('logged'), '/api/sessions/{id}/messages']);
});

test('a report about a subscription that has ended is no warning', async () => {
  const late = await lineOf(await hub.web('logged').post('/api/visibility', { subscriptionId: 'ended', visibility: 'hidden' }));
  assert.deepEqual([late.level, late.status, late.route], ['info', 404, '/api/visibility']);
});

test('a refused sign-in has a line with the address of the client', async () => {
  const refused = await hub
    .webWithoutToken()
    .post('/api/auth', { accessToken: 'wrong' }, { headers: { 'cf-connecting-ip': '203.0.113.9' } });
  const line = await lineOf(refused);
  assert.deepEqual([line.event, line.status, line.client], ['sign-in-refused', 401, '203.0.113.9']);
});

test('a CLI with a wrong token has a line', async (t) => {
  for (const tokenIn of /** @type {const} */ (['connect', 'header'])) await assert.rejects(connectCli(t, hub, { token: 'wrong', tokenIn }));
  const line = await eventually(() => hub.logLines().find(({ event }) => event === 'connect-refused'), 'the line');
  assert.deepEqual([line.level, line.namespace, JSON.stringify(line).includes('wrong')], ['warn', undefined, false]);
});

test('metrics count the requests of the isolate, and the calls, commits and sockets of a namespace', async (t) => {
  const { session } = await liveSession(t, hub, { tag: 'measured', namespace: 'measured' });
  const web = hub.web('measured');
  const name = 'hub_requests_total{method="GET",route="/api/sessions/{id}",status="200"}';
  const before = (await readMetrics()).get(name) ?? 0;
  for (let n = 0; n < 3; n += 1) await web.get(`/api/sessions/${session.id}`);
  const isolate = await readMetrics();
  assert.equal(isolate.get(name), before + 3);
  assert.ok(isolate.get('hub_request_duration_seconds_count{route="/api/sessions/{id}"}') >= 3);
  const object = await readMetrics('?namespace=measured');
  assert.equal(object.get('hub_sockets{kind="cli"}'), 1);
  assert.ok(object.get('hub_commits_total{outcome="written"}') >= 1);
  assert.ok(object.get('hub_database_rows_written') >= 1);
  for (const headers of [{}, { authorization: `Bearer ${SECRET}` }]) {
    assert.equal((await fetch(`${hub.url}/metrics`, { headers })).status, 401);
  }
});

test('Analytics Engine gets a point for each request, one of what has happened in a namespace, and one of its gauges', async (t) => {
  const reporting = await startHub(t, { wrappers: ANALYTICS_WORKER });
  const points = () => {
    const lines = reporting.stdout.all.join('').split('\n');
    return lines.filter((line) => line.startsWith('{"dataPoint":')).map((line) => JSON.parse(line).dataPoint);
  };
  const { id } = await reporting.web('reported').openSession({ tag: 'reported' });
  await reporting.web('reported').get(`/api/sessions/${id}`);
  const namespace = hashOf('reported');
  const isRequest = ({ indexes: [index], blobs }) => index === namespace && blobs.join(' ') === 'request GET /api/sessions/{id} 200';
  await eventually(() => points().some(isRequest), 'the point of the request');
  await reporting.advance('reported', 5_000);
  const object = await eventually(() => points().find(({ blobs: [kind] }) => kind === 'object'), 'the point of the namespace');
  assert.equal(object.indexes[0], namespace);
  // The numbers of docs/MONITORING.md: one batch wrote the session, nothing waits, and the isolate holds what its only namespace holds.
  assert.deepEqual([object.doubles.length, object.doubles[5], object.doubles[17]], [19, 1, 1]);
  const gauges = await eventually(() => points().find(({ blobs: [kind] }) => kind === 'gauges'), 'the point of the gauges');
  const [clis, webClients, active, cached, queued, held, isolateHeld, awake, batches, read, written] = gauges.doubles;
  assert.deepEqual([gauges.indexes[0], gauges.doubles.length], [namespace, 11]);
  assert.deepEqual([clis, webClients, active, cached, queued], [0, 0, 0, 1, 0]);
  assert.ok(held > 0 && held === isolateHeld && awake >= 5 && batches >= 1 && read >= 1 && written >= 1, gauges.doubles.join());
  const isolate = await eventually(() => points().find(({ blobs: [kind] }) => kind === 'isolate'), 'the point of the isolate');
  assert.deepEqual(isolate.doubles, [1, 0]);
});

test('10,000 log lines contain no token, content, query string, title or name', { timeout: 600_000 }, async (t) => {
  const secrets = Array.from({ length: 50 }, (_, n) => `planted${n}x${randomBytes(8).toString('hex')}`);
  const [title, text, tag, query, agentName, path, body, accessToken, endpoint, file, namespace, ...rest] = secrets;
  const { session, cli } = await liveSession(t, hub, { tag, namespace, metadata: { path, host: agentName } });
  const web = hub.web(namespace);
  const agent = new http.Agent({ keepAlive: true });
  web.agent = agent;
  t.after(() => agent.destroy());
  await web.patch(`/api/sessions/${session.id}`, { name: title });
  await cli.sendMessage(session.id, text);
  const jwt = (await web.post('/api/auth', { accessToken: hub.token(namespace) })).body.token;
  const requests = [
    () => web.get(`/api/sessions?cursor=${query}`),
    () => web.get(`/api/sessions/${session.id}/files?query=${query}`),
    () => web.get(`/api/sessions/${session.id}/file?path=${file}`),
    () => web.post(`/api/sessions/${session.id}/messages`, { text: body }),
    () => web.post('/api/push/subscribe', { endpoint: `https://push.example/${endpoint}`, keys: { p256dh: endpoint, auth: endpoint } }),
    () => hub.web(namespace, jwt).get('/api/sessions'),
    () => hub.web(namespace, accessToken).get('/api/sessions'),
    () => web.request('HEAD', `/api/events?token=${jwt}&${query}`),
    ...rest.map((secret) => () => web.get(`/api/sessions/${secret}`)),
    ...rest.map((secret) => () => web.get(`/api/${secret}?${secret}=${secret}`)),
    ...rest.map((secret) => () => web.post(`/api/sessions/${session.id}/permissions/${secret}/approve`, { mode: secret })),
  ];
  const before = hub.logLines().length;
  let next = 0;
  const lane = async () => {
    for (let n = next++; n < 14_000; n = next++)
      await (n % 4 === 0 ? requests[n % requests.length]() : web.get(`/api/sessions/${session.id}`));
  };
  cli.socket.emit('unknown', { [rest[1]]: rest[2] });
  await Promise.all(Array.from({ length: 16 }, lane));
  // Lines about refusals are limited: each minute, the rest is one line.
  await eventually(() => hub.logLines().length - before >= 10_000, 'the lines of the requests');
  const output = [hub.stdout, hub.stderr].map(({ all }) => all.join('')).join('');
  for (const secret of [...secrets, SECRET, jwt]) assert.ok(!output.includes(secret), `${secret} is in the log`);
  assert.ok(hub.logLines().some(({ route }) => route === '/api/sessions/{id}/permissions/{requestId}/approve'));
});
