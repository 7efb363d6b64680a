/** The keys that answer requests, the composer beside an open decision, and requests that are answered elsewhere. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, waitForCount, waitForFocus, waitForValue, waitForEqual, waitForFrames } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';

const { hub, openTalk } = await startConsole();

const command = (text, createdAt = 1) => ({ tool: 'Bash', arguments: { command: text }, createdAt, sessionRule: null });

/** For this long, a request that has just appeared or changed accepts no keys. */
const GUARD_MS = 600;

/** Creates a session with requests, and opens the session on a page. `answered` has the ids and decisions of the answers. */
async function openRequests(t, namespace, requests, options = DESK) {
  const talk = await openTalk(t, namespace, { tag: '/code/shop', metadata: { name: 'Shop' }, requests }, { ...options, hasClock: true });
  const { page } = talk;
  const card = page.locator('.request:not(.collapsed)');
  /** Waits until the card with a text accepts keys. */
  const waitForKeys = async (text) => {
    await card.filter({ hasText: text }).waitFor();
    await page.clock.runFor(GUARD_MS);
    await card.filter({ hasText: text }).locator('[aria-keyshortcuts="d"]').waitFor();
  };
  const answered = () => talk.answered.map(({ id, decision }) => `${id} ${decision}`);
  return { ...talk, answered, card, waitForKeys };
}

test('one key approves, denies, or opens the other answers', async (t) => {
  const requests = { r1: command('first', 1), r2: command('second', 2), r3: command('third', 3) };
  const { page, chat, answered, card, waitForKeys } = await openRequests(t, 'keys', requests);
  await waitForKeys('first');
  await waitForEqual(() => card.locator('.request-choices kbd').allTextContents(), ['a', 'd', '.']);
  await page.keyboard.press('a');
  await waitForKeys('second');
  await page.keyboard.press('d');
  await waitForKeys('third');
  await page.keyboard.press('.');
  await chat.moreAnswers.waitFor();
  // In the sheet, the keys have no effect.
  await page.keyboard.press('a');
  await page.keyboard.press('Escape');
  await waitForFocus(card.getByRole('button', { name: 'More', exact: true }));
  await waitForKeys('third');
  await page.keyboard.press('.');
  await chat.moreAnswers.getByRole('button', { name: 'Deny and stop' }).press('Enter');
  await waitForCount(card, 0);
  assert.deepEqual(answered(), ['r1 approved', 'r2 denied', 'r3 abort']);
});

test('a held key, a quick second press, a modifier or a text field answers no request', async (t) => {
  const requests = { r1: command('first', 1), r2: command('second', 2) };
  const { page, chat, answered, waitForKeys } = await openRequests(t, 'guard', requests);
  await waitForKeys('first');
  // Presses the key again as soon as the second request is open, before it accepts keys.
  await page.evaluate(() => {
    const container = document.querySelector('.requests');
    new MutationObserver((_, observer) => {
      if (!container.querySelector('.request:not(.collapsed)').textContent.includes('second')) return;
      observer.disconnect();
      for (const repeat of [true, false])
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', repeat, bubbles: true, cancelable: true }));
      window.isPressed = true;
    }).observe(container, { childList: true, subtree: true });
  });
  await page.keyboard.down('a');
  await page.waitForFunction(() => window.isPressed);
  await waitForKeys('second');
  // The key is still held.
  await page.keyboard.down('a');
  await page.keyboard.up('a');
  for (const modifier of ['Control', 'Alt', 'Meta', 'Shift']) await page.keyboard.press(`${modifier}+d`);
  await page.keyboard.press('c');
  await waitForFocus(chat.composer);
  await page.keyboard.type('add .');
  await waitForValue(chat.composer, 'add .');
  assert.deepEqual(answered(), ['r1 approved']);
  await page.getByRole('log').focus();
  await page.keyboard.press('d');
  await chat.request().waitFor({ state: 'detached' });
  assert.deepEqual(answered(), ['r1 approved', 'r2 denied']);
});

test('the key to approve shows the rest of a long request first', async (t) => {
  const lines = Array.from({ length: 400 }, (_, index) => `echo line ${index}`).join('\n');
  const { page, answered, card, waitForKeys } = await openRequests(t, 'long', { r1: command(`${lines}\nrm -rf src`) });
  await waitForKeys('echo line 0');
  const box = card.getByRole('region', { name: 'Requested action' });
  const all = card.getByRole('button', { name: 'Show all 401 lines' });
  await page.keyboard.press('a');
  await waitForFocus(all);
  await all.press('Enter');
  await card.getByText('rm -rf src').waitFor();
  // A jump to the end leaves out the lines between.
  await box.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  let presses = 0;
  for (; answered().length === 0 && presses < 100; presses += 1) {
    await page.keyboard.press('a');
    await waitForFrames(page);
  }
  await card.waitFor({ state: 'detached' });
  assert.ok(presses > 10, `${presses} presses`);
  assert.deepEqual(answered(), ['r1 approved']);
});

test('the keys answer no request that has changed, is not loaded, or has open questions', async (t) => {
  const shortened = { ...command('echo\n[52 more characters]'), shortened: { parts: 1, bytes: 1000 } };
  const { page, answered, card, setState, waitForKeys } = await openRequests(t, 'unseen', { r1: command('ls') });
  await waitForKeys('ls');
  await setState({ requests: { r1: command('rm -r src') } });
  await card.getByText('The agent changed this request.').waitFor();
  await page.keyboard.press('a');
  await page.keyboard.press('d');
  await setState({ requests: { r2: shortened } });
  await waitForKeys('more characters');
  await page.keyboard.press('a');
  await setState({
    requests: { r3: { tool: 'Ask', arguments: { questions: [{ question: 'Which shape?', options: ['Round'] }] }, createdAt: 1 } },
  });
  await waitForKeys('Which shape?');
  await page.keyboard.press('a');
  await page.keyboard.press('d');
  await card.waitFor({ state: 'detached' });
  assert.deepEqual(answered(), ['r3 denied']);
});

test('j and k move between the requests of a session, and then to the next session', async (t) => {
  const requests = { r1: command('first', 1), r2: command('second', 2) };
  await hub.web('order').openSession({ tag: '/code/zoo', metadata: { path: '/code/shop', host: 'h', name: 'Zoo' } });
  const { page, card } = await openRequests(t, 'order', requests);
  await page.getByRole('link', { name: /Zoo/ }).waitFor();
  await card.getByText('first').waitFor();
  // Each key is pressed as soon as the request of the key before is shown, before a frame is painted: the console renders in a microtask.
  const shown = await page.evaluate(async () => {
    const container = document.querySelector('.requests');
    const readOpen = () => container.querySelector('.request:not(.collapsed) .request-input').textContent;
    const texts = [readOpen()];
    for (const key of ['j', 'k', 'j', 'k', 'j']) {
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      for (let microtask = 0; microtask < 20; microtask += 1) await null;
      texts.push(readOpen());
    }
    return texts;
  });
  assert.deepEqual(shown, ['first', 'second', 'first', 'second', 'first', 'second']);
  await page.keyboard.press('j');
  await page.getByRole('heading', { name: 'Zoo', level: 1 }).waitFor();
});

test('in a low window, buttons beside the title show the other requests', async (t) => {
  const requests = { r1: command('first', 1), r2: command('second', 2), r3: command('third', 3) };
  const { page, card, answered } = await openRequests(t, 'pager', requests, { ...PHONE, viewport: { width: 390, height: 560 } });
  const [previous, next] = ['Previous request', 'Next request'].map((name) => card.getByRole('button', { name }));
  await card.getByText('1 of 3').waitFor();
  await waitForEqual(() => page.locator('.other-requests').isVisible(), false);
  await waitForEqual(() => previous.isDisabled(), true);
  for (const button of [previous, next]) {
    const { width, height } = await button.boundingBox();
    assert.ok(Math.min(width, height) >= 44, `${width} x ${height}`);
  }
  await next.tap();
  await card.getByText('second').waitFor();
  await waitForFocus(next);
  await page.keyboard.press('Enter');
  await card.getByText('3 of 3').waitFor();
  // The pressed button is disabled now.
  await waitForFocus(previous);
  await previous.tap();
  await card.getByText('second').waitFor();
  await card.getByRole('button', { name: 'Deny', exact: true }).click();
  await card.getByText('1 of 2').waitFor();
  assert.deepEqual(answered(), ['r2 denied']);
  await page.setViewportSize({ width: 390, height: 664 });
  await page.locator('.other-requests').waitFor();
  await waitForEqual(() => next.isVisible(), false);
});

test('the composer folds to a line while a decision is open, but not while a person writes', async (t) => {
  const { page, chat, setState, waitForKeys } = await openRequests(t, 'fold', { r1: command('ls') });
  await waitForKeys('ls');
  await waitForCount(chat.composer, 0);
  await page.getByRole('button', { name: 'Write a message' }).click();
  await waitForFocus(chat.composer);
  await chat.composer.fill('Use make');
  await setState({ requests: {} });
  await chat.request().waitFor({ state: 'detached' });
  await waitForValue(chat.composer, 'Use make');
  await page.keyboard.type(' instead');
  await setState({ requests: { r2: command('pwd') } });
  await chat.request().waitFor();
  await page.keyboard.type(' and ask');
  await waitForValue(chat.composer, 'Use make instead and ask');
  await page.reload();
  await page.getByRole('button', { name: 'Draft: Use make instead and ask' }).click();
  await waitForValue(chat.composer, 'Use make instead and ask');
});

test('on a phone, an empty composer folds, and no keys are shown', async (t) => {
  const { page, chat, setState, card } = await openRequests(t, 'phone', {}, PHONE);
  await chat.composer.tap();
  await setState({ requests: { r1: command('ls') } });
  await page.getByRole('button', { name: 'Write a message' }).waitFor();
  await card.waitFor();
  await waitForCount(page.locator('kbd'), 0);
});

test('a request that is answered elsewhere disappears with a notice', async (t) => {
  const { session, page, card, setState } = await openRequests(t, 'elsewhere', { r1: command('ls', 1), r2: command('pwd', 2) });
  await card.getByText('ls').waitFor();
  // Records the notices, because each disappears after some seconds.
  const notices = [];
  await page.exposeFunction('recordNotice', (title) => notices.push(title));
  await page.locator('.toasts').evaluate((toasts) => {
    const observer = new MutationObserver((changes) => {
      for (const toast of changes.flatMap(({ addedNodes }) => [...addedNodes]))
        window.recordNotice(toast.firstChild.firstChild.textContent);
    });
    observer.observe(toasts, { childList: true });
  });
  const waitForNotice = (count, title) => eventually(() => notices.length === count && notices.at(-1) === title, `notice ${count}`);
  await setState({
    requests: { r2: command('pwd', 2) },
    completedRequests: { r1: { ...command('ls'), status: 'approved', completedAt: Date.now() } },
  });
  await card.getByText('pwd').waitFor();
  await waitForNotice(1, 'Answered on another device');
  await setState({ requests: {}, completedRequests: { r2: { ...command('pwd'), status: 'canceled', completedAt: Date.now() } } });
  await waitForNotice(2, 'The agent no longer asks');
  // An answer of the page itself causes no notice: the next notice is that of the next request.
  await setState({ requests: { r3: command('make', 3), r4: command('rm', 4) } });
  await card.getByText('make').waitFor();
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  await card.getByText('rm').waitFor();
  await hub.web('elsewhere').post(`/api/sessions/${session.id}/permissions/r4/deny`, {});
  await waitForNotice(3, 'Answered on another device');
});
