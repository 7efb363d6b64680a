// `npm run smoke`: the clean-up after faults, skipped checks, and the output. The end-to-end tests run the whole command.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSleep } from '../product/smoke/checks.mjs';
import { Failure, Skipped, SmokeClient } from '../product/smoke/client.mjs';
import { Figures, parseServerTiming } from '../product/smoke/figures.mjs';
import { describeReport } from '../product/smoke/report.mjs';
import { startServer } from './support/fake-server.mjs';

/**
 * Starts a hub that has only sessions.
 * @param {(request: string) => 'drop' | number | undefined} faultOf gets the method and the path. Result `drop`: the hub handles the request,
 *   but the answer is lost. A number: the hub refuses the request with this status
 */
async function startFakeHub(t, faultOf = () => undefined) {
  const sessions = new Map();
  const serve = (method, path, /** @type {{tag?: string}} */ { tag } = {}) => {
    if (path === '/cli/sessions') {
      if (!sessions.has(tag)) sessions.set(tag, { id: `id-${sessions.size}`, active: true });
      return { status: 200, body: { session: { id: sessions.get(tag).id } } };
    }
    const id = path.split('/')[3];
    const found = [...sessions].find(([, session]) => session.id === id);
    if (!found) return { status: 404, body: { error: 'There is no such session.' } };
    if (method === 'POST') found[1].active = false;
    else if (found[1].active) return { status: 409, body: { error: 'The session is active.' } };
    else sessions.delete(found[0]);
    return { status: 200, body: { ok: true } };
  };
  const { url } = await startServer(t, async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const fault = faultOf(`${request.method} ${request.url}`);
    const refused = typeof fault === 'number' && { status: fault, body: { error: 'Try again.' } };
    const { status, body } = refused || serve(request.method, request.url, text ? JSON.parse(text) : undefined);
    if (fault === 'drop') return request.socket.destroy();
    response.writeHead(status, { 'cf-ray': '8f2a-LHR', 'server-timing': 'd1;dur=7;desc="batches=1 region=WEUR"' });
    return response.end(JSON.stringify(body));
  });
  return { sessions, url };
}

/** Makes a function for {@link startFakeHub} that returns `fault` for the first request that starts with `prefix`. */
function faultOnce(prefix, fault) {
  let isDone = false;
  return (request) => {
    if (isDone || !request.startsWith(prefix)) return undefined;
    isDone = true;
    return fault;
  };
}

describe('the clean-up', () => {
  test('deletes the sessions of this run only', async (t) => {
    const hub = await startFakeHub(t);
    hub.sessions.set('other', { id: 'id-of-another', active: true });
    const smoke = new SmokeClient({ url: hub.url, token: 'token' });
    await Promise.all(['a', 'b', 'c'].map((name) => smoke.openSession(name)));
    assert.equal(hub.sessions.size, 4);
    assert.equal(await smoke.cleanUp(), 3);
    assert.deepEqual([...hub.sessions.keys()], ['other']);
    await assert.rejects(smoke.openSession('d'), /run was ended/);
  });

  for (const [what, prefix, fault] of [
    ['refused', 'DELETE', 503],
    ['lost', 'DELETE', 'drop'],
    ['refused', 'POST /api', 503],
  ]) {
    test(`tries again after a ${prefix} was ${what}`, async (t) => {
      const hub = await startFakeHub(t, faultOnce(prefix, fault));
      const smoke = new SmokeClient({ url: hub.url, token: 'token' });
      await smoke.openSession('a');
      assert.equal(await smoke.cleanUp(), 1);
      assert.equal(hub.sessions.size, 0);
    });
  }

  test('deletes a session that was created although the answer was lost', async (t) => {
    const hub = await startFakeHub(t, faultOnce('POST /cli/sessions', 'drop'));
    const smoke = new SmokeClient({ url: hub.url, token: 'token' });
    await assert.rejects(smoke.openSession('a'), Failure);
    assert.equal(hub.sessions.size, 1);
    await smoke.cleanUp();
    assert.equal(hub.sessions.size, 0);
  });

  test('waits for sessions that are being created', async (t) => {
    const hub = await startFakeHub(t);
    const smoke = new SmokeClient({ url: hub.url, token: 'token' });
    const opening = smoke.openSession('a');
    await smoke.cleanUp();
    await opening;
    assert.equal(hub.sessions.size, 0);
  });

  test('names the sessions that it could not delete', async (t) => {
    const hub = await startFakeHub(t, (request) => (request.startsWith('DELETE') ? 503 : undefined));
    const smoke = new SmokeClient({ url: hub.url, token: 'token', cleanUpTimeoutMs: 0 });
    await smoke.openSession('a');
    await assert.rejects(
      smoke.cleanUp(),
      (error) =>
        error instanceof Failure &&
        /^Not deleted: id-0\. Delete these sessions in the console\. The cause: .*status 503: Try again\.$/.test(error.message),
    );
  });
});

test('the regions are read from the responses of the platform', async (t) => {
  const hub = await startFakeHub(t);
  const smoke = new SmokeClient({ url: hub.url, token: 'token' });
  await smoke.openSession('a');
  await smoke.cleanUp();
  assert.deepEqual(smoke.regions, { worker: new Set(['LHR']), d1: new Set(['WEUR']) });
});

describe('the check of hibernation', () => {
  const awake = 1_000_000;
  const smoke = { stopKeepAlives() {}, startKeepAlive() {}, request: async () => ({ timing: { awake } }) };
  const check = (otherActive) => checkSleep(smoke, new Figures(), { id: 'id', cli: {}, otherActive }, [0.001, 0.002]);

  test('fails if the object stays awake', async () => {
    await assert.rejects(check(0), (error) => error instanceof Failure && /did not sleep within 0.002 s/.test(error.message));
  });

  test('is skipped if sessions of other users keep the object awake', async () => {
    await assert.rejects(check(3), (error) => error instanceof Skipped && /3 active sessions of others/.test(error.message));
  });
});

describe('figures', () => {
  test('are read from Server-Timing, of which any part may be absent', () => {
    const full = 'object;dur=31, awake;dur=184201, d1;dur=29;desc="batches=2 region=WEUR", worker;dur=38';
    assert.deepEqual(parseServerTiming(full), { object: 31, awake: 184201, d1: 29, batches: 2, region: 'WEUR', worker: 38 });
    assert.deepEqual(parseServerTiming('d1;dur=0;desc="batches=0"'), { d1: 0, batches: 0, region: undefined });
    assert.deepEqual(parseServerTiming('worker;dur=3'), { worker: 3 });
    assert.deepEqual(parseServerTiming(undefined), {});
  });

  test('are medians and 99th percentiles', () => {
    const figures = new Figures();
    for (let ms = 1; ms <= 200; ms += 1) figures.add(ms, ms > 100 ? { worker: ms } : {});
    assert.deepEqual(figures.summarize(), { count: 200, p50: 100, p99: 198, server: { worker: { count: 100, p50: 150, p99: 199 } } });
    assert.deepEqual(new Figures().summarize(), { count: 0, server: {} });
  });
});

test('the report has a table, the regions, and the reason of each failure', () => {
  const check = (name, result, detail, rest) => ({ name, result, detail, count: 0, server: {}, ...rest });
  const text = describeReport({
    hub: 'https://hub.example.com',
    version: '0.1.0',
    passed: false,
    seconds: 61,
    regions: { worker: ['LHR'], d1: [] },
    checks: [
      check('rpc', 'ok', '', { count: 50, p50: 12.3, p99: 104.6, server: { worker: { p50: 3, p99: 40 }, batches: { p50: 0, p99: 1 } } }),
      check('upload', 'failed', 'The upload failed: no answer.'),
      check('replay', 'skipped', 'needs events'),
    ],
  });
  const lines = text.split('\n');
  assert.deepEqual(lines.slice(0, 2), ['Hub: https://hub.example.com, version 0.1.0', 'Regions: worker LHR; object unknown; D1 unknown']);
  assert.match(text, /^rpc +ok +50 +12.3 ms +105 ms +3 \/ 40 ms +0$/m);
  assert.deepEqual(lines.slice(-5), [
    'Failed:',
    '  upload: The upload failed: no answer.',
    'Skipped:',
    '  replay: needs events',
    'FAILED: 1 of 3 checks, in 61 s.',
  ]);
});
