/** Devices: a device is added; a revoked device loses its open connections, and the other devices keep theirs. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, ROOT, SECRET, startHub } from './lib/hub.mjs';
import { PushService } from './lib/push-service.mjs';

/** How long the worker believes a token after it asked the object. */
const TOKEN_CACHE_MS = 10_000;

const service = await new PushService().start({ after });
const hub = await startHub({ after }, { vars: { PUSH_ALLOW_INSECURE: 'true' }, wrappers: CLOCK_WORKER });

/** Adds a device with a code. Returns its id, its token, and a web client with this token. */
async function addDevice(namespace, name) {
  const { code } = (await hub.web(namespace).post('/api/devices/codes', {})).body;
  const { status, body, text } = await hub.webWithoutToken().post('/api/devices', { code, name, kind: 'browser' });
  assert.equal(status, 200, text);
  assert.equal(body.namespace, namespace);
  return { id: body.device.id, token: body.token, web: hub.web(namespace, body.token) };
}

/** Opens an event socket, and waits for its first event. */
async function openSocket(t, { url, token }) {
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/events?token=${token}`);
  t.after(() => socket.close());
  await new Promise((resolve) => socket.addEventListener('message', resolve, { once: true }));
  return socket;
}

/** Opens each kind of connection that a device can have, and subscribes the device to notifications. */
async function openConnections(t, namespace, device, sessionId) {
  const { body } = await hub.webWithoutToken().post('/api/auth', { accessToken: device.token });
  const jwt = hub.web(namespace, body.token);
  const cli = await connectCli(t, hub, { token: device.token, auth: { sessionId } });
  const cliWithHeader = await connectCli(t, hub, { token: device.token, tokenIn: 'header', auth: { sessionId } });
  const sockets = [await openSocket(t, device.web), await openSocket(t, jwt)];
  const feeds = [await device.web.openStream(), await jwt.openStream()];
  for (const feed of feeds) {
    t.after(() => feed.close());
    await feed.waitForGreeting();
  }
  const browser = service.addBrowser();
  const subscribed = await jwt.post('/api/push/subscribe', browser.subscription);
  assert.equal(subscribed.status, 200, subscribed.text);
  return { jwt, clis: [cli, cliWithHeader], sockets, feeds, browser };
}

/** Resolves when the recorded connection has ended. */
const waitForEnd = (recorder) =>
  assert.rejects(
    recorder.next(() => false, 'its end'),
    (/** @type {Error} */ error) => !/Timed out/.test(error.message),
  );

/** Advances the clock until the worker refuses a token. The worker believes a token again if the check after 10 s is slow. */
const waitForRefusal = (namespace, web) =>
  eventually(async () => {
    await hub.advance(namespace, TOKEN_CACHE_MS);
    const answer = await web.get('/api/sessions');
    return answer.status === 401 && answer;
  }, 'the 401');

test('a revoked device loses its open connections, and another device keeps them', async (t) => {
  const { session, cli: agent } = await liveSession(t, hub, { namespace: 'team', tag: '/code', agentState: {} });
  const [revokedDevice, keptDevice] = [await addDevice('team', 'revoked'), await addDevice('team', 'kept')];
  const revokedConnections = await openConnections(t, 'team', revokedDevice, session.id);
  const keptConnections = await openConnections(t, 'team', keptDevice, session.id);

  assert.deepEqual((await keptDevice.web.delete(`/api/devices/${revokedDevice.id}`)).body, { ok: true });
  await Promise.all([...revokedConnections.feeds, ...revokedConnections.clis.map((cli) => cli.events)].map(waitForEnd));
  // `CLOSING` is enough: the close frame has arrived then, and the runtime may take longer to end the TCP connection.
  const areClosing = () => revokedConnections.sockets.every(({ readyState }) => readyState >= WebSocket.CLOSING);
  await eventually(areClosing, 'the sockets to close');
  for (const web of [revokedDevice.web, revokedConnections.jwt]) {
    assert.equal((await waitForRefusal('team', web)).body.code, 'device_revoked');
    await assert.rejects(web.openStream(), /401/);
    await assert.rejects(web.openSocket());
  }
  assert.equal((await hub.webWithoutToken().post('/api/auth', { accessToken: revokedDevice.token })).body.code, 'device_revoked');
  await assert.rejects(connectCli(t, hub, { token: revokedDevice.token }), /Invalid token/);

  const message = { role: 'agent', content: { type: 'event', data: { type: 'ready' } } };
  await agent.sendMessage(session.id, message);
  assert.equal((await keptDevice.web.patch(`/api/sessions/${session.id}`, { pinned: true })).status, 200);
  for (const feed of keptConnections.feeds) await feed.nextEvent('session-updated', session.id);
  for (const socket of keptConnections.sockets) assert.equal(socket.readyState, WebSocket.OPEN);
  await keptConnections.browser.next();
  assert.ok(!service.messages.some(({ path }) => path === revokedConnections.browser.path), 'a push to the revoked device');
  for (const cli of keptConnections.clis) assert.ok(cli.socket.connected);
  assert.equal((await keptDevice.web.get('/api/sessions')).status, 200);
  const { devices } = (await keptDevice.web.get('/api/devices')).body;
  assert.deepEqual(pluck(devices, 'name', 'isCurrent'), [['kept', true]]);
});

test('npm run token --revoke ends the tokens of a namespace and prints the new one', async (t) => {
  const runToken = async (...options) => {
    const command = [`${ROOT}/scripts/product/token.mjs`, 'gone', '--hub', hub.url, ...options];
    const { stdout } = await promisify(execFile)(process.execPath, command, { env: { ...process.env, CLI_API_TOKEN: SECRET } });
    return stdout.trim();
  };
  const oldToken = await runToken();
  const cli = await connectCli(t, hub, { token: oldToken });
  const device = await addDevice('gone', 'phone');
  assert.equal((await device.web.get('/api/sessions')).status, 200);
  const newToken = await runToken('--revoke');
  assert.equal(newToken, await runToken());
  assert.match(newToken, /^1\.[\w-]{43}:gone$/);
  await waitForEnd(cli.events);
  for (const web of [hub.web('gone', oldToken), device.web]) await waitForRefusal('gone', web);
  await assert.rejects(connectCli(t, hub, { token: oldToken }), /Invalid token/);
  await connectCli(t, hub, { token: newToken });
  await connectCli(t, hub, { namespace: 'gone' });
});
