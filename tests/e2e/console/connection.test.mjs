/** The web console without a network, without the hub, and with an invalid token. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, Recorder } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, signInUrl, SMALL_PHONE, waitForCount, waitForEqual } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { setPageVisibility } from '../lib/push-browser.mjs';
import { say, sayAll } from '../lib/records.mjs';
import { openInPage, recordMoves, setFontSize } from '../lib/views.mjs';

const { hub, open, visit } = await startConsole();

/** Refuses the WebSockets of a page, as some proxies do, and counts them. */
function refuseSockets() {
  window.refusedSockets = 0;
  window.WebSocket = class extends WebSocket {
    constructor() {
      super(`ws://${location.host}/no-socket`);
      window.refusedSockets += 1;
    }
  };
}

/** The longest time between two attempts to connect. */
const MAX_BACKOFF_MS = 15_000;

const talk = { tag: '/code/c', metadata: { path: '/code/c', host: 'h', name: 'The talk' } };

test('sends messages that were written offline, and loads missed messages when the browser is online again', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'offline', ...talk });
  const { page, context } = await visit(t, 'offline', { path: `/sessions/${session.id}`, serviceWorkers: 'allow' });
  const chat = new Chat(page);
  await say(cli, session.id, 'Before.');
  await chat.waitForText('Before.');
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  await chat.send('written offline');
  await page.getByText('Waiting for the hub').waitFor();
  await say(cli, session.id, 'Meanwhile.');
  await page.reload();
  await context.setOffline(false);
  await chat.waitForText('Meanwhile.');
  assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'written offline');
  await page.getByText('Waiting for the hub').waitFor({ state: 'detached' });
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await waitForCount(chat.log.getByText('written offline'), 1);
  await say(cli, session.id, 'After.');
  await chat.waitForText('After.');
});

test('the connection banner moves nothing on the page', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'banner', ...talk });
  const questions = [{ question: 'Which shape?', options: ['Round', 'Square'] }, { question: 'Its name?' }];
  const requests = {
    r1: { tool: 'Ask', arguments: { questions }, createdAt: 1 },
    r2: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 2 },
  };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
  for (const options of [DESK, PHONE]) {
    const { page, context } = await visit(t, 'banner', options);
    for (const [path, label] of [
      ['/', 'Search sessions'],
      [`/sessions/${session.id}`, 'Square'],
    ]) {
      await context.setOffline(false);
      await openInPage(page, path);
      await page.locator('.connection[data-state="live"]:empty').waitFor({ state: 'attached' });
      const element = page.getByLabel(label);
      await waitForCount(page.getByRole('status', { name: /^Loading/ }), 0);
      const position = await element.boundingBox();
      await context.setOffline(true);
      await page.getByText('You are offline.').waitFor();
      assert.deepEqual(await element.boundingBox(), position, path);
      assert.ok(await page.evaluate(() => document.documentElement.scrollHeight <= innerHeight), `${path} fits into the window`);
      await element.click();
    }
  }
});

test('on a connection that takes long, no line of a conversation moves, and the banner covers no control', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'long', ...talk });
  await sayAll(say.bind(null, cli, session.id), 40, (number) => `Line ${number} of the conversation.`);
  for (const { name, options, fontSize = 16, dir = 'ltr' } of [
    { name: 'desk', options: DESK },
    { name: 'phone', options: SMALL_PHONE },
    { name: 'phone, text of 200 %', options: SMALL_PHONE, fontSize: 32 },
    { name: 'phone, right to left', options: SMALL_PHONE, dir: 'rtl' },
  ]) {
    const { page, context } = await open(t, options);
    await setFontSize(page, fontSize);
    let connect = () => {};
    const connected = new Promise((resolve) => {
      connect = () => resolve(undefined);
    });
    await page.routeWebSocket(/\/api\/events/, async (socket) => {
      await connected;
      socket.connectToServer();
    });
    await page.addInitScript(recordMoves);
    await page.addInitScript((value) => {
      addEventListener('DOMContentLoaded', () => document.documentElement.setAttribute('dir', value));
    }, dir);
    await page.goto(signInUrl(hub, 'long', `/sessions/${session.id}`));
    const last = page.getByText('Line 40 of the conversation.', { exact: true });
    await last.waitFor();
    const readAt = async () => (await last.boundingBox())?.y;
    const banner = page.locator('.connection > .notice');
    await banner.getByText('Connecting …').waitFor();
    const y = await readAt();
    const isFree = async () => {
      const box = await banner.boundingBox();
      const tabs = await page.locator('.tabs').boundingBox();
      const dock = await page.locator('.dock').boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= options.viewport.width, `${name}: the banner is on the screen`);
      assert.ok(box.y >= tabs.y + tabs.height && box.y + box.height <= dock.y, `${name}: the banner is between the tabs and the composer`);
    };
    await isFree();
    connect();
    await page.locator('.connection[data-state="live"]:empty').waitFor({ state: 'attached' });
    assert.equal(await readAt(), y, name);
    await context.setOffline(true);
    await banner.getByText('You are offline.').waitFor();
    await isFree();
    assert.equal(await readAt(), y, name);
    assert.deepEqual(await page.evaluate(() => window.moves), [], name);
  }
});

test('shows why the hub rejected a message, which can be retried or discarded', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'refused', ...talk });
  const { page } = await visit(t, 'refused', { path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  let isRejecting = true;
  const localIds = [];
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    localIds.push(route.request().postDataJSON().localId);
    return isRejecting
      ? route.fulfill({ status: 409, json: { error: 'The agent has ended.', code: 'session_inactive' } })
      : route.fallback();
  });
  await chat.send('hello');
  await page.getByText(/Not sent: The agent is not connected/).waitFor();
  await chat.send('never mind');
  await page
    .getByText(/Not sent: The agent is not connected/)
    .nth(1)
    .waitFor();
  await page.getByRole('button', { name: 'Discard' }).nth(1).click();
  await page.getByText('never mind').waitFor({ state: 'detached' });
  isRejecting = false;
  await page.getByRole('button', { name: 'Retry' }).click();
  assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'hello');
  await page.getByText('Not sent').waitFor({ state: 'detached' });
  assert.equal(localIds[0], localIds.at(-1));
});

test('loads everything again after a restart of the hub, without a page reload', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'restart', reconnection: true, ...talk });
  const { page } = await visit(t, 'restart', { path: `/sessions/${session.id}`, hasClock: true });
  const chat = new Chat(page);
  await say(cli, session.id, 'Before.');
  await chat.waitForText('Before.');
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  await cli.waitForReconnect(() => hub.restart());
  await cli.keepAlive(session.id);
  for (let number = 1; number <= 3; number += 1) await say(cli, session.id, `After ${number}.`);
  await page.clock.fastForward(MAX_BACKOFF_MS);
  await chat.waitForText('After 3.');
  for (const text of ['Before.', 'After 1.', 'After 2.']) await waitForCount(chat.log.getByText(text), 1);
  await hub.web('restart').request('PATCH', `/api/sessions/${session.id}`, { body: { name: 'A new name' } });
  await page.getByRole('heading', { name: 'A new name', level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument), true);
});

test('shows a lost connection and loads missed messages after the reconnect', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'broken', ...talk });
  const { page } = await open(t);
  await page.clock.install();
  let isBroken = false;
  const sockets = [];
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    if (isBroken) return socket.close({ code: 1006 });
    sockets.push(socket);
    return socket.connectToServer();
  });
  await page.route('**/api/events*', (route) => route.abort());
  await page.goto(signInUrl(hub, 'broken', `/sessions/${session.id}`));
  const chat = new Chat(page);
  await chat.composer.waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  isBroken = true;
  for (const socket of sockets) await socket.close({ code: 1012 });
  await page.getByText('Connection lost. Reconnecting …').waitFor();
  await say(cli, session.id, 'Meanwhile.');
  isBroken = false;
  await page.clock.fastForward(MAX_BACKOFF_MS);
  await chat.waitForText('Meanwhile.');
  await page.getByText('Connection lost').waitFor({ state: 'detached' });
});

test('shows that it catches up after a gap in the events, until also a request that the hub has refused is repeated', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'gap', ...talk });
  const { page } = await open(t);
  let isDroppingFrames = false;
  /** @type {any} */
  let last;
  const frames = new Recorder('the frames of the console');
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    last = socket;
    socket.connectToServer().onMessage((frame) => {
      frames.push(frame);
      if (!isDroppingFrames) socket.send(frame);
    });
  });
  await page.goto(signInUrl(hub, 'gap', `/sessions/${session.id}`));
  const chat = new Chat(page);
  await frames.first(() => new URL(last.url()).searchParams.has('sessionId'), 'the socket that follows the session');
  await say(cli, session.id, 'Before.');
  await chat.waitForText('Before.');
  isDroppingFrames = true;
  await say(cli, session.id, 'Missed.');
  await frames.first((frame) => frame.includes('Missed.'), 'the frame that the page does not get');
  await hub.web('gap').request('PATCH', `/api/sessions/${session.id}`, { body: { name: 'A new name' } });
  // The list is delayed until the page shows “Catching up”.
  const catchingUp = page.getByText('Catching up').waitFor();
  await page.route('**/api/sessions', (route) => catchingUp.then(() => route.fallback()));
  const refusal = { status: 503, json: { error: 'The database does not answer.', code: 'hub_unavailable' } };
  await page.route(`**/api/sessions/${session.id}`, (route) => route.fulfill(refusal), { times: 1 });
  isDroppingFrames = false;
  last.send(JSON.stringify({ type: 'connection-changed', data: { status: 'connected', subscriptionId: 'new', resume: 'gap' } }));
  await catchingUp;
  await chat.waitForText('Missed.');
  await page.getByRole('heading', { name: 'A new name', level: 1 }).waitFor();
  await page.getByText('Catching up').waitFor({ state: 'detached' });
});

test('seven windows for which a proxy refuses WebSockets can all send: three have a stream, and the others refresh until they are used', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'seven', ...talk });
  const { page, context } = await open(t);
  await context.addInitScript(refuseSockets);
  await page.goto(signInUrl(hub, 'seven', `/sessions/${session.id}`));
  await new Chat(page).composer.waitFor();
  for (let count = 1; count < 7; count += 1) await (await context.newPage()).goto(`/sessions/${session.id}`);
  const windows = context.pages();
  const stateOf = (window) => window.locator('.connection').getAttribute('data-state');
  const readStates = async () => (await Promise.all(windows.map(stateOf))).sort();
  const states = [...Array(3).fill('live'), ...Array(4).fill('polling')];
  await waitForEqual(readStates, states);
  for (const [index, window] of windows.entries()) {
    await new Chat(window).send(`from window ${index}`);
    assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, `from window ${index}`);
  }
  const used = windows[(await Promise.all(windows.map(stateOf))).indexOf('polling')];
  await used.getByText('A proxy delays updates: refreshing every 10 seconds.').waitFor();
  await used.evaluate(() => window.dispatchEvent(new Event('focus')));
  await waitForEqual(() => stateOf(used), 'live');
  await used.getByText('A proxy delays updates').waitFor({ state: 'detached' });
  await waitForEqual(readStates, states);
  await say(cli, session.id, 'Through the stream.');
  await new Chat(used).waitForText('Through the stream.');
});

test('reports the page visibility, and shows toasts of other sessions', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'visible', ...talk });
  const { page } = await open(t);
  /** @type {any} */
  let socketRoute;
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    socketRoute = socket;
    socket.connectToServer();
  });
  await page.goto(signInUrl(hub, 'visible'));
  await page.getByRole('link', { name: /The talk/ }).waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  // Playwright does not intercept `keepalive` requests.
  await page.evaluate(() => {
    const native = window.fetch;
    window.reports = [];
    window.fetch = async (input, init) => {
      const request = new Request(input, init);
      if (!request.url.endsWith('/api/visibility')) return native(request);
      const { visibility } = await request.clone().json();
      // The first report is lost and must be repeated.
      const response = window.reports.length === 0 ? undefined : await native(request);
      window.reports.push([visibility, request.keepalive, response?.status]);
      if (!response) throw new TypeError('Lost.');
      return response;
    };
  });
  const readReports = () => page.evaluate(() => window.reports);
  await setPageVisibility(page, 'hidden');
  await eventually(async () => (await readReports()).length === 2, 'the second report');
  await setPageVisibility(page, 'visible');
  await eventually(async () => (await readReports()).length === 3, 'the third report');
  assert.deepEqual(await readReports(), [
    ['hidden', true, undefined],
    ['hidden', true, 200],
    ['visible', false, 200],
  ]);

  const data = { title: 'Permission Request', body: 'The talk (Bash)', sessionId: session.id, url: `/sessions/${session.id}` };
  socketRoute.send(JSON.stringify({ type: 'toast', eventId: 'x', data }));
  await page.getByText('The talk (Bash)').waitFor();
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
  // A toast of the open session, and then a toast of another session.
  socketRoute.send(JSON.stringify({ type: 'toast', eventId: 'y', data: { ...data, body: 'The open session' } }));
  socketRoute.send(
    JSON.stringify({ type: 'toast', eventId: 'z', data: { ...data, body: 'Another session', sessionId: 'x', url: '/sessions/x' } }),
  );
  await page.locator('.toast').getByText('Another session').waitFor();
  await waitForCount(page.locator('.toast'), 1);
});

test('a toast disappears when its session is opened', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'opened', ...talk });
  const { page } = await visit(t, 'opened');
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'ls' }, createdAt: 1 } } };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState });
  await page.locator('.toast').getByText('The talk').waitFor();
  await page
    .getByRole('link', { name: /The talk/ })
    .first()
    .click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
  await waitForCount(page.locator('.toast'), 0);
});

test('a page that is closed reports nothing, because its subscription ends with the page', async (t) => {
  const { page } = await visit(t, 'closes');
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await page.evaluate(() => {
    const native = window.fetch;
    window.fetch = (input, init) => {
      const { url } = new Request(input, init);
      sessionStorage.setItem('requests', `${sessionStorage.getItem('requests') ?? ''}${new URL(url).pathname} `);
      return native(input, init);
    };
    addEventListener('pagehide', () => sessionStorage.setItem('requests', ''));
  });
  await page.reload();
  assert.equal(await page.evaluate(() => sessionStorage.getItem('requests')), '');
});

test('shows that a session was deleted while offline, and receives events of other sessions', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'gone', ...talk });
  const { page, context } = await visit(t, 'gone', { path: `/sessions/${session.id}` });
  await new Chat(page).composer.waitFor();
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  const web = hub.web('gone');
  assert.equal((await web.post(`/api/sessions/${session.id}/archive`)).status, 200);
  assert.equal((await web.delete(`/api/sessions/${session.id}`)).status, 200);
  await context.setOffline(false);
  await page.getByRole('alert').waitFor();
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await web.openSession({ tag: '/code/next', metadata: { path: '/code/next', host: 'h', name: 'The next one' } });
  await page.getByRole('link', { name: /The next one/ }).waitFor();
});

test('shows the sign-in page and the reason when the access token is invalid', async (t) => {
  const { page } = await visit(t, 'revoked', DESK);
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.evaluate(() => {
    sessionStorage.clear();
    localStorage.setItem('account-1 revoked', JSON.stringify({ token: 'wrong:revoked', device: 'd', addedAt: 1 }));
  });
  await page.reload();
  await page.getByText('The access token is no longer valid.').waitFor();
  await page.getByLabel('Code').waitFor();
});
