/** Live text in the web console: what an agent is writing, before its message is stored. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../lib/await.mjs';
import { DESK, signInUrl } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, open, visit } = await startConsole();

const talk = { tag: '/code/t', metadata: { path: '/code/t', host: 'h' } };
const assistant = (block) => ({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [block] } } } });

/** Sends a message of an agent in pieces. */
class Stream {
  constructor(cli, sid, id) {
    Object.assign(this, { cli, sid, id, text: '' });
  }

  write(text, kind = 'text') {
    const offset = this.text.length;
    this.text += text;
    return this.cli.emitWithAck('message-delta', { sid: this.sid, id: this.id, offset, text, kind });
  }

  store(block = { type: 'text', text: this.text }) {
    return this.cli.sendMessage(this.sid, assistant(block), this.id);
  }
}

/** Waits until the page shows the session and receives its events. */
async function waitUntilFollowed(chat, cli, session) {
  await chat.waitForText('Before.');
  // Arrives as an event, or is read after the page has subscribed.
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'Started.' }));
  await chat.waitForText('Started.');
}

/** The text that screen readers announce. */
const announcement = (page) => page.getByRole('status').filter({ hasText: 'The agent says' }).textContent();

test('a text grows while the agent writes it, and the stored message takes its place', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'live', ...talk });
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'Before.' }));
  const { page, pageErrors } = await visit(t, 'live', { ...DESK, path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  await waitUntilFollowed(chat, cli, session);
  const live = chat.log.locator('.markdown.live');
  const stream = new Stream(cli, session.id, 'm1');
  await stream.write('I read **the');
  await live.getByText('I read').waitFor();
  await stream.write(' notes** first.');
  await live.locator('strong', { hasText: 'the notes' }).waitFor();
  assert.match(await announcement(page), /Started\./, 'unfinished text is not announced');
  const element = await live.elementHandle();
  const top = () => element.evaluate((node) => node.getBoundingClientRect().top);
  const topBefore = await top();

  await stream.store();
  await live.waitFor({ state: 'detached' });
  assert.equal(await chat.log.getByText('I read').count(), 1);
  assert.ok(await element.evaluate((node) => node.isConnected), 'the element remains');
  assert.equal(await top(), topBefore);
  await eventually(async () => /I read the notes first\./.test(await announcement(page)), 'the announcement');
  // A delta that arrives late changes nothing.
  await stream.write(' More.');
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'After.' }));
  await chat.waitForText('After.');
  assert.equal(await live.count() + (await chat.log.getByText('More.').count()), 0);
  assert.deepEqual(pageErrors, []);
});

test('a thought can be read while it grows', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'thought', ...talk });
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'Before.' }));
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

test('a text with a missing piece stops, and a lost connection removes it', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'cut', ...talk });
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'Before.' }));
  const { page } = await open(t);
  let sockets = [];
  let lostDelta = '';
  await page.routeWebSocket(/\/api\/events/, (socket) => {
    const server = socket.connectToServer();
    server.onMessage((frame) => {
      if (lostDelta === '' || !String(frame).includes(lostDelta)) socket.send(frame);
    });
    sockets.push(socket);
  });
  await page.goto(signInUrl(hub, 'cut', `/sessions/${session.id}`));
  const chat = new Chat(page);
  await waitUntilFollowed(chat, cli, session);
  const live = chat.log.locator('.markdown.live');
  const stream = new Stream(cli, session.id, 'm1');
  await stream.write('one ');
  await live.getByText('one').waitFor();
  lostDelta = 'two';
  for (const word of ['two ', 'three ']) await stream.write(word);
  const next = new Stream(cli, session.id, 'm2');
  await next.write('complete');
  await live.getByText('complete').waitFor();
  assert.deepEqual((await live.allTextContents()).map((text) => text.trim()), ['one', 'complete']);

  lostDelta = '';
  const lost = sockets;
  sockets = [];
  for (const socket of lost) await socket.close({ code: 1012 });
  await live.first().waitFor({ state: 'detached' });
  assert.equal(await live.count(), 0);
  await eventually(() => sockets.length > 0, 'a new connection');
  await stream.store();
  await chat.waitForText('one two three');
});
