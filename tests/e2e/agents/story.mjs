/**
 * A story with a real agent from npm, the real hub and a scripted model. In a browser, the console starts, prompts, aborts, kills and
 * resumes the agent, and approves and denies its requests. With UPDATE_SCREENS=1, the story of Claude Code also makes the screenshot of
 * README.md.
 */

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { AGENTS } from '../../../cli/src/agents.mjs';
import { environmentFor } from '../../../cli/test/agents/environments.mjs';
import { startModel } from '../../../cli/test/agents/model/server.mjs';
import { installAgent } from '../../../scripts/build/agents.mjs';
import { startAgent } from '../lib/agent.mjs';
import { deferred } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, waitForCount } from '../lib/browser.mjs';
import { Chat, fillDirectory, openMore, startConsole } from '../lib/console.mjs';
import { Repository, temporaryFolder } from '../lib/git.mjs';
import { ROOT } from '../lib/hub.mjs';
import { Lifetime } from '../lib/lifetime.mjs';
import { Queue } from '../lib/queue.mjs';
import { replaceTexts, saveScreenshot, updatesScreens } from '../lib/screens.mjs';
import { differencesOf } from './differences.mjs';

/** Time limit of each wait. Agents need some seconds of CPU time to start, and Gemini CLI may wait for the next minute. */
const WAIT_MS = 90_000;

const NAMESPACE = 'ada';

const FILE = 'src/invoice.mjs';
const LINE = '  return items.reduce((sum, { price, count }) => sum + price * count, 0);';
const NEW_LINE = '  return items.reduce((sum, { price, count, discount = 0 }) => sum + (price - discount) * count, 0);';
const CODE = `/** Returns the total of an invoice. */
export function total(items) {
${LINE}
}
`;

const PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** Defines the test of an agent. @param {string} name */
export async function testAgent(name) {
  const { hub, visit } = await startConsole();
  test(`${AGENTS[name].title} from npm in a browser`, async (t) => {
    const story = await Story.begin(t, { name, hub, visit });
    let hasFailed = false;
    for (const [title, runChapter, canRun = () => true] of CHAPTERS) {
      const skip = (hasFailed && 'an earlier step failed') || (!canRun(differencesOf(name)) && 'the agent cannot');
      await t.test(title, { skip }, async () => {
        await runChapter(story).catch(async (error) => {
          hasFailed = true;
          throw new Error(`${error.message}\nThe page shows:\n${await story.page.locator('main').innerText()}`, { cause: error });
        });
      });
    }
  });
}

/** @type {[string, (story: Story) => Promise<void>, ((differences: import('./differences.mjs').Differences) => boolean)?][]} */
const CHAPTERS = [
  ['is started from the console', startSession],
  ['text appears while it is written', readLiveText],
  ['an edit is shown as a diff, and is made when it is approved', approveEdit],
  ['a denied command is not run', denyCommand],
  ['an approval for the session covers later commands of the same program, until it is taken back', approveForSession],
  ['an abort ends the turn', abortTurn],
  ['the todos are one card that changes in place', showTodos, ({ todos }) => todos !== undefined],
  ['queued messages are edited, canceled and moved, and run after the turn', changeQueue],
  ['a queued message is sent now', sendNow],
  ['an attached picture reaches the model', attachPicture],
  ['the session is resumed after its bridge was killed with SIGKILL', resumeAfterKill],
];

const requestOn = (page) => page.getByRole('region', { name: / request$/ });

class Story {
  /** @param {{name: string, model: any, repository: Repository, machine: any, page: import('playwright-core').Page,
   *   open: any, chat: Chat}} parts */
  constructor({ name, model, repository, machine, page, open, chat }) {
    this.name = name;
    this.model = model;
    this.repository = repository;
    this.machine = machine;
    this.page = page;
    this.open = open;
    this.chat = chat;
  }

  /**
   * Starts the model, and a machine in a repository.
   * @param {import('node:test').TestContext} t
   */
  static async begin(t, { name, hub, visit }) {
    const bin = await installAgent(name);
    const lifetime = new Lifetime();
    t.after(() => lifetime.end());
    const model = await startModel({ title: 'Discounts of invoices' });
    lifetime.after(() => model.stop());
    const home = temporaryFolder(lifetime);
    const repository = new Repository(lifetime);
    repository.write(FILE, CODE);
    repository.commit('first');
    // The CLI that runs the machine also has a session, with a scripted agent. That session is archived, because the story uses the
    // session that the console starts.
    const machine = await startAgent(lifetime, hub, {
      dir: repository.folder,
      namespace: NAMESPACE,
      entry: path.join(ROOT, 'cli', 'index.mjs'),
      env: { ...environmentFor(name, { url: model.url, home, bin }), SCRIPT_HOME: home },
      args: ['--', process.execPath, path.join(ROOT, 'cli', 'test', 'support', 'scripted-agent.mjs')],
    });
    await hub.web(NAMESPACE).post(`/api/sessions/${machine.sessionId}/archive`);
    const open = async (size, at) => {
      const opened = await visit(lifetime, NAMESPACE, { ...size, path: at });
      opened.page.setDefaultTimeout(WAIT_MS);
      return opened;
    };
    const { page } = await open(DESK, '/new');
    return new Story({ name, model, repository, machine, page, open, chat: new Chat(page) });
  }

  get sessionId() {
    return new URL(this.page.url()).pathname.split('/')[2];
  }

  /** Sends a prompt. The model answers it with these steps. */
  async prompt(text, steps) {
    this.model.answer(text, steps);
    await this.chat.send(text);
  }

  /** The path of a file of the repository. */
  file(name) {
    return path.join(this.repository.folder, name);
  }

  /** The pending request, of any tool, because agents name their tools differently. */
  get request() {
    return requestOn(this.page);
  }

  /** Waits for the end of the turn. */
  untilReady() {
    return this.page.locator('.session-bar').getByText('Ready', { exact: true }).waitFor();
  }

  /** The tool call of a command or file in the conversation. */
  call(text) {
    return this.chat.log.locator('details', { hasText: text });
  }

  /** Begins a turn whose text is not complete before `complete` is called. Waits until its start is shown. */
  async beginText(prompt, start, rest = '') {
    const { promise, resolve } = deferred();
    await this.prompt(prompt, [{ say: [start, promise] }]);
    const live = this.chat.log.locator('.markdown.live');
    await live.getByText(start.trim()).waitFor();
    return { live, complete: () => resolve(rest) };
  }

  /** Makes a screenshot of the page with a request on a phone, without the names of this computer. */
  async takeScreenOfRequest() {
    if (!updatesScreens || this.name !== 'claude') return;
    const { folder } = this.repository;
    const { pathname } = new URL(this.page.url());
    const { page } = await this.open(PHONE, pathname);
    await requestOn(page).locator('.edit').waitFor();
    await replaceTexts(page, [
      [folder, '/home/ada/invoices'],
      [path.basename(folder), 'invoices'],
      [hostname(), 'laptop'],
    ]);
    await saveScreenshot(page, 'agent-request-phone-light');
    // The browser context of the phone is closed after the test.
    await page.close();
  }
}

async function startSession(story) {
  const { page, chat, name, repository } = story;
  await fillDirectory(page, repository.folder);
  await page.getByText('Directory found').waitFor();
  await openMore(page);
  await page.getByLabel('Agent', { exact: true }).selectOption(AGENTS[name].title);
  await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
  await page.waitForURL(/\/sessions\//, { timeout: WAIT_MS });
  await chat.composer.waitFor();
  await page.getByRole('complementary').getByText(AGENTS[name].title, { exact: true }).waitFor();
  const { mode } = differencesOf(name);
  if (mode) await page.getByLabel('Permission mode').selectOption(mode);
}

async function readLiveText(story) {
  const { live, complete } = await story.beginText(
    'Why is the total of an invoice too high?',
    'The total adds the full price of each item. ',
    'It never subtracts the **discount** of an item.',
  );
  complete();
  await live.waitFor({ state: 'detached' });
  await story.chat.log.getByText('It never subtracts the discount of an item.').waitFor();
  await waitForCount(story.chat.log.getByText('adds the full price'), 1);
  await story.untilReady();
}

async function approveEdit(story) {
  const { chat } = story;
  await story.prompt('Subtract the discount.', [
    { say: 'I will read the function first.' },
    { read: story.file(FILE) },
    { edit: [story.file(FILE), LINE, NEW_LINE] },
    { say: 'The total now subtracts the discount of each item.' },
  ]);
  const card = story.request;
  const diff = card.locator('.edit');
  await diff.waitFor();
  const shown = await diff.textContent();
  assert.ok(
    [FILE, LINE, NEW_LINE].every((text) => shown.includes(text)),
    shown,
  );
  assert.equal(readFileSync(story.file(FILE), 'utf8'), CODE);
  await story.takeScreenOfRequest();
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  await chat.waitForText('The total now subtracts the discount of each item.');
  assert.equal(readFileSync(story.file(FILE), 'utf8'), CODE.replace(LINE, NEW_LINE));
  await story.call(FILE).getByRole('img', { name: 'Approved' }).waitFor();
  await story.untilReady();
}

async function denyCommand(story) {
  const { chat } = story;
  await story.prompt('Publish it.', [{ run: 'touch published.txt' }]);
  await story.request.getByText('touch published.txt').waitFor();
  await chat.denyWithReason(story.request, 'Not before the review');
  await story.call('touch published.txt').getByRole('img', { name: 'Denied' }).waitFor();
  await story.untilReady();
  assert.equal(existsSync(story.file('published.txt')), false);
}

async function approveForSession(story) {
  const { page, chat } = story;
  await story.prompt('Make folders for the notes.', [
    { run: 'mkdir notes' },
    { run: 'mkdir notes/old' },
    { run: 'touch notes/review.md' },
    { say: 'The folder has one note.' },
  ]);
  await story.request.getByRole('button', { name: 'More' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Allow mkdir with any path in the folder until the agent ends' }).click();
  await story.request.getByText('touch notes/review.md').waitFor();
  assert.ok(existsSync(story.file('notes/old')));
  await story.call('mkdir notes/old').getByRole('img', { name: 'Allowed by the rule `mkdir` with any path in the folder' }).waitFor();
  await story.request.getByRole('button', { name: 'Approve', exact: true }).click();
  await chat.waitForText('The folder has one note.');
  await page.getByRole('button', { name: 'Ask again for mkdir with any path in the folder' }).click();
  await page.getByRole('list', { name: 'Allowed until the agent ends' }).waitFor({ state: 'detached' });
  await story.untilReady();
}

async function abortTurn(story) {
  const { page, chat } = story;
  const { live } = await story.beginText('Explain everything.', 'I begin with the history of invoices.');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await chat.waitForText('Aborted.');
  await live.waitFor({ state: 'detached' });
  await story.untilReady();
}

async function showTodos(story) {
  const { page, chat, name } = story;
  const todos = [
    ['Find the total', 'in_progress'],
    ['Write a test', 'pending'],
  ];
  const { promise, resolve } = deferred();
  await story.prompt('Plan the release.', [
    { todos },
    { say: ['I found the total. ', promise] },
    { todos: todos.map(([text]) => [text, 'completed']) },
    { say: 'Both are done.' },
  ]);
  const strip = page.locator('.todo-strip');
  await strip.locator('summary').getByText('0/2').waitFor();
  await strip.locator('summary').getByText('Find the total').waitFor();
  if (differencesOf(name).todos === 'call') await story.call('0 of 2 done').locator('summary').click();
  const list = chat.log.locator('.todos');
  const done = list.locator('[data-status="completed"]');
  await list.getByText('Write a test').waitFor();
  assert.deepEqual([await list.count(), await done.count()], [1, 0]);
  resolve('A test is missing.');
  await chat.waitForText('Both are done.');
  await waitForCount(done, 2);
  await waitForCount(list, 1);
  await strip.waitFor({ state: 'detached' });
  await story.untilReady();
}

async function changeQueue(story) {
  const { page, chat, model } = story;
  const queue = new Queue(page);
  const { complete } = await story.beginText('Write the history.', 'The first invoice ');
  for (const [index, text] of ['Which tax applies?', 'Which currency applies?', 'Never mind.'].entries()) {
    await chat.send(text);
    await waitForCount(queue.rows, index + 1);
  }
  await (await queue.open('Which tax applies?')).getByRole('button', { name: 'Edit' }).click();
  await queue.region.getByRole('textbox', { name: 'Queued message' }).fill('Which law applies?');
  await queue.region.getByRole('button', { name: 'Save' }).click();
  await queue.waitForTexts('Which law applies?', 'Which currency applies?', 'Never mind.');
  await (await queue.open('Never mind.')).getByRole('button', { name: 'Cancel' }).click();
  await queue.row('Which currency applies?').getByRole('button', { name: 'Move' }).focus();
  await page.keyboard.press('Alt+ArrowUp');
  await queue.waitForTexts('Which currency applies?', 'Which law applies?');
  model.answer('Which currency applies?', [{ say: 'Each invoice has its own currency.' }]);
  model.answer('Which law applies?', [{ say: 'The law of the seller.' }]);
  complete('was written by hand.');
  await chat.waitForText('Each invoice has its own currency.');
  await chat.waitForText('The law of the seller.');
  await waitForCount(queue.rows, 0);
  await story.untilReady();
  assert.deepEqual((await chat.said()).slice(-2), ['Which currency applies?', 'Which law applies?']);
  assert.ok(!model.hasSeenText('Which tax applies?') && !model.hasSeenText('Never mind.'));
}

async function sendNow(story) {
  const { page, chat, name, model } = story;
  const queue = new Queue(page);
  const { complete } = await story.beginText('Explain the discounts.', 'A discount is ');
  model.answer('Answer this first.', [{ say: 'This is the answer.' }]);
  await chat.send('Answer this first.');
  await queue
    .row('Answer this first.')
    .getByRole('button', { name: /^(Send|Stop and send) now: / })
    .click();
  await waitForCount(queue.rows, 0);
  complete('a lower price.');
  await chat.waitForText('This is the answer.');
  await story.untilReady();
  const stopped = chat.log.getByText('Stopped, because another message is sent now.');
  await waitForCount(stopped, differencesOf(name).steers ? 0 : 1);
}

async function attachPicture(story) {
  const { page, chat, model } = story;
  const picture = { name: 'receipt.png', mimeType: 'image/png', buffer: Buffer.from(PICTURE, 'base64') };
  await page.locator('input[type=file]').setInputFiles([picture]);
  await page.getByRole('list', { name: 'Files to send' }).getByText('receipt.png').waitFor();
  await story.prompt('Compare it with this receipt.', [{ say: 'The receipt has the same total.' }]);
  await chat.waitForText('The receipt has the same total.');
  await chat.log.getByText('receipt.png').waitFor();
  assert.ok(model.hasSeenPicture());
  await story.untilReady();
}

async function resumeAfterKill(story) {
  const { page, chat, machine, sessionId } = story;
  const isStart = (line) => line.includes(`session ${sessionId} started (process `);
  const started = await machine.lines.first(isStart, 'the process of the session');
  await story.beginText('Write the release notes.', 'The release has one change.');
  process.kill(Number(/process (\d+)/.exec(started)[1]), 'SIGKILL');
  await page.getByRole('button', { name: 'Resume' }).click();
  await chat.waitForText('The bridge to the agent was restarted during this turn.');
  await story.prompt('Are you back?', [{ say: 'I continue where we were.' }]);
  await chat.waitForText('I continue where we were.');
  await story.untilReady();
}
