/** The conversation with an agent, against an in-memory hub. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { TOKEN } from '../../packages/cli-kit/test/support/fake-hub.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { askToRun, putScriptedAgent, setUp } from './support/setup.mjs';

test('a prompt, a tool call and its approval are messages of the session', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ say: 'I will look.' }, ...askToRun('call-1', 'ls'), { say: 'Done.' }]);
  const id = await untilRequest(session.id);
  const stored = hub.sessions.get(session.id);
  assert.equal(id, 'call-1');
  const { tool, arguments: input } = stored.agentState.requests[id];
  assert.deepEqual([tool, input], ['Bash', { command: 'ls' }]);
  assert.deepEqual(hub.transcript(session.id), ['I will look.', '> ls']);
  assert.deepEqual(await hub.call(session.id, 'permission', { id, approved: true }), { success: true });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(hub.transcript(session.id), ['I will look.', '> ls', 'ran ls', 'Done.', '(ready)']);
  assert.deepEqual(calls('answer'), [{ outcome: { outcome: 'selected', optionId: 'yes' } }]);
  assert.deepEqual(stored.thinkingChanges.slice(-2), [true, false]);
});

test('the keep-alives have the command of the tool call that runs, until the call ends', async (t) => {
  const { hub, prompt, release, untilRequest, start } = await setUp(t);
  const { session } = await start({ keepAliveIntervalMs: 2 ** 30 });
  const stored = hub.sessions.get(session.id);
  const [call, question, end] = askToRun('call-1', 'sleep 600\nls');
  const begin = { update: { sessionUpdate: 'tool_call_update', toolCallId: 'call-1', status: 'in_progress' } };
  prompt(session.id, [call, question, begin, { until: 'runs' }, end, { until: 'ended' }]);
  const id = await untilRequest(session.id);
  assert.equal(stored.activity, undefined, 'a call that waits for approval does not run');
  await hub.call(session.id, 'permission', { id, approved: true });
  await hub.waitUntil(() => stored.activity === 'sleep 600', 'the activity');
  release('runs');
  await hub.waitUntil(() => stored.activity === undefined, 'the end of the call');
  assert.equal(stored.thinking, true);
  assert.deepEqual(stored.activities, ['sleep 600', undefined]);
  release('ended');
});

test('live text is sent in pieces, and the message is stored under the same id', async (t) => {
  const { hub, prompt, release, start } = await setUp(t);
  const { session } = await start();
  const { messages, deltas } = Object.assign(hub.sessions.get(session.id), { deltas: [] });
  const words = ['One', ' two', ' three.'];
  prompt(
    session.id,
    words.flatMap((say) => [{ say }, { until: say }]),
  );
  for (const [index, word] of words.entries()) {
    await hub.waitUntil(() => deltas.length > index, `the delta with ${word}`);
    release(word);
  }
  await hub.untilReady(session.id, 1);
  assert.deepEqual(pluck(deltas, 'text', 'offset', 'kind'), [
    ['One', 0, 'text'],
    [' two', 3, 'text'],
    [' three.', 7, 'text'],
  ]);
  const stored = messages.find(({ localId }) => localId === deltas[0].id);
  assert.equal(stored.content.content.data.message.content[0].text, 'One two three.');
});

const code = (lines) => Array.from({ length: lines }, (_, index) => `let line${index} = ${'x'.repeat(80)};\n`);

test('the live text of a part is sent after the message that it continues is stored', async (t) => {
  const { hub, prompt, release, start } = await setUp(t);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  const lines = code(150);
  const deltasOf = (localId) => stored.deltas.filter(({ id }) => id === localId);
  let deltasBeforeAck;
  let nextPart;
  hub.dropAck = ({ content }) => {
    const { continuedBy } = content.content.data?.message?.content?.[0] ?? {};
    if (continuedBy === undefined || deltasBeforeAck) return false;
    nextPart = continuedBy.localId;
    setTimeout(() => {
      deltasBeforeAck = deltasOf(nextPart);
      hub.cutConnections();
    }, 500);
    return true;
  };
  prompt(session.id, [
    { say: '```js\n' },
    ...lines.flatMap((say, index) => (index % 50 ? [{ say }] : [{ wait: 150 }, { say }])),
    { until: 'next part' },
    { say: '```' },
  ]);
  await hub.waitUntil(() => deltasBeforeAck && deltasOf(nextPart).length > 0, 'the live text of the next part');
  release('next part');
  await hub.untilReady(session.id, 1);
  const [first, second] = stored.messages
    .map(({ localId, content }) => ({ localId, ...content.content.data?.message?.content?.[0] }))
    .filter(({ text }) => text?.startsWith('```js'));
  assert.deepEqual(first.continuedBy, { localId: second.localId, end: '```', start: '```js\n' });
  assert.equal(first.text.slice(0, -3) + second.text.slice(6), `\`\`\`js\n${lines.join('')}\`\`\``);
  assert.deepEqual(deltasBeforeAck, []);
  // The hub has the whole text of the second part, although the first part was acknowledged on another connection.
  const [{ offset, text }] = deltasOf(second.localId);
  assert.equal(offset, 0);
  assert.ok(text.startsWith('```js\n'));
});

test('after a new connection the text so far is sent again', async (t) => {
  const { hub, prompt, release, start } = await setUp(t);
  const { session } = await start();
  const { deltas } = Object.assign(hub.sessions.get(session.id), { deltas: [] });
  prompt(session.id, [{ say: 'One' }, { until: 'One' }, { say: ' two' }, { until: 'the end' }]);
  await hub.waitUntil(() => deltas.length === 1, 'the first delta');
  release('One');
  await hub.waitUntil(() => deltas.length === 2, 'both deltas');
  hub.cutConnections();
  await hub.waitUntil(() => deltas.length === 3, 'the text so far');
  assert.deepEqual([deltas[2].text, deltas[2].offset], ['One two', 0]);
});

test('attachments are sent as pictures or links, and other files are ignored', async (t) => {
  const { hub, calls, start } = await setUp(t, { initialize: { agentCapabilities: { promptCapabilities: { image: true } } } });
  const { session } = await start();
  const upload = (filename) => hub.call(session.id, 'uploadFile', { filename, content: btoa('content'), mimeType: '' });
  const [picture, text] = [await upload('a.png'), await upload('b.txt')];
  const attachments = [
    { filename: 'a.png', path: picture.path },
    { filename: 'b.txt', path: text.path },
    { filename: 'passwd', path: '/etc/passwd' },
  ];
  hub.postMessage(session.id, 'look', attachments);
  await hub.untilReady(session.id, 1);
  const [{ prompt }] = calls('session/prompt');
  assert.deepEqual(prompt, [
    { type: 'text', text: 'look' },
    { type: 'image', mimeType: 'image/png', data: btoa('content') },
    { type: 'resource_link', name: 'b.txt', uri: `file://${text.path}`, size: 7 },
  ]);
  assert.equal(hub.transcript(session.id)[0], 'passwd is ignored: it is not an upload of this session.');
});

test('a picture that models refuse is sent as a link', async (t) => {
  const { hub, calls, start } = await setUp(t, { initialize: { agentCapabilities: { promptCapabilities: { image: true } } } });
  const { session } = await start();
  const content = Buffer.alloc(3.75 * 1024 * 1024 + 1).toString('base64');
  const { path } = await hub.call(session.id, 'uploadFile', { filename: 'a.png', content, mimeType: '' });
  hub.postMessage(session.id, 'look', [{ filename: 'a.png', path }]);
  await hub.untilReady(session.id, 1);
  assert.equal(calls('session/prompt')[0].prompt[1].type, 'resource_link');
});

test('for an agent that loses links, the prompt contains the names and the text of the files', async (t) => {
  const { hub, calls, start } = await setUp(t, { initialize: { agentCapabilities: { promptCapabilities: { image: true } } } });
  putScriptedAgent(t, 'qwen');
  const { session } = await start({ command: undefined, agent: 'qwen', flavor: 'delta' });
  const upload = async (filename, content) => ({
    filename,
    path: (await hub.call(session.id, 'uploadFile', { filename, content: btoa(content), mimeType: '' })).path,
  });
  const files = [
    await upload('a.png', 'p'),
    await upload('b.txt', 'words'),
    await upload('c.zip', 'a\0b'),
    await upload('d.txt', 'x'.repeat(70_000)),
  ];
  hub.postMessage(session.id, '', files);
  await hub.untilReady(session.id, 1);
  const at = (i) => `\n\nAttached file "${files[i].filename}", stored at ${files[i].path}`;
  assert.deepEqual(calls('session/prompt')[0].prompt, [
    { type: 'text', text: `${at(0)}\n` },
    { type: 'image', mimeType: 'image/png', data: btoa('p') },
    { type: 'text', text: `${at(1)}, with this content:\n\nwords\n\nEnd of "b.txt".\n` },
    { type: 'text', text: `${at(2)}\n` },
    { type: 'text', text: `${at(3)}\n` },
  ]);
});

test('the folder of the uploads is offered to an agent that takes more directories', async (t) => {
  const { hub, calls, start } = await setUp(t, {
    initialize: { agentCapabilities: { sessionCapabilities: { additionalDirectories: {} } } },
  });
  const { session } = await start();
  const { path: file } = await hub.call(session.id, 'uploadFile', { filename: 'a.txt', content: btoa('x'), mimeType: '' });
  assert.deepEqual(calls('session/new')[0].additionalDirectories, [path.dirname(file)]);
});

test('an agent without support for pictures receives links', async (t) => {
  const { hub, calls, start } = await setUp(t);
  const { session } = await start();
  const { path } = await hub.call(session.id, 'uploadFile', { filename: 'a.png', content: btoa('x'), mimeType: 'image/png' });
  hub.postMessage(session.id, '', [{ filename: 'a.png', path }]);
  await hub.untilReady(session.id, 1);
  const [{ prompt }] = calls('session/prompt');
  assert.deepEqual(prompt, [{ type: 'resource_link', name: 'a.png', uri: `file://${path}`, size: 1, mimeType: 'image/png' }]);
});

test('an error of the agent is a message, and the next prompt works', async (t) => {
  const { hub, prompt, start } = await setUp(t);
  const { session } = await start();
  prompt(session.id, [{ say: 'half' }, { fail: { code: -32603, message: 'The model answered 400' } }]);
  prompt(session.id, [{ say: 'whole' }]);
  await hub.untilReady(session.id, 2);
  assert.deepEqual(hub.transcript(session.id), ['half', 'Error: The model answered 400', '(ready)', 'whole', '(ready)']);
  const failures = hub.sessions.get(session.id).messages.filter(({ content }) => content.content.data?.isApiErrorMessage);
  assert.deepEqual(
    failures.map(({ content }) => content.content.data.message.content[0].text),
    ['Error: The model answered 400'],
  );
});

test('an agent that writes faster than the hub stores must wait, and no message is lost', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t);
  const { session } = await start();
  const isFlooded = () => calls('flooded').length === 1;
  prompt(session.id, [{ flood: 1500 }]);
  await hub.waitUntil(() => hub.sessions.get(session.id).thinking, 'the turn');
  hub.token = 'another';
  hub.cutConnections();
  await eventually(() => session.outbox.bytes >= 4 * 1024 * 1024, 'the outbox to be full');
  assert.equal(isFlooded(), false);
  hub.token = TOKEN;
  await hub.untilReady(session.id, 1);
  const numbers = hub
    .transcript(session.id)
    .slice(0, -1)
    .map((line) => Number(line.split(' ')[0]));
  assert.deepEqual(
    numbers,
    Array.from({ length: 1500 }, (_, i) => i),
  );
});

test('messages that wait for the agent are marked in the agent state until their turn begins', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } });
  const first = await start();
  const sid = first.session.id;
  const queued = () => hub.sessions.get(sid).agentState.queuedMessages;
  prompt(sid, [{ say: 'alone' }]);
  await hub.untilReady(sid, 1);
  assert.equal(queued(), undefined);
  prompt(sid, [{ wait: 60_000 }]);
  await eventually(() => calls('session/prompt').length === 2, 'the turn');
  const waiting = [[{ say: 'second' }, { wait: 60_000 }], [{ say: 'third' }]].map((steps) => prompt(sid, steps).seq);
  await hub.waitUntil(() => queued()?.length === 2, 'the marks');
  assert.deepEqual(queued(), waiting);
  await first.stop();
  assert.deepEqual(queued(), waiting);
  await start();
  await hub.waitUntil(() => queued().length === 1, 'the next turn');
  assert.deepEqual(queued(), [waiting[1]]);
});

/** Starts a turn that runs until it is aborted, and posts messages that wait for its end. */
async function startWithQueue(t, script, texts) {
  const fixture = await setUp(t, script);
  const { hub, calls, prompt, start } = fixture;
  const { session } = await start();
  prompt(session.id, [{ say: 'working' }, { wait: 60_000 }]);
  await eventually(() => calls('session/prompt').length === 1, 'the turn');
  const seqs = texts.map((text) => hub.postMessage(session.id, text).seq);
  const state = () => hub.sessions.get(session.id).agentState;
  await hub.waitUntil(() => state().queuedMessages?.length === seqs.length, 'the queue');
  const prompts = () => calls('session/prompt').map(({ prompt: [{ text }] }) => text);
  return { ...fixture, session, seqs, state, prompts, call: (params) => hub.call(session.id, 'queue', params) };
}

const STEERS = { initialize: { _meta: { steering: { supported: true } } } };

test('a message that is sent now reaches an agent that takes messages during a turn, and the turn continues', async (t) => {
  const { hub, session, calls, seqs, state, call } = await startWithQueue(t, STEERS, ['look at this', '/compact']);
  assert.equal(state().queue.steers, true);
  assert.deepEqual(await call({ action: 'send', seq: seqs[0] }), { success: true });
  assert.deepEqual(pluck(calls('_session/steering'), 'prompt', '_meta.steering'), [
    [[{ type: 'text', text: 'look at this' }], { idleBehavior: 'promptRequired' }],
  ]);
  await hub.waitUntil(() => state().queuedMessages.length === 1, 'the message to leave the queue');
  assert.equal(hub.sessions.get(session.id).thinking, true);
  // A command of the agent is a turn of its own.
  await call({ action: 'send', seq: seqs[1] });
  await hub.untilReady(session.id, 2);
  assert.equal(calls('_session/steering').length, 1);
  assert.equal(calls('session/prompt').at(-1).prompt[0].text, '/compact');
});

test('a message that is sent now stops the turn of an agent that takes no messages, or refuses the message', async (t) => {
  const scripts = [{}, { ...STEERS, steering: 'promptRequired' }, { ...STEERS, steering: 'error' }];
  for (const script of scripts) {
    const { hub, session, prompts, seqs, call, state } = await startWithQueue(t, script, ['waits', JSON.stringify([{ wait: 60_000 }])]);
    assert.deepEqual(await call({ action: 'send', seq: seqs[1] }), { success: true });
    await eventually(() => prompts().length === 2, 'the next turn');
    assert.match(prompts()[1], /wait/);
    await hub.waitUntil(() => isDeepStrictEqual(state().queuedMessages, [seqs[0]]), 'the message to leave the queue');
    await hub.untilReady(session.id, 1);
    // The text of the turn is stored after a while, or at the end of the turn: before or after the notice.
    const transcript = hub.transcript(session.id);
    assert.deepEqual(transcript.slice(0, 2).sort(), ['(message: Stopped, because another message is sent now.)', 'working']);
    assert.deepEqual(transcript.slice(2), ['Aborted.', '(ready)']);
  }
});

test('an agent that crashes while it receives a message during a turn does not receive the message again', async (t) => {
  const { hub, session, prompts, seqs, call } = await startWithQueue(t, { ...STEERS, steering: 'crash' }, ['look at this']);
  assert.deepEqual(await call({ action: 'send', seq: seqs[0] }), { success: true });
  await hub.untilReady(session.id, 1);
  hub.postMessage(session.id, 'later');
  await hub.untilReady(session.id, 2);
  assert.deepEqual(prompts().slice(1), ['later']);
});

test('after the agent was killed, and the hub was unreachable, each queued message runs once', async (t) => {
  const script = { initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } } };
  const { hub, session, prompts, seqs, state, call } = await startWithQueue(t, script, ['one', 'two', 'three']);
  hub.dropAck = () => {
    hub.cutConnections();
    hub.dropAck = undefined;
    return true;
  };
  // The first record is stored, but its acknowledgement is lost with the connection.
  assert.deepEqual(await call({ action: 'cancel', seq: seqs[1] }), { success: true });
  process.kill(Number(hub.sessions.get(session.id).metadata.alphaSessionId.replace('scripted-', '')), 'SIGKILL');
  await hub.untilReady(session.id, 3);
  assert.deepEqual(prompts().slice(1), ['one', 'three']);
  assert.deepEqual(
    hub.transcript(session.id).filter((line) => line.startsWith('(message')),
    ['(message: Canceled, not run:\ntwo)'],
  );
  await hub.waitUntil(() => state().queuedMessages.length === 0, 'the end of the queue');
});
