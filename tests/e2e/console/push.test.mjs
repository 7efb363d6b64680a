/** Push notifications end to end: in the console, answers from notifications, and a page with the example code of PROTOCOL-PUSH.md. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { DESK, waitForEqual } from '../lib/browser.mjs';
import { Chat } from '../lib/console.mjs';
import { ROOT } from '../lib/hub.mjs';
import { clickNotification, deliverPush, mockPushManager, waitForNotification } from '../lib/push-browser.mjs';
import { setVisibility, startPushConsole, turnOffButton, turnOn, turnOnButton } from '../lib/push-console.mjs';
import { liveTalk, READY } from '../lib/records.mjs';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const { service, hub, open, visit, openSettings, countSubscriptions } = await startPushConsole();

test('notifies a browser while the page is hidden, and a click opens the session', async (t) => {
  const browser = service.addBrowser();
  const { session, setRequests } = await liveTalk(t, hub, 'asks', { metadata: { name: 'The notes' }, requests: {} });
  const { page } = await openSettings(t, 'asks', browser.subscription);
  const chat = new Chat(page);
  await turnOn(page);
  assert.equal(await countSubscriptions('asks'), 1);

  await page
    .getByRole('link', { name: /The notes/ })
    .first()
    .click();
  await chat.composer.waitFor();
  await setVisibility(page, 'hidden');
  await setRequests({ r1: { tool: 'Bash', arguments: { command: 'rm notes.txt' } } });
  const { payload } = await browser.next();
  const { title, body, tag, data } = payload;
  assert.deepEqual(
    [title, body, tag, data.url],
    ['Permission Request', 'The notes (Bash)', `permission-${session.id}`, `/sessions/${session.id}`],
  );
  await deliverPush(page, payload);
  const shown = await waitForNotification(page);
  assert.deepEqual([shown.title, shown.tag, shown.data.url], ['Run a command · The notes', tag, data.url]);
  assert.ok(shown.body.startsWith('rm notes.txt'), shown.body);

  await page.goto(`${hub.url}/machines`);
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
  await clickNotification(page);
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();
  await page.waitForURL(`**${data.url}`);
  await chat.request().waitFor();
});

test('a session can be muted, and a device notified of requests only', async (t) => {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'chooses',
    tag: '/code/demo',
    metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' },
  });
  const browser = service.addBrowser();
  const { page } = await openSettings(t, 'chooses', browser.subscription);
  await turnOnButton(page).click();
  await page.getByLabel('Notify this device about').selectOption('requests');
  const database = await hub.database();
  const readChoice = async () =>
    (await database.prepare("SELECT notify FROM push_subscriptions WHERE namespace = 'chooses'").first())?.notify;
  await eventually(async () => (await readChoice()) === 'requests', 'the choice');
  await page.reload();
  await turnOffButton(page).waitFor();
  await waitForEqual(() => page.getByLabel('Notify this device about').inputValue(), 'requests');
  assert.equal(await readChoice(), 'requests');

  await page.goto(`${hub.url}/sessions/${session.id}`);
  const menu = page.getByRole('button', { name: 'Session actions' });
  await menu.click();
  await page.getByRole('menuitem', { name: 'Mute notifications' }).click();
  await eventually(async () => (await hub.web('chooses').get(`/api/sessions/${session.id}`)).body.session.muted === true, 'the mute');
  await menu.click();
  await page.getByRole('menuitem', { name: 'Unmute notifications' }).waitFor();
  await setVisibility(page, 'hidden');
  const requests = { r1: { tool: 'shell', arguments: {} } };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
  await eventually(async () => (await hub.web('chooses').get('/api/push/log')).body.log[0]?.outcome === 'muted', 'the outcome');
  assert.ok(!service.messages.some(({ path: recipient }) => recipient === browser.path));
});

test('shows the outcome of recent notifications in the settings', async (t) => {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'log',
    tag: '/code/demo',
    metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' },
  });
  const { page } = await visit(t, 'log', { ...DESK, path: '/settings' });
  await page.getByText('Recent notifications').click();
  const emptyLog = page.getByText('No notifications yet.');
  await emptyLog.waitFor();
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await setVisibility(page, 'hidden');
  const waitForOutcome = (outcome) =>
    eventually(async () => (await hub.web('log').get('/api/push/log')).body.log[0]?.outcome === outcome, `the outcome ${outcome}`);
  await cli.sendMessage(session.id, READY);
  await waitForOutcome('no-subscribers');
  const refresh = page.getByRole('button', { name: 'Refresh' });
  await refresh.click();
  // The log stays empty until a browser has had notifications on.
  await page.getByRole('button', { name: 'Refresh', disabled: false }).waitFor();
  await emptyLog.waitFor();

  const rejecting = service.addBrowser(() => ({ status: 403 }));
  const busy = service.addBrowser(() => ({ status: 503, headers: { 'retry-after': '3600' } }));
  for (const { subscription } of [rejecting, busy])
    assert.equal((await hub.web('log').post('/api/push/subscribe', subscription)).status, 200);
  const requests = { r1: { tool: 'shell', arguments: {} } };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
  await busy.next();
  await waitForOutcome('sending');
  await refresh.click();
  const list = page.getByRole('list', { name: 'Recent notifications' });
  await list.getByText('Permission Request: Not delivered to all browsers yet, retrying').waitFor();
  await list.getByText(`The push service rejected it (${service.origin}, 403)`).waitFor();
  await list.getByText(`The push service was busy (${service.origin}, 503)`).waitFor();
  await list.getByText('Session Ready: Not sent: no browser has notifications on').waitFor();
  await page.evaluate(readFileSync(axe, 'utf8'));
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(
    violations.map(({ id, nodes }) => [id, nodes[0].html]),
    [],
  );
  await list.getByRole('link', { name: 'The talk (shell)' }).click();
  await page.getByRole('heading', { name: 'The talk', level: 1 }).waitFor();
});

/** A session whose CLI records the answers. `ask` asks whether `npm test` may run. */
async function startAsking(t, namespace) {
  const talk = await liveTalk(t, hub, namespace, { metadata: { name: 'The talk' }, requests: {} });
  const ask = (command = 'npm test') => talk.setRequests({ r1: { tool: 'Bash', arguments: { command } } });
  return { ...talk, answers: talk.answered, ask };
}

const REQUEST_TITLE = 'Run a command · The talk';

/** Signs in to a namespace, asks, and shows the notification of the request. Returns the decrypted push, too. */
async function showRequest(t, namespace) {
  const asking = await startAsking(t, namespace);
  const browser = service.addBrowser();
  const { page } = await openSettings(t, namespace, browser.subscription);
  await turnOn(page);
  await setVisibility(page, 'hidden');
  await asking.ask();
  const { payload } = await browser.next();
  await deliverPush(page, payload);
  const shown = await waitForNotification(page);
  assert.deepEqual([shown.title, shown.body], [REQUEST_TITLE, 'npm test']);
  return { ...asking, page, payload, shown };
}

/**
 * Taps a button of the notification until another notification replaces it. A push that arrives twice replaces the notification, too, and
 * the service worker ignores a tap that follows such a replacement too soon.
 */
async function tapUntil(page, button, title) {
  const tap = async () => {
    const shown = await waitForNotification(page);
    if (shown.title === REQUEST_TITLE) await clickNotification(page, button);
    return shown.title === title && shown;
  };
  return eventually(tap, `the notification “${title}”`);
}

test('a button of the notification answers the request, and a second tap says that it was answered', async (t) => {
  const { session, answers, page, payload, shown } = await showRequest(t, 'buttons');
  assert.deepEqual(pluck(shown.actions, 'title'), ['Approve', 'Deny']);
  // A push that arrives twice replaces the notification. The console ignores a tap that follows the replacement too soon, so tap again.
  const tap = async () => {
    assert.deepEqual(await clickNotification(page, 'approve'), []);
    return answers.length > 0;
  };
  await eventually(tap, 'the answer');
  assert.deepEqual(answers, [{ sessionId: session.id, id: 'r1', approved: true }]);

  await deliverPush(page, payload);
  const { data } = await tapUntil(page, 'approve', 'Already answered');
  assert.equal(answers.length, 1);
  assert.deepEqual(data, { url: '/inbox', namespace: 'buttons' });
});

test('Deny in the notification denies the request', async (t) => {
  const { session, answers, page } = await showRequest(t, 'deny');
  const tap = async () => {
    await clickNotification(page, 'deny');
    return answers.length > 0;
  };
  await eventually(tap, 'the answer');
  assert.deepEqual(answers, [{ sessionId: session.id, id: 'r1', approved: false }]);
});

test('the example page and service worker of PROTOCOL-PUSH.md work', async (t) => {
  const text = readFileSync(path.join(ROOT, 'docs', 'PROTOCOL-PUSH.md'), 'utf8');
  const section = /^### A page that subscribes\n([^]*?)^### /m.exec(text)[1];
  const [pageCode, workerCode, ...otherBlocks] = [...section.matchAll(/```js\n([^]*?)```/g)].map(([, code]) => code);
  assert.deepEqual([otherBlocks.length, pageCode.includes('subscribe'), workerCode.includes('notificationclick')], [0, true, true]);
  const siteUrl = await serveFiles(t, {
    '/': ['text/html', `<script>const token = ${JSON.stringify(hub.token('protocol'))};\n${pageCode}</script>`],
    '/service-worker.js': ['text/javascript', workerCode],
  });
  const { session, cli } = await liveSession(t, hub, { namespace: 'protocol', tag: 'demo', metadata: { name: 'The talk' } });
  const browser = service.addBrowser();
  const { page, context } = await open(t);
  await mockPushManager(context, browser.subscription);
  await page.goto(siteUrl);
  await page.evaluate('subscribe()');
  assert.equal(await countSubscriptions('protocol'), 1);
  await cli.sendMessage(session.id, READY);
  const { payload } = await browser.next();
  assert.equal(payload.body, 'Alpha is waiting in The talk');
  await deliverPush(page, payload);
  const { actions: _, ...shown } = await waitForNotification(page);
  assert.deepEqual(shown, payload);
  assert.deepEqual(await clickNotification(page), [`/sessions/${session.id}`]);
});

/** Serves these files, and forwards all other requests to the hub. */
async function serveFiles(t, files) {
  const server = http.createServer(async (request, response) => {
    const [type, content] = files[request.url] ?? [];
    if (content !== undefined) return response.writeHead(200, { 'content-type': type }).end(content);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const body = chunks.length > 0 ? Buffer.concat(chunks) : undefined;
    const answer = await fetch(hub.url + url, {
      method,
      body,
      headers: { authorization: headers.authorization ?? '', 'content-type': 'application/json' },
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  t.after(() => server.close());
  return `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}/`;
}
