/** The requests with which the console loads: each resource once, and no event is lost between a request and the event stream. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from '../../../scripts/lib/await.mjs';
import { DESK, signIn, waitForCount } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole, waitForRecords } from '../lib/console.mjs';
import { say } from '../lib/records.mjs';

const { open, visit, hub } = await startConsole();

const namedSession = (name) => ({ tag: `/code/${name}`, metadata: { path: `/code/${name}`, host: 'h', name } });

/** The time that the first requests of a page without stored data wait for the event stream (`MAX_WAIT_MS`). */
const START_WAIT_MS = 300;
/** The time that the requests of a session wait for its stored messages (`MAX_STORED_WAIT_MS`). */
const STORED_WAIT_MS = 200;

/** Records the requests of a page to the hub, with the ids of sessions replaced. */
function recordRequests(page) {
  const requests = [];
  const record = (address) => {
    const { pathname } = new URL(address);
    if (/^\/(api\/|icon\.svg)/.test(pathname)) requests.push(pathname.replace(/[0-9a-f-]{36}/, ':id'));
  };
  page.on('request', (request) => record(request.url()));
  return requests;
}

/** Leaves the page, which ends its requests, and records those of the next page. @see recordRequests */
async function recordNextRequests(page) {
  await page.goto('about:blank');
  return recordRequests(page);
}

/** Waits until a page is connected and shows the list of sessions. */
async function waitUntilConnected(page) {
  await page.locator('.connection[data-state="live"]:empty').waitFor({ state: 'attached' });
  await page.getByRole('link', { name: /first/ }).waitFor();
}

/** Waits until a page is connected and its requests have ended. */
async function waitUntilLoaded(page) {
  await waitUntilConnected(page);
  await page.waitForLoadState('networkidle');
}

/**
 * Opens the list of sessions, and waits until the list is stored. `gate` counts the page's connections to the event stream, and holds them
 * while it is closed.
 */
async function openList(t, namespace) {
  const { page } = await open(t);
  // The gate is open: only later sockets are held.
  let opened = Promise.resolve();
  const close = () => {
    const opening = deferred();
    opened = opening.promise;
    return opening.resolve;
  };
  const gate = { connections: 0, close };
  await page.routeWebSocket(/\/api\/events/, async (socket) => {
    gate.connections += 1;
    await opened;
    socket.connectToServer();
  });
  await signIn(page, hub, namespace);
  await waitUntilConnected(page);
  await waitForRecords(page, 'list', 1);
  gate.connections = 0;
  return { page, gate };
}

/** Waits for the response with the messages of a session. */
const waitForMessages = (page, id) => page.waitForResponse((response) => response.url().includes(`/api/sessions/${id}/messages`));

/**
 * Makes the next page believe that the hub took `responseMs` to send it. Depending on this time, the first requests of the page wait long
 * for the event stream, or not at all.
 */
const setResponseTime = (page, responseMs) =>
  page.addInitScript(
    ([waitMs, responseStart]) => {
      const { setTimeout } = window;
      Object.assign(window, { setTimeout: (run, ms, ...values) => setTimeout(run, ms === waitMs ? 600_000 : ms, ...values) });
      performance.getEntriesByType = () => [/** @type {any} */ ({ requestStart: 0, responseStart })];
    },
    [START_WAIT_MS, responseMs],
  );

test('a page that opens a session makes each request once', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'once', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page, gate } = await openList(t, 'once');
  await setResponseTime(page, 20);
  const requests = await recordNextRequests(page);
  await page.goto(`/sessions/${session.id}`);
  await new Chat(page).waitForText('Hello.');
  await waitUntilLoaded(page);
  assert.deepEqual(requests.filter((path) => path !== '/api/visibility').sort(), [
    '/api/config',
    '/api/inbox',
    '/api/sessions',
    '/api/sessions/:id',
    '/api/sessions/:id/messages',
  ]);
  assert.equal(gate.connections, 1);
});

test('a page that was open before shows its list, or its messages and the composer, before the hub answers', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'stored', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page, context } = await visit(t, 'stored', { ...DESK, path: `/sessions/${session.id}` });
  await new Chat(page).waitForText('Hello.');
  await waitForRecords(page, 'list', 1);
  // The messages, and the index.
  await waitForRecords(page, 'conversation', 2);
  await page.close();
  const later = await context.newPage();
  const answers = [];
  await later.route('**/api/**', (route) => answers.push(route));
  await later.goto(`/sessions/${session.id}`, { waitUntil: 'commit' });
  const chat = new Chat(later);
  await chat.waitForText('Hello.');
  await chat.composer.fill('A thought');
  await later.getByRole('link', { name: 'first' }).waitFor();
  // The hub has answered nothing yet.
  assert.deepEqual([...new Set(answers.map((route) => new URL(route.request().url()).pathname))], ['/api/auth']);
});

test('a session whose stored messages are read slowly is requested once', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'slow-database', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page, gate } = await openList(t, 'slow-database');
  await setResponseTime(page, 20);
  await page.addInitScript((waitMs) => {
    const { setTimeout } = window;
    const held = [];
    const hold = (run, ms, ...values) => (ms === waitMs ? held.push(run) : setTimeout(run, ms, ...values));
    Object.assign(window, { setTimeout: hold, held, reads: 0 });
    const { get } = IDBObjectStore.prototype;
    // The page reads the stored messages before it is rendered, and again when it opens the session. The second read never ends.
    IDBObjectStore.prototype.get = function (key) {
      if (key[1] === 'conversation' && (window.reads += 1) > 1) this.transaction.oncomplete = null;
      return get.call(this, key);
    };
  }, STORED_WAIT_MS);
  const requests = recordRequests(page);
  const answered = deferred();
  await page.route(`**/api/sessions/${session.id}`, async (route) => {
    await answered.promise;
    await route.continue();
  });
  const connect = gate.close();
  const reading = page.waitForRequest((request) => new URL(request.url()).pathname === `/api/sessions/${session.id}`);
  await page.goto(`/sessions/${session.id}`);
  await page.waitForFunction(() => /** @type {any} */ (window).reads > 1);
  connect();
  await reading;
  await page.evaluate(() => /** @type {any} */ (window).held.forEach((run) => run()));
  answered.resolve();
  await new Chat(page).waitForText('Hello.');
  await waitUntilLoaded(page);
  assert.deepEqual(requests.filter((path) => path.startsWith('/api/sessions/')).sort(), [
    '/api/sessions/:id',
    '/api/sessions/:id/messages',
  ]);
});

test('opening another session reads the session and its messages once', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'another', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page, gate } = await openList(t, 'another');
  await page.waitForLoadState('networkidle');
  const requests = recordRequests(page);
  await page.getByRole('link', { name: /first/ }).click();
  const chat = new Chat(page);
  await chat.waitForText('Hello.');
  // A message that arrives on the new connection shows that the connection is open.
  await say(cli, session.id, 'Still there.');
  await chat.waitForText('Still there.');
  await page.waitForLoadState('networkidle');
  assert.deepEqual(requests.filter((path) => path !== '/api/visibility').sort(), ['/api/sessions/:id', '/api/sessions/:id/messages']);
  assert.equal(gate.connections, 1);
});

test('the messages of another session are requested before the session has arrived', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'parallel', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page } = await openList(t, 'parallel');
  const delivered = deferred();
  await page.route(`**/api/sessions/${session.id}`, async (route) => {
    await delivered.promise;
    await route.continue();
  });
  // The console gives up a request after a time.
  const failed = [];
  page.on('requestfailed', (request) => failed.push(request.url()));
  const read = waitForMessages(page, session.id);
  await page.getByRole('link', { name: /first/ }).click();
  await read;
  assert.deepEqual(failed, []);
  delivered.resolve();
  await new Chat(page).waitForText('Hello.');
});

test('on a slow network, the first requests of a page do not wait for its connection', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'slow', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page, gate } = await openList(t, 'slow');
  await setResponseTime(page, 150);
  const requests = await recordNextRequests(page);
  const connect = gate.close();
  await page.goto(`/sessions/${session.id}`);
  await new Chat(page).waitForText('Hello.');
  connect();
  await waitUntilLoaded(page);
  assert.equal(requests.filter((path) => path === '/api/config').length, 1);
});

/** Opens a page as on a first visit: the tab has no JWT. Holds all scripts of the page but the one that sends the first requests. */
async function openFirstVisit(page, path) {
  await page.evaluate(() => sessionStorage.clear());
  const delivered = deferred();
  await page.route(/\/assets\/(?!early-requests-)[^/]*\.js$/, async (route) => {
    await delivered.promise;
    await route.continue();
  });
  await page.goto(path, { waitUntil: 'commit' });
  return delivered.resolve;
}

test('on a slow network, a first visit requests its session before the code of the console has arrived', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'early', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page } = await openList(t, 'early');
  await setResponseTime(page, 150);
  const read = waitForMessages(page, session.id);
  const deliver = await openFirstVisit(page, `/sessions/${session.id}`);
  assert.equal((await read).status(), 200);
  await say(cli, session.id, 'Said before the code arrived.');
  deliver();
  const chat = new Chat(page);
  await chat.waitForText('Hello.');
  await chat.waitForText('Said before the code arrived.');
  await waitUntilConnected(page);
});

test('a first request that fails before the code of the console has arrived is repeated', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'early-failure', ...namedSession('first') });
  await say(cli, session.id, 'Hello.');
  const { page } = await openList(t, 'early-failure');
  await setResponseTime(page, 150);
  await page.route('**/api/sessions/**', (route) => route.abort(), { times: 2 });
  const failed = page.waitForEvent('requestfailed', (request) => request.url().includes('/messages'));
  const deliver = await openFirstVisit(page, `/sessions/${session.id}`);
  await failed;
  deliver();
  await new Chat(page).waitForText('Hello.');
  await waitUntilConnected(page);
});

test('a first visit with a token that is no longer valid asks to sign in', async (t) => {
  await liveSession(t, hub, { namespace: 'early-refusal', ...namedSession('first') });
  const { page } = await openList(t, 'early-refusal');
  await page.route('**/api/auth', (route) => route.fulfill({ status: 401, json: { error: 'Sign in.', code: 'invalid_access_token' } }));
  const refused = page.waitForResponse('**/api/auth');
  const deliver = await openFirstVisit(page, '/');
  assert.equal((await refused).status(), 401);
  deliver();
  await page.getByText('The access token is no longer valid.').waitFor();
});

/** Opens another page, and deletes what the console has stored. */
async function deleteStored(page) {
  const origin = new URL(page.url()).origin;
  await page.goto('about:blank');
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Storage.clearDataForOrigin', { origin, storageTypes: 'indexeddb' });
}

test('on a slow network, the list of sessions of a first visit does not wait for the connection', async (t) => {
  const { session } = await liveSession(t, hub, { namespace: 'slow-list', ...namedSession('first') });
  const { page, gate } = await openList(t, 'slow-list');
  await setResponseTime(page, 150);
  await deleteStored(page);
  await hub.web('slow-list').request('PATCH', `/api/sessions/${session.id}`, { body: { name: 'first, renamed' } });
  const connect = gate.close();
  await page.goto('/');
  await page.getByRole('link', { name: /first, renamed/ }).waitFor();
  await waitForCount(page.locator('.connection[data-state="live"]'), 0);
  connect();
  await waitUntilConnected(page);
});

test('on a slow network, a page that shows its stored list makes each request once', async (t) => {
  await liveSession(t, hub, { namespace: 'slow-stored', ...namedSession('first') });
  const { page, gate } = await openList(t, 'slow-stored');
  await setResponseTime(page, 150);
  const requests = await recordNextRequests(page);
  const connect = gate.close();
  await page.goto('/');
  await page.getByRole('link', { name: /first/ }).waitFor();
  assert.deepEqual(
    requests.filter((path) => /sessions|inbox/.test(path)),
    [],
  );
  connect();
  await waitUntilLoaded(page);
  assert.deepEqual(requests.filter((path) => /sessions|inbox/.test(path)).sort(), ['/api/inbox', '/api/sessions']);
});

test('no message is lost between the first requests of a page and its connection', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'first-gap', ...namedSession('first') });
  await say(cli, session.id, 'Read.');
  const { page, gate } = await openList(t, 'first-gap');
  const connect = gate.close();
  const read = waitForMessages(page, session.id);
  await page.goto(`/sessions/${session.id}`);
  await read;
  const chat = new Chat(page);
  await chat.waitForText('Read.');
  await say(cli, session.id, 'Between.');
  await hub.web('first-gap').patch(`/api/sessions/${session.id}`, { name: 'Renamed between' });
  connect();
  await chat.waitForText('Between.');
  await page.getByRole('heading', { name: 'Renamed between', level: 1 }).waitFor();
});

test('no message is lost between the request of a session’s messages and the connection that follows the session', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'next-gap', ...namedSession('first') });
  await say(cli, session.id, 'Read.');
  const { page, gate } = await openList(t, 'next-gap');
  const requests = recordRequests(page);
  const connect = gate.close();
  const read = waitForMessages(page, session.id);
  await page.getByRole('link', { name: /first/ }).click();
  await read;
  const chat = new Chat(page);
  await chat.waitForText('Read.');
  await say(cli, session.id, 'Between.');
  connect();
  await chat.waitForText('Between.');
  assert.equal(requests.filter((path) => path.endsWith('/messages')).length, 1);
  assert.deepEqual(await chat.log.locator('.message').evaluateAll((rows) => rows.length), 2);
});

test('messages that could not be read are read again when the page is connected', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'retry', ...namedSession('first') });
  await say(cli, session.id, 'Read later.');
  const { page, gate } = await openList(t, 'retry');
  let isBroken = true;
  await page.route('**/messages?*', (route) => (isBroken ? route.abort() : route.fallback()));
  const connect = gate.close();
  await page.getByRole('link', { name: /first/ }).click();
  await page.getByText('The hub cannot be reached.').waitFor();
  isBroken = false;
  connect();
  await new Chat(page).waitForText('Read later.');
});

test('without the renderer of markdown, texts are shown as they were written, until the next session fetches the renderer', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'plain', ...namedSession('first') });
  const { session: other, cli: otherCli } = await liveSession(t, hub, { namespace: 'plain', ...namedSession('second') });
  await say(cli, session.id, 'One **bold** word.');
  await say(otherCli, other.id, 'Two **bold** words.');
  const { page } = await openList(t, 'plain');
  await page.route('**/assets/render-markdown*', (route) => route.abort());
  await page.goto(`/sessions/${session.id}`);
  const chat = new Chat(page);
  await chat.waitForText('One **bold** word.');
  await page.unroute('**/assets/render-markdown*');
  await page.getByRole('link', { name: /second/ }).click();
  await chat.waitForText('Two bold words.');
});
