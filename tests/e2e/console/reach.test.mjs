/** The buttons of a request and of the composer are in reach at every size of the window. */

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { PHONE, signInUrl, SMALL_PHONE, waitForFrames, waitForValue } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, open, visit } = await startConsole();

/** The folder for a picture of each size. By default, no pictures are saved. */
const PICTURES = process.env.REACH_PICTURES;

/** The keyboard of a phone takes the height from 664 to 540 or 480. A desktop of 1280 x 800 at 200 % zoom has 640 x 400. */
const SIZES = [
  [390, 844],
  [390, 664],
  [390, 540],
  [390, 480],
  [844, 390],
  [664, 320],
  [640, 400],
  [320, 568],
  [320, 400],
  [1280, 800],
  [1280, 400],
];

const LINES = Array.from({ length: 30 }, (_, index) => `line ${index} of the text`).join('\n');
const EIGHT_LINES = Array.from({ length: 8 }, (_, index) => `line ${index}`).join('\n');
const question = (text) => ({ question: text, options: ['The first answer', 'The second answer', 'The third answer'] });

const CHOICES = {
  tool: 'Bash',
  arguments: { command: LINES, description: 'Run the migration' },
  sessionRule: { kind: 'command', label: '`git commit` with any message' },
  choices: [
    { id: 'project', label: 'Always allow git commit in this project' },
    { id: 'all', label: 'Always allow everything that git does, in all projects' },
  ],
  createdAt: 1,
};

/** The answers in the sheet of a request, in the order of the page. */
const DENIALS = ['Deny with a reason …', 'Deny and stop'];
const ANSWERS = {
  choices: [CHOICES.choices[0].label, CHOICES.choices[1].label, 'Allow git commit with any message until the agent ends', ...DENIALS],
  'needs-choice': [CHOICES.choices[0].label, CHOICES.choices[1].label, ...DENIALS],
};
/** The smallest height of a choice on a touch screen. */
const MIN_TOUCH_PX = 44;

const REQUESTS = {
  choices: { r1: CHOICES },
  'needs-choice': { r1: { ...CHOICES, needsChoice: true } },
  command: { r1: { tool: 'Bash', arguments: { command: LINES, description: 'Run the migration' }, createdAt: 1 } },
  edit: {
    r1: {
      tool: 'Edit',
      arguments: { file_path: 'src/dates.rs', old_string: LINES, new_string: LINES.replaceAll('line', 'row') },
      createdAt: 1,
    },
  },
  plan: { r1: { tool: 'ExitPlanMode', arguments: { plan: `# The plan\n\n${LINES}` }, createdAt: 1 } },
  questions: {
    r1: { tool: 'AskUserQuestion', arguments: { questions: [question('Which database?'), question('Which port?')] }, createdAt: 1 },
  },
  several: Object.fromEntries(
    Array.from({ length: 6 }, (_, index) => [`r${index}`, { tool: 'Bash', arguments: { command: LINES }, createdAt: index }]),
  ),
};

const metadata = {
  path: '/code/a-directory-with-a-long-name',
  host: 'a-machine',
  name: 'A session with a long name',
  models: [
    { id: 'default', name: 'Default (recommended)' },
    { id: 'opus', name: 'Claude Opus 4.5' },
  ],
  currentModel: 'opus',
  usage: { used: 152_340, size: 200_000, cost: { amount: 12.34, currency: 'USD' } },
};

const OPTIONS = [
  { id: 'effort', name: 'Effort', category: 'thought_level', type: 'select', value: 'medium', choices: [{ id: 'medium', name: 'Medium' }] },
  { id: 'fast', name: 'Fast mode', category: 'model_config', type: 'boolean', value: false },
];

/** Two lines of the content of a request. */
const MIN_CONTENT_PX = 36;

/** Returns the names of the elements that are not completely visible, or that another element covers. */
function findUnreachable(elements) {
  const isHit = (element, x, y) => element.contains(document.elementFromPoint(x, y));
  return elements
    .filter((element) => {
      const { top, left, right, bottom } = element.getBoundingClientRect();
      const isInside = top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth;
      const corners = [
        [left + 3, top + 3],
        [right - 3, top + 3],
        [left + 3, bottom - 3],
        [right - 3, bottom - 3],
      ];
      return !isInside || !corners.every(([x, y]) => isHit(element, x, y));
    })
    .map((element) => `${element.getAttribute('aria-label') ?? element.textContent} ${JSON.stringify(element.getBoundingClientRect())}`);
}

/** Measures the open request once the page is drawn. Runs in the page, which has {@link findUnreachable}. @param {number} width the width of the window */
async function measureRequest(width) {
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const find = (selector) => [...document.querySelectorAll(selector)];
  const choices = find('.request:not(.collapsed) .request-choices > button');
  const unreachable = window.findUnreachable([...choices, ...find('.composer-folded, .composer .primary, .button.stop')]);
  const [content] = find('.request:not(.collapsed) .request-input');
  // All of the content can be scrolled into view.
  content.scrollTo(0, content.scrollHeight);
  const hidden = content.scrollHeight - content.scrollTop - content.clientHeight;
  content.scrollTo(0, 0);
  const { scrollHeight, scrollWidth } = document.documentElement;
  return {
    unreachable,
    heights: choices.map((choice) => choice.getBoundingClientRect().height),
    visible: content.clientHeight,
    hidden,
    // A phone zooms out of a page that is too wide.
    fits: scrollHeight <= innerHeight && scrollWidth <= innerWidth && innerWidth === width,
  };
}

/** Opens the sheet of further answers, checks which answers it has, and closes it. Returns the answers that are not in reach. */
async function checkSheet(page, card, expected, picture) {
  await card.getByRole('button', { name: 'More', exact: true }).click();
  const buttons = page.getByRole('dialog').getByRole('button');
  await buttons.last().waitFor();
  if (picture) await page.screenshot({ path: picture });
  const unreachable = await buttons.evaluateAll(findUnreachable);
  const names = (await buttons.allTextContents()).map((text) => text.trim());
  assert.deepEqual(names, [...expected, 'Cancel']);
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  return unreachable;
}

for (const [name, requests] of Object.entries(REQUESTS)) {
  test(`all buttons are in reach while a request is open, at every size: ${name}`, async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: name, tag: '/code/a', metadata });
    const texts = Array.from({ length: 30 }, (_, index) => ({ role: 'agent', content: { type: 'text', text: `Text ${index}.` } }));
    await Promise.all(texts.map((text) => cli.sendMessage(session.id, text)));
    await cli.keepAlive(session.id, { thinking: true });
    await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
    const { page } = await visit(t, name, { ...PHONE, path: `/sessions/${session.id}` });
    const chat = new Chat(page);
    const card = page.locator('.request:not(.collapsed)');
    await card.waitFor();
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
    await page.evaluate(`void (window.findUnreachable = ${findUnreachable})`);
    const problems = [];
    for (const [draft, text] of Object.entries({ 'no lines': '', 'eight lines': EIGHT_LINES, 'eight lines and files': EIGHT_LINES })) {
      if (text !== '') {
        if (!(await chat.composer.isVisible())) await chat.openComposer();
        await chat.composer.fill(text);
        await waitForValue(chat.composer, text);
      }
      if (draft.includes('files')) {
        // The CLI does not support uploads.
        await page
          .getByLabel('Files', { exact: true })
          .setInputFiles(['a', 'b', 'c'].map((file) => ({ name: `${file}.txt`, mimeType: 'text/plain', buffer: Buffer.from('x') })));
        await page.getByText('A file could not be uploaded.').waitFor();
      }
      for (const [width, height] of SIZES) {
        const size = `${width} x ${height}, ${draft}`;
        await page.setViewportSize({ width, height });
        const { unreachable, heights, visible, hidden, fits } = await page.evaluate(measureRequest, width);
        if (PICTURES) {
          mkdirSync(PICTURES, { recursive: true });
          await page.screenshot({ path: `${PICTURES}/${name}-${width}x${height}-${draft}.png` });
        }
        assert.equal(heights.length, 3, size);
        if (Math.min(...heights) < MIN_TOUCH_PX) problems.push(`${size}: the choices are ${heights} px high`);
        // The sheet is modal: what is below it does not change its layout.
        if (ANSWERS[name] && draft === 'no lines')
          unreachable.push(
            ...(await checkSheet(page, card, ANSWERS[name], PICTURES && `${PICTURES}/${name}-sheet-${width}x${height}.png`)),
          );
        if (unreachable.length > 0) problems.push(`${size}: not in reach: ${unreachable}`);
        if (visible < MIN_CONTENT_PX) problems.push(`${size}: only ${visible} px of the content are visible`);
        if (hidden >= 1) problems.push(`${size}: ${hidden} px of the content cannot be reached`);
        if (!fits) problems.push(`${size}: the page does not fit into the window`);
      }
    }
    assert.deepEqual(problems, []);
  });
}

test('with text of up to 200 %, all controls of a session and of the navigation are in reach, and the mode is not cut', async (t) => {
  const { page } = await visit(t, 'text', SMALL_PHONE);
  const problems = [];
  /** Checks the controls of the open view with each size of text. */
  const checkSizes = async (view, selector, findProblem) => {
    for (const size of [100, 125, 150, 200]) {
      // Unlike the browser's own setting, this does not change what `em` means in a media query.
      await page.evaluate((percent) => {
        document.documentElement.style.fontSize = `${percent}%`;
      }, size);
      await waitForFrames(page);
      const unreachable = await page.locator(selector).evaluateAll(findUnreachable);
      problems.push(...unreachable.map((name) => `${view}, ${size} %: not in reach: ${name}`));
      const problem = await findProblem();
      if (problem) problems.push(`${view}, ${size} %: ${problem}`);
    }
  };
  for (const mode of ['Manual', 'Bypass permissions']) {
    const { session, cli } = await liveSession(t, hub, {
      namespace: 'text',
      tag: mode,
      metadata: { ...metadata, modes: [{ id: 'default', name: mode }], options: OPTIONS },
    });
    await cli.keepAlive(session.id, { thinking: true });
    await page.goto(`/sessions/${session.id}`);
    const select = page.getByLabel('Permission mode');
    await waitForValue(select, 'default');
    await page.getByRole('button', { name: 'Stop', exact: true }).waitFor();
    const controls = '.session-bar :is(a, button, h1), .tabs a, .composer :is(textarea, select, button)';
    await checkSizes(mode, controls, async () => {
      const missing = await select.evaluate((element) => {
        const { width } = element.getBoundingClientRect();
        element.style.cssText = 'max-width: none; width: max-content; min-width: max-content';
        const neededWidth = element.getBoundingClientRect().width;
        element.style.cssText = '';
        return Math.round(neededWidth - width);
      });
      return missing > 0 && `${missing} px of the mode are cut`;
    });
  }
  await page.goto('/');
  await page.getByText(metadata.name).first().waitFor();
  await checkSizes('navigation', '.nav-link', async () => {
    const cut = await page
      .locator('.nav-link > span')
      .evaluateAll((labels) =>
        labels
          .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1 && clientWidth > 1)
          .map(({ textContent }) => textContent),
      );
    return cut.length > 0 && `labels are cut: ${cut}`;
  });
  assert.deepEqual(problems, []);
});

test('a toast covers neither the buttons of a request nor Stop', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'toast', tag: '/code/a', metadata });
  await cli.keepAlive(session.id, { thinking: true });
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests: REQUESTS.edit } });
  const { page } = await open(t, PHONE);
  const sockets = [];
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    sockets.push(socket);
    socket.connectToServer();
  });
  await page.goto(signInUrl(hub, 'toast', `/sessions/${session.id}`));
  await page.locator('.request').waitFor();
  await eventually(() => sockets.length === 1, 'the socket of the page');
  const toast = page.locator('.toast').last();
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    sockets[0].send(
      JSON.stringify({
        type: 'toast',
        eventId: 'x',
        data: { title: 'Permission Request', body: `Another session (Bash) ${width}`, sessionId: 'another', url: '/sessions/another' },
      }),
    );
    await toast.getByText(`Another session (Bash) ${width}`).waitFor();
    if (PICTURES) await page.screenshot({ path: `${PICTURES}/toast-${width}x${height}.png` });
    const buttons = page.locator('.request-choices button, .button.stop, .composer-folded');
    assert.deepEqual(await buttons.evaluateAll(findUnreachable), [], `${width} x ${height}`);
    await toast.getByRole('button', { name: 'Close' }).click();
  }
});
