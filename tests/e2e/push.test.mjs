/** Web push end to end. A local push service checks the VAPID signature and decrypts the messages. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deferred, eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';
import { PushService } from './lib/push-service.mjs';
import { READY } from './lib/records.mjs';

const service = await new PushService().start({ after });
const vars = { PUSH_ALLOW_INSECURE: 'true', PUSH_MAX_SUBSCRIPTIONS: '200', VAPID_SUBJECT: 'mailto:ops@example.org' };
const hub = await startHub({ after }, { vars });

async function subscribe(namespace, answer) {
  const browser = service.addBrowser(answer);
  const { status, text } = await hub.web(namespace).post('/api/push/subscribe', browser.subscription);
  assert.equal(status, 200, text);
  return browser;
}

/** Waits until the newest entry of the push log has this outcome, and returns all entries. */
function waitForOutcome(namespace, outcome) {
  return eventually(async () => {
    const { log } = (await hub.web(namespace).get('/api/push/log')).body;
    return log[0]?.outcome === outcome && log;
  }, `the outcome ${outcome}`);
}

describe('a push', { concurrency: true }, () => {
  test('of a permission request reaches its subscriber, encrypted and signed', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'asks', tag: 'demo', metadata: { name: 'Démo 🦀' } });
    const browser = await subscribe('asks');
    await cli.emitWithAck('update-state', {
      sid: session.id,
      expectedVersion: 1,
      agentState: { requests: { r1: { tool: 'shell', arguments: {} } } },
    });
    const { payload, headers, claims } = await browser.next();
    const { answerToken, sentAt, ...data } = payload.data;
    assert.match(answerToken, /^sga_[\w-]+\.[\w-]+$/);
    assert.ok(Math.abs(Date.now() - sentAt) < 60_000);
    assert.deepEqual(
      { ...payload, data },
      {
        title: 'Permission Request',
        body: 'Démo 🦀 (shell)',
        tag: `permission-${session.id}`,
        data: {
          sessionId: session.id,
          requestId: 'r1',
          url: `/sessions/${session.id}`,
          session: 'Démo 🦀',
          agent: 'Alpha',
          tool: 'shell',
          request: { tool: 'shell', arguments: {} },
          namespace: 'asks',
        },
      },
    );
    const { publicKey } = (await hub.web('asks').get('/api/push/vapid-public-key')).body;
    assert.equal(claims.key, publicKey);
    assert.equal(claims.aud, service.origin);
    assert.equal(claims.sub, 'mailto:ops@example.org');
    const remainingSeconds = claims.exp - Date.now() / 1000;
    assert.ok(remainingSeconds > 11 * 3600 && remainingSeconds <= 12 * 3600, `${remainingSeconds} s`);
    assert.equal(headers['content-encoding'], 'aes128gcm');
    assert.equal(headers.urgency, 'high');
    assert.ok(Number(headers.ttl) > 0);
    assert.match(headers.topic, /^[\w-]{32}$/);
    const [entry] = await waitForOutcome('asks', 'sent');
    assert.deepEqual([entry.sent, entry.failed, entry.sessionId], [1, 0, session.id]);
  });

  test('follows the push service’s answer: 410, 413, 429, 403 or a redirect', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'odd', tag: 'demo', metadata: { name: 'n'.repeat(200) } });
    const respondAlways = (status, headers) => () => ({ status, headers });
    await subscribe('odd', respondAlways(410));
    await subscribe('odd', respondAlways(403));
    await subscribe('odd', respondAlways(302, { location: `${service.origin}/elsewhere` }));
    const small = await subscribe('odd', ({ body }) => ({ status: body.length > 3_000 ? 413 : 201 }));
    let isBusy = true;
    const busy = await subscribe('odd', () => (isBusy ? { status: 429, headers: { 'retry-after': '1' } } : {}));
    const requests = { r1: { tool: 'T'.repeat(9_000), arguments: {} } };
    await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
    const [first, second] = [await small.next(), await small.next()];
    assert.ok(first.body.length <= 4096 && second.body.length < first.body.length);
    assert.deepEqual(second.payload.data, first.payload.data);
    const refused = await busy.next();
    isBusy = false;
    const retried = await busy.next();
    assert.ok(retried.receivedAt - refused.receivedAt >= 900, 'Retry-After is respected');
    const [entry] = await waitForOutcome('odd', 'sent');
    assert.deepEqual([entry.sent, entry.failed], [2, 3]);
    assert.deepEqual(entry.failures.map(({ status }) => status).sort(), [302, 403, 410]);
    assert.ok(!service.messages.some(({ path }) => path === '/elsewhere'));
    const { results } = await (await hub.database()).prepare("SELECT count(*) AS n FROM push_subscriptions WHERE namespace = 'odd'").all();
    assert.equal(results[0].n, 4);
  });
});

test('20 subscribers get a push, and a message is accepted while the push services do not answer', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'many', tag: 'demo' });
  const release = deferred();
  const browsers = [];
  for (let n = 0; n < 20; n += 1) browsers.push(await subscribe('many', () => release.promise));
  await cli.sendMessage(session.id, READY);
  const arrivedPaths = () =>
    new Set(service.messages.map(({ path }) => path).filter((path) => browsers.some((browser) => browser.path === path)));
  await eventually(() => arrivedPaths().size > 0, 'the first push');
  assert.equal((await cli.sendMessage(session.id, 'meanwhile')).seq, 2);
  release.resolve({});
  await eventually(() => arrivedPaths().size === 20, '20 pushes');
});
