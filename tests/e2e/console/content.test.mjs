/** Content of agents and users in the web console. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, waitForCount, waitForEqual, waitForMatch } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { liveTalk, outputRecord, sayAll } from '../lib/records.mjs';
import { openInPage } from '../lib/views.mjs';

const { hub, visit, openTalk } = await startConsole();

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const textRecord = (value) => outputRecord({ type: 'text', text: value });

/** Creates a session with messages of its agent, and opens the session on a page. */
const openConversation = (t, namespace, messages, options = DESK, metadata = {}) =>
  openTalk(t, namespace, { tag: '/code/x', metadata, messages }, options);

test('shows images that agents and tools send, and replaces external images by links', async (t) => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
  const { page } = await openConversation(t, 'pictures', [
    outputRecord(image),
    outputRecord({ type: 'tool_use', id: 's', name: 'Screenshot', input: { url: 'http://localhost' } }),
    outputRecord({
      type: 'tool_result',
      tool_use_id: 's',
      content: [{ type: 'text', text: 'Two of them' }, image, { type: 'image', data: PNG, mimeType: 'image/png' }],
    }),
    textRecord(`![the plan](https://pictures.example/plan.png) ![own](data:image/png;base64,${PNG}) ![lost](lost.png)`),
  ]);
  const isDrawn = (name) =>
    page
      .getByRole('img', { name, exact: true })
      .evaluate((/** @type {HTMLImageElement} */ element) => element.decode().then(() => element.naturalWidth === 1));
  assert.equal(await isDrawn('Image'), true);
  assert.equal(await isDrawn('own'), true);
  await waitForEqual(() => page.getByRole('link', { name: 'the plan' }).getAttribute('href'), 'https://pictures.example/plan.png');
  await waitForCount(page.locator('.markdown').getByRole('link'), 1);
  await page.locator('.markdown', { hasText: 'lost' }).waitFor();
  await page.locator('summary', { hasText: 'Screenshot' }).click();
  await page.getByText('Two of them').waitFor();
  for (const name of ['Image 1', 'Image 2']) assert.equal(await isDrawn(name), true);
});

test('shows each text in the direction of its writing system, and code from left to right', async (t) => {
  const code = '`git commit -m "fix"`';
  const userMessage = { role: 'user', content: { type: 'text', text: `مرحبا ${code}\nhello` } };
  const { page } = await openConversation(
    t,
    'scripts',
    [userMessage, textRecord(`بالتأكيد، سأنظر أولا ${code}.\n\nIn English.\n\n1. أولا\n\n\`\`\`sh\nls\n\`\`\``)],
    DESK,
    { name: 'اسم' },
  );
  const directionOf = (locator) => locator.first().evaluate((element) => getComputedStyle(element).direction);
  await page.locator('.markdown').waitFor();
  assert.equal(await directionOf(page.getByText('بالتأكيد')), 'rtl');
  assert.equal(await directionOf(page.getByText('In English.')), 'ltr');
  assert.equal(await directionOf(page.locator('.markdown ol')), 'rtl');
  assert.equal(await directionOf(page.locator('.markdown pre')), 'ltr');
  for (const place of ['.user-message-text', '.markdown p']) {
    const shown = page.locator(`${place} code`).first();
    assert.equal((await shown.textContent()).replaceAll('`', ''), code.replaceAll('`', ''));
    assert.deepEqual(await shown.evaluate((element) => [getComputedStyle(element).direction, getComputedStyle(element).unicodeBidi]), [
      'ltr',
      'isolate',
    ]);
  }
  const { composer } = new Chat(page);
  await composer.fill('שלום');
  assert.equal(await directionOf(composer), 'rtl');
});

test('on a phone, the button that copies code does not cover the code', async (t) => {
  const { page } = await openConversation(t, 'touch', [textRecord(`\`\`\`sh\n${'a long line '.repeat(20)}\nls\n\`\`\``)], PHONE);
  const code = page.locator('.code-block pre');
  const button = page.getByRole('button', { name: 'Copy code' });
  await button.waitFor();
  const [pre, copy] = await Promise.all([code.boundingBox(), button.boundingBox()]);
  assert.ok(copy.y >= pre.y + pre.height || copy.y + copy.height <= pre.y, JSON.stringify({ pre, copy }));
});

test('fits long words into the width of a phone', async (t) => {
  const long = 'a_word_without_an_end_'.repeat(11);
  const table = `| ${long} | two |\n|---|---:|\n| 1 | 2 |`;
  const { page, setRequests } = await openConversation(
    t,
    'long',
    [
      {
        role: 'user',
        content: {
          type: 'text',
          text: long,
          attachments: [{ id: 'a', filename: `${long}.png`, mimeType: 'image/png', size: 1, path: '/x' }],
        },
      },
      textRecord(`# ${long}\n\n${long}\n\n\`${long}\`\n\n${table}\n\n\`\`\`rust\nfn ${long}() {}\n\`\`\``),
      outputRecord({ type: 'tool_use', id: 't', name: `mcp__${long}`, input: { command: long } }),
      outputRecord({ type: 'tool_result', tool_use_id: 't', content: long, is_error: true }),
    ],
    PHONE,
    { name: long, path: `/code/${long}`, host: long },
  );
  await setRequests({ r: { tool: long, arguments: { command: long }, createdAt: 1 } });
  await page.getByRole('region', { name: 'Requested action' }).waitFor();
  await page.locator('summary', { hasText: 'mcp__' }).tap();
  const measureWidth = () =>
    page.evaluate(() => {
      const isClipped = (element) =>
        element !== null && (/auto|scroll|hidden/.test(getComputedStyle(element).overflowX) || isClipped(element.parentElement));
      const overflowing = [...document.querySelectorAll('#app *')].filter(
        (element) => element.getBoundingClientRect().right > innerWidth + 1 && !isClipped(element.parentElement),
      );
      const tooWide = overflowing.map(({ outerHTML }) => outerHTML.slice(0, 120));
      return { fits: document.documentElement.scrollWidth <= innerWidth, tooWide };
    });
  await page.locator('.disclosure-body').waitFor();
  assert.deepEqual(await measureWidth(), { fits: true, tooWide: [] });
  await page.getByRole('button', { name: 'Write a message' }).click();
  await page.locator('input[type=file]').setInputFiles([{ name: `${long}.txt`, mimeType: 'text/plain', buffer: Buffer.from('x') }]);
  await page.getByRole('list', { name: 'Files to send' }).waitFor();
  assert.deepEqual(await measureWidth(), { fits: true, tooWide: [] });
  const logFits = await page.getByRole('log').evaluate((log) => log.scrollWidth <= log.clientWidth);
  assert.equal(logFits, true);
  await openInPage(page, '/');
  await page.getByRole('link', { name: /a_word/ }).waitFor();
  assert.deepEqual(await measureWidth(), { fits: true, tooWide: [] });
});

test('copies code, and truncates very long content at first', async (t) => {
  const lines = Array.from({ length: 1100 }, (_, index) => `line ${index + 1}`);
  const { page, context } = await openConversation(t, 'copy', [
    textRecord('Run this:\n\n```sh\nnpm run dev\n```'),
    outputRecord({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'seq 1100' } }),
    outputRecord({ type: 'tool_result', tool_use_id: 't', content: lines.join('\n') }),
    outputRecord({ type: 'tool_use', id: 'w', name: 'Write', input: { file_path: 'long.txt', content: `${lines.join('\n')}\n` } }),
    outputRecord({ type: 'tool_result', tool_use_id: 'w', content: 'x'.repeat(60_000) }),
  ]);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.locator('.code-block').hover();
  await page.getByRole('button', { name: 'Copy code' }).click();
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'npm run dev');
  await page.locator('summary', { hasText: 'seq 1100' }).click();
  const outputElement = page.locator('.disclosure-body .output');
  const waitForOutput = (predicate, what) => eventually(async () => predicate(await outputElement.textContent()), what);
  const waitForLastLine = (line) => waitForOutput((content) => content.endsWith(`\n${line}`), `an output that ends with ${line}`);
  await waitForLastLine('line 200');
  await page.getByRole('button', { name: 'Show all 1100 lines' }).press('Enter');
  await waitForLastLine('line 1100');
  await page.locator('summary', { hasText: 'seq 1100' }).click();

  await page.locator('summary', { hasText: 'long.txt' }).click();
  const diff = page.getByRole('region', { name: 'Edit of long.txt' });
  await diff.waitFor();
  await waitForCount(diff.locator('[data-kind="added"]'), 1000);
  await page.getByRole('button', { name: 'Show all 1100 lines' }).press('Enter');
  await waitForCount(diff.locator('[data-kind="added"]'), 1100);
  await waitForOutput(({ length }) => length === 50_000, 'the start of the output');
  await page.getByRole('button', { name: 'Show all 60000 characters' }).press('Enter');
  await waitForOutput(({ length }) => length === 60_000, 'the whole output');
});

test('shows all of a long diff without moving the view, lays out only the lines near the viewport, and copies all lines without numbers', async (t) => {
  const lines = Array.from({ length: 3000 }, (_, index) =>
    index % 7 === 6 ? '' : `${'\t'.repeat(index % 3)}line ${index + 1}${' of a long file'.repeat(3)}`,
  );
  const { page, context } = await openConversation(
    t,
    'long-diff',
    [outputRecord({ type: 'tool_use', id: 'w', name: 'Write', input: { file_path: 'long.txt', content: `${lines.join('\n')}\n` } })],
    PHONE,
  );
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.locator('summary', { hasText: 'long.txt' }).tap();
  const rows = page.getByRole('table').getByRole('row');
  const isLaidOut = (index) => rows.nth(index).evaluate((row) => row.checkVisibility({ contentVisibilityAuto: true }));
  /** Presses a button right after scrolling: for 150 ms, the list takes the growth of a row above its view for growth above the view. */
  const pressInView = (button) =>
    button.evaluate(async (element) => {
      element.scrollIntoView({ block: 'center' });
      await new Promise(requestAnimationFrame);
      element.click();
    });
  const showWhole = page.getByRole('button', { name: /^Show all \(.* KiB\)$/ });
  await showWhole.waitFor();
  const shownRows = await rows.count();
  await pressInView(showWhole);
  // The first rows are the head of the table and that of the hunk.
  await waitForCount(rows, 1002);
  await waitForEqual(() => Promise.all([shownRows - 1, 1001].map(isLaidOut)), [true, false]);
  await pressInView(page.getByRole('button', { name: 'Show all 3000 lines' }));
  await waitForCount(rows, 3002);
  // The view stays at the line after which the lines were added.
  await waitForEqual(() => Promise.all([2, 1001, 3001].map(isLaidOut)), [false, true, false]);
  await rows.nth(3001).scrollIntoViewIfNeeded();
  await waitForEqual(() => Promise.all([1001, 3001].map(isLaidOut)), [false, true]);
  await waitForEqual(() => rows.nth(3001).getByRole('cell').allTextContents(), ['3000', '+added', lines.at(-1)]);
  await page.evaluate(() => {
    getSelection().setBaseAndExtent(document.querySelector('[data-kind]'), 0, document.querySelector('[role=table]').lastElementChild, 50);
    document.execCommand('copy');
  });
  await waitForEqual(async () => (await page.evaluate(() => navigator.clipboard.readText())).trimEnd(), lines.join('\n').trimEnd());
});

test('shows the start and the end of a large output, and loads the whole output only on demand', async (t) => {
  const lines = ['the first line', ...Array.from({ length: 200_000 }, (_, index) => `line ${index} of the log`), 'error: the last line'];
  const imageBlock = (size) => ({
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: `${PNG.replace(/=+$/, '')}${'A'.repeat(size)}` },
  });
  const messages = [
    outputRecord({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'make test' } }),
    outputRecord({ type: 'tool_result', tool_use_id: 't', content: lines.join('\n') }),
    outputRecord(imageBlock(3_000_000)),
    textRecord('The test failed.'),
  ];
  const { page } = await openConversation(t, 'large', messages, PHONE);
  await page.getByText('An image is not loaded.').waitFor();
  // The browser's own record: Playwright's sizes of a request can stay unanswered.
  const bytes = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter(({ name }) => /\/messages\?/.test(name))
      .map((entry) => /** @type {PerformanceResourceTiming} */ (entry).encodedBodySize),
  );
  assert.ok(bytes.length > 0 && Math.max(...bytes) < 30_000, `${bytes} bytes`);
  await page.getByRole('button', { name: 'Show all (2.9 MiB)' }).tap();
  await page.getByRole('img', { name: 'Image', exact: true }).waitFor({ state: 'attached' });
  await waitForCount(page.getByText('An image is not loaded.'), 0);
  await page.getByRole('button', { name: /^… 4\.\d MiB in total$/ }).tap();
  const shown = page.locator('.disclosure-body .output');
  await waitForMatch(() => shown.textContent(), /^the first line\n[^]*\n\[4\.\d MiB left out\]\n[^]*\nerror: the last line$/);
  // After an error, the button works again.
  await page.route(/limit=1$/, (route) => route.abort());
  const showAll = page.getByRole('button', { name: /^Show all \(4\.\d MiB\)$/ });
  await showAll.tap();
  await page.getByText('Could not load the message').waitFor();
  await page.unroute(/limit=1$/);
  await showAll.tap();
  await eventually(async () => (await shown.textContent()) === lines.join('\n'), 'the whole output');
  await waitForCount(showAll, 0);
});

test('loads large images once they are in view', async (t) => {
  const image = {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: `${PNG.replace(/=+$/, '')}${'A'.repeat(200_000)}` },
  };
  const { page } = await openConversation(t, 'large-images', [
    outputRecord(image),
    outputRecord({ type: 'tool_use', id: 's', name: 'Screenshot', input: { url: 'http://localhost' } }),
    outputRecord({ type: 'tool_result', tool_use_id: 's', content: [{ type: 'text', text: 'The page' }, image] }),
    textRecord('Both are there.'),
  ]);
  const images = page.getByRole('img', { name: 'Image', exact: true });
  await waitForCount(images, 1);
  await page.locator('summary', { hasText: 'Screenshot' }).click();
  await waitForCount(images, 2);
  await page.getByText('The page').waitFor();
});

test('keeps a long text expanded after it scrolls out of view, until its item is collapsed', async (t) => {
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index + 1}`).join('\n');
  const { page, chat, say } = await openConversation(t, 'expanded-text', [
    outputRecord({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'seq 300' } }),
    outputRecord({ type: 'tool_result', tool_use_id: 't', content: lines }),
  ]);
  const summary = chat.log.locator('summary', { hasText: 'seq 300' });
  await summary.click();
  await page.getByRole('button', { name: 'Show all 300 lines' }).press('Enter');
  const waitForEnd = (end, prepare = async () => {}) =>
    eventually(async () => {
      await prepare();
      return end.test((await chat.log.locator('.output').allTextContents()).join(''));
    }, `an output that ends with ${end}`);
  await waitForEnd(/\nline 300$/);
  await sayAll(say, 60, (number) => `Message number ${number}.`);
  await chat.log.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await chat.waitForText('Message number 60.');
  await summary.waitFor({ state: 'detached' });
  await waitForEnd(/\nline 300$/, () => chat.log.evaluate((element) => element.scrollTo(0, 0)));
  await summary.click();
  await chat.log.getByRole('button', { name: '… 294 more lines' }).click();
  await waitForEnd(/\nline 200$/);
});

test('stays responsive with texts that are costly to render', async (t) => {
  const costly = {
    spaces: `a${' '.repeat(60_000)}b`,
    'email addresses': `${'a.'.repeat(20_000)}@`,
    quotations: '>'.repeat(2000),
    lists: Array.from({ length: 400 }, (_, index) => `${' '.repeat(2 * index)}- a`).join('\n'),
    lines: 'a\n'.repeat(45_000),
    headings: '# a\n'.repeat(24_000),
    tables: '|a|\n|-|\n|b|\n\n'.repeat(7000),
    'code blocks': '```x\n1\n```\n'.repeat(8000),
    tags: `${'<b>'.repeat(400)}${'<div>\n'.repeat(10_000)}`,
    long: 'a '.repeat(100_000),
  };
  const { page } = await visit(t, 'costly');
  for (const [name, markdown] of Object.entries(costly)) {
    const messages = [textRecord(`This is about ${name}.\n\n${markdown}`), textRecord('The end.\n\n```constructor\nx\n```')];
    await openInPage(page, (await liveTalk(t, hub, 'costly', { tag: name, messages })).path);
    await page.getByRole('log').getByText(`This is about ${name}.`).waitFor({ state: 'attached' });
    await page.getByText('The end.').last().waitFor();
    assert.equal(await page.getByText('This part could not be displayed').count(), 0);
    await page.getByLabel('Message to the agent').fill('The page responds.');
  }
});

test('tolerates invalid requests and attachments, and drops invalid values in the responses of a CLI, or shows an error', async (t) => {
  const invalid = {
    role: 'user',
    content: { type: 'text', text: 'with files', attachments: [{ filename: { a: 1 }, size: 'x' }, 5, null] },
  };
  const { page, cli, session, setState } = await openConversation(t, 'invalid', [invalid, textRecord('Said.')]);
  const requests = { r1: { tool: { a: 1 }, arguments: null, createdAt: 'x' } };
  const completedRequests = { r1: { tool: {}, status: {}, reason: { a: 1 }, allowTools: 5, answers: [1], completedAt: 'x' } };
  await setState({ requests, completedRequests });
  await page.getByRole('region', { name: 'A tool request' }).waitFor();
  await page.locator('summary', { hasText: 'Not answered' }).click();
  await page.getByText('Said.').last().waitFor();
  await page.getByText('Unnamed file', { exact: true }).waitFor();

  // The responses of the CLI.
  await setState({});
  const results = { gitDiffNumstat: { success: true, files: [null, { path: 5 }] } };
  for (const name of ['listDirectory', 'readFile', 'gitStatus', 'gitDiffNumstat', 'listSlashCommands', 'listSkills'])
    await cli.serve(`${session.id}:${name}`, () => results[name]);
  const expectText = async (path, changes, text) => {
    Object.assign(results, changes);
    // The conversation replaces the view, which then loads its data again.
    await openInPage(page, `/sessions/${session.id}`);
    await page.getByText('Said.').last().waitFor();
    await openInPage(page, `/sessions/${session.id}${path}`);
    await page.getByText(text, { exact: true }).first().waitFor();
  };
  const unknownError = 'The agent reported an error without a message.';
  await expectText('/files', { listDirectory: { success: true, entries: {} } }, 'The directory is empty.');
  await expectText(
    '/files',
    { listDirectory: { success: true, entries: [null, { name: 5 }, { name: 'a.txt', type: 'file', size: {} }] } },
    'a.txt',
  );
  await waitForCount(page.getByRole('treeitem'), 1);
  await expectText('/files', { listDirectory: { success: false, error: { a: 1 } } }, unknownError);
  for (const content of [5, '!no base64!'])
    await expectText('/files?path=a.txt', { readFile: { success: true, content } }, 'The agent returned no valid file content.');
  await expectText(
    '/changes',
    { gitStatus: { success: true, branch: {}, files: [null, { path: 5 }, { path: 'b.txt', status: {}, index: 5 }] } },
    'No changes',
  );
  await expectText(
    '/changes',
    { gitDiffNumstat: { success: true, files: {} } },
    'The agent answered with git output that the console cannot read.',
  );
  await expectText('/changes', { gitStatus: { success: 'yes' }, gitDiffNumstat: { success: true, files: [] } }, unknownError);
  Object.assign(results, {
    listSlashCommands: { success: true, commands: [5, null, 'compact'] },
    listSkills: { success: true, skills: [null, { name: {} }, { name: 'review', description: {} }] },
  });
  await page.goto(`/sessions/${session.id}`);
  await page.getByText('Said.').last().waitFor();
  await page.getByLabel('Message to the agent').fill('/');
  await waitForCount(page.locator('.completions li'), 2);
  await waitForEqual(() => page.locator('.completions li').allTextContents(), ['/compact', '/reviewSkill']);
});
