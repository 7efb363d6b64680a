/** The header `Server-Timing`: the responses that have it, and its figures about hibernation and the database. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startHub } from './lib/hub.mjs';

const ORIGIN = 'https://console.example';

const hub = await startHub({ after }, { vars: { CORS_ORIGINS: ORIGIN } });

const timingOf = ({ headers }) => headers['server-timing'];
const awakeMs = (answer) => Number(/awake;dur=(\d+)/.exec(timingOf(answer))[1]);

test('responses to a valid token say how long worker, object and database took', async () => {
  const web = hub.web('timed');
  const { id } = await web.openSession({ tag: 'timed' });
  const written = await web.patch(`/api/sessions/${id}`, { name: 'Renamed' });
  assert.match(timingOf(written), /^object;dur=\d+, awake;dur=\d+, d1;dur=\d+;desc="batches=1", worker;dur=\d+$/);
  const read = await web.get(`/api/sessions/${id}`);
  assert.match(timingOf(read), /d1;dur=0;desc="batches=0", worker/, 'a session in memory needs no database');
  assert.match(timingOf(await web.get('/api/sessions/none')), /^object.* worker/, 'errors have it, too');
  assert.match(timingOf(await web.get(`/api/sessions/${id}/messages`)), /^worker;dur=\d+$/, 'the worker answers this one itself');
});

test('responses without a valid token do not have the header', async () => {
  const session = await hub.web('timed').openSession({ tag: 'timed' });
  const stranger = hub.web('timed', 'wrong token');
  const answers = [
    await hub.webWithoutToken().get('/health'),
    await stranger.get('/api/sessions'),
    await stranger.get(`/api/sessions/${session.id}/messages`),
    await stranger.post('/api/auth', { accessToken: 'wrong token' }),
    await stranger.get('/socket.io/?EIO=4&transport=polling'),
  ];
  assert.deepEqual(
    answers.map((answer) => [answer.status, timingOf(answer)]),
    [200, 401, 401, 401, 400].map((status) => [status, undefined]),
  );
});

test('the header shows that an object was loaded again after hibernation', async () => {
  const web = hub.web('sleeps');
  const { id } = await web.openSession({ tag: 'sleeps' });
  const before = awakeMs(await web.get(`/api/sessions/${id}`));
  const later = awakeMs(await web.get(`/api/sessions/${id}`));
  assert.ok(later >= before, `${before}, then ${later}`);
  await hub.hibernate('sleeps');
  const started = Date.now();
  const woken = awakeMs(await web.get(`/api/sessions/${id}`));
  // The object's clock and that of the test differ a little.
  assert.ok(woken <= Date.now() - started + 2_000, `${woken} ms`);
});

test('pages of allowed origins may read the header', async () => {
  const { headers } = await hub.web('timed').get('/api/sessions', { headers: { origin: ORIGIN } });
  assert.equal(headers['access-control-expose-headers'], 'retry-after, server-timing, x-request-id');
  assert.equal(headers['timing-allow-origin'], ORIGIN);
  assert.match(headers['server-timing'], /worker/);
});
