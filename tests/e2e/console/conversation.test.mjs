/** A conversation in the web console, in a real browser, with the real hub and the example agent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../lib/await.mjs';
import { focused, holds, linkTo, PHONE } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, open, visit, session } = await startConsole();

test('a person signs in with the token, is told of a wrong one, and signs out', async (t) => {
  const { page, complaints } = await open(t);
  await page.goto('/');
  await page.getByLabel('Access token').fill('wrong:sign-in');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Access token').fill(hub.token('sign-in'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
  assert.deepEqual(complaints, []);
});

test('a link with a token that is not good says so, and leaves no token in the address', async (t) => {
  const { page } = await open(t);
  await page.goto('/#token=wrong%3Alink');
  await page.getByText(/Sign-in link failed: /).waitFor();
  await page.waitForURL(`${hub.url}/`);
});

test('a link says nothing in its author’s words', async (t) => {
  const { page } = await visit(t, 'words');
  const dialog = page.getByRole('dialog');
  await page.goto('/#token=x:your own”? Your session has expired');
  await page.getByText('The link contains no valid access token.').waitFor();
  await page.waitForURL((url) => url.hash === '');
  assert.equal(await dialog.count(), 0);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  await page.goto('/#token=x:your own”? Your session has expired');
  await page.getByText('The link contains no valid access token.').waitFor();
});

test('a link of another namespace asks before it signs in, and nothing of the one before is left then', async (t) => {
  const { session: mine, cli } = await liveSession(t, hub, { namespace: 'mine', tag: '/code/m', metadata: { path: '/code/m', host: 'h', name: 'Mine' } });
  const theirs = await hub.web('theirs').session({ tag: '/code/t', metadata: { path: '/code/t', host: 'h', name: 'Theirs' } });
  const { page, context, complaints } = await visit(t, 'mine', { path: `/sessions/${mine.id}` });
  const chat = new Chat(page);
  await chat.line.fill('a draft of mine');
  const kept = () => page.evaluate(() => localStorage.getItem('access-token'));
  const dialog = page.getByRole('dialog');

  await page.goto(linkTo(hub, 'theirs'));
  await dialog.getByText(/the namespace “theirs”.*signed in to “mine”/).waitFor();
  await page.waitForURL((url) => url.hash === '');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('link', { name: /Mine/ }).click();
  await holds(chat.line, 'a draft of mine');
  assert.equal(await kept(), hub.token('mine'));

  // What another tab holds goes, too.
  const other = await context.newPage();
  await other.goto(`/sessions/${mine.id}`);
  await other.getByRole('heading', { name: 'Mine', level: 1 }).waitFor();
  await page.goto(linkTo(hub, 'wrong').replace(/token=[^:%]*/, 'token=nothing'));
  await dialog.getByRole('button', { name: 'Switch namespace' }).click();
  await dialog.getByRole('alert').waitFor();
  assert.equal(await kept(), hub.token('mine'));
  await page.goto(linkTo(hub, 'theirs'));
  await dialog.getByRole('button', { name: 'Switch namespace' }).click();
  await page.getByRole('link', { name: /Theirs/ }).click();
  await page.getByRole('heading', { name: 'Theirs', level: 1 }).waitFor();
  await page.waitForURL(`**/sessions/${theirs.id}`);
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage).sort()), ['jwt', 'namespace']);
  await other.getByRole('alert').waitFor();
  await other.getByText('Mine', { exact: true }).waitFor({ state: 'detached' });

  // What is said in one namespace is not heard in the other.
  await cli.say(mine.id, { role: 'agent', content: { type: 'text', text: 'A secret.' } });
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Sign out' }).click();
  for (const one of [page, other]) await one.getByLabel('Access token').waitFor();
  assert.deepEqual(complaints, []);
});

test('a command is sent, approved, and its output is seen', async (t) => {
  const { repository, page, chat, complaints } = await session(t, 'first', { args: ['--name', 'The notes'] });
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();
  await chat.line.fill('echo two >> notes.txt; cat notes.txt');
  await page.keyboard.press('Enter');
  await chat.request().getByText('echo two >> notes.txt; cat notes.txt').waitFor();
  await page.getByRole('link', { name: /The notes.*1 request pending/ }).waitFor();
  await page.waitForFunction(() => document.title === '(1) The notes · Session gateway');
  await chat.answer('Approve');
  await chat.says('Exit code 0.');
  // Its beginning is read without a click.
  await chat.says('one\ntwo');
  await page.getByText('Sending …').waitFor({ state: 'detached' });
  assert.ok(repository.git('diff', '--stat').includes('notes.txt'));
  assert.deepEqual(complaints, []);
});

test('modes and models are switched, commands are offered, and todos are shown', async (t) => {
  const { repository, agent, page, chat } = await session(t, 'modes');
  repository.write('.agents/commands/greet.md', '# Greet\n\n```sh\necho hello there\n```\n');
  repository.write('.agents/skills/review/SKILL.md', '---\nname: review\ndescription: Reads changes\n---\n');
  const kept = async (name) => (await hub.web('modes').get(`/api/sessions/${agent.sessionId}`)).body.session[name];

  await page.getByLabel('Permission mode').selectOption('Bypass');
  await page.getByLabel('Permission mode').and(page.locator('[title="Never asks"]')).waitFor();
  await page.getByLabel('Model').selectOption('Strong model');
  await page.waitForFunction(() => document.querySelector('select[aria-label="Model"]')?.value === 'model_strong');
  assert.deepEqual([await kept('permissionMode'), await kept('modelMode')], ['bypassPermissions', 'model_strong']);

  await chat.line.pressSequentially('/re');
  await page.getByRole('option', { name: '/review' }).getByText('Reads changes').waitFor();
  await chat.line.fill('/gre');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page.keyboard.press('Tab');
  await holds(chat.line, '/greet ');
  await chat.line.fill('/');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page.getByRole('status').getByText(/commands\. Use the arrow keys/).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('listbox', { name: 'Commands and skills' }).waitFor({ state: 'detached' });
  assert.equal(await chat.line.inputValue(), '/');
  await page.keyboard.type('g');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.getByRole('button', { name: 'Attach files' }).evaluate((element) => element === document.activeElement), true);
  assert.equal(await chat.line.inputValue(), '/g');
  await chat.line.fill('/');
  await page.getByRole('option', { name: '/greet' }).click();
  await holds(chat.line, '/greet ');
  await page.keyboard.press('Enter');
  await chat.says('Exit code 0.');
  await page.locator('summary', { hasText: 'echo hello there' }).waitFor();

  await chat.send('/todo add Write it down');
  await chat.send('/todo add Read it again');
  await chat.send('/todo done 1');
  await page.locator('.todo-strip', { hasText: '1/2' }).getByText('Read it again').first().waitFor();
  await page.getByRole('img', { name: '1 of 2 todos done' }).waitFor();
});

test('of an output the beginning is seen, and what is longer unfolds', async (t) => {
  const { page, chat } = await session(t, 'previews', { args: ['--auto-approve'] });
  await chat.send('seq 46');
  await chat.says('Exit code 0.');
  const call = chat.log.locator('.disclosure', { hasText: 'seq 46' });
  assert.equal(await call.locator('.preview').textContent(), '1\n2\n3\n4\n5\n6');
  await call.getByRole('button', { name: '… 40 more lines' }).press('Enter');
  await call.locator('.disclosure-body .output', { hasText: '46' }).waitFor();
  await call.locator('.preview').waitFor({ state: 'detached' });
  // Keys go on where the button was.
  await focused(call.locator('summary'));
  await page.keyboard.press('Enter');
  await call.locator('.preview').waitFor();
});

test('an output that comes in pieces moves nothing under who reads further up, and who is at the end stays there', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'pieces', tag: '/code/p', metadata: { path: '/code/p', host: 'h' } });
  const output = (part) => cli.say(one.id, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content: [part] } } } });
  const piece = (content) => output({ type: 'tool_result', tool_use_id: 't', content });
  for (let number = 1; number <= 40; number += 1) await output({ type: 'text', text: `Message number ${number}.` });
  await output({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'make' } });
  const { page } = await visit(t, 'pieces', { ...PHONE, path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  const isAtEnd = () => chat.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight < 2);
  const more = (count) => chat.log.getByRole('button', { name: `… ${count} more line` });
  await chat.says('Message number 40.');
  await piece('line\n'.repeat(8));
  await more(2).waitFor();
  await eventually(isAtEnd, 'the end');

  await chat.log.evaluate((element) => element.scrollBy(0, -200));
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  const read = chat.log.getByText('Message number 37.');
  const { y } = await read.boundingBox();
  await piece('line\n'.repeat(8));
  await more(10).waitFor({ state: 'attached' });
  assert.equal((await read.boundingBox()).y, y);
});

test('a running command is stopped', async (t) => {
  const { page, chat } = await session(t, 'stop', { args: ['--auto-approve'] });
  await chat.send('echo begun; sleep 600');
  await page.locator('summary', { hasText: 'sleep 600' }).getByText('running').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await chat.says(/Aborted\. Ended by SIGTERM/);
  await chat.line.waitFor();
});

test('while the terminal is in control the console only reads, until it takes control', async (t) => {
  const { page, chat } = await session(t, 'local', { args: ['--local'] });
  await page.getByText('The terminal is in control.').waitFor();
  assert.equal(await chat.line.count(), 0);
  await page.getByRole('button', { name: 'Take control' }).click();
  await chat.line.waitFor();
});

test('a long conversation shows its end, reads older messages on the way up, and stays where one reads', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'long', tag: '/code/l', metadata: { path: '/code/l', host: 'h' } });
  const say = (text) => cli.say(one.id, { role: 'agent', content: { type: 'text', text } });
  for (let number = 1; number <= 200; number += 1) await say(`Message number ${number}.`);
  const { page } = await visit(t, 'long', { ...PHONE, path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  await chat.says('Message number 200.');
  // Only what is near the screen is in the page.
  assert.ok((await chat.log.locator('.message').count()) < 60);
  const first = chat.log.getByText('Message number 1.', { exact: true });
  while ((await first.count()) === 0) {
    await chat.log.evaluate((element) => element.scrollTo(0, 0));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  await chat.log.getByText('Start of the conversation').waitFor();
  await say('Message number 201.');
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  assert.equal(await chat.log.getByText('Message number 201.').count(), 0);
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.says('Message number 201.');
  await say('Message number 202.');
  await chat.says('Message number 202.');
  // Who writes sees what was written, wherever one has read.
  await chat.log.evaluate((element) => element.scrollBy(0, -2000));
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  await chat.send('and now?');
  await chat.says('and now?');
  await page.getByRole('button', { name: 'Newest' }).waitFor({ state: 'detached' });
});

test('of a very long conversation the oldest messages go while one is at its end, and are there again on the way up', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'longest', tag: '/code/l', metadata: { path: '/code/l', host: 'h' } });
  const say = (text) => cli.say(one.id, { role: 'agent', content: { type: 'text', text } });
  for (let number = 1; number <= 401; number += 1) await say(`Message number ${number}.`);
  const { page } = await visit(t, 'longest', { ...PHONE, path: `/sessions/${one.id}` });
  const chat = new Chat(page);
  await chat.says('Message number 401.');
  const first = chat.log.getByText('Message number 1.', { exact: true });
  const toTheTop = async () => {
    while ((await first.count()) === 0) {
      await chat.log.evaluate((element) => element.scrollTo(0, 0));
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
  };
  await toTheTop();
  await chat.log.getByText('Start of the conversation').waitFor();
  // Who reads far up keeps everything.
  await say('Message number 402.');
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.says('Message number 402.');
  assert.equal(await chat.log.getByText('Start of the conversation').count(), 1);
  await say('Message number 403.');
  await chat.log.getByText('Loading older messages').waitFor();
  await chat.says('Message number 403.');
  assert.equal(await chat.log.evaluate((element) => element.scrollTop + element.clientHeight >= element.scrollHeight - 1), true);
  await toTheTop();
  await chat.log.getByText('Start of the conversation').waitFor();
});
