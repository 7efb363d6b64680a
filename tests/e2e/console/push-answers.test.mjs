/** Answers from notifications, with the real service worker of the console. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/lib/clients/cli.mjs';
import { clickNotification, deliverPush, mockPushManager, waitForNotification } from '../lib/push-browser.mjs';
import { setVisibility, startPushConsole, turnOffButton, turnOnButton } from '../lib/push-console.mjs';

const { service, hub, open, openSettings } = await startPushConsole();

/** A session whose CLI records the answers. `ask` asks whether `npm test` may run. */
async function startAsking(t, namespace) {
  const { session, cli } = await liveSession(t, hub, {
    namespace,
    tag: '/code/demo',
    metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' },
  });
  const answers = [];
  await cli.serve('permission', (answer) => {
    answers.push(answer);
    return { success: true };
  });
  let expectedVersion = 1;
  const setRequests = async (requests) => {
    await cli.emitWithAck('update-state', { sid: session.id, expectedVersion, agentState: { requests } });
    expectedVersion += 1;
  };
  const ask = (command = 'npm test') => setRequests({ r1: { tool: 'Bash', arguments: { command } } });
  return { session, answers, ask };
}

const REQUEST_TITLE = 'Run a command · The talk';

/** Signs in to a namespace, asks, and shows the notification of the request. Returns the decrypted push, too. */
async function showRequest(t, namespace) {
  const asking = await startAsking(t, namespace);
  const browser = service.addBrowser();
  const { page } = await openSettings(t, namespace, browser.subscription);
  await turnOnButton(page).click();
  await turnOffButton(page).waitFor();
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
  assert.deepEqual(
    shown.actions.map(({ title }) => title),
    ['Approve', 'Deny'],
  );
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

test('a tap after the request has changed answers nothing, says so, and opens the inbox', async (t) => {
  const { answers, ask, page } = await showRequest(t, 'changed');
  await ask('rm -r src');
  const { body } = await tapUntil(page, 'approve', 'Not answered');
  assert.equal(body, 'The request has changed. Look at it again.');
  assert.deepEqual(answers, []);
  await clickNotification(page);
  await page.waitForURL(({ pathname }) => pathname === '/inbox');
  await page.locator('.inbox-item', { hasText: 'rm -r src' }).waitFor();
});

/** Sets how many buttons the platform shows in a notification. */
const setMaxActions = (page, value) =>
  page
    .context()
    .serviceWorkers()[0]
    .evaluate((count) => Object.defineProperty(Notification, 'maxActions', { value: count, configurable: true }), value);

test('a notification has no buttons if the platform has none, the request is not whole, or the push is old', async (t) => {
  const { page, payload } = await showRequest(t, 'plain');
  const { data } = payload;
  const countActions = async (tag, changes) => {
    await page.evaluate(async () => {
      for (const notification of await (await navigator.serviceWorker.ready).getNotifications()) notification.close();
    });
    await deliverPush(page, { ...payload, tag, data: { ...data, sentAt: Date.now(), ...changes } });
    const shown = await waitForNotification(page);
    assert.equal(shown.tag, tag);
    return shown.actions.length;
  };
  assert.equal(await countActions('whole', {}), 2);
  const long = { tool: 'Bash', arguments: { command: 'x'.repeat(201) } };
  assert.equal(await countActions('long', { request: long }), 0, 'not whole');
  assert.equal(await countActions('old', { sentAt: Date.now() - 10 * 60_000 }), 0, 'old');
  assert.equal(await countActions('no token', { answerToken: undefined }), 0, 'no token');
  await setMaxActions(page, 0);
  assert.equal(await countActions('none', {}), 0, 'no buttons on the platform');
  await setMaxActions(page, 2);
  assert.equal(await countActions('two', {}), 2);
});

test('a notification on a phone that was revoked answers nothing, and says so', async (t) => {
  const { session, answers, ask } = await startAsking(t, 'lost');
  const owner = hub.web('lost');
  const browser = service.addBrowser();
  const { page, context } = await open(t);
  await mockPushManager(context, browser.subscription);
  const { code } = (await owner.post('/api/devices/codes', {})).body;
  await page.goto(`/pair#${code}`);
  await page.getByLabel('Name of this device').fill('Lost phone');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('link', { name: 'Settings' }).click();
  await turnOnButton(page).click();
  await turnOffButton(page).waitFor();
  await setVisibility(page, 'hidden');
  await ask();
  const { payload } = await browser.next();
  await deliverPush(page, payload);
  assert.equal((await waitForNotification(page)).title, REQUEST_TITLE);
  // The console is closed. The service worker needs a page of its origin only for this test.
  await page.goto('/health');

  const [{ id }] = (await owner.get('/api/devices')).body.devices;
  assert.deepEqual((await owner.delete(`/api/devices/${id}`)).body, { ok: true });
  const { body, data } = await tapUntil(page, 'approve', 'Not answered');
  assert.match(body, /removed/);
  assert.deepEqual(data, { url: '/inbox', namespace: 'lost' });
  assert.deepEqual(answers, []);
  const { agentState } = await owner.readSession(session.id);
  assert.deepEqual(Object.keys(agentState.requests), ['r1'], 'the request still waits for its owner');
});
