/** The web console in a real browser, with the real hub and the example agent: signing in, and a conversation. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startAgent } from '../lib/agent.mjs';
import { openPage, signInLink, startBrowser } from '../lib/browser.mjs';
import { Repository } from '../lib/git.mjs';
import { startHub } from '../lib/hub.mjs';
import { Lifetime } from '../lib/lifetime.mjs';

const suite = new Lifetime();
const hub = await startHub({ console: true });
suite.after(() => hub.stop());
const browser = await startBrowser(suite);
after(() => suite.end());

/** A directory with an agent, and a page that is signed in. */
async function start(t, namespace, { args = [], path = '/', options } = {}) {
  const repository = new Repository(t);
  repository.write('notes.txt', 'one\n');
  repository.commit('first');
  const agent = await startAgent(t, hub, { dir: repository.folder, namespace, args });
  const { page, context, complaints } = await openPage(t, browser, hub, options);
  await page.goto(signInLink(hub, namespace, path === 'session' ? `/sessions/${agent.sessionId}` : path));
  return { repository, agent, page, context, complaints };
}

test('a person signs in, finds the session, sends a command, approves it and sees its output', async (t) => {
  const { repository, page, complaints } = await start(t, 'first', { args: ['--name', 'The notes'] });
  assert.equal(new URL(page.url()).hash, '');
  await page.getByRole('link', { name: 'The notes' }).click();
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();

  await page.getByLabel('Message to the agent').fill('echo two >> notes.txt; cat notes.txt');
  await page.keyboard.press('Enter');
  const request = page.getByRole('region', { name: 'Bash asks' });
  await request.getByText('echo two >> notes.txt; cat notes.txt').waitFor();
  await page.getByRole('link', { name: /The notes.*waits for your answer/ }).waitFor();
  await request.getByRole('button', { name: 'Approve' }).click();
  await request.waitFor({ state: 'detached' });

  const call = page.locator('summary', { hasText: 'Bash' });
  await page.getByText('Exit code 0.').waitFor();
  await call.click();
  await page.getByText('one\ntwo').waitFor();
  assert.equal(await page.getByText('Sending …').count(), 0);
  assert.equal(repository.git('diff', '--stat').includes('notes.txt'), true);
  assert.deepEqual(complaints, []);
});
