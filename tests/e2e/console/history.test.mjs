/** Reading a conversation in the web console: days and times, folded turns, the reading place, new messages, search, dates and export. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { DESK, PHONE, signInUrl, waitForFocus, positionOf, scrollUpTo, waitForEqual, waitForCount, waitForMatch } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { outputRecord, sayAll } from '../lib/records.mjs';

const { hub, open, visit, startSession } = await startConsole();

/** Creates a session, and functions that write its messages. */
async function writtenSession(t, namespace) {
  const { session, cli } = await liveSession(t, hub, { namespace, tag: `/code/${namespace}`, metadata: { path: '/code/app', host: 'h' } });
  const write = (content) => cli.sendMessage(session.id, content);
  const writeBlock = (block) => write(outputRecord(block));
  return {
    session,
    cli,
    path: `/sessions/${session.id}`,
    ask: (text) => write({ role: 'user', content: { type: 'text', text } }),
    say: (text) => writeBlock({ type: 'text', text }),
    callTool: async (id, command, output) => {
      await writeBlock({ type: 'tool_use', id, name: 'Bash', input: { command } });
      await writeBlock({ type: 'tool_result', tool_use_id: id, content: output });
    },
  };
}

/** Waits until the browser's database has a record of the reading place that fulfills a condition. */
async function waitForStoredReading(page, condition) {
  const read = () =>
    page.evaluate(async () => {
      const completed = (request) => new Promise((done) => request.addEventListener('success', () => done(request.result)));
      const [{ name }] = await indexedDB.databases();
      const database = await completed(indexedDB.open(name));
      const records = database.transaction('records').objectStore('records');
      const keys = await completed(records.getAllKeys(IDBKeyRange.lowerBound(['', ''])));
      const values = await Promise.all(keys.filter((key) => key[1] === 'reading').map((key) => completed(records.get(key))));
      database.close();
      return values;
    });
  await eventually(async () => (await read()).some(condition), 'the stored reading place');
}

test('shows the day, the time of each message, and copies the Markdown source of a message', async (t) => {
  const { path, ask, say } = await writtenSession(t, 'times');
  await ask('What is **this**?');
  await say('A *text* with `code`.');
  const { page, context } = await visit(t, 'times', { ...DESK, path });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const chat = new Chat(page);
  await chat.waitForText('A text with code.');
  await chat.log.getByRole('separator', { name: 'Today' }).waitFor();
  const times = chat.log.locator('time');
  await waitForCount(times, 2);
  for (const time of await times.all()) {
    await waitForMatch(() => time.textContent(), /^\d\d:\d\d$/);
    await time.hover();
    await waitForMatch(() => time.getAttribute('title'), /\d{4}/);
    assert.ok(Date.parse(await time.getAttribute('datetime')) > Date.now() - 60_000);
  }
  for (const [shown, source] of [
    ['A text with code.', 'A *text* with `code`.'],
    ['What is', 'What is **this**?'],
  ]) {
    const row = chat.log.locator('.message', { hasText: shown });
    await row.hover();
    await row.getByRole('button', { name: 'Copy message' }).click();
    // The notice of the copy before may still be shown.
    await page.locator('.toast', { hasText: source }).getByText('Copied').waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), source);
  }
});

test('folds a turn to its question and its last text, also after a reload, and never the newest turn', async (t) => {
  const { path, ask, say, callTool } = await writtenSession(t, 'turns');
  await ask('First task');
  await say('I look at the files.');
  await callTool('a', 'ls -l', 'notes.txt');
  await callTool('b', 'cat notes.txt', 'one');
  await say('The first answer.');
  await ask('Second task');
  await callTool('c', 'pwd', '/code/app');
  await say('The second answer.');
  const { page } = await visit(t, 'turns', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.waitForText('The second answer.');
  const line = chat.log.getByRole('button', { name: /^3 steps · \d+ s$/ });
  await line.tap();
  await chat.log.getByText('I look at the files.').waitFor({ state: 'detached' });
  await waitForCount(chat.log.locator('summary', { hasText: 'ls -l' }), 0);
  await chat.log.getByText('The first answer.').waitFor();
  await waitForEqual(() => line.getAttribute('aria-expanded'), 'false');
  await waitForStoredReading(page, ({ folds }) => folds.exceptions.length === 1);
  await page.reload();
  await chat.waitForText('The first answer.');
  await waitForCount(chat.log.getByText('I look at the files.'), 0);
  // The newest turn has no such line.
  await waitForCount(chat.log.getByRole('button', { name: /steps? ·/ }), 1);
  await line.tap();
  await chat.log.getByText('I look at the files.').waitFor();

  const chooseInMenu = async (item) => {
    await page.getByRole('button', { name: 'Session actions' }).tap();
    await page.getByRole('menuitem', { name: item }).tap();
  };
  await chooseInMenu('Fold earlier turns');
  await chat.log.getByText('I look at the files.').waitFor({ state: 'detached' });
  await chat.log.locator('summary', { hasText: 'pwd' }).waitFor();
  await chooseInMenu('Open all turns');
  await chat.log.getByText('I look at the files.').waitFor();
});

test('keeps the place after a reload and in another view, and counts the messages that arrived meanwhile', async (t) => {
  const { path, say } = await writtenSession(t, 'reload');
  await sayAll(say, 150, (number) => `Text ${number}.${'\n\nA line.'.repeat(number % 4)}`);
  const { page } = await visit(t, 'reload', { ...DESK, path });
  const chat = new Chat(page);
  await chat.waitForText('Text 150.');
  // The message is on an older page of the history than the page that a reload loads first.
  const target = chat.log.getByText('Text 70.', { exact: true });
  const before = await scrollUpTo(page, chat.log, target);
  for (const number of [151, 152]) await say(`Text ${number}.`);
  const newButton = page.getByRole('button', { name: 'Newest: 2 new' });
  await newButton.waitFor();
  await page.getByRole('link', { name: 'Settings' }).click();
  await chat.log.waitFor({ state: 'detached' });
  await page.goBack();
  await target.waitFor();
  await eventually(async () => Math.abs((await positionOf(target)) - before) <= 2, 'the same place in the session');
  await waitForStoredReading(page, ({ place }) => place !== null);
  // The first request for the messages around the place fails.
  let failureCount = 0;
  await page.route(/\/messages\?.*(before|after)Seq/, (route) => {
    failureCount += 1;
    return failureCount === 1 ? route.abort() : route.fallback();
  });
  await page.reload();
  await target.waitFor();
  await eventually(async () => Math.abs((await positionOf(target)) - before) <= 2, 'the same place after the reload');
  assert.ok(failureCount > 1, `${failureCount} requests`);

  let isBroken = true;
  await page.route(/\/messages\?.*(before|after)Seq/, (route) => (isBroken ? route.abort() : route.fallback()));
  await page.reload();
  const retry = page.getByRole('main').getByRole('button', { name: 'Try again' });
  await retry.waitFor();
  isBroken = false;
  await retry.click();
  await target.waitFor();
  await eventually(async () => Math.abs((await positionOf(target)) - before) <= 2, 'the same place after the errors');
  await newButton.click();
  await chat.log.getByText('2 new').waitFor();
  await chat.waitForText('Text 151.');
});

test('a session that is opened at its end has a line above the new messages, and a button that shows the line', async (t) => {
  const { path, say } = await writtenSession(t, 'unread');
  await say('The old text.');
  const { page } = await visit(t, 'unread', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.waitForText('The old text.');
  await page.getByRole('link', { name: 'Back to sessions' }).tap();
  await chat.log.waitFor({ state: 'detached' });
  await sayAll(say, 30, (number) => `New text ${number}.`);
  await page.goBack();
  await chat.waitForText('New text 30.');
  await page.getByRole('button', { name: '30 new', exact: true }).tap();
  await chat.log.getByText('30 new').waitFor();
  await chat.waitForText('New text 1.');
  await page.getByRole('button', { name: '30 new', exact: true }).waitFor({ state: 'detached' });
});

test('releases the rows that have left the view', async (t) => {
  const { path, say } = await writtenSession(t, 'released-rows');
  await sayAll(say, 300, (number) => `- message ${number}\n- \`code\`\n- **bold**`);
  const { page } = await visit(t, 'released-rows', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.log.waitFor();
  const client = await page.context().newCDPSession(page);
  const countNodes = async () => {
    await client.send('HeapProfiler.collectGarbage');
    return (await client.send('Memory.getDOMCounters')).nodes;
  };
  const start = chat.log.getByText('Start of the conversation');
  await eventually(async () => {
    await chat.log.evaluate((element) => element.scrollTo(0, 0));
    return (await start.count()) === 1;
  }, 'the oldest message');
  const before = await countNodes();
  await chat.log.evaluate(async (element) => {
    for (let top = -1; element.scrollTop !== top; ) {
      top = element.scrollTop;
      element.scrollTop += element.clientHeight / 2;
      await new Promise(requestAnimationFrame);
    }
  });
  const after = await countNodes();
  assert.ok(after < before * 1.5, `${after} nodes after all rows were in view, ${before} before`);
});

test('searches all messages with Ctrl+F, opens what hides a hit, and goes back to the newest message', async (t) => {
  const { path, ask, say, callTool } = await writtenSession(t, 'search');
  await ask('Find the needle');
  await callTool('a', 'make build', `${'a line of the build\n'.repeat(30)}the needle in the output\n`);
  await say('Done with the first task.');
  await ask('Next');
  await sayAll(say, 400, (number) => `Text ${number}.`);
  await say('The newest needle.');
  const { page } = await visit(t, 'search', { ...DESK, path });
  const chat = new Chat(page);
  await chat.waitForText('The newest needle.');
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: 'Fold earlier turns' }).click();
  await page.keyboard.press('Control+f');
  const field = page.getByRole('searchbox', { name: 'Search in this session' });
  await waitForFocus(field);
  await page.keyboard.type('NEEDLE');
  const status = page.getByRole('search').getByRole('status');
  await status.getByText('1 of 3', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await status.getByText('2 of 3', { exact: true }).waitFor();
  // The output is in a folded turn, in a collapsed tool call, far above the loaded messages.
  const output = chat.log.locator('.disclosure-body .output', { hasText: 'the needle in the output' });
  await output.waitFor();
  const readMarkedTexts = () => page.evaluate(() => [...(CSS.highlights.get('search-current') ?? [])].map((range) => range.toString()));
  await eventually(async () => (await readMarkedTexts()).join() === 'needle', 'the marked text');
  await page.keyboard.press('Enter');
  await status.getByText('3 of 3', { exact: true }).waitFor();
  await chat.log.locator('.message.hit', { hasText: 'Find the needle' }).waitFor();
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.press('Shift+Enter');
  await status.getByText('1 of 3', { exact: true }).waitFor();
  await chat.waitForText('The newest needle.');
  await page.keyboard.press('Enter');
  await output.waitFor();
  // A second Ctrl+F is left to the browser.
  assert.equal(
    await page.evaluate(() =>
      document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'f', ctrlKey: true, bubbles: true, cancelable: true })),
    ),
    true,
  );
  await field.fill('no such text');
  await status.getByText('No message contains this text.').waitFor();
  await page.keyboard.press('Escape');
  await field.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.waitForText('The newest needle.');
  await say('After the search.');
  await chat.waitForText('After the search.');
});

test('after a jump, the wheel scrolls at once, also while messages are measured', async (t) => {
  const { path, say } = await writtenSession(t, 'wheel');
  await say('The needle.');
  // The heights differ from each other, so that each message that comes into view moves those below it.
  await sayAll(say, 150, (number) => `Text ${number}.\n\n${'- line\n'.repeat(number % 7)}`);
  await say('The newest text.');
  const { page } = await visit(t, 'wheel', { ...DESK, path });
  const chat = new Chat(page);
  await chat.waitForText('The newest text.');
  // Turns the wheel from the frame in which the hit appears. Records the scroll position before and after each turn.
  await chat.log.evaluate((log) => {
    const places = [];
    Object.assign(window, { places });
    const turnWheel = () => {
      places.push(log.scrollTop);
      if (places.length > 24) return;
      log.dispatchEvent(new WheelEvent('wheel', { deltaY: 250, bubbles: true }));
      log.scrollBy(0, 250);
      places.push(log.scrollTop);
      requestAnimationFrame(turnWheel);
    };
    new MutationObserver((_, observer) => {
      if (!document.querySelector('.message.hit')) return;
      observer.disconnect();
      requestAnimationFrame(turnWheel);
    }).observe(document, { subtree: true, childList: true, attributes: true });
  });
  await page.keyboard.press('Control+f');
  await waitForFocus(page.getByRole('searchbox', { name: 'Search in this session' }));
  // In one input: on a slow computer, the search of a part of the word would find its hit first, and the next letter would jump again.
  await page.keyboard.insertText('Needle');
  const readPlaces = () => page.evaluate(() => /** @type {any} */ (window).places);
  await eventually(async () => (await readPlaces()).length > 24, 'all turns of the wheel');
  const places = await readPlaces();
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  );
});

test('a search of a long history shows its progress, and can be canceled', async (t) => {
  const { path, say } = await writtenSession(t, 'cancel');
  await sayAll(say, 300, (number) => `Text ${number}.`);
  const { page } = await open(t);
  const requests = [];
  await page.route(/messages\?limit=200&beforeSeq/, (route) => requests.push(route));
  await page.goto(`${hub.url}${path}#token=${encodeURIComponent(hub.token('cancel'))}`);
  const chat = new Chat(page);
  await chat.waitForText('Text 300.');
  await page.keyboard.press('Control+f');
  await waitForFocus(page.getByRole('searchbox', { name: 'Search in this session' }));
  await page.keyboard.type('Text 2');
  const search = page.getByRole('search');
  await search.getByText(/ of 300 messages searched/).waitFor();
  // A pause in typing starts a search that the next key cancels, so there may be more requests than one.
  await eventually(() => requests.length > 0, 'the request of the next page');
  await search.getByRole('button', { name: 'Cancel' }).click();
  await search.getByRole('progressbar').waitFor({ state: 'detached' });
  await search.getByText(/^1 of \d+ · /).waitFor();
});

test('jumps to a date', async (t) => {
  const { path, say } = await writtenSession(t, 'dates');
  await sayAll(say, 200, (number) => `Text ${number}.`);
  const { page } = await visit(t, 'dates', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.waitForText('Text 200.');
  await page.getByRole('button', { name: 'Session actions' }).tap();
  await page.getByRole('menuitem', { name: 'Search' }).tap();
  await page.getByRole('button', { name: 'Jump to a date' }).tap();
  const date = page.getByLabel('Show messages since');
  await date.fill('2100-01-01');
  await page.getByText('No message is that new').waitFor();
  await date.fill('2020-01-01');
  await chat.log.getByText('Text 1.', { exact: true }).waitFor();
  await chat.log.getByText('Start of the conversation').waitFor();
  // The messages in the middle of the history continue while scrolling down, up to the newest message.
  const newest = chat.log.getByText('Text 200.', { exact: true });
  await eventually(async () => {
    await chat.log.evaluate((log) => log.scrollTo(0, log.scrollHeight));
    return (await newest.count()) === 1;
  }, 'the newest message');
  await say('Text 201.');
  await chat.waitForText('Text 201.');
});

test('jumps to a day in the middle of a history, and from a day without messages to the next message', async (t) => {
  const { path, say } = await writtenSession(t, 'days');
  await sayAll(say, 160, (number) => `Text ${number}.`);
  const { page } = await open(t, DESK);
  // Five messages on every second day.
  const noonOf = (seq) => Date.UTC(2026, 0, 1 + 2 * Math.floor((seq - 1) / 5), 12) + seq;
  await page.route(/\/messages\?/, async (route) => {
    const response = await route.fetch();
    const body = await response.json();
    const messages = body.messages.map((message) => ({ ...message, createdAt: noonOf(message.seq) }));
    return route.fulfill({ response, json: { ...body, messages } });
  });
  await page.goto(signInUrl(hub, 'days', path));
  const chat = new Chat(page);
  await chat.waitForText('Text 160.');
  await page.keyboard.press('Control+f');
  await page.getByRole('button', { name: 'Jump to a date' }).click();
  const date = page.getByLabel('Show messages since');
  for (const [day, name, number] of /** @type {const} */ ([
    ['2026-01-21', '21 January', 51],
    ['2026-01-10', '11 January', 26],
    ['2026-02-10', '10 February', 101],
  ])) {
    await date.fill(day);
    const first = chat.log.getByText(`Text ${number}.`, { exact: true });
    await first.waitFor();
    const separator = chat.log.getByRole('separator', { name: new RegExp(name) });
    await separator.waitFor();
    await eventually(async () => {
      const [log, line, message] = await Promise.all([chat.log, separator, first].map((each) => each.boundingBox()));
      return log && line && message && line.y >= log.y && line.y < message.y && message.y + message.height <= log.y + log.height;
    }, `message ${number} in view, below the line of its day`);
  }
});

test('exports all messages as Markdown and as JSON, large messages included', async (t) => {
  const { session, path, ask, say, callTool } = await writtenSession(t, 'export');
  await hub.web('export').patch(`/api/sessions/${session.id}`, { name: 'Fix the build: part 1/2' });
  await ask('Please fix it');
  const output = 'a line of a long output\n'.repeat(8_000);
  await callTool('a', 'make', output);
  await sayAll(say, 250, (number) => `Text ${number}.`);
  const { page } = await visit(t, 'export', { ...PHONE, path });
  await new Chat(page).waitForText('Text 250.');
  const download = async (format) => {
    await page.getByRole('button', { name: 'Session actions' }).tap();
    await page.getByRole('menuitem', { name: 'Export' }).tap();
    const dialog = page.getByRole('dialog', { name: 'Export this session' });
    await dialog.getByLabel(format).check();
    const color = (/** @type {Element} */ element) => getComputedStyle(element).accentColor;
    assert.equal(await dialog.getByLabel(format).evaluate(color), 'rgb(10, 102, 83)', 'the colour of the console, not of the browser');
    const downloaded = page.waitForEvent('download');
    await dialog.getByRole('button', { name: 'Export' }).tap();
    const file = await downloaded;
    await dialog.waitFor({ state: 'detached' });
    return { name: file.suggestedFilename(), text: readFileSync(await file.path(), 'utf8') };
  };
  const markdown = await download('Markdown');
  assert.match(markdown.name, /^Fix-the-build-part-1-2-\d{4}-\d\d-\d\d\.md$/);
  assert.ok(markdown.text.startsWith('# Fix the build: part 1/2\n\n/code/app on h\n\n## You · '));
  assert.ok(markdown.text.includes(output.trimEnd()));
  assert.ok(markdown.text.includes('Text 1.\n\nText 2.\n\n') && markdown.text.endsWith('Text 250.\n\n'));
  const json = await download('JSON');
  const { session: about, messages } = JSON.parse(json.text);
  assert.deepEqual([about.title, about.path, messages.length], ['Fix the build: part 1/2', '/code/app', 253]);
  assert.deepEqual(
    messages.map(({ seq }) => seq),
    messages.map((_, index) => index + 1),
  );
});

const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

test('shows thumbnails of images before and after they are sent, also after a reload', async (t) => {
  const { page, chat } = await startSession(t, 'thumbnails', { args: ['--auto-approve'] });
  await chat.composer.waitFor();
  await page
    .getByLabel('Files', { exact: true })
    .setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from(DOT, 'base64') });
  const isShown = (image) => image.evaluate((/** @type {HTMLImageElement} */ element) => element.decode().then(() => element.naturalWidth));
  assert.equal(await isShown(page.getByRole('list', { name: 'Files to send' }).locator('img')), 1);
  await chat.send('echo seen');
  const sent = chat.log.getByRole('list', { name: 'Attachments' }).filter({ hasText: 'dot.png' });
  assert.equal(await isShown(sent.locator('img')), 1);
  await chat.waitForText('Exit code 0.');
  // The uploads of the example agent are outside of the session's directory.
  await page.reload();
  assert.equal(await isShown(sent.locator('img')), 1);
});

test('reads the thumbnails of sent images from the session’s machine, if the hub may read the files', async (t) => {
  const { session, cli, path } = await writtenSession(t, 'read-thumbnails');
  await cli.serve(`${session.id}:readFile`, ({ path: file }) =>
    file === 'uploads/dot.png' ? { success: true, content: DOT } : { success: false, error: 'not found' },
  );
  const attachments = ['dot.png', 'lost.png'].map((filename) => ({
    id: filename,
    filename,
    mimeType: 'image/png',
    size: 70,
    path: `/code/app/uploads/${filename}`,
  }));
  await cli.sendMessage(session.id, { role: 'user', content: { type: 'text', text: 'Look', attachments } });
  const { page } = await visit(t, 'read-thumbnails', { ...PHONE, path });
  const list = new Chat(page).log.getByRole('list', { name: 'Attachments' });
  await list.getByText('lost.png').waitFor();
  for (const kind of ['img', 'svg']) await waitForCount(list.locator(kind), 1);
});
