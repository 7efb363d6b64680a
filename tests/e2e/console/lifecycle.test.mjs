/** The life cycle of sessions in the web console, starting sessions, and settings. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, waitForCount, waitForFocus, waitForValue, waitForEqual, waitForMatch } from '../lib/browser.mjs';
import { liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, fillDirectory, openMore, startConsole } from '../lib/console.mjs';

const { hub, visit, startSession, openTalk } = await startConsole();

/** Selects an item of the session menu. */
async function selectAction(page, item) {
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: item }).click();
}

test('starts a session with a task in a worktree, and renames, archives, resumes and deletes the session', async (t) => {
  const { repository, page } = await startSession(t, 'life');
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('link', { name: 'New session', exact: true }).click();

  await fillDirectory(page, '/etc/passwd');
  await page.getByText(`Not served by this machine, only: ${repository.folder}`).waitFor();
  await page.getByRole('textbox', { name: 'Directory' }).fill(`${repository.folder}/none`);
  await page.getByText('Directory not found on this machine').waitFor();
  await page.getByRole('radio', { name: `${path.basename(repository.folder)} on ${hostname()}` }).check();
  await page.getByLabel(/Use a new git worktree/).check();
  await waitForValue(page.getByLabel(/Worktree and branch name/), 'task');
  await page.getByRole('textbox', { name: 'Task' }).fill('echo done > made.txt');
  await waitForValue(page.getByLabel(/Worktree and branch name/), 'echo-done-made-txt');
  await page.getByLabel(/Worktree and branch name/).fill('fix-notes');
  await openMore(page);
  const withoutAsking = page.getByRole('checkbox', { name: /Approve everything/ });
  await withoutAsking.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Approve everything' }).click();
  await withoutAsking.and(page.locator(':checked')).waitFor();
  await page.getByRole('button', { name: /^Start (another )?session$/ }).click();

  const chat = new Chat(page);
  await chat.waitForText('Exit code 0.');
  assert.ok(existsSync(path.join(repository.folder, '.worktrees', 'fix-notes', 'made.txt')));
  const id = new URL(page.url()).pathname.split('/')[2];
  await page.getByText('fix-notes', { exact: true }).first().waitFor();

  await selectAction(page, 'Rename');
  await page.getByRole('dialog').getByLabel('Name').fill('Fix the notes');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('heading', { name: 'Fix the notes', level: 1 }).waitFor();
  const inList = page.getByRole('complementary').getByRole('link', { name: /Fix the notes/ });
  await inList.waitFor();

  await selectAction(page, 'Archive');
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByText("The agent's process has ended").waitFor();
  await inList.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Archive', exact: true }).click();
  const archived = page.getByRole('region', { name: 'Archived sessions' });
  await page.getByLabel('Search the archive').fill('nothing like it');
  await archived.getByText('No archived session matches').waitFor();
  await page.getByLabel('Search the archive').fill('fix notes');
  await archived.getByRole('link', { name: /Fix the notes/ }).click();
  await chat.waitForText('Exit code 0.');

  await page.getByRole('button', { name: 'Resume' }).click();
  await chat.send('cat made.txt');
  await inList.waitFor();
  await page.locator('summary', { hasText: 'cat made.txt' }).waitFor();
  assert.equal((await hub.web('life').readSession(id)).active, true);

  await selectAction(page, 'Archive');
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByText("The agent's process has ended").waitFor();
  await selectAction(page, 'Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL(`${hub.url}/`);
  assert.equal((await hub.web('life').get(`/api/sessions/${id}`)).status, 404);
});

test('the dialogs of a session that is deleted on another device say so and keep a typed name, or close', async (t) => {
  const web = hub.web('deleted');
  const openDialogOf = async (name, item) => {
    const { id } = await web.openSession({ tag: `/code/${name}`, metadata: { path: `/code/${name}`, host: 'h', name } });
    const { page } = await visit(t, 'deleted', { ...PHONE, path: `/sessions/${id}` });
    await selectAction(page, item);
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    return { page, dialog, deleteElsewhere: () => web.request('DELETE', `/api/sessions/${id}`) };
  };
  const renamed = await openDialogOf('first', 'Rename');
  await renamed.dialog.getByLabel('Name').fill('The better name');
  await renamed.deleteElsewhere();
  await renamed.dialog.getByRole('alert').getByText('This session was deleted.').waitFor();
  await waitForCount(renamed.dialog.getByRole('button', { name: 'Rename' }), 0);
  await waitForValue(renamed.dialog.getByLabel('Name'), 'The better name');
  const removed = await openDialogOf('second', 'Delete');
  await removed.deleteElsewhere();
  await removed.dialog.waitFor({ state: 'detached' });
  await removed.page.getByRole('heading', { name: 'This session was deleted.' }).waitFor();
});

test('shows a machine once the machine is online, and starts a session with all options on this machine', async (t) => {
  const { page } = await visit(t, 'machines', { ...DESK, path: '/machines' });
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
  await page.getByText('Waiting for your machine …').waitFor();
  const web = hub.web('machines');
  const metadata = { host: 'workshop', displayName: 'The workshop', platform: 'linux', homeDir: '/home/ada' };
  const runnerState = { directories: ['/home/ada/site', '/srv'] };
  const cli = await liveMachine(t, hub, { namespace: 'machines', id: 'm1', metadata, runnerState });
  await page.getByRole('heading', { name: 'The workshop' }).waitFor();
  const spawnRequests = [];
  const started = await web.openSession({ tag: '/home/ada/site', metadata: { path: '/home/ada/site', host: 'workshop', machineId: 'm1' } });
  await cli.serve('m1:checkPathExists', ({ paths }) => ({
    success: true,
    exists: Object.fromEntries(paths.map((path) => [path, path === '/home/ada/site'])),
  }));
  await cli.serve('m1:spawnSession', (params) => (spawnRequests.push(params), { success: true, sessionId: started.id }));
  await page.getByRole('link', { name: 'New session', exact: true }).click();
  await fillDirectory(page, '/home/ada/site');
  await page.getByText('Directory found').waitFor();
  const directory = page.getByRole('textbox', { name: 'Directory' });
  for (const outside of ['/etc/passwd', '/srv-2', '~/other', '/']) {
    await directory.fill(outside);
    await page.getByText('Not served by this machine, only: /home/ada/site, /srv').waitFor();
  }
  for (const missing of ['/srv/none', '~/site/none', 'none']) {
    await directory.fill(missing);
    await page.getByText('Directory not found on this machine').waitFor();
  }
  await directory.fill('/home/ada/site');
  await page.getByText('Directory found').waitFor();
  await openMore(page);
  await page.getByLabel('Agent', { exact: true }).selectOption('beta');
  await page.getByLabel('Model (optional)').fill('model_strong');
  const withoutAsking = page.getByRole('checkbox', { name: /Approve everything/ });
  await withoutAsking.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Approve everything' }).click();
  await withoutAsking.and(page.locator(':checked')).waitFor();
  await page.getByLabel(/Use a new git worktree/).check();
  await page.getByLabel(/Worktree and branch name/).fill('new-page');
  await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
  await page.waitForURL(`**/sessions/${started.id}`);
  assert.deepEqual(spawnRequests, [
    { directory: '/home/ada/site', agent: 'beta', model: 'model_strong', yolo: true, sessionType: 'worktree', worktreeName: 'new-page' },
  ]);
});

test('the task is the first message, and a place remembers its agent and model', async (t) => {
  const web = hub.web('tasks');
  const agents = [
    { id: 'claude', name: 'Claude Code', flavor: 'alpha' },
    { id: 'codex', name: 'Codex', flavor: 'beta' },
  ];
  const metadata = { host: 'laptop', displayName: 'laptop', platform: 'linux', homeDir: '/home/ada', agents };
  const runnerState = { directories: ['/home/ada/site'] };
  const machine = await liveMachine(t, hub, { namespace: 'tasks', id: 'desk-1', metadata, runnerState });
  const place = { path: '/home/ada/demo', host: 'laptop', machineId: 'desk-1', flavor: 'beta' };
  const { session } = await liveSession(t, hub, { namespace: 'tasks', tag: '/home/ada/demo', metadata: place });
  const spawned = [];
  /** @type {{success: boolean, error?: string, sessionId?: string}} */
  let answer = { success: false, error: 'The agent is not installed.' };
  await machine.serve('desk-1:spawnSession', (params) => (spawned.push(params), answer));

  const { page } = await visit(t, 'tasks', { path: '/' });
  await page
    .getByRole('link', { name: /demo|ready/ })
    .first()
    .waitFor();
  await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'New' }).click();
  const task = page.getByRole('textbox', { name: 'Task' });
  await waitForFocus(task);
  await page.keyboard.type('Fix the login page');
  await waitForEqual(() => page.locator('.place-label').allTextContents(), ['demo on laptop', 'site on laptop', 'Another directory …']);
  // The agent of the last session in this directory.
  await page.locator('details.more summary', { hasText: 'Codex' }).waitFor();
  await openMore(page);
  await page.getByLabel('Agent', { exact: true }).selectOption('Claude Code');
  await page.getByLabel('Model (optional)').fill('model_strong');
  await page.keyboard.press('Escape');
  await task.press('Control+Enter');
  await page.getByRole('alert').getByText('The agent is not installed. Your task is kept.').waitFor();
  answer = { success: true, sessionId: session.id };
  await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
  await page.waitForURL(`**/sessions/${session.id}`);
  await page.getByRole('log').getByText('Fix the login page').waitFor();
  const [message] = (await web.get(`/api/sessions/${session.id}/messages`)).body.messages;
  assert.equal(message.content.content.text, 'Fix the login page');
  assert.deepEqual(spawned.at(-1), { directory: '/home/ada/demo', agent: 'claude', model: 'model_strong' });

  await page.goto(`${hub.url}/new`);
  await waitForValue(task, '');
  await page.locator('details.more summary', { hasText: 'Claude Code · Strong model' }).waitFor();
  await page.getByRole('radio', { name: 'site on laptop' }).check();
  await page.locator('details.more summary', { hasText: 'Strong model' }).waitFor({ state: 'detached' });
});

test('shows each error at its field, in the words of the form’s labels', async (t) => {
  const { repository, page } = await startSession(t, 'fields');
  await page.goto(`${hub.url}/new`);
  const directory = page.getByRole('textbox', { name: 'Directory' });
  const name = page.getByLabel(/Worktree and branch name/);
  const start = page.getByRole('button', { name: /^Start (another )?session$/ });
  const expectError = async (field, pattern) => {
    await waitForFocus(field.and(page.locator('[aria-invalid="true"]')));
    const error = page.locator(`#${(await field.getAttribute('aria-describedby')).split(' ').at(-1)}`);
    await waitForMatch(() => error.textContent(), pattern);
  };
  await fillDirectory(page, repository.folder);
  await page.getByLabel(/Use a new git worktree/).check();
  await name.fill(' ');
  await start.click();
  await expectError(name, /^ Enter a worktree name\.$/);
  await name.fill('-no');
  await start.click();
  await expectError(name, /^ The worktree name becomes the name of a branch/);
  await name.fill('main');
  await start.click();
  await expectError(name, /The branch main is checked out in/);
  await page.getByLabel(/Use a new git worktree/).uncheck();
  await page.locator('[aria-invalid]').waitFor({ state: 'detached' });
  await directory.fill('/');
  await start.click();
  await expectError(directory, /outside the directories this machine serves/);
});

test('shows shortcuts only if there is a hardware keyboard', async (t) => {
  const { page, chat } = await openTalk(t, 'keys', {}, PHONE);
  await page.goto(`${hub.url}/settings`);
  await page.getByRole('heading', { name: 'Notifications' }).waitFor();
  const keys = page.getByRole('heading', { name: 'Keyboard shortcuts' });
  await keys.waitFor({ state: 'detached' });
  await page.keyboard.press('Tab');
  await keys.waitFor();

  await page.goBack();
  await chat.composer.fill('echo one');
  await chat.composer.press('Enter');
  await page.keyboard.type('echo two');
  await waitForValue(chat.composer, 'echo one\necho two');
  await page.keyboard.press('Control');
  await page.keyboard.press('Enter');
  await waitForValue(chat.composer, '');
});

test('follows the system theme until the user selects a theme, and stores the selected theme', async (t) => {
  const { page } = await visit(t, 'theme', { ...DESK, colorScheme: 'dark', path: '/settings' });
  const isDark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(19, 22, 21)');
  const waitForTheme = (dark) => eventually(async () => (await isDark()) === dark, dark ? 'the dark theme' : 'the light theme');
  await page.getByLabel('Theme', { exact: true }).waitFor();
  await waitForTheme(true);
  await page.getByLabel('Theme', { exact: true }).selectOption('Light');
  await waitForTheme(false);
  await page.reload();
  await page.getByLabel('Theme', { exact: true }).waitFor();
  await waitForTheme(false);
  await page.getByLabel('Theme', { exact: true }).selectOption('System');
  await waitForTheme(true);
});

test('shows errors for unknown sessions and sessions of another account', async (t) => {
  const other = await hub.web('others').openSession({ tag: '/x', metadata: { path: '/x', host: 'h' } });
  const { page } = await visit(t, 'mine', { path: `/sessions/${other.id}` });
  await page.getByRole('heading', { name: 'This belongs to another account.', exact: true }).waitFor();
  await page.getByRole('alert').locator('.request-id code').waitFor();
  // There is no button, because a retry would fail again.
  await waitForCount(page.getByRole('button', { name: 'Try again' }), 0);
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.goto(`${hub.url}/sessions/none`);
  await page.getByRole('heading', { name: 'This session does not exist.', exact: true }).waitFor();
  await page.getByRole('alert').locator('.request-id code').waitFor();
});
