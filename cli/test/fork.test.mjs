/** Forks: a new session with the history of another session before one of its messages. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { putScriptedAgent, setUp } from './support/setup.mjs';

const CAN_FORK = { agentCapabilities: { sessionCapabilities: { resume: {}, fork: {} } } };
const SCRIPT = { initialize: CAN_FORK };
const say = (text, messageId) => ({ update: { sessionUpdate: 'agent_message_chunk', messageId, content: { type: 'text', text } } });

/** Returns the conversation: each user's message and text of the agent. */
const conversation = (hub, sid) =>
  hub.sessions.get(sid).messages.flatMap(({ content }) => {
    if (content.role === 'user') return `You: ${content.content.text}`;
    const { text, name } = content.content.data?.message?.content?.[0] ?? {};
    return text ?? name ?? [];
  });

/**
 * Starts a session with two turns. Returns its messages of the user as `messages`.
 * @param {import('node:test').TestContext} t
 * @param {{script?: object, name?: string, more?: object[]}} [options] `name`: the program's name of an agent in the table; `more`: further
 *   steps of the second turn
 */
async function startTwoTurns(t, { script = SCRIPT, name, more = [] } = {}) {
  const fixture = await setUp(t, script);
  const { hub, prompt, start } = fixture;
  if (name) putScriptedAgent(t, name);
  const choice = name ? { command: undefined, agent: 'claude', flavor: 'alpha' } : {};
  const { session } = await start(choice);
  prompt(session.id, [say('First answer.', 'm1')]);
  await hub.untilReady(session.id, 1);
  prompt(session.id, [...more, say('Second answer.', 'm2')]);
  await hub.untilReady(session.id, 2);
  const messages = hub.sessions.get(session.id).messages.filter(({ content }) => content.role === 'user');
  const fork = (seq, options) =>
    start({ ...choice, tag: `fork-${seq}-${Math.random()}`, fork: { sessionId: session.id, seq }, ...options });
  return { ...fixture, session, messages, fork };
}

const filesOf = (home, sid) => {
  const folder = path.join(home, 'sessions');
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return files.map((name) => readFileSync(path.join(folder, name), 'utf8')).find((text) => JSON.parse(text).sessionId === sid);
};

test('a fork before a message has the history before it, the agent remembers it, and the original does not change', async (t) => {
  const { hub, home, calls, prompt, session, messages, fork } = await startTwoTurns(t, { name: 'claude-agent-acp' });
  const original = () => JSON.stringify([hub.sessions.get(session.id).messages, filesOf(home, session.id)]);
  const isSettled = ({ calls: open, lastSeq }) => open.length === 0 && lastSeq === 6;
  await eventually(() => isSettled(JSON.parse(filesOf(home, session.id))), 'the end of the turn in the stored state');
  const before = original();
  const { session: forked } = await fork(messages[1].seq);
  await hub.waitUntil(() => conversation(hub, forked.id).length === 3, 'the history');
  assert.deepEqual(conversation(hub, forked.id), [
    `You: ${messages[0].content.content.text}`,
    'First answer.',
    'This is a fork: Claude Code remembers the conversation above.',
  ]);
  const [{ sessionId, _meta }] = calls('session/fork');
  assert.match(sessionId, /^scripted-/);
  assert.deepEqual(_meta.jetbrains.air.fork, { version: 1, messageId: 'm1' });
  const { metadata } = await hub.waitUntil(() => hub.sessions.get(forked.id).metadata.forkedFrom && hub.sessions.get(forked.id));
  assert.deepEqual(metadata.forkedFrom, { sessionId: session.id, seq: messages[1].seq });
  assert.match(metadata.summary.text, /^Fork of /);
  assert.match(metadata.alphaSessionId, /^fork-/);
  assert.equal(original(), before);
  // The copied messages are no prompts, and the copied turn does not notify the user.
  prompt(forked.id, [say('Another way.', 'm3')]);
  await hub.untilReady(forked.id, 1);
  assert.equal(calls('session/prompt').length, 3);
  assert.equal(conversation(hub, forked.id).at(-1), 'Another way.');
  assert.equal(original(), before);
});

test('a fork of the whole conversation names no message of the agent, and a fork before the first message has no history', async (t) => {
  const { hub, calls, session, messages, fork } = await startTwoTurns(t);
  const { session: whole } = await fork(hub.sessions.get(session.id).messages.length + 1);
  await hub.waitUntil(() => conversation(hub, whole.id).length === 5, 'the history');
  const [{ _meta, ...request }] = calls('session/fork');
  assert.deepEqual([_meta, request.sessionId.startsWith('scripted-')], [{}, true]);
  const { session: empty } = await fork(messages[0].seq);
  assert.equal(calls('session/fork').length, 1);
  assert.equal(calls('session/new').length, 2);
  assert.deepEqual(conversation(hub, empty.id), []);
});

test('the history that an agent replays to a fork is stored once', async (t) => {
  const replayed = ['First answer.', 'Second answer.'].map((text) => say(text).update);
  const { hub, prompt, fork, session } = await startTwoTurns(t, { script: { ...SCRIPT, replayed } });
  const { session: forked } = await fork(hub.sessions.get(session.id).messages.length + 1);
  prompt(forked.id, [{ say: 'Another way.' }]);
  await hub.untilReady(forked.id, 1);
  assert.deepEqual(
    hub.transcript(forked.id).map((line) => line.split(':')[0]),
    ['First answer.', 'Second answer.', 'This is a fork', 'Another way.', '(ready)'],
  );
});

test('an agent that cannot fork there gets the texts of the conversation with the next message', async (t) => {
  const more = [
    {
      update: {
        sessionUpdate: 'tool_call',
        toolCallId: 'c',
        title: 'make',
        kind: 'execute',
        status: 'completed',
        rawInput: { command: 'make' },
      },
    },
  ];
  const { hub, calls, session, messages, fork } = await startTwoTurns(t, { script: { initialize: {} }, more });
  hub.postMessage(session.id, 'hello');
  await hub.untilReady(session.id, 3);
  const third = hub.sessions.get(session.id).messages.findLast(({ content }) => content.role === 'user');
  const { session: forked } = await fork(third.seq);
  const sentence = () => conversation(hub, forked.id).find((text) => text.startsWith('This is a fork'));
  assert.equal(
    await hub.waitUntil(sentence, 'the notice'),
    'This is a fork. node does not remember the conversation above: it cannot fork sessions. With the next message' +
      ' it gets the texts of the conversation, without the output of tools.',
  );
  const before = calls('session/prompt').length;
  hub.postMessage(forked.id, '/compact');
  await hub.untilReady(forked.id, 1);
  hub.postMessage(forked.id, 'go on');
  await hub.untilReady(forked.id, 2);
  hub.postMessage(forked.id, 'and on');
  await hub.untilReady(forked.id, 3);
  const [command, first, next] = calls('session/prompt')
    .slice(before)
    .map(({ prompt: [{ text }] }) => text);
  assert.deepEqual([command, next], ['/compact', 'and on']);
  const lines = first.split('\n').filter((line) => line !== '');
  assert.deepEqual(lines.slice(1), [
    '<conversation>',
    `User: ${messages[0].content.content.text}`,
    'Assistant: First answer.',
    `User: ${messages[1].content.content.text}`,
    'Assistant used Bash: make',
    'Assistant: Second answer.',
    '</conversation>',
    'go on',
  ]);
});

test('if the agent does not know the point of a fork, the notice says so, and the agent gets the texts', async (t) => {
  const { hub, prompt, session, fork } = await startTwoTurns(t, { name: 'claude-agent-acp' });
  prompt(session.id, [say('Third answer.', 'unknown')]);
  await hub.untilReady(session.id, 3);
  prompt(session.id, [say('Fourth answer.', 'm4')]);
  await hub.untilReady(session.id, 4);
  const last = hub.sessions.get(session.id).messages.findLast(({ content }) => content.role === 'user');
  const { session: forked } = await fork(last.seq);
  const notice = await hub.waitUntil(() => conversation(hub, forked.id).find((text) => text.startsWith('This is a fork')), 'the notice');
  assert.match(notice, /does not remember the conversation above: Fork point message unknown was not found\. With the next message/);
});

test('a fork has copies of the attachments, which remain when the originals are deleted', async (t) => {
  const { hub, session, fork } = await startTwoTurns(t);
  const { path: original } = await hub.call(session.id, 'uploadFile', { filename: 'notes.txt', content: btoa('zebra'), mimeType: '' });
  hub.postMessage(session.id, 'Read it.', [
    { path: original, filename: 'notes.txt' },
    { path: '/etc/passwd', filename: 'passwd' },
  ]);
  await hub.untilReady(session.id, 3);
  const { session: forked } = await fork(hub.sessions.get(session.id).messages.length + 1);
  const attached = () => hub.sessions.get(forked.id).messages.flatMap(({ content }) => content.content.attachments ?? []);
  await hub.waitUntil(() => attached().length === 2, 'the attachments');
  const [{ path: copy, filename }, foreign] = attached();
  assert.deepEqual([filename, foreign.path], ['notes.txt', '/etc/passwd']);
  assert.notEqual(copy, original);
  await hub.call(session.id, 'deleteUploadFile', { path: original });
  const read = (file) => hub.call(forked.id, 'readFile', { path: `.uploads/${path.basename(file)}` });
  assert.deepEqual(await read(copy), { success: true, content: btoa('zebra'), size: 5 });
  assert.equal((await read(foreign.path)).success, false);
});

test('a copy that was interrupted continues, and adds nothing twice', async (t) => {
  const { hub, session, messages, fork, start } = await startTwoTurns(t);
  for (let i = 0; i < 450; i += 1) hub.postMessage(session.id, `Message ${i}`, undefined);
  const { length } = hub.sessions.get(session.id).messages;
  const first = await fork(length + 1, { tag: 'the-fork' });
  const copied = () => hub.sessions.get(first.session.id).messages.length;
  await hub.waitUntil(() => copied() > 20, 'a part of the history');
  hub.cutConnections();
  await first.stop();
  const again = await start({ tag: 'the-fork' });
  assert.equal(again.session.id, first.session.id);
  const users = () => conversation(hub, first.session.id).filter((text) => text.startsWith('You: '));
  await hub.waitUntil(() => users().length >= 452, 'the whole history');
  assert.deepEqual(
    users(),
    hub.sessions.get(session.id).messages.flatMap(({ content }) => (content.role === 'user' ? `You: ${content.content.text}` : [])),
  );
  assert.ok(messages.length === 2);
});

test('a fork of a session without state on this machine is refused', async (t) => {
  const { hub, start } = await setUp(t, SCRIPT);
  const { session } = await start({ home: tempDir(t) });
  await assert.rejects(start({ tag: 'x', fork: { sessionId: session.id, seq: 1 } }), /This machine has no state of session/);
  assert.equal(hub.sessions.size, 1);
});
