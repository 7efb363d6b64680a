/** Sign-in and conversations in the web console, with the real hub and the example agent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import {
  DESK,
  PHONE,
  positionOf,
  scrollUpTo,
  signInUrl,
  SMALL_PHONE,
  waitForCount,
  waitForEqual,
  waitForFocus,
  waitForValue,
} from '../lib/browser.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { liveTalk, sayAll } from '../lib/records.mjs';

const { hub, open, visit, startSession, openTalk } = await startConsole();

test('removes an invalid sign-in link from the address bar with an error, rejects a wrong token, signs in with a token, and signs out', async (t) => {
  const { page } = await open(t);
  await page.goto('/#token=wrong%3Alink');
  await page.getByText(/Sign-in link failed: /).waitFor();
  await page.waitForURL(`${hub.url}/`);
  await page.goto('/');
  await page.getByText(/Sign-in link failed: /).waitFor({ state: 'detached' });
  await page.getByText('Use an access token').click();
  await page.getByLabel('Access token').fill('wrong:sign-in');
  await page.getByRole('button', { name: 'Sign in with the token' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Access token').fill(hub.token('sign-in'));
  await page.getByRole('button', { name: 'Sign in with the token' }).click();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'No sessions yet' }).waitFor();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: /^Sign out of/ }).click();
  await page.getByLabel('Code').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
});

test('sends a command, approves it and shows its output', async (t) => {
  const { repository, page, chat } = await startSession(t, 'first', { args: ['--name', 'The notes'] });
  await page.getByRole('heading', { name: 'The notes', level: 1 }).waitFor();
  await chat.composer.fill('echo two >> notes.txt; cat notes.txt');
  await page.keyboard.press('Enter');
  await chat.request().getByText('echo two >> notes.txt; cat notes.txt').waitFor();
  await page.getByRole('link', { name: /The notes.*1 request pending/ }).waitFor();
  await page.waitForFunction(() => document.title === '(1) The notes · Session gateway');
  await chat.answer('Approve');
  await chat.waitForText('Exit code 0.');
  // The preview shows the start of the output.
  await chat.waitForText('one\ntwo');
  await page.getByText('Sending …').waitFor({ state: 'detached' });
  assert.ok(repository.git('diff', '--stat').includes('notes.txt'));
});

test('a list of many todos opens at the current one', async (t) => {
  const { page, write } = await openTalk(t, 'todos', {}, SMALL_PHONE);
  const statusOf = (index) => (index < 97 ? 'completed' : index === 97 ? 'in_progress' : 'pending');
  const todos = Array.from({ length: 100 }, (_, index) => ({ content: `Todo ${index + 1}`, status: statusOf(index) }));
  await write({ type: 'tool_use', id: 't', name: 'TodoWrite', input: { todos } });
  const strip = page.locator('.todo-strip');
  await strip.locator('summary', { hasText: '97/100' }).tap();
  const isVisible = () =>
    strip.locator('[data-status="in_progress"]').evaluate((item) => {
      const [{ top, bottom }, list] = [item, item.parentElement].map((element) => element.getBoundingClientRect());
      return top >= list.top && bottom <= list.bottom;
    });
  await eventually(isVisible, 'the current todo');
  assert.ok((await page.locator('.session-bar').boundingBox()).y >= 0, 'the page is scrolled');
});

test('switches modes and models, completes commands and shows todos', async (t) => {
  const { repository, agent, page, chat } = await startSession(t, 'modes');
  repository.write('.agents/commands/greet.md', '# Greet\n\n```sh\necho hello there\n```\n');
  repository.write('.agents/skills/review/SKILL.md', '---\nname: review\ndescription: Reads changes\n---\n');
  const sessionField = async (name) => (await hub.web('modes').readSession(agent.sessionId))[name];

  await page.getByLabel('Permission mode').selectOption('Approve everything');
  await page.getByRole('dialog').getByRole('button', { name: 'Approve everything' }).click();
  await page.getByLabel('Permission mode').and(page.locator('[title="Never asks"]')).waitFor();
  await page.getByLabel('Model').selectOption('Strong model');
  await page.waitForFunction(
    () => /** @type {HTMLSelectElement} */ (document.querySelector('select[aria-label="Model"]'))?.value === 'model_strong',
  );
  assert.deepEqual([await sessionField('permissionMode'), await sessionField('modelMode')], ['bypassPermissions', 'model_strong']);

  await chat.composer.pressSequentially('/re');
  await page.getByRole('option', { name: '/review' }).getByText('Reads changes').waitFor();
  await chat.composer.fill('/gre');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page.keyboard.press('Tab');
  await waitForValue(chat.composer, '/greet ');
  await chat.composer.fill('/');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page
    .getByRole('status')
    .getByText(/commands\. Use the arrow keys/)
    .waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('listbox', { name: 'Commands and skills' }).waitFor({ state: 'detached' });
  await waitForEqual(() => chat.composer.inputValue(), '/');
  await page.keyboard.type('g');
  await page.getByRole('option', { name: '/greet' }).waitFor();
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.getByRole('button', { name: 'Attach files' }).evaluate((element) => element === document.activeElement), true);
  await waitForEqual(() => chat.composer.inputValue(), '/g');
  await chat.composer.fill('/');
  await page.getByRole('option', { name: '/greet' }).click();
  await waitForValue(chat.composer, '/greet ');
  await page.keyboard.press('Enter');
  await chat.waitForText('Exit code 0.');
  await page.locator('summary', { hasText: 'echo hello there' }).waitFor();

  await chat.send('/todo add Write it down');
  await chat.send('/todo add Read it again');
  await chat.send('/todo done 1');
  await page.locator('.todo-strip', { hasText: '1/2' }).getByText('Read it again').first().waitFor();
  await page.getByRole('img', { name: '1 of 2 todos done' }).waitFor();
  await chat.send('/todo done 2');
  await page.locator('.todo-strip').waitFor({ state: 'detached' });
});

test('previews an output and expands it, and stops a running command', async (t) => {
  const { page, chat } = await startSession(t, 'previews', { args: ['--auto-approve'] });
  await chat.send('seq 46');
  await chat.waitForText('Exit code 0.');
  const call = chat.log.locator('.disclosure', { hasText: 'seq 46' });
  await waitForEqual(() => call.locator('.preview').textContent(), '1\n2\n3\n4\n5\n6');
  await call.getByRole('button', { name: '… 40 more lines' }).press('Enter');
  await call.locator('.disclosure-body .output', { hasText: '46' }).waitFor();
  await call.locator('.preview').waitFor({ state: 'detached' });
  // The focus moves to the summary.
  await waitForFocus(call.locator('summary'));
  await page.keyboard.press('Enter');
  await call.locator('.preview').waitFor();

  await chat.send('echo begun; sleep 600');
  await page.locator('summary', { hasText: 'sleep 600' }).getByText('running').waitFor();
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await chat.waitForText(/Aborted\. Ended by SIGTERM/);
  await chat.composer.waitFor();
});

/** Expects that the end of a conversation is visible, and remains visible while messages are measured. */
async function expectEnd(page, chat) {
  const distances = await chat.log.evaluate(async (log) => {
    const measured = [];
    for (let frame = 0; frame < 30; frame += 1) {
      await new Promise(requestAnimationFrame);
      measured.push(Math.round(log.scrollHeight - log.scrollTop - log.clientHeight));
    }
    return measured;
  });
  assert.ok(distances.at(-1) <= 1, `${distances} px above the end`);
  await waitForCount(page.getByRole('button', { name: 'Newest' }), 0);
}

test('a conversation opens at its end and stays there: with a tall answer, right-to-left text, and a late renderer', async (t) => {
  const { path, say } = await liveTalk(t, hub, 'end');
  // The list estimates the height of messages that it has not measured: far too high after a tall one, far too low before.
  await sayAll(say, 20, (number) => `Text ${number}`);
  const paragraph = 'بالتأكيد، سأنظر أولا إلى الملفات ثم أكتب الاختبار وأشغله مرة أخرى. '.repeat(6);
  const code = `\`\`\`rust\n${'fn main() {}\n'.repeat(20)}\`\`\`\n\n`;
  await say(`# العنوان\n\n${code}${`${paragraph}\n\n`.repeat(12)}**The end.**`);
  for (const device of [SMALL_PHONE, DESK])
    for (const isRendererLate of [false, true]) {
      const { page } = await open(t, device);
      const chat = new Chat(page);
      const held = [];
      if (isRendererLate) await page.route(/\/assets\/(render-markdown|highlight)/, (route) => held.push(() => route.continue()));
      await page.goto(signInUrl(hub, 'end', path));
      if (isRendererLate) {
        await chat.waitForText('**The end.**');
        await expectEnd(page, chat);
        for (const release of held) release();
      }
      await chat.log.locator('strong', { hasText: 'The end.' }).waitFor();
      await expectEnd(page, chat);
      await page.close();
    }
});

test('a message that arrives in the frame in which the user scrolls up does not scroll back to the end', async (t) => {
  const { path, say } = await liveTalk(t, hub, 'frame');
  await sayAll(say, 40, (number) => `Message number ${number}.`);
  const { page } = await open(t);
  await page.addInitScript(() => {
    const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, 'onmessage');
    Object.defineProperty(WebSocket.prototype, 'onmessage', {
      set(handler) {
        set.call(
          this,
          handler && ((event) => (event.data.includes('The late message') ? (window.deliver = () => handler(event)) : handler(event))),
        );
      },
    });
  });
  await page.goto(signInUrl(hub, 'frame', path));
  const chat = new Chat(page);
  await chat.waitForText('Message number 40.');
  await page.locator('.connection[data-state="live"]:empty').waitFor({ state: 'attached' });
  await expectEnd(page, chat);
  await say('The late message.');
  await page.waitForFunction(() => window.deliver !== undefined);
  await chat.log.evaluate((log) => {
    log.scrollTo(0, 0);
    window.deliver();
  });
  await page.getByRole('button', { name: 'Newest: 1 new' }).waitFor();
  assert.equal(await chat.log.evaluate((log) => log.scrollTop), 0);
});

test('an item that is expanded at the end of the conversation stays in place', async (t) => {
  // The conversation is empty at first, and too short to scroll until the item is expanded.
  const { page, chat, write } = await openTalk(t, 'expand', {}, PHONE);
  await chat.composer.waitFor();
  await write({ type: 'text', text: 'Here it is.' });
  await write({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'seq 200' } });
  await write({ type: 'tool_result', tool_use_id: 't', content: Array.from({ length: 200 }, (_, index) => index + 1).join('\n') });
  const summary = chat.log.locator('summary', { hasText: 'seq 200' });
  const topOf = async (locator) => Math.round((await locator.boundingBox()).y);
  await chat.log.getByRole('button', { name: '… 194 more lines' }).waitFor();
  const top = await topOf(summary);
  await summary.tap();
  // The button is shown as soon as the list knows the new height.
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  assert.equal(await topOf(summary), top);

  // A new message does not move the expanded item. When the item is collapsed, the conversation follows new messages again.
  await write({ type: 'text', text: 'The next message.' });
  await eventually(
    () => chat.log.evaluate((log) => log.textContent.includes('The next message.') || log.scrollHeight > log.clientHeight),
    'the new message',
  );
  assert.equal(await topOf(summary), top);
  await summary.tap();
  await chat.waitForText('The next message.');
  await page.getByRole('button', { name: 'Newest' }).waitFor({ state: 'detached' });
});

test('while output is streamed, the conversation keeps its scroll position, or stays at its end', async (t) => {
  const { path, say, write } = await liveTalk(t, hub, 'pieces');
  const sayResult = (content) => write({ type: 'tool_result', tool_use_id: 't', content });
  await sayAll(say, 40, (number) => `Message number ${number}.`);
  await write({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'make' } });
  const { page } = await visit(t, 'pieces', { ...PHONE, path });
  const chat = new Chat(page);
  const isAtEnd = () => chat.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight < 2);
  const moreLinesButton = (count) => chat.log.getByRole('button', { name: `… ${count} more line` });
  await chat.waitForText('Message number 40.');
  await sayResult('line\n'.repeat(8));
  await moreLinesButton(2).waitFor();
  await eventually(isAtEnd, 'the end');

  await chat.log.evaluate((element) => element.scrollBy(0, -200));
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  const readMessage = chat.log.getByText('Message number 37.');
  const { y } = await readMessage.boundingBox();
  await sayResult('line\n'.repeat(8));
  await moreLinesButton(10).waitFor({ state: 'attached' });
  assert.equal((await readMessage.boundingBox()).y, y);
});

test('a session is read-only while the terminal is in control, until the console takes control', async (t) => {
  const { page, chat } = await startSession(t, 'local', { args: ['--local'] });
  await page.getByText('The terminal is in control.').waitFor();
  await waitForCount(chat.composer, 0);
  await page.getByRole('button', { name: 'Take control' }).click();
  await chat.composer.waitFor();
});

test('shows the end of a long conversation, loads older messages while scrolling up, and keeps the scroll position', async (t) => {
  const { path, say } = await liveTalk(t, hub, 'long');
  await sayAll(say, 200, (number) => `Message number ${number}.`);
  const { page } = await visit(t, 'long', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.waitForText('Message number 200.');
  // The list is virtualized.
  assert.ok((await chat.log.locator('.message').count()) < 60);
  const first = chat.log.getByText('Message number 1.', { exact: true });
  while ((await first.count()) === 0) {
    await chat.log.evaluate((element) => element.scrollTo(0, 0));
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  await chat.log.getByText('Start of the conversation').waitFor();
  await say('Message number 201.');
  await page.getByRole('button', { name: 'Newest' }).waitFor();
  await waitForCount(chat.log.getByText('Message number 201.'), 0);
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.waitForText('Message number 201.');
  await say('Message number 202.');
  await chat.waitForText('Message number 202.');
  // Sending a message scrolls to the end.
  const newest = page.getByRole('button', { name: 'Newest' });
  // The jump to the new message may still be scrolling.
  await eventually(async () => {
    await chat.log.evaluate((element) => element.scrollBy(0, -2000));
    return newest.isVisible();
  }, 'the button that leads to the newest message');
  await chat.send('and now?');
  await chat.waitForText('and now?');
  await page.getByRole('button', { name: 'Newest' }).waitFor({ state: 'detached' });
});

test('drops the oldest messages of a very long conversation, and loads these messages again while scrolling up', async (t) => {
  const { path, say } = await liveTalk(t, hub, 'longest');
  await sayAll(say, 401, (number) => `Message number ${number}.`);
  const { page } = await visit(t, 'longest', { ...PHONE, path });
  const chat = new Chat(page);
  await chat.waitForText('Message number 401.');
  const first = chat.log.getByText('Message number 1.', { exact: true });
  const scrollToTop = async () => {
    while ((await first.count()) === 0) {
      await chat.log.evaluate((element) => element.scrollTo(0, 0));
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    }
  };
  await scrollToTop();
  await chat.log.getByText('Start of the conversation').waitFor();
  // While the user reads old messages, the page keeps all rows. The message must arrive before the user returns to the end, where the
  // page removes the oldest rows.
  const heightOf = () => chat.log.evaluate(({ scrollHeight }) => scrollHeight);
  const height = await heightOf();
  await say('Message number 402.');
  await eventually(async () => (await heightOf()) > height, 'the page to have the new message');
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.waitForText('Message number 402.');
  await waitForCount(chat.log.getByText('Start of the conversation'), 1);
  await say('Message number 403.');
  await chat.log.getByText('Loading older messages').waitFor();
  await chat.waitForText('Message number 403.');
  assert.equal(await chat.log.evaluate((element) => element.scrollTop + element.clientHeight >= element.scrollHeight - 1), true);
  await scrollToTop();
  await chat.log.getByText('Start of the conversation').waitFor();
});

test('refuses to send a message above the hub’s limit, and sends the message when it is shorter', async (t) => {
  const { cli, path } = await liveTalk(t, hub, 'limits');
  const { page } = await open(t);
  // A browser needs many seconds to lay out a text of 1 MiB, the real limit.
  await page.route('**/api/config', async (route) => {
    const config = await (await route.fetch()).json();
    await route.fulfill({ json: { ...config, limits: { ...config.limits, messageBytes: 1_000 } } });
  });
  await page.goto(signInUrl(hub, 'limits', path));
  const chat = new Chat(page);
  // In UTF-8, the character has two bytes. White space at the ends of the text is not sent.
  const longest = 'é'.repeat(500);
  await chat.composer.fill(`${longest}.`);
  await page.getByRole('alert').getByText('The message has 1,001 bytes; the limit is 1,000.').waitFor();
  await waitForEqual(() => page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
  await chat.composer.press('Enter');
  await chat.send(` ${longest}\n`);
  assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, longest);
  await page.getByRole('alert').waitFor({ state: 'detached' });
  assert.equal(await chat.composer.inputValue(), '');
});

test('keeps the place in the conversation while another tab is shown', async (t) => {
  const { path, say } = await liveTalk(t, hub, 'place');
  await sayAll(say, 40, (number) => `Text ${number}.${'\n\nA line.'.repeat(number % 7)}`);
  const { page } = await visit(t, 'place', { path });
  const chat = new Chat(page);
  await chat.waitForText('Text 40.');
  const target = chat.log.getByText('Text 20.', { exact: true });
  const before = await scrollUpTo(page, chat.log, target);
  for (const tab of ['Changes', 'Files']) {
    await page.getByRole('link', { name: tab }).click();
    await chat.log.waitFor({ state: 'detached' });
    await say(`Said during ${tab}.`);
    await page.getByRole('link', { name: 'Chat' }).click();
    await target.waitFor();
    await eventually(async () => Math.abs((await positionOf(target)) - before) <= 2, `the same place as before ${tab}`);
  }
  await page.getByRole('button', { name: 'Newest' }).click();
  await chat.waitForText('Said during Files.');
  await page.getByRole('link', { name: 'Changes' }).click();
  await chat.log.waitFor({ state: 'detached' });
  await say('The last one.');
  await page.getByRole('link', { name: 'Chat' }).click();
  await chat.waitForText('The last one.');
});
