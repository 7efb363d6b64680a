/** Answers from notifications, with the real service worker of the console. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { clickNotification, deliverPush, waitForNotification } from '../lib/push-browser.mjs';
import { setVisibility, startPushConsole, turnOn } from '../lib/push-console.mjs';
import { liveTalk } from '../lib/records.mjs';

const { service, hub, openSettings } = await startPushConsole();

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
