/** The web console when the network, the hub or the token goes away. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, Recorder } from '../lib/await.mjs';
import { counted, DESK, linkTo } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, open, visit } = await startConsole({ serviceWorkers: 'allow' });

const say = (cli, id, text) => cli.say(id, { role: 'agent', content: { type: 'text', text } });
const place = { tag: '/code/c', metadata: { path: '/code/c', host: 'h', name: 'The talk' } };

test('offline, what is written waits; back online, it goes out and what was missed is read', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'offline', ...place });
  const { page, context } = await visit(t, 'offline', { path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  await say(cli, one.id, 'Before.');
  await chat.says('Before.');
  await page.evaluate(() => navigator.serviceWorker.ready);
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  await chat.send('written offline');
  await page.getByText('Waiting for the hub').waitFor();
  await say(cli, one.id, 'Meanwhile.');
  await page.reload();
  await context.setOffline(false);
  await chat.says('Meanwhile.');
  assert.equal((await cli.update('new-message')).message.content.content.text, 'written offline');
  await page.getByText('Waiting for the hub').waitFor({ state: 'detached' });
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await counted(chat.log.getByText('written offline'), 1);
  await say(cli, one.id, 'After.');
  await chat.says('After.');
});

test('a message that did not get through goes out with the next sign of the hub, and what is written later after it', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'again', ...place });
  const { page } = await open(t);
  let connected;
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    connected = socket;
    socket.connectToServer();
  });
  await page.goto(linkTo(hub, 'again', `/sessions/${one.id}`));
  const chat = new Chat(page);
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  let isAway = true;
  await page.route('**/messages', (route) => (isAway && route.request().method() === 'POST' ? route.abort() : route.fallback()));
  await chat.send('first');
  await chat.send('second');
  await page.getByText('Waiting for the hub').nth(1).waitFor();
  isAway = false;
  connected.send(JSON.stringify({ type: 'heartbeat' }));
  const texts = [];
  while (texts.length < 2) texts.push((await cli.update('new-message')).message.content.content.text);
  assert.deepEqual(texts, ['first', 'second']);
  await page.getByText('Waiting for the hub').first().waitFor({ state: 'detached' });
});

test('a message that the hub refuses says why, and is sent again or discarded', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'refused', ...place });
  const { page } = await visit(t, 'refused', { path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  let refuse = true;
  const localIds = [];
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    localIds.push(route.request().postDataJSON().localId);
    return refuse ? route.fulfill({ status: 409, json: { error: 'The agent has ended.', code: 'session_inactive' } }) : route.fallback();
  });
  await chat.send('hello');
  await page.getByText('Not sent: The agent has ended.').waitFor();
  await chat.send('never mind');
  await page.getByText('Not sent: The agent has ended.').nth(1).waitFor();
  await page.getByRole('button', { name: 'Discard' }).nth(1).click();
  await page.getByText('never mind').waitFor({ state: 'detached' });
  refuse = false;
  await page.getByRole('button', { name: 'Retry' }).click();
  assert.equal((await cli.update('new-message')).message.content.content.text, 'hello');
  await page.getByText('Not sent').waitFor({ state: 'detached' });
  assert.equal(localIds[0], localIds.at(-1));
});

test('a message that the hub has no time for goes out when it has, before what is written later', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'busy', ...place });
  const { page } = await visit(t, 'busy', { path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  let isBusy = true;
  await page.route('**/messages', (route) => {
    if (!isBusy || route.request().method() !== 'POST') return route.fallback();
    return route.fulfill({ status: 503, json: { error: 'Too much waits.', code: 'overloaded' } });
  });
  await chat.send('first');
  await chat.send('second');
  await page.getByText('Waiting for the hub').nth(1).waitFor();
  isBusy = false;
  const texts = [];
  while (texts.length < 2) texts.push((await cli.update('new-message')).message.content.content.text);
  assert.deepEqual(texts, ['first', 'second']);
  assert.equal(await page.getByText('Not sent').count(), 0);
});

test('after a restart of the hub everything is read again, without a reload', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'restart', reconnection: true, ...place });
  const { page } = await visit(t, 'restart', { path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  await say(cli, one.id, 'Before.');
  await chat.says('Before.');
  await page.evaluate(() => {
    window.sameDocument = true;
  });
  await cli.reconnected(() => hub.restart());
  await cli.alive(one.id);
  for (let number = 1; number <= 3; number += 1) await say(cli, one.id, `After ${number}.`);
  await chat.says('After 3.');
  for (const text of ['Before.', 'After 1.', 'After 2.']) await counted(chat.log.getByText(text), 1);
  await hub.web('restart').request('PATCH', `/api/sessions/${one.id}`, { body: { name: 'A new name' } });
  await page.getByRole('heading', { name: 'A new name', level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument), true);
});

test('a connection that broke is said to be away until it is back, and what was missed is there then', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'broken', ...place });
  const { page } = await open(t);
  let isBroken = false;
  const sockets = [];
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    if (isBroken) return socket.close({ code: 1006 });
    sockets.push(socket);
    return socket.connectToServer();
  });
  await page.route('**/api/events*', (route) => route.abort());
  await page.goto(linkTo(hub, 'broken', `/sessions/${one.id}`));
  const chat = new Chat(page);
  await chat.line.waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  isBroken = true;
  for (const socket of sockets) await socket.close({ code: 1012 });
  await page.getByText('Connection lost. Reconnecting …').waitFor();
  await say(cli, one.id, 'Meanwhile.');
  isBroken = false;
  await chat.says('Meanwhile.');
  await page.getByText('Connection lost').waitFor({ state: 'detached' });
});

test('after a gap in the events everything is read again, which the page says', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'gap', ...place });
  const { page } = await open(t);
  let isDeaf = false;
  let last;
  const heard = new Recorder('the frames of the console');
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    last = socket;
    socket.connectToServer().onMessage((frame) => {
      heard.push(frame);
      if (!isDeaf) socket.send(frame);
    });
  });
  await page.goto(linkTo(hub, 'gap', `/sessions/${one.id}`));
  const chat = new Chat(page);
  await heard.first(() => new URL(last.url()).searchParams.has('sessionId'), 'the socket that hears of the session');
  await say(cli, one.id, 'Before.');
  await chat.says('Before.');
  isDeaf = true;
  await say(cli, one.id, 'Missed.');
  await heard.first((frame) => frame.includes('Missed.'), 'what the page does not hear');
  await hub.web('gap').request('PATCH', `/api/sessions/${one.id}`, { body: { name: 'A new name' } });
  // The list is held back until the page has said that it reads.
  const said = page.getByText('Catching up').waitFor();
  await page.route('**/api/sessions', (route) => said.then(() => route.fallback()));
  isDeaf = false;
  last.send(JSON.stringify({ type: 'connection-changed', data: { status: 'connected', subscriptionId: 'anew', resume: 'gap' } }));
  await said;
  await chat.says('Missed.');
  await page.getByRole('heading', { name: 'A new name', level: 1 }).waitFor();
  await page.getByText('Catching up').waitFor({ state: 'detached' });
});

test('where no WebSocket gets through, events come as a stream', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'stream', ...place });
  const { page, complaints } = await open(t);
  let sockets = 0;
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    sockets += 1;
    return socket.close({ code: 1006 });
  });
  // A proxy in the way does not even let it open.
  await page.addInitScript(() => {
    const Native = window.WebSocket;
    window.WebSocket = class extends Native {
      set onopen(_) {}
    };
  });
  const stream = page.waitForRequest((request) => request.url().includes('/api/events') && request.resourceType() === 'eventsource');
  await page.goto(linkTo(hub, 'stream', `/sessions/${one.id}`));
  await stream;
  const chat = new Chat(page);
  await chat.line.waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await say(cli, one.id, 'Through the stream.');
  await chat.says('Through the stream.');
  assert.ok(sockets >= 2);
  assert.deepEqual(complaints, []);
});

test('a JWT that has run out is renewed, and nothing is missed', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'renewed', ...place });
  const { page } = await open(t);
  const sockets = [];
  const heard = new Recorder('the frames of the console');
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    const server = socket.connectToServer();
    const url = new URL(socket.url());
    sockets.push({ socket, server, url });
    server.onMessage((frame) => {
      heard.push({ url, frame });
      socket.send(frame);
    });
  });
  await page.goto(linkTo(hub, 'renewed', `/sessions/${one.id}`));
  const chat = new Chat(page);
  await heard.first(({ url }) => url.searchParams.has('sessionId'), 'the socket that hears of the session');
  await say(cli, one.id, 'Before.');
  await heard.first(({ frame }) => frame.includes('Before.'), 'the message');
  await chat.says('Before.');
  const { socket, server } = sockets.at(-1);
  const renewed = page.waitForResponse((response) => response.url().endsWith('/api/auth'));
  await server.close();
  await socket.close({ code: 4401 });
  await say(cli, one.id, 'Meanwhile.');
  assert.equal((await renewed).status(), 200);
  await chat.says('Meanwhile.');
  assert.ok(sockets.at(-1).url.searchParams.get('lastEventId'));
});

test('whoever hides the page says so, and hears a toast while another session is in view', async (t) => {
  const { session: one } = await liveSession(t, hub, { namespace: 'visible', ...place });
  const { page } = await open(t);
  let connected;
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    connected = socket;
    socket.connectToServer();
  });
  await page.goto(linkTo(hub, 'visible'));
  await page.getByRole('link', { name: /The talk/ }).waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  // Requests that outlive their page do not pass the test's own way to see them.
  await page.evaluate(() => {
    const native = window.fetch;
    window.told = [];
    window.fetch = async (input, init) => {
      const request = new Request(input, init);
      if (!request.url.endsWith('/api/visibility')) return native(request);
      const { visibility } = await request.clone().json();
      // What gets lost on its way is said again.
      const response = window.told.length === 0 ? undefined : await native(request);
      window.told.push([visibility, request.keepalive, response?.status]);
      if (!response) throw new TypeError('Lost.');
      return response;
    };
  });
  const look = (value) =>
    page.evaluate((visibility) => {
      Object.defineProperty(document, 'visibilityState', { value: visibility, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, value);
  const told = () => page.evaluate(() => window.told);
  await look('hidden');
  await eventually(async () => (await told()).length === 2, 'the second word');
  await look('visible');
  await eventually(async () => (await told()).length === 3, 'the third word');
  assert.deepEqual(await told(), [['hidden', true, undefined], ['hidden', true, 200], ['visible', false, 200]]);

  const data = { title: 'Permission Request', body: 'The talk (Bash)', sessionId: one.id, url: `/sessions/${one.id}` };
  connected.send(JSON.stringify({ type: 'toast', eventId: 'x', data }));
  await page.getByText('The talk (Bash)').waitFor();
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
});

test('a session that was deleted while one was away is said to be gone, and the others are heard', async (t) => {
  const { session: one } = await liveSession(t, hub, { namespace: 'gone', ...place });
  const { page, context } = await visit(t, 'gone', { path: `/sessions/${one.id}` });
  await new Chat(page).line.waitFor();
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  const web = hub.web('gone');
  assert.equal((await web.post(`/api/sessions/${one.id}/archive`)).status, 200);
  assert.equal((await web.delete(`/api/sessions/${one.id}`)).status, 200);
  await context.setOffline(false);
  await page.getByRole('alert').waitFor();
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await web.session({ tag: '/code/next', metadata: { path: '/code/next', host: 'h', name: 'The next one' } });
  await page.getByRole('link', { name: /The next one/ }).waitFor();
});

test('a token that is no longer good leads to the sign-in page, with the reason', async (t) => {
  const { page } = await visit(t, 'revoked', DESK);
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.evaluate(() => {
    sessionStorage.clear();
    localStorage.setItem('access-token', 'wrong:revoked');
  });
  await page.reload();
  await page.getByText('The access token is no longer valid.').waitFor();
  await page.getByLabel('Access token').waitFor();
});
