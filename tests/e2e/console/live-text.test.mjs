/** Live text in the web console: the text that an agent is writing, before the message is stored. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, waitForCount } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { outputRecord } from '../lib/records.mjs';

const { hub, visit } = await startConsole();

const talk = { tag: '/code/t', metadata: { path: '/code/t', host: 'h' } };

/** Sends a message of an agent in pieces. */
class Stream {
  text = '';

  constructor(cli, sid, id) {
    this.cli = cli;
    this.sid = sid;
    this.id = id;
  }

  write(text, kind = 'text') {
    const offset = this.text.length;
    this.text += text;
    return this.cli.emitWithAck('message-delta', { sid: this.sid, id: this.id, offset, text, kind });
  }

  /** @param {object} block */
  store(block = { type: 'text', text: this.text }) {
    return this.cli.sendMessage(this.sid, outputRecord(block), this.id);
  }
}

/** Waits until the page shows the session and receives its events. */
async function waitUntilFollowed(chat, cli, session) {
  await chat.waitForText('Before.');
  // The message arrives as an event, or the page reads it after the page has subscribed.
  await cli.sendMessage(session.id, outputRecord({ type: 'text', text: 'Started.' }));
  await chat.waitForText('Started.');
}

/** Returns the text that screen readers announce. */
const readAnnouncement = (page) => page.getByRole('status').filter({ hasText: 'The agent says' }).textContent();

test('a text grows while the agent writes it, and the stored message replaces the text', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'live', ...talk });
  await cli.sendMessage(session.id, outputRecord({ type: 'text', text: 'Before.' }));
  const { page } = await visit(t, 'live', { ...DESK, path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  await waitUntilFollowed(chat, cli, session);
  const live = chat.log.locator('.markdown.live');
  const stream = new Stream(cli, session.id, 'm1');
  await stream.write('I read **the');
  await live.getByText('I read').waitFor();
  await stream.write(' notes** first.');
  await live.locator('strong', { hasText: 'the notes' }).waitFor();
  assert.match(await readAnnouncement(page), /Started\./, 'unfinished text is not announced');
  const element = await live.elementHandle();
  const readTop = () => element.evaluate((node) => node.getBoundingClientRect().top);
  const topBefore = await readTop();

  await stream.store();
  await live.waitFor({ state: 'detached' });
  await waitForCount(chat.log.getByText('I read'), 1);
  assert.ok(await element.evaluate((node) => node.isConnected), 'the element remains');
  assert.equal(await readTop(), topBefore);
  await eventually(async () => /I read the notes first\./.test(await readAnnouncement(page)), 'the announcement');
  // A delta that arrives late changes nothing.
  await stream.write(' More.');
  await cli.sendMessage(session.id, outputRecord({ type: 'text', text: 'After.' }));
  await chat.waitForText('After.');
  assert.equal((await live.count()) + (await chat.log.getByText('More.').count()), 0);
});

test('a thought can be read while it grows', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'thought', ...talk });
  await cli.sendMessage(session.id, outputRecord({ type: 'text', text: 'Before.' }));
  const { page } = await visit(t, 'thought', { ...DESK, path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  await waitUntilFollowed(chat, cli, session);
  const stream = new Stream(cli, session.id, 'm1');
  await stream.write('First the', 'thinking');
  await chat.log.getByText('Thinking …').click();
  await chat.waitForText('First the');
  await stream.write(' tests.', 'thinking');
  await chat.waitForText('First the tests.');
  await stream.store({ type: 'thinking', thinking: stream.text });
  await chat.log.getByText('Thinking …').waitFor({ state: 'detached' });
  await chat.waitForText('First the tests.');
});

const codeLines = (from, to) => Array.from({ length: to - from }, (_, index) => `const line${from + index} = ${from + index};\n`).join('');

test('a page that is opened or reloaded in the middle of long code shows the same code as a page that was open before', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'middle', ...talk });
  await cli.sendMessage(session.id, outputRecord({ type: 'text', text: 'Before.' }));
  const openSession = async () => {
    const { page } = await visit(t, 'middle', { ...DESK, path: `/sessions/${session.id}` });
    return new Chat(page);
  };
  const open = await openSession();
  const reloaded = await openSession();
  for (const chat of [open, reloaded]) await waitUntilFollowed(chat, cli, session);
  const pages = [open, reloaded];
  /** Waits until all pages have a line, and expects one block with the same code on all. */
  const expectCode = async (end) => {
    const codeOf = (chat) => chat.log.locator('pre').filter({ hasText: 'const' });
    for (const chat of pages) {
      await codeOf(chat)
        .getByText(`line${end - 1} = `)
        .first()
        .waitFor();
      await eventually(
        async () => (await codeOf(chat).allTextContents()).join('---').trim() === codeLines(0, end).trim(),
        `the code on page ${pages.indexOf(chat)}`,
      );
      await waitForCount(chat.log.getByText('I write:'), 1);
    }
  };

  const first = new Stream(cli, session.id, 'm1');
  await first.write(`I write:\n\n\`\`\`js\n${codeLines(0, 40)}`);
  await expectCode(40);
  pages.push(await openSession());
  await reloaded.page.reload();
  await expectCode(40);
  await first.write(codeLines(40, 60));
  await expectCode(60);

  // The bridge stores a part, and continues in another message.
  const fences = { end: '```', start: '```js\n' };
  await first.store({ type: 'text', text: `${first.text}\`\`\``, continuedBy: { localId: 'm2', ...fences } });
  const second = new Stream(cli, session.id, 'm2');
  await second.write(`\`\`\`js\n${codeLines(60, 80)}`);
  await expectCode(80);
  pages.push(await openSession());
  await reloaded.page.reload();
  await second.write(codeLines(80, 100));
  await expectCode(100);
  await second.write('```\n\nReady.');
  await second.store();
  for (const chat of pages) await chat.waitForText('Ready.');
  await reloaded.page.reload();
  await expectCode(100);
  for (const chat of pages) await chat.log.locator('.markdown.live').waitFor({ state: 'detached' });
});
