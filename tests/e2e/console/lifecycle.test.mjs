/** A session's life in the web console: started, named, archived, resumed, deleted; and what else has a view of its own. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../lib/await.mjs';
import { counted, DESK, focused, holds, PHONE } from '../lib/browser.mjs';
import { connectCli } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit, session } = await startConsole();

/** Opens the menu of the session on the page and chooses. */
async function choose(page, item) {
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: item }).click();
}

test('a session is started in a worktree, worked in, renamed, archived, resumed and deleted', async (t) => {
  const { repository, page, complaints } = await session(t, 'life');
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('link', { name: 'New session' }).click();

  await page.getByRole('textbox', { name: 'Directory' }).fill('/no/such/place');
  await page.getByText('Directory not found on this machine').waitFor();
  await page.getByRole('button', { name: repository.folder }).click();
  await page.getByText('Directory found').waitFor();
  await holds(page.getByRole('textbox', { name: 'Directory' }), repository.folder);
  await page.getByLabel(/Use a new git worktree/).check();
  await page.getByLabel(/Worktree and branch name/).fill('fix-notes');
  await page.getByLabel(/Skip permission requests/).check();
  await page.getByRole('button', { name: 'Start session' }).click();

  const chat = new Chat(page);
  await chat.send('echo done > made.txt');
  await chat.says('Exit code 0.');
  assert.ok(existsSync(path.join(repository.folder, '.worktrees', 'fix-notes', 'made.txt')));
  const id = new URL(page.url()).pathname.split('/')[2];
  await page.getByText('fix-notes', { exact: true }).first().waitFor();

  await choose(page, 'Rename');
  await page.getByRole('dialog').getByLabel('Name').fill('Fix the notes');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('heading', { name: 'Fix the notes', level: 1 }).waitFor();
  const inList = page.getByRole('complementary').getByRole('link', { name: /Fix the notes/ });
  await inList.waitFor();

  await choose(page, 'Archive');
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByText('The agent\'s process has ended').waitFor();
  await inList.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Archive', exact: true }).click();
  const archived = page.getByRole('region', { name: 'Archived sessions' });
  await page.getByLabel('Search the archive').fill('nothing like it');
  await archived.getByText('No archived session matches').waitFor();
  await page.getByLabel('Search the archive').fill('fix notes');
  await archived.getByRole('link', { name: /Fix the notes/ }).click();
  await chat.says('Exit code 0.');

  await page.getByRole('button', { name: 'Resume' }).click();
  await chat.send('cat made.txt');
  await inList.waitFor();
  await page.locator('summary', { hasText: 'cat made.txt' }).waitFor();
  assert.equal((await hub.web('life').get(`/api/sessions/${id}`)).body.session.active, true);

  await choose(page, 'Archive');
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await page.getByText('The agent\'s process has ended').waitFor();
  await choose(page, 'Delete');
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL(`${hub.url}/`);
  assert.equal((await hub.web('life').get(`/api/sessions/${id}`)).status, 404);
  assert.deepEqual(complaints, []);
});

test('a machine appears when it is online, and starts a session with everything that was chosen', async (t) => {
  const { page, complaints } = await visit(t, 'machines', { ...DESK, path: '/machines' });
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
  const web = hub.web('machines');
  await web.machine({ id: 'm1', metadata: { host: 'workshop', displayName: 'The workshop', platform: 'linux', homeDir: '/home/ada' } });
  const cli = await connectCli(t, hub, { namespace: 'machines', auth: { machineId: 'm1' } });
  await cli.ask('machine-alive', { machineId: 'm1', time: Date.now() });
  await page.getByRole('heading', { name: 'The workshop' }).waitFor();
  const asked = [];
  const started = await web.session({ tag: '/home/ada/site', metadata: { path: '/home/ada/site', host: 'workshop', machineId: 'm1' } });
  await cli.serve('m1:checkPathExists', ({ paths }) => ({ success: true, exists: Object.fromEntries(paths.map((one) => [one, one === '/home/ada/site'])) }));
  await cli.serve('m1:spawnSession', (params) => (asked.push(params), { success: true, sessionId: started.id }));
  await page.getByRole('link', { name: 'New session' }).click();
  await page.getByRole('textbox', { name: 'Directory' }).fill('/home/ada/site');
  await page.getByText('Directory found').waitFor();
  await page.getByLabel('Agent', { exact: true }).selectOption('beta');
  await page.getByLabel('Model (optional)').fill('model_strong');
  await page.getByLabel(/Skip permission requests/).check();
  await page.getByLabel(/Use a new git worktree/).check();
  await page.getByLabel(/Worktree and branch name/).fill('new-page');
  await page.getByRole('button', { name: 'Start session' }).click();
  await page.waitForURL(`**/sessions/${started.id}`);
  assert.deepEqual(asked, [{ directory: '/home/ada/site', agent: 'beta', model: 'model_strong', yolo: true, sessionType: 'worktree', worktreeName: 'new-page' }]);
  assert.deepEqual(complaints, []);
});

test('what a machine refuses is said where it was asked for', async (t) => {
  const { page } = await session(t, 'refused', { options: PHONE });
  await page.goto(`${hub.url}/new`);
  await page.getByRole('textbox', { name: 'Directory' }).fill('/');
  await page.getByRole('button', { name: 'Start session' }).tap();
  await page.getByRole('alert').getByText(/outside the directories this machine serves/).waitFor();
});

test('what is wrong with a field is said at the field, in a person’s words', async (t) => {
  const { repository, page } = await session(t, 'fields');
  await page.goto(`${hub.url}/new`);
  const directory = page.getByRole('textbox', { name: 'Directory' });
  const name = page.getByLabel(/Worktree and branch name/);
  const start = page.getByRole('button', { name: 'Start session' });
  const fault = async (field, words) => {
    await focused(field.and(page.locator('[aria-invalid="true"]')));
    const said = page.locator(`#${(await field.getAttribute('aria-describedby')).split(' ').at(-1)}`);
    assert.match(await said.textContent(), words);
  };
  await directory.fill(repository.folder);
  await page.getByLabel(/Use a new git worktree/).check();
  await name.fill(' ');
  await start.click();
  await fault(name, /^ Enter a worktree name\.$/);
  await name.fill('-no');
  await start.click();
  await fault(name, /^ The worktree name becomes a branch and a folder: 1 to 64 letters/);
  await name.fill('main');
  await start.click();
  await fault(name, /There is a branch main already/);
  await page.getByLabel(/Use a new git worktree/).uncheck();
  await page.locator('[aria-invalid]').waitFor({ state: 'detached' });
  await directory.fill('/');
  await start.click();
  await fault(directory, /outside the directories this machine serves/);
});

test('keys are offered where there are some: not on a phone, but as soon as a tablet has got a keyboard', async (t) => {
  const { page, chat } = await session(t, 'keys', { options: PHONE });
  await page.goto(`${hub.url}/settings`);
  await page.getByRole('heading', { name: 'Notifications' }).waitFor();
  const keys = page.getByRole('heading', { name: 'Keyboard shortcuts' });
  await keys.waitFor({ state: 'detached' });
  await page.keyboard.press('Tab');
  await keys.waitFor();

  await page.goBack();
  await chat.line.fill('echo one');
  await chat.line.press('Enter');
  await page.keyboard.type('echo two');
  await holds(chat.line, 'echo one\necho two');
  await page.keyboard.press('Control');
  await page.keyboard.press('Enter');
  await holds(chat.line, '');
});

test('the theme is that of the system until one is chosen, which stays', async (t) => {
  const { page } = await visit(t, 'theme', { ...DESK, colorScheme: 'dark', path: '/settings' });
  const isDark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(19, 22, 21)');
  const turns = (dark) => eventually(async () => (await isDark()) === dark, dark ? 'the dark' : 'the light');
  await page.getByLabel('Theme').waitFor();
  await turns(true);
  await page.getByLabel('Theme').selectOption('Light');
  await turns(false);
  await page.reload();
  await page.getByLabel('Theme').waitFor();
  await turns(false);
  await page.getByLabel('Theme').selectOption('System');
  await turns(true);
});

test('an address of a session that is not there, or not one’s own, says so', async (t) => {
  const other = await hub.web('others').session({ tag: '/x', metadata: { path: '/x', host: 'h' } });
  const { page } = await visit(t, 'mine', { path: `/sessions/${other.id}` });
  await page.getByRole('alert').getByText('This session belongs to another namespace.').waitFor();
  // Asking again would change nothing.
  await counted(page.getByRole('button', { name: 'Try again' }), 0);
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.goto(`${hub.url}/sessions/none`);
  await page.getByRole('alert').getByText('No such session.').waitFor();
  await page.getByRole('link', { name: 'Back to sessions' }).click();
  // As a link of an agent does it, which is not asked of the hub.
  await page.evaluate(() => history.pushState(null, '', '/no/such/page'));
  await page.getByRole('heading', { name: 'Page not found' }).waitFor();
});
