/** The example clients of docs/PROTOCOL-WEB.md and docs/PROTOCOL-CLI.md miss nothing and send nothing twice. */

import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { eventually } from './lib/await.mjs';
import { start } from './lib/children.mjs';
import { liveSession } from './lib/cli.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

/** Time for a client to notice that the hub was restarted, and to connect again. */
const RECONNECT_TIMEOUT_MS = 60_000;

/** Creates a folder with the program of a page, `client.mjs`, and the project's packages. */
function writeClient(t, page) {
  const text = readFileSync(path.join(ROOT, 'docs', page), 'utf8');
  const [, code] = /^## A complete client\n[^]*?^```js\n([^]*?)^```$/m.exec(text);
  const folder = temporaryFolder(t);
  writeFileSync(path.join(folder, 'client.mjs'), code);
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

/** Starts the program in a folder as a process. */
const startClient = (t, name, folder, namespace, { env = {}, stdin } = {}) =>
  start(t, name, process.execPath, ['client.mjs'], {
    cwd: folder,
    env: { HUB_URL: hub.url, CLI_API_TOKEN: hub.token(namespace), ...env },
    stdin,
  });

/** Starts the example CLI, and waits until its session is active. Its folder identifies the session. */
async function startCli(t, namespace, folder = writeClient(t, 'PROTOCOL-CLI.md')) {
  const client = startClient(t, 'the example CLI', folder, namespace);
  const findSession = async () => (await hub.web(namespace).get('/api/sessions')).body.sessions.find(({ active }) => active);
  const { id } = await eventually(findSession, 'the session of the example CLI');
  return { ...client, folder, sessionId: id };
}

const startWeb = (t, namespace, sessionId) =>
  startClient(t, 'the example web client', writeClient(t, 'PROTOCOL-WEB.md'), namespace, { env: { SESSION_ID: sessionId }, stdin: 'pipe' });

/** Waits until a client has printed a text. */
const shows = (client, text) => client.lines.first((line) => line.includes(text), text, RECONNECT_TIMEOUT_MS);

/** The texts of a conversation, oldest first. */
const readTexts = async (namespace, sessionId) =>
  (await hub.web(namespace).readHistory(sessionId)).map(({ content: { role, content } }) => (role === 'user' ? content.text : content.data.message.content[0].text));

test('the example clients talk to each other, also after a restart of the hub', async (t) => {
  const cli = await startCli(t, 'talk');
  const web = startWeb(t, 'talk', cli.sessionId);
  web.writeLine('Hello');
  await shows(web, 'You wrote: Hello');

  await hub.restart();
  web.writeLine('Are you there?');
  await shows(web, 'You wrote: Are you there?');
  const texts = ['Hello', 'You wrote: Hello', 'Are you there?', 'You wrote: Are you there?'];
  assert.deepEqual(await readTexts('talk', cli.sessionId), texts);
  assert.deepEqual(web.lines.all.map((line) => line.split(' ')[0]), ['1', '2', '3', '4'], web.lines.all.join('\n'));
});

test('the example CLI answers each message once, also if it was killed when the message was sent', async (t) => {
  const { sessionId, folder, kill } = await startCli(t, 'kill');
  const web = hub.web('kill');
  const send = (text) => web.post(`/api/sessions/${sessionId}/messages`, { text });
  const hasTexts = (count) => eventually(async () => (await readTexts('kill', sessionId)).length >= count, `${count} messages`);
  await send('One');
  await hasTexts(2);
  await kill();
  assert.equal((await send('Two')).status, 200);

  await startCli(t, 'kill', folder);
  await hasTexts(4);
  await send('Three');
  await hasTexts(6);
  const texts = ['One', 'You wrote: One', 'Two', 'You wrote: Two', 'Three', 'You wrote: Three'];
  assert.deepEqual(await readTexts('kill', sessionId), texts);
});

test('the example CLI ends when its session is archived', async (t) => {
  const cli = await startCli(t, 'archive');
  await hub.web('archive').post(`/api/sessions/${cli.sessionId}/archive`, {});
  assert.deepEqual(await cli.exited, [0, null]);
});

test('the example web client shows a permission request and approves it', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'approve', tag: 'demo' });
  const web = startWeb(t, 'approve', session.id);
  await cli.serve(`${session.id}:permission`, () => ({}));
  const requests = { r1: { tool: 'shell', arguments: { command: 'npm test' } } };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
  await shows(web, 'approve r1? {"tool":"shell","arguments":{"command":"npm test"}');
  web.writeLine('approve r1');
  const call = await cli.events.next(({ name }) => name === 'rpc-request', 'the approval');
  assert.deepEqual([call.payload.method, JSON.parse(call.payload.params).approved], [`${session.id}:permission`, true]);
});
