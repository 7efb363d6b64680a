/** The form for a new session: folders of the machine, branches, pinned directories, and files of the first message. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { connectCli, liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { startAgent } from '../lib/agent.mjs';
import { SMALL_PHONE, waitForEqual, waitForFocus, waitForValue } from '../lib/browser.mjs';
import { Chat, fillDirectory, startConsole } from '../lib/console.mjs';
import { Repository, temporaryFolder } from '../lib/git.mjs';

const { hub, visit } = await startConsole();

const textFile = (name, content = name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(content) });

/** Starts an agent that serves a folder with the repository `app`, and opens the form. */
async function openForm(t, namespace) {
  const base = temporaryFolder(t);
  const repository = new Repository(t, path.join(base, 'app'));
  repository.write('old.txt', 'old\n');
  repository.commit('first');
  repository.git('branch', 'release/1.0');
  repository.write('src/new.txt', 'new\n');
  repository.commit('second');
  for (const folder of ['docs', '.config', 'app/src/deep']) mkdirSync(path.join(base, folder), { recursive: true });
  symlinkSync('/etc', path.join(base, 'elsewhere'));
  const agent = await startAgent(t, hub, { dir: base, namespace });
  const { page } = await visit(t, namespace, { ...SMALL_PHONE, path: '/new' });
  await page.getByRole('textbox', { name: 'Task' }).waitFor();
  return { base, repository, agent, page, start: page.getByRole('button', { name: /^Start (another )?session$/ }) };
}

/** Opens the sheet with the folders of the chosen machine. */
async function browse(page) {
  await page.getByRole('radio', { name: 'Another directory …' }).check();
  await page.getByRole('button', { name: 'Browse' }).tap();
  return page.getByRole('dialog', { name: /^Directories on / });
}

const namesIn = (sheet) => sheet.locator('.folders .name').allTextContents();

test('a directory is found by tapping folders, and its worktree starts from a chosen branch', async (t) => {
  const { base, page, start } = await openForm(t, 'browse');
  await page.getByRole('textbox', { name: 'Task' }).fill('ls');
  const sheet = await browse(page);
  await sheet.getByRole('list', { name: `Folders in ${path.basename(base)}` }).waitFor();
  assert.deepEqual(await namesIn(sheet), ['app', 'docs']);
  await sheet.getByRole('button', { name: 'Show 1 hidden folder' }).tap();
  await sheet.getByRole('button', { name: '.config' }).waitFor();
  await sheet.getByRole('button', { name: 'docs' }).tap();
  await sheet.getByText('No folders here.').waitFor();
  await sheet
    .getByRole('navigation', { name: 'Path' })
    .getByRole('button', { name: path.basename(base) })
    .tap();
  await sheet.getByRole('button', { name: 'app git' }).tap();
  const inApp = sheet.getByRole('list', { name: 'Folders in app' });
  await waitForFocus(inApp);
  assert.deepEqual(await namesIn(sheet), ['src']);
  await sheet.getByRole('button', { name: 'Use app' }).tap();
  await sheet.waitFor({ state: 'detached' });
  await waitForValue(page.getByRole('textbox', { name: 'Directory' }), path.join(base, 'app'));
  await page.getByText('Directory found').waitFor();

  await page.getByLabel(/Use a new git worktree/).check();
  const branch = page.getByLabel('Start from');
  await branch.and(page.locator(':enabled')).waitFor();
  await waitForEqual(() => branch.locator('option').allTextContents(), ['main', 'release/1.0']);
  const name = page.getByLabel(/Worktree and branch name/);
  await name.fill('release/1.0');
  await page.getByText('This branch exists. The session continues it.').waitFor();
  await branch.waitFor({ state: 'detached' });
  await name.fill('ls');
  await branch.selectOption('release/1.0');
  await start.tap();
  await new Chat(page).waitForText('ls');
  const worktree = path.join(base, 'app', '.worktrees', 'ls');
  assert.deepEqual([existsSync(path.join(worktree, 'old.txt')), existsSync(path.join(worktree, 'src'))], [true, false]);
});

test('the files of the first message are uploaded after the start, and the message is sent with them', async (t) => {
  const { page, start } = await openForm(t, 'files');
  await page.getByRole('textbox', { name: 'Task' }).fill('cat the files');
  await page.locator('input[type=file]').setInputFiles([textFile('one.txt'), textFile('two.txt')]);
  const files = page.getByRole('list', { name: 'Files to send' });
  await files.getByRole('button', { name: 'Remove two.txt' }).tap();
  await files.getByText('one.txt').waitFor();
  await start.tap();
  const chat = new Chat(page);
  await chat.waitForText('cat the files');
  await chat.log.getByText('one.txt').first().waitFor();
  const id = new URL(page.url()).pathname.split('/')[2];
  // The page shows a message before the hub has stored it.
  const readMessage = async () => (await hub.web('files').readHistory(id)).find(({ content }) => content.role === 'user');
  const message = await eventually(readMessage, 'the stored message');
  assert.deepEqual(
    [message.content.content.text, message.content.content.attachments.map(({ filename, size }) => [filename, size])],
    ['cat the files', [['one.txt', 7]]],
  );
  // The composer is folded, because the agent asks for permission.
  await page.getByRole('button', { name: 'Write a message' }).waitFor();
});

/** Registers a machine with a fake CLI, which starts the session `id`, and opens the form. */
async function openFormOfFake(t, namespace, { serve = async (_machine) => {} } = {}) {
  const metadata = { host: 'laptop', displayName: 'laptop', platform: 'linux', homeDir: '/home/ada' };
  const id = `desk-${namespace}`;
  const machine = await liveMachine(t, hub, { namespace, id, metadata, runnerState: { directories: ['/home/ada/site', '/srv'] } });
  const place = { path: '/home/ada/demo', host: 'laptop', machineId: id, flavor: 'alpha', alphaSessionId: 'conversation' };
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/home/ada/demo', metadata: place });
  const spawned = [];
  await machine.serve(`${id}:spawnSession`, (params) => (spawned.push(params), { success: true, sessionId: session.id }));
  await serve(machine);
  const { page } = await visit(t, namespace, { ...SMALL_PHONE, path: '/new' });
  await page.getByRole('textbox', { name: 'Task' }).waitFor();
  return { machine, session, cli, spawned, page, start: page.getByRole('button', { name: /^Start (another )?session$/ }) };
}

test('a folder that is not trusted is asked about once, and a session in it again after its trust was withdrawn', async (t) => {
  const namespace = 'trust';
  const { machine, session, cli, page, start } = await openFormOfFake(t, namespace);
  let isTrusted = false;
  const answers = [];
  await machine.serve(`desk-${namespace}:spawnSession`, async ({ directory, trust, resumeSessionId }) => {
    answers.push([directory, trust]);
    isTrusted ||= trust === true;
    if (!isTrusted) return { success: false, code: 'untrusted_directory', error: 'The folder is not trusted.' };
    if (resumeSessionId) await (await connectCli(t, hub, { namespace, auth: { sessionId: session.id } })).stayAlive(session.id);
    return { success: true, sessionId: session.id };
  });
  const question = page.getByRole('dialog', { name: 'Trust this folder?' });
  await fillDirectory(page, '/srv/app');
  await page.getByRole('textbox', { name: 'Task' }).fill('Read it');
  await start.tap();
  await question.getByText("Agents run this folder's hooks and MCP servers as soon as a session starts.").waitFor();
  await question.getByRole('button', { name: 'Cancel' }).tap();
  await question.waitFor({ state: 'detached' });
  assert.deepEqual(answers.splice(0), [['/srv/app', undefined]]);
  await start.tap();
  await question.getByRole('button', { name: 'Trust and start' }).tap();
  await page.waitForURL(`**/sessions/${session.id}`);
  assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'Read it');
  assert.deepEqual(answers.splice(0), [
    ['/srv/app', undefined],
    ['/srv/app', true],
  ]);

  await page.goto('/new');
  await fillDirectory(page, '/srv/app');
  await start.tap();
  await page.waitForURL(`**/sessions/${session.id}`);
  assert.deepEqual(answers.splice(0), [['/srv/app', undefined]]);

  isTrusted = false;
  await cli.emitWithAck('session-end', { sid: session.id });
  cli.close();
  const web = hub.web(namespace);
  await web.post(`/api/sessions/${session.id}/archive`, {});
  await page.goto(`/sessions/${session.id}`);
  await page.getByRole('button', { name: 'Resume' }).tap();
  await question.getByRole('button', { name: 'Trust and start' }).tap();
  await question.waitFor({ state: 'detached' });
  await eventually(async () => (await web.readSession(session.id)).active, 'the session to be active');
  assert.deepEqual(answers, [
    ['/home/ada/demo', undefined],
    ['/home/ada/demo', true],
  ]);
});

test('a session that starts, or fails to start, after its form was left is offered, and the user stays on the page', async (t) => {
  const { machine, session, page, start } = await openFormOfFake(t, 'left');
  /** @type {(answer: object) => void} */
  let answer = () => {};
  await machine.serve('desk-left:spawnSession', () => new Promise((resolve) => (answer = resolve)));
  const leave = async () => {
    const before = answer;
    await start.tap();
    await eventually(() => answer !== before, 'the request to start');
    await page.getByRole('link', { name: 'Machines' }).tap();
    await page.getByRole('heading', { name: 'Machines' }).waitFor();
  };
  await leave();
  answer({ success: true, sessionId: session.id });
  const toast = page.locator('.toast');
  await toast.getByText('Session started').waitFor();
  assert.equal(new URL(page.url()).pathname, '/machines');
  await toast.getByRole('button', { name: 'Open' }).tap();
  await page.waitForURL(`**/sessions/${session.id}`);
  await page.goto('/new');
  await leave();
  answer({ success: false, error: 'The disk is full.' });
  await toast.getByText('Could not start the session').waitFor();
  await toast.getByText('The disk is full.').waitFor();
});

test('when a file cannot be uploaded, the task and the files stay in the composer of the session', async (t) => {
  const { session, cli, page, start } = await openFormOfFake(t, 'failing');
  let fails = true;
  await cli.serve(`${session.id}:uploadFile`, ({ filename }) =>
    fails && filename === 'b.txt' ? { success: false, error: 'The disk is full.' } : { success: true, path: `/uploads/${filename}` },
  );
  await page.getByRole('textbox', { name: 'Task' }).fill('Read both');
  await page.locator('input[type=file]').setInputFiles([textFile('a.txt'), textFile('b.txt')]);
  await start.tap();
  const files = page.getByRole('list', { name: 'Files to send' });
  await files.getByText('The disk is full.').waitFor();
  const chat = new Chat(page);
  await waitForValue(chat.composer, 'Read both');
  assert.equal((await hub.web('failing').get(`/api/sessions/${session.id}/messages`)).body.messages.length, 0);
  fails = false;
  await files.getByRole('button', { name: 'Retry b.txt' }).tap();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await chat.waitForText('Read both');
  // The page shows a message before the hub has stored it.
  const readMessage = async () => (await hub.web('failing').get(`/api/sessions/${session.id}/messages`)).body.messages[0];
  const message = await eventually(readMessage, 'the stored message');
  assert.deepEqual(pluck(message.content.content.attachments, 'filename'), ['a.txt', 'b.txt']);
});

test('a page that is closed before its files are uploaded keeps the task and names the files', async (t) => {
  const { session, cli, page, start } = await openFormOfFake(t, 'closed');
  let isAsked;
  const asked = new Promise((resolve) => {
    isAsked = resolve;
  });
  await cli.serve(`${session.id}:uploadFile`, () => (isAsked(), new Promise(() => {})));
  await page.getByRole('textbox', { name: 'Task' }).fill('Read it');
  await page.locator('input[type=file]').setInputFiles([textFile('a.txt')]);
  page.on('dialog', (dialog) => void dialog.accept());
  await page.reload();
  await page.getByText('No longer attached here: a.txt.').waitFor();
  await page.locator('input[type=file]').setInputFiles([textFile('a.txt')]);
  await start.tap();
  await page.getByText('The message is sent when its files are uploaded.').waitFor();
  await asked;
  await page.reload();
  await page.getByText('No longer attached here: a.txt.').waitFor();
  await waitForValue(new Chat(page).composer, 'Read it');
});

test('pinned directories come first, also after a reload', async (t) => {
  const { page } = await openFormOfFake(t, 'pins');
  const labels = page.locator('.place-label');
  await waitForEqual(() => labels.allTextContents(), ['demo on laptop', 'site on laptop', 'srv on laptop', 'Another directory …']);
  await page.getByRole('button', { name: 'Pin srv on laptop' }).tap();
  await page.locator('.place-row').first().getByText('srv on laptop').waitFor();
  await page.reload();
  await page.locator('.place-row').first().getByText('srv on laptop').waitFor();
  await waitForEqual(() => page.getByRole('radio', { name: 'srv on laptop' }).isChecked(), true);
  const pin = page.getByRole('button', { name: 'Pin srv on laptop' });
  await waitForEqual(() => pin.getAttribute('aria-pressed'), 'true');
  await pin.tap();
  await page.locator('.place-row').first().getByText('demo on laptop').waitFor();
});

test('a machine that goes offline stays chosen, and the session is not started on another machine', async (t) => {
  const { page, spawned, start } = await openFormOfFake(t, 'away');
  await liveMachine(t, hub, { namespace: 'away', id: 'spare', metadata: { host: 'spare' }, runnerState: { directories: ['/spare'] } });
  /** @type {any} */
  let last;
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    last = socket;
    socket.connectToServer();
  });
  await page.reload();
  const demo = page.getByRole('radio', { name: 'demo on laptop' });
  await page.getByRole('radio', { name: 'spare on spare' }).waitFor();
  await demo.and(page.locator(':checked')).waitFor();
  for (const machineId of ['desk-away', 'spare']) {
    last.send(JSON.stringify({ type: 'machine-updated', machineId, data: { active: false } }));
    await page.getByText('laptop is offline. Choose another machine, or start the agent on it again.').waitFor();
    await start.and(page.locator(':disabled')).waitFor();
    await waitForEqual(() => demo.isChecked(), true);
  }
  await page.getByRole('radio', { name: 'spare on spare' }).waitFor({ state: 'detached' });
  assert.deepEqual(spawned, []);
  await page.goto('/new?machine=gone');
  await page.getByText('That machine is offline.').waitFor();
  await start.and(page.locator(':disabled')).waitFor();
  await page.getByRole('combobox', { name: 'Machine' }).selectOption('spare');
  await page.getByText('That machine is offline.').waitFor({ state: 'detached' });
});

test('a machine that cannot list folders takes a typed path and a worktree without a branch', async (t) => {
  const { spawned, page, session, start } = await openFormOfFake(t, 'old');
  const sheet = await browse(page);
  await sheet.getByRole('button', { name: 'Cancel' }).waitFor();
  await sheet.getByText('All', { exact: true }).waitFor();
  await sheet.getByText('This machine cannot list its folders.').waitFor();
  await sheet.getByRole('button', { name: 'Cancel' }).tap();
  await fillDirectory(page, '/srv/app');
  await page.getByLabel(/Use a new git worktree/).check();
  await page.getByLabel('Start from').waitFor({ state: 'detached' });
  await page.getByLabel(/Worktree and branch name/).fill('fix');
  await start.tap();
  await page.waitForURL(`**/sessions/${session.id}`);
  assert.deepEqual(spawned, [{ directory: '/srv/app', agent: 'alpha', sessionType: 'worktree', worktreeName: 'fix' }]);
});

test('the folders of a machine are filtered, escaped and counted, and an error can be tried again', async (t) => {
  /** @type {Record<string, unknown>} */
  let answer = { success: false, error: 'Permission denied: /srv' };
  const asked = [];
  const { page, spawned } = await openFormOfFake(t, 'many', {
    serve: (machine) => machine.serve('desk-many:listDirectory', (params) => (asked.push(params), answer)),
  });
  const roots = ['/home/ada/site', '/srv'];
  const sheet = await browse(page);
  await sheet.getByText('Permission denied: /srv').waitFor();
  answer = { success: true, entries: [], roots };
  await sheet.getByRole('button', { name: 'Try again' }).tap();
  await sheet.getByRole('button', { name: '~/site' }).waitFor();
  await waitForEqual(() => sheet.getByRole('button', { name: 'Use this folder' }).isDisabled(), true);
  const entries = Array.from({ length: 40 }, (_, index) => ({ name: `project-${index}`, path: `/srv/project-${index}` }));
  answer = {
    success: true,
    path: '/srv',
    entries: [...entries, { name: 'x\u202ez', path: '/srv/x' }, 5, { name: 'y' }],
    more: 1200,
    roots,
  };
  await sheet.getByRole('button', { name: '/srv' }).tap();
  await sheet.getByText('1,200 more folders are not listed. Type the path to use one of them.').waitFor();
  assert.equal((await namesIn(sheet)).at(-1), 'x\\u202Ez');
  assert.equal((await namesIn(sheet)).length, 41);
  const filter = sheet.getByLabel('Filter the folders');
  await filter.fill('ject-7');
  await sheet.getByRole('button', { name: 'project-8' }).waitFor({ state: 'detached' });
  assert.deepEqual(await namesIn(sheet), ['project-7']);
  await filter.press('Enter');
  await page.context().setOffline(true);
  await sheet.getByRole('button', { name: 'project-7' }).tap();
  await sheet.getByText('The hub cannot be reached.').waitFor();
  await page.context().setOffline(false);
  answer = { success: true, path: '/srv/project-7', parent: '/srv', entries: [], roots };
  await sheet.getByRole('button', { name: 'Try again' }).tap();
  await sheet.getByRole('button', { name: 'Pin project-7' }).tap();
  await page.keyboard.press('Escape');
  await sheet.waitFor({ state: 'detached' });
  await page.locator('.place-row').first().getByText('project-7 on laptop').waitFor();
  assert.deepEqual([asked.at(-1), spawned], [{ path: '/srv/project-7' }, []]);
});
