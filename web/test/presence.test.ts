// Reports whether the page is in use.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';
import { HubError, unreachableError } from '../src/api/errors.ts';
import { Presence, type Visibility } from '../src/api/presence.ts';
import { advance, flushPromises } from './support/promises.ts';

function setup() {
  const page = { isVisible: true, respond: async () => {} };
  const reports: [string, Visibility][] = [];
  const report = (id: string, visibility: Visibility) => {
    reports.push([id, visibility]);
    return page.respond();
  };
  const gone: number[] = [];
  presence = new Presence({ isVisible: () => page.isVisible, report, onSubscriptionGone: () => gone.push(reports.length) });
  return { page, reports, gone, visibilities: () => reports.map(([, visibility]) => visibility) };
}

/** Connects a new subscription of a visible page in use. */
function connect() {
  const fixture = setup();
  presence.prepareSubscription();
  presence.handleConnected('s1');
  return fixture;
}

let presence: Presence;
beforeEach(() => mock.timers.enable({ apis: ['setTimeout', 'Date'] }));
afterEach(() => {
  presence.stop();
  mock.timers.reset();
});

test('starts a subscription with the current visibility and reports only later changes', async () => {
  const { page, reports } = setup();
  assert.equal(presence.prepareSubscription(), 'visible');
  presence.handleVisibilityChange();
  presence.handleConnected('s1');
  assert.deepEqual(reports, []);
  assert.equal(presence.prepareSubscription(), 'visible');
  page.isVisible = false;
  presence.handleConnected('s2');
  assert.deepEqual(reports, [['s2', 'hidden']]);
});

test('a page in view reports `hidden` 60 s after its last input, and reports the next input at once', async () => {
  const { reports, visibilities } = connect();
  await advance(59_999);
  assert.deepEqual(visibilities(), []);
  await advance(1);
  assert.deepEqual(visibilities(), ['hidden']);
  await advance(600_000);
  // Several events of one movement are one report.
  for (const _ of [1, 2, 3]) presence.handleInput();
  await flushPromises();
  assert.deepEqual(visibilities(), ['hidden', 'visible']);
  await advance(30_000);
  presence.handleInput();
  await advance(30_000);
  assert.deepEqual(visibilities(), ['hidden', 'visible', 'visible'], 'the page is still in use');
  await advance(29_999);
  assert.equal(reports.length, 3);
  await advance(1);
  assert.deepEqual(visibilities(), ['hidden', 'visible', 'visible', 'hidden']);
});

test('a subscription without recent input starts hidden, and reports input that came before it was connected', async () => {
  const { page, reports } = setup();
  await advance(60_000);
  assert.equal(presence.prepareSubscription(), 'hidden');
  presence.handleInput();
  presence.handleConnected('s1');
  assert.deepEqual(reports, [['s1', 'visible']]);
  page.isVisible = false;
  presence.handleVisibilityChange();
  presence.handleInput();
  await advance(600_000);
  assert.deepEqual(
    reports,
    [
      ['s1', 'visible'],
      ['s1', 'hidden'],
    ],
    'a hidden page is not in use',
  );
  page.isVisible = true;
  presence.handleVisibilityChange();
  assert.deepEqual(reports.at(-1), ['s1', 'visible'], 'a person has shown it');
});

test('repeats the report every minute while there is input, and then reports `hidden` once', async () => {
  const { page, reports, visibilities } = connect();
  for (let seconds = 0; seconds < 150; seconds += 1) {
    presence.handleInput();
    await advance(1000);
  }
  page.isVisible = false;
  presence.handleVisibilityChange();
  await flushPromises();
  await advance(600_000);
  assert.deepEqual(visibilities(), ['visible', 'visible', 'hidden']);
  page.isVisible = true;
  presence.handleVisibilityChange();
  await flushPromises();
  assert.equal(reports.length, 4);
  presence.stop();
  await advance(600_000);
  assert.equal(reports.length, 4);
});

test('the first input after a toast is reported; without input, the page does not report that it is in use', async () => {
  const { page, reports, visibilities } = connect();
  await advance(10_000);
  presence.handleToast();
  for (const _ of [1, 2, 3]) presence.handleInput();
  await flushPromises();
  assert.deepEqual(visibilities(), ['visible'], 'one report for a toast');
  // The last input is later than the input that determined the time of the next report.
  await advance(30_000);
  presence.handleInput();
  await advance(10_000);
  presence.handleToast();
  await advance(49_999);
  assert.deepEqual(visibilities(), ['visible'], 'no input after the toast');
  await advance(1);
  assert.deepEqual(visibilities(), ['visible', 'hidden']);
  presence.handleInput();
  await flushPromises();
  presence.handleToast();
  assert.equal(presence.prepareSubscription(), 'hidden', 'the page reconnects by itself');
  presence.handleConnected('s2');
  await advance(600_000);
  assert.deepEqual(visibilities(), ['visible', 'hidden', 'visible']);
  page.isVisible = false;
  presence.handleToast();
  page.isVisible = true;
  presence.handleVisibilityChange();
  assert.deepEqual(reports.at(-1), ['s2', 'visible'], 'showing the page is input');
});

test('retries a report that failed before a toast', async () => {
  const { page, reports } = connect();
  page.respond = async () => Promise.reject(unreachableError());
  presence.handleVisibilityChange();
  await flushPromises();
  presence.handleToast();
  page.respond = async () => {};
  await advance(1000);
  assert.deepEqual(reports, [
    ['s1', 'visible'],
    ['s1', 'hidden'],
  ]);
});

test('retries a failed report', async () => {
  const { page, reports } = connect();
  page.isVisible = false;
  page.respond = async () => Promise.reject(unreachableError());
  presence.handleVisibilityChange();
  await flushPromises();
  await advance(1000);
  await advance(1999);
  assert.equal(reports.length, 2);
  page.respond = async () => {};
  await advance(1);
  await advance(600_000);
  assert.deepEqual(reports, Array(3).fill(['s1', 'hidden']));
});

test('stops reporting for a subscription that the hub does not know, and requests another one', async () => {
  const { page, reports, gone } = connect();
  page.respond = async () => Promise.reject(new HubError(404, 'subscription_not_found', 'There is no such subscription.'));
  await advance(60_000);
  await advance(600_000);
  assert.deepEqual([reports.length, gone], [1, [1]]);
  page.respond = async () => {};
  presence.prepareSubscription();
  presence.handleConnected('s2');
  presence.handleInput();
  await flushPromises();
  assert.deepEqual(reports.at(-1), ['s2', 'visible']);
});

test('ignores the outcome of an older report', async () => {
  const { page, visibilities } = connect();
  let fail = () => {};
  page.respond = () => new Promise((_, reject) => (fail = () => reject(unreachableError())));
  page.isVisible = false;
  presence.handleVisibilityChange();
  page.respond = async () => {};
  page.isVisible = true;
  presence.handleVisibilityChange();
  fail();
  await flushPromises();
  await advance(1000);
  assert.deepEqual(visibilities(), ['hidden', 'visible']);
});
