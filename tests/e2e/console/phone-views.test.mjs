/**
 * The views for work away from the desk: the inbox, the sheet of a request, the queue, and the existing sessions of a machine. They are
 * accessible (axe), fit on a phone with large text and in landscape, and work with the keyboard alone. UPDATE_SCREENS=1 also updates
 * their screenshots in docs/screens.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { DESK, PHONE, signIn, SMALL_PHONE, waitForEqual, waitForFocus } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { outputRecord } from '../lib/records.mjs';
import { NOW } from '../lib/sample.mjs';
import { saveScreenshot, updatesScreens } from '../lib/screens.mjs';
import { assertNoViolationsInThemes, findBrokenWords, findCut, setFontSize, waitUntilLoaded } from '../lib/views.mjs';

const { hub, open } = await startConsole();

const SIZES = { phone: PHONE, desk: DESK };
const DARK_PHONE = { ...SMALL_PHONE, colorScheme: /** @type {const} */ ('dark') };
const LANDSCAPE = { ...DARK_PHONE, viewport: { width: 664, height: 390 } };
/** The size of large text in pixels: 200 %. */
const LARGE_TEXT = 32;

const AGENTS = [
  { id: 'claude', name: 'Claude Code', flavor: 'alpha' },
  { id: 'gemini', name: 'Gemini CLI', flavor: 'delta' },
];
const AGENT_SESSIONS = ['Write the tide tables', 'Find out why the parser accepts a 13th month', 'Rename the columns', 'Plot the moon'];
const QUEUED = ['Then run the tests, and say which tables are wrong', 'Add a table for 2027', 'Commit'];
const minutesAgo = (minutes) => NOW - minutes * 60_000;

const COMMIT = { command: 'git commit --all --message "Reject a 13th month"' };
const DENIED = { tool: 'Bash', arguments: COMMIT, status: 'denied', completedAt: NOW };
const EDIT = { file_path: 'src/moon.rs', old_string: 'let days = 29;', new_string: 'let days = 29.53;' };

/** The sessions: a task, the answer of the agent, and the call that waits or runs. */
const TALKS = {
  dates: {
    name: 'Parse the dates',
    task: 'The parser accepts a 13th month. Please fix it, with a test.',
    answer: 'The parser now rejects it. I will commit the change.',
    call: { id: 'r1', name: 'Bash', input: COMMIT },
    agentState: {
      requests: {
        r1: {
          tool: 'Bash',
          arguments: COMMIT,
          sessionRule: { kind: 'command', label: '`git commit` with any message' },
          createdAt: minutesAgo(4),
        },
      },
    },
  },
  phases: {
    name: 'Compute the phases',
    task: 'Compute the phases of the moon.',
    answer: 'I will correct the length of the month first.',
    call: { id: 'r2', name: 'Edit', input: EDIT },
    agentState: { requests: { r2: { tool: 'Edit', arguments: EDIT, createdAt: minutesAgo(1) } } },
  },
  tables: {
    name: 'Write the moon tables',
    task: 'Write the tables of the moon.',
    answer: 'I compute the phases of each month, and write one table for each year.',
    call: { id: 'call', name: 'Bash', input: { command: 'cargo run --bin tables' } },
    agentState: { queuedMessages: [3, 4, 5], queue: { texts: { 4: 'Add a table for 2027 and 2028' }, steers: false } },
  },
};

/** Creates sessions with requests and a queue, and a machine with existing sessions. Returns the paths of the views. */
async function createSample(t, namespace) {
  const web = hub.web(namespace);
  const openSession = async ({ name, task, answer, call, agentState }) => {
    const metadata = { path: '/code/almanac', host: 'workshop', name, flavor: 'alpha', machineId: 'bench' };
    const live = await liveSession(t, hub, { namespace, tag: name, metadata });
    const { id } = live.session;
    await web.post(`/api/sessions/${id}/messages`, { text: task });
    await live.cli.sendMessage(id, outputRecord({ type: 'text', text: answer }, { type: 'tool_use', ...call }));
    await live.cli.emitWithAck('update-state', { sid: id, expectedVersion: 1, agentState });
    await live.cli.keepAlive(id, { thinking: true });
    return live;
  };
  const { session: dates, cli } = await openSession(TALKS.dates);
  const answers = [];
  await cli.serve(`${dates.id}:permission`, async (answer) => {
    answers.push(answer);
    await cli.emitWithAck('update-state', { sid: dates.id, expectedVersion: 2, agentState: { completedRequests: { r1: DENIED } } });
    return { success: true };
  });
  await openSession(TALKS.phases);

  const { session: tables } = await openSession(TALKS.tables);
  for (const text of QUEUED) await web.post(`/api/sessions/${tables.id}/messages`, { text });

  const machineId = `${namespace}-bench`;
  const metadata = { host: 'workshop', displayName: 'Workshop', platform: 'linux', homeDir: '/home/ada', version: '1.4.0', agents: AGENTS };
  const machine = await liveMachine(t, hub, { namespace, id: machineId, metadata, runnerState: { directories: ['/home/ada'] } });
  const sessions = AGENT_SESSIONS.map((title, index) => ({
    id: `s${index}`,
    title,
    directory: index === 2 ? '/home/ada/tide' : '/home/ada/almanac',
    updatedAt: minutesAgo(1500 * (index + 1)),
    ...(index === 1 ? { sessionId: dates.id } : {}),
  }));
  await machine.serve(`${machineId}:listAgentSessions`, () => ({ success: true, sessions, nextCursor: 'next' }));
  return { answers, dates: `/sessions/${dates.id}`, tables: `/sessions/${tables.id}`, existing: `/machines?existing=${machineId}` };
}

/** Opens a page that is signed in. */
async function visit(t, namespace, options, fontSize = 16) {
  const opened = await open(t, options);
  const { page } = opened;
  await page.clock.setFixedTime(NOW);
  await setFontSize(page, fontSize);
  await signIn(page, hub, namespace);
  await waitUntilLoaded(page);
  /** Opens a view, and waits until it is loaded. */
  const show = async (path) => {
    await page.goto(path);
    await waitUntilLoaded(page);
  };
  return { ...opened, show };
}

const button = (page, name) => page.locator('main').getByRole('button', { name });
const queueRow = (page) => page.locator('.queued-summary').nth(1);

test('axe finds no violation in the inbox, the sheet, the queue and the existing sessions', async (t) => {
  const { dates, tables, existing } = await createSample(t, 'away');
  const views = [
    { name: 'inbox', path: '/inbox', act: (page) => button(page, /^Run a command/).click(), shows: 'Open the session', sizes: ['phone'] },
    { name: 'sheet', path: dates, act: (page) => button(page, 'More').click(), shows: 'Deny and stop', sizes: ['phone'] },
    { name: 'queue', path: tables, act: (page) => queueRow(page).click(), shows: 'Stop also cancels them', sizes: ['phone'] },
    { name: 'existing', path: existing, act: () => {}, shows: AGENT_SESSIONS[3], sizes: ['phone', 'desk'] },
  ];
  for (const [size, device] of Object.entries(SIZES)) {
    const { page, show } = await visit(t, 'away', device);
    for (const { name, path, act, shows, sizes } of views) {
      await show(path);
      await act(page);
      await page.getByText(shows, { exact: true }).last().waitFor();
      await assertNoViolationsInThemes(page, `${name} ${size}`, async (theme) => {
        if (updatesScreens && theme === 'light' && sizes.includes(size)) await saveScreenshot(page, `${name}-${size}-light`);
      });
    }
  }
});

/** Returns how far an element is outside of the window or of another element, in pixels. */
const overflowOf = (page, selector, container = 'html') =>
  page
    .locator(selector)
    .last()
    .evaluate((element, within) => {
      const [inner, outer] = [element, element.closest(within)].map((each) => each.getBoundingClientRect());
      const [bottom, right] = [Math.min(outer.bottom, innerHeight), Math.min(outer.right, innerWidth)];
      return Math.max(0, Math.round(Math.max(outer.left - inner.left, outer.top - inner.top, inner.right - right, inner.bottom - bottom)));
    }, container);

const boxOf = (page, selector) => page.locator(selector).first().boundingBox();

test('with text of 200 % on a phone, no menu is off the screen, no word is broken, and nothing covers the tabs', async (t) => {
  const { dates, tables } = await createSample(t, 'large');
  const { page, context, show } = await visit(t, 'large', DARK_PHONE, LARGE_TEXT);
  await page.getByRole('button', { name: /^Account / }).click();
  await page.getByRole('menu').waitFor();
  assert.equal(await overflowOf(page, '.menu-list'), 0);
  await page.keyboard.press('Escape');
  // A hidden label has one pixel.
  assert.ok((await boxOf(page, '.nav-link > .badge')).width > 8);

  await show('/settings/status');
  assert.deepEqual(await findBrokenWords(page, '.status-facts > dd > bdi'), []);

  await show(dates);
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).waitFor();
  assert.deepEqual(await findBrokenWords(page, '.actions > .button'), []);

  await show(tables);
  await page.locator('.back > .badge').evaluate((badge) => {
    badge.textContent = '99+';
  });
  const [badge, title] = await Promise.all(['.back > .badge', '.session-name h1'].map((selector) => boxOf(page, selector)));
  assert.ok(badge.x + badge.width <= title.x, 'the number of waiting items is beside the title');
  const count = await page.locator('.queue-title > strong').evaluate((element) => element.getClientRects().length);
  assert.equal(count, 1, 'the number of queued messages is on one line');
  await queueRow(page).click();
  await button(page, 'Edit').last().click();
  await page.getByRole('textbox', { name: 'Queued message' }).waitFor();
  assert.equal(await overflowOf(page, '.queued-details .button', '.queue-list'), 0);
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  const [tabs, banner, icon, text] = await Promise.all(
    ['.tabs', '.connection > .notice', '.connection svg', '.connection span'].map((selector) => boxOf(page, selector)),
  );
  assert.ok(banner.y >= tabs.y + tabs.height, 'the banner is below the tabs');
  assert.ok(text.y < icon.y + icon.height, 'the text of the banner is beside its icon');
});

test('in landscape, the buttons below a queued message that is edited are in view', async (t) => {
  const { tables } = await createSample(t, 'landscape');
  const { page, show } = await visit(t, 'landscape', LANDSCAPE);
  await show(tables);
  await queueRow(page).click();
  await button(page, 'Edit').last().click();
  await page.getByRole('textbox', { name: 'Queued message' }).waitFor();
  assert.equal(await overflowOf(page, '.queued-details .button', '.queue-list'), 0);
});

test('in a low window, a request of the list is readable, and its answers are in view', async (t) => {
  await createSample(t, 'low');
  for (const options of [LANDSCAPE, { viewport: { width: 1280, height: 560 } }]) {
    const { page } = await visit(t, 'low', options);
    const [heading, search] = await Promise.all([boxOf(page, '.list-head h1'), boxOf(page, '#search')]);
    assert.equal(search.y < heading.y + heading.height, options === LANDSCAPE, 'in landscape, the search is beside the title');
    await page.getByRole('button', { name: /^Run a command/ }).click();
    await page.locator('.inbox-card').getByRole('button', { name: 'More' }).waitFor();
    assert.deepEqual(await findCut(page, '.inbox-card .request-choices > .button'), []);
    const title = await boxOf(page, '.inbox-card .request-title');
    assert.ok(title.width > 50, 'the title is visible');
    await waitForEqual(() => overflowOf(page, '.request-choices > .button', '.list'), 0);
  }
});

test('in landscape, all items of the menu of a session are in view, and large text leaves its title whole', async (t) => {
  const { dates } = await createSample(t, 'menu');
  for (const fontSize of [16, LARGE_TEXT]) {
    const { page, show } = await visit(t, 'menu', LANDSCAPE, fontSize);
    await show(dates);
    await page.getByRole('button', { name: 'Session actions' }).click();
    await page.getByRole('menu').waitFor();
    assert.equal(await overflowOf(page, '[role="menuitem"]', '.menu-list'), 0);
    const title = page.getByRole('heading', { name: 'Parse the dates', level: 1 });
    assert.ok(await title.evaluate((heading) => heading.scrollWidth <= heading.clientWidth), `the title at ${fontSize} pixels`);
  }
});

/** Presses Tab until an element has the focus. @param {import('playwright-core').Locator} locator */
async function tabTo(page, locator) {
  const hasFocus = () => locator.evaluate((element) => element === document.activeElement);
  for (let press = 0; press < 60 && !(await hasFocus()); press += 1) await page.keyboard.press('Tab');
  await waitForFocus(locator);
}

test('a request of the inbox is denied with a reason, with the keyboard alone', async (t) => {
  const { answers } = await createSample(t, 'keyboard');
  const { page } = await visit(t, 'keyboard', DESK);
  await page.keyboard.press('i');
  await page.getByRole('heading', { name: 'Waiting for you', level: 1 }).waitFor();
  await tabTo(page, button(page, /^Run a command/));
  await page.keyboard.press('Enter');
  await page.locator('main .inbox-card [aria-keyshortcuts="."]').waitFor();
  await page.keyboard.press('.');
  await tabTo(page, page.getByRole('dialog').getByRole('button', { name: 'Deny with a reason …' }));
  await page.keyboard.press('Enter');
  await waitForFocus(page.getByRole('dialog').getByLabel(/Reason for the agent/));
  await page.keyboard.type('Not before the review');
  await tabTo(page, page.getByRole('dialog').getByRole('button', { name: 'Deny', exact: true }));
  await page.keyboard.press('Enter');
  await waitForFocus(button(page, /^Change moon\.rs/));
  assert.equal(answers[0].reason, 'Not before the review');
});
