/** A session's life in the web console: started, named, archived, resumed, deleted. */

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { DESK, PHONE } from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit, session } = await startConsole();

/** Opens the menu of the session on the page and chooses. */
async function choose(page, item) {
  await page.getByRole('button', { name: 'More for this session' }).click();
  await page.getByRole('menuitem', { name: item }).click();
}

test('a session is started in a worktree, worked in, renamed, archived, resumed and deleted', async (t) => {
  const { repository, page, complaints } = await session(t, 'life');
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('link', { name: 'New session' }).click();

  await page.getByRole('textbox', { name: 'Directory' }).fill('/no/such/place');
  await page.getByText('There is no such directory on this machine').waitFor();
  await page.getByRole('button', { name: repository.folder }).click();
  await page.getByText('This directory is there').waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Directory' }).inputValue(), repository.folder);
  await page.getByLabel(/In a git worktree/).check();
  await page.getByLabel(/Name of the worktree/).fill('fix-notes');
  await page.getByLabel(/Without asking/).check();
  await page.getByRole('button', { name: 'Start the session' }).click();

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
  await page.getByRole('region', { name: 'Archived sessions' }).getByRole('link', { name: /Fix the notes/ }).click();
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

test('what a machine refuses is said where it was asked for', async (t) => {
  const { page } = await session(t, 'refused', { options: PHONE });
  await page.goto(`${hub.url}/new`);
  await page.getByRole('textbox', { name: 'Directory' }).fill('/');
  await page.getByRole('button', { name: 'Start the session' }).tap();
  await page.getByRole('alert').getByText(/outside the directories this machine serves/).waitFor();
});

test('sessions appear, are found by a word, and go, without a reload', async (t) => {
  const { page } = await visit(t, 'live');
  await page.getByRole('heading', { name: 'No session yet' }).waitFor();
  const web = hub.web('live');
  const names = ['Write the parser', 'Draw the map'];
  const made = [];
  for (const [at, name] of names.entries()) made.push(await web.session({ tag: `/code/${at}`, metadata: { path: `/code/${at}`, host: 'laptop', name } }));
  for (const name of names) await page.getByRole('link', { name: new RegExp(name) }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('parser laptop');
  await page.getByRole('link', { name: /Draw the map/ }).waitFor({ state: 'detached' });
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('nothing like it');
  await page.getByText('No session matches').waitFor();
  await page.getByRole('searchbox', { name: 'Search sessions' }).fill('');
  await web.delete(`/api/sessions/${made[1].id}`);
  await page.getByRole('link', { name: /Draw the map/ }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: /Write the parser/ }).click();
  await page.getByText('Nothing was said yet').waitFor();
  await web.delete(`/api/sessions/${made[0].id}`);
  await page.getByText('This session was deleted.').waitFor();
});

test('keys lead from session to session and through their parts', async (t) => {
  const web = hub.web('keys');
  for (const name of ['First', 'Second']) await web.session({ tag: `/code/${name}`, metadata: { path: '/code', host: 'h', name } });
  const { page } = await visit(t, 'keys');
  const names = page.getByRole('complementary').locator('.session-title');
  await names.nth(1).waitFor();
  const [top, below] = await names.allTextContents();
  const heading = (name) => page.getByRole('heading', { name, level: 1 }).waitFor();
  await page.keyboard.press('j');
  await heading(top);
  await page.keyboard.press('j');
  await heading(below);
  await page.keyboard.press('k');
  await heading(top);
  for (const [key, name] of [['2', 'Changes'], ['3', 'Files'], ['1', 'Chat']]) {
    await page.keyboard.press(key);
    await page.locator('.tabs [aria-current="page"]', { hasText: name }).waitFor();
  }
  await page.keyboard.press('n');
  await heading('New session');
  await page.keyboard.press('?');
  await heading('Settings');
});

test('the theme is that of the system until one is chosen, which stays', async (t) => {
  const { page } = await visit(t, 'theme', { ...DESK, colorScheme: 'dark', path: '/settings' });
  const isDark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(19, 22, 21)');
  await page.getByLabel('Theme').waitFor();
  assert.equal(await isDark(), true);
  await page.getByLabel('Theme').selectOption('Light');
  assert.equal(await isDark(), false);
  await page.reload();
  await page.getByLabel('Theme').waitFor();
  assert.equal(await isDark(), false);
  await page.getByLabel('Theme').selectOption('As the system');
  assert.equal(await isDark(), true);
});

test('an address of a session that is not there, or not one’s own, says so', async (t) => {
  const other = await hub.web('others').session({ tag: '/x', metadata: { path: '/x', host: 'h' } });
  const { page } = await visit(t, 'mine', { path: `/sessions/${other.id}` });
  await page.getByRole('alert').waitFor();
  await page.getByRole('link', { name: 'To the sessions' }).click();
  await page.getByRole('heading', { name: 'No session yet' }).waitFor();
  await page.goto(`${hub.url}/no/such/page`);
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor();
});
