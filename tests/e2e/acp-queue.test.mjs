/** The queue of a session's messages, with the real hub, the CLI for coding agents, and a scripted agent. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { SCRIPTED_AGENT } from '../../cli/test/support/setup.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { readConversation, startAgent } from './lib/agent.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const hub = await startHub({ after });

/** Starts a session, and returns functions that read and change it. */
async function startSession(t, namespace) {
  const home = temporaryFolder(t);
  const { sessionId } = await startAgent(t, hub, {
    dir: temporaryFolder(t),
    namespace,
    entry: path.join(ROOT, 'cli', 'index.mjs'),
    env: { SCRIPT: '{}', SCRIPT_HOME: home },
    args: ['--no-machine', '--', process.execPath, SCRIPTED_AGENT],
  });
  const web = hub.web(namespace);
  const read = () => web.readSession(sessionId);
  const request = (method, action, body) => web.request(method, `/api/sessions/${sessionId}/${action}`, { body });
  /** Sends a message and returns its seq. */
  const send = async (text) => {
    assert.equal((await request('POST', 'messages', { text })).status, 200);
    return (await web.readHistory(sessionId)).findLast(({ content }) => content.role === 'user').seq;
  };
  /** Changes the queue. After a kill of the hub, the CLI may still be reconnecting. */
  const change = (method, action, body) =>
    eventually(async () => (await request(method, action, body).catch(() => null))?.status === 200, `${method} ${action}`);
  const untilQueue = (expected) =>
    eventually(async () => JSON.stringify((await read()).agentState.queuedMessages ?? []) === JSON.stringify(expected), 'the queue');
  const untilRequest = (id) => eventually(async () => (await read()).agentState.requests?.[id] !== undefined, `the request ${id}`);
  const approve = (id) => change('POST', `permissions/${id}/approve`, {});
  const prompts = () =>
    readFileSync(path.join(home, 'calls.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ method }) => method === 'session/prompt')
      .map(({ params }) => params.prompt.find(({ type }) => type === 'text').text);
  return { sessionId, web, read, request, send, change, untilQueue, untilRequest, approve, prompts };
}

const saying = (say) => JSON.stringify([{ say }]);

/** A prompt whose turn lasts until a request is answered. */
const asking = (id, say) => {
  const toolCall = { toolCallId: id, title: 'ls', kind: 'execute', status: 'pending', rawInput: { command: 'ls' } };
  return JSON.stringify([{ ask: { toolCall, options: [{ optionId: 'once', kind: 'allow_once', name: 'Once' }] } }, { say }]);
};

test('while the hub is killed again and again, each message of the queue reaches the agent once, in the chosen order', async (t) => {
  const { sessionId, web, read, send, change, untilQueue, untilRequest, approve, prompts } = await startSession(t, 'queue');
  const running = asking('call-1', 'First.');
  await send(running);
  await untilRequest('call-1');
  const [second, third, fourth, fifth] = [asking('call-2', 'Second.'), saying('Third.'), saying('Fourth.'), saying('Fifth.')];
  const seqs = [];
  for (const text of [second, third, fourth, fifth]) seqs.push(await send(text));
  const [two, three, four, five] = seqs;
  await untilQueue(seqs);

  await change('PATCH', `queue/${three}`, { text: saying('Third, edited.') });
  await hub.killRuntime();
  await change('DELETE', `queue/${four}`);
  await untilQueue([two, three, five]);
  await hub.killRuntime();
  await change('POST', 'queue', { seqs: [five, two, three] });
  await untilQueue([five, two, three]);
  await hub.killRuntime();
  await approve('call-1');
  await untilRequest('call-2');
  await hub.killRuntime();
  await approve('call-2');

  const texts = ['First.', 'Fifth.', 'Second.', 'Third, edited.'];
  await eventually(async () => (await readConversation(web, sessionId).catch(() => [])).includes(texts[3]), 'the last turn');
  await untilQueue([]);
  await hub.killRuntime();
  await eventually(async () => (await read().catch(() => null))?.thinking === false, 'the end of the last turn');
  assert.deepEqual(prompts(), [running, fifth, second, saying('Third, edited.')]);
  const said = await readConversation(web, sessionId);
  assert.deepEqual(
    said.filter((line) => /^(First|Second|Third|Fourth|Fifth)\b/.test(line)),
    texts,
  );
});

test('a message that the agent has received is not canceled, and the answer says so', async (t) => {
  const { send, request, untilQueue, untilRequest, approve, prompts } = await startSession(t, 'received');
  const running = await send(asking('call-1', 'Runs.'));
  await untilRequest('call-1');
  const waiting = await send(saying('Waits.'));
  await untilQueue([waiting]);
  for (const [method, action, body] of [
    ['DELETE', `queue/${running}`],
    ['PATCH', `queue/${running}`, { text: 'Edited.' }],
    ['POST', `queue/${running}/send`],
    ['POST', 'queue', { seqs: [running] }],
    ['DELETE', 'queue/999'],
  ]) {
    const answer = await request(method, action, body);
    assert.deepEqual([answer.status, answer.body.code], [409, 'not_queued'], `${method} ${action}`);
  }
  // Of two clients that cancel a message at once, the first one wins.
  const answers = await Promise.all([request('DELETE', `queue/${waiting}`), request('DELETE', `queue/${waiting}`)]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409]);
  await untilQueue([]);
  await approve('call-1');
  await eventually(() => prompts().length === 1, 'the prompt');
  assert.deepEqual(prompts(), [asking('call-1', 'Runs.')]);
});
