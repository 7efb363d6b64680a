/** Runs the examples of the reference: its clients miss nothing and send nothing twice, and the hub answers as the pages show. */

import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import {
  differences,
  fillIn,
  parsePattern,
  readConversations,
  readEvents,
  readFrames,
  readRequests,
} from '../../scripts/test/support/exchanges.mjs';
import { matchRoute } from '../../scripts/test/support/routes.mjs';
import { Recorder, eventually } from '../../scripts/lib/await.mjs';
import { start } from './lib/children.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { CAUSES_OF_EVENTS, CAUSES_OF_UPDATES, PREPARATIONS, openWorld } from './lib/exchange-world.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { CLOCK_WORKER, ROOT, startHub } from './lib/hub.mjs';

const hub = await startHub({ after }, { vars: { VAPID_SUBJECT: 'mailto:ops@example.org' } });

/** Time for a client to notice that the hub was restarted, and to connect again. */
const RECONNECT_TIMEOUT_MS = 60_000;

/** The hub whose clock is advanced to the heartbeats and pings, which it sends every 30 s. The event about the storage needs a quota. */
const timed = await startHub({ after }, { vars: { NAMESPACE_MAX_BYTES: '10000000000' }, wrappers: CLOCK_WORKER });

/** How far the clock is advanced at a time. */
const STEP_MS = 5_000;

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
const startClient = (
  t,
  name,
  folder,
  namespace,
  /** @type {{env?: Record<string, string>, stdin?: 'ignore' | 'pipe'}} */ { env = {}, stdin } = {},
) =>
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
const waitForOutput = (client, text) => client.lines.first((line) => line.includes(text), text, RECONNECT_TIMEOUT_MS);

/** The texts of a conversation, oldest first. */
const readTexts = async (namespace, sessionId) =>
  (await hub.web(namespace).readHistory(sessionId)).map(({ content: { role, content } }) =>
    role === 'user' ? content.text : content.data.message.content[0].text,
  );

test('the example clients talk to each other, also after a restart of the hub', async (t) => {
  const cli = await startCli(t, 'talk');
  const web = startWeb(t, 'talk', cli.sessionId);
  web.writeLine('Hello');
  await waitForOutput(web, 'You wrote: Hello');

  await hub.restart();
  web.writeLine('Are you there?');
  await waitForOutput(web, 'You wrote: Are you there?');
  const texts = ['Hello', 'You wrote: Hello', 'Are you there?', 'You wrote: Are you there?'];
  assert.deepEqual(await readTexts('talk', cli.sessionId), texts);
  assert.deepEqual(
    web.lines.all.map((line) => line.split(' ')[0]),
    ['1', '2', '3', '4'],
    web.lines.all.join('\n'),
  );
});

test('the example CLI answers each message once, even if it was not running when the message was sent', async (t) => {
  const { sessionId, folder, kill } = await startCli(t, 'kill');
  const web = hub.web('kill');
  const send = (text) => web.post(`/api/sessions/${sessionId}/messages`, { text });
  const waitForTexts = (count) => eventually(async () => (await readTexts('kill', sessionId)).length >= count, `${count} messages`);
  await send('One');
  await waitForTexts(2);
  await kill();
  assert.equal((await send('Two')).status, 200);

  await startCli(t, 'kill', folder);
  await waitForTexts(4);
  await send('Three');
  await waitForTexts(6);
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
  await waitForOutput(web, 'approve? {"r1":{"tool":"shell","arguments":{"command":"npm test"}');
  web.writeLine('approve r1');
  const call = await cli.events.next(({ name }) => name === 'rpc-request', 'the approval');
  assert.deepEqual([call.payload.method, JSON.parse(call.payload.params).approved], [`${session.id}:permission`, true]);
});

/** Checks that a page shows an actual value. */
function assertShown(text, values, actual) {
  assert.deepEqual(differences(parsePattern(fillIn(text, values)), actual), [], JSON.stringify(actual));
}

/** Checks the first event of a response that is a stream. */
async function assertStream(web, address, values, response) {
  const { pathname, searchParams } = new URL(address, hub.url);
  assert.equal(pathname, '/api/events');
  const feed = await web.openStream(Object.fromEntries(searchParams));
  const { eventId, ...event } = await feed.waitForGreeting();
  feed.close();
  const [, id, data] = /^id: (.*)\ndata: (.*)$/.exec(response);
  assertShown(JSON.stringify(id), values, eventId);
  assertShown(data, values, event);
}

describe('the hub answers as the reference shows', { concurrency: 4 }, () => {
  for (const [index, { page, method, path, body, status, response }] of readRequests().entries()) {
    test(`${page}: ${method} ${path}`, async (t) => {
      const world = await openWorld(t, hub, `request-${index}`);
      const route = `${method} ${matchRoute(method, path)}`;
      await PREPARATIONS[route]?.(world);
      const web = ['GET /health', 'POST /api/auth'].includes(route) ? hub.webWithoutToken() : world.web;
      const address = fillIn(path, world.values);
      if (response.startsWith('id: ')) return assertStream(web, address, world.values, response);
      const answer = await web.request(method, address, body === undefined ? {} : { raw: fillIn(body, world.values) });
      assert.equal(answer.status, status, answer.text);
      assertShown(response, world.values, answer.body);
    });
  }

  for (const [index, { page, frames }] of readConversations().entries()) {
    test(`${page}: ${frames[0].name} and the events after it`, async (t) => {
      const world = await openWorld(t, hub, `conversation-${index}`);
      for (const [position, { from, name, payload }] of frames.entries()) {
        const following = frames[position + 1];
        const isAnswered = following !== undefined && following.name === undefined;
        if (name === undefined) continue;
        if (from === 'cli') {
          const sent = payload === '' ? [] : [JSON.parse(fillIn(payload, world.values))];
          if (isAnswered) assertShown(following.payload, world.values, await world.cli.socket.emitWithAck(name, ...sent));
          else world.cli.socket.emit(name, ...sent);
        } else if (name === 'rpc-request') {
          await assertCall(world, payload, JSON.parse(JSON.parse(following.payload)));
        } else {
          const type = parsePattern(payload).body?.t;
          await CAUSES_OF_UPDATES[type]?.(world);
          const event = await world.cli.events.next(
            (event) => event.name === name && event.payload.body?.t === type,
            `the event ${name} ${type}`,
          );
          assertShown(payload, world.values, event.payload);
        }
      }
    });
  }
});

test('PROTOCOL-CLI.md: the frames of a connection', async (t) => {
  const { web, values } = await openWorld(t, timed, 'frames');
  values.token = web.token;
  const socket = new WebSocket(`${timed.url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`);
  t.after(() => socket.close());
  const received = new Recorder('the frames of the hub');
  socket.onmessage = ({ data }) => received.push(data);
  let response;
  for (const { from, frame } of readFrames()) {
    if (from === 'cli') {
      socket.send(fillIn(frame, values));
      continue;
    }
    const isCall = frame.includes('"rpc-request"');
    if (isCall) response = web.get(`/api/sessions/${values.session}/git-status`);
    // The hub may send a ping at any time.
    const next = received.next((data) => data !== '2' || frame === '2', frame);
    const actual = await (frame === '2' ? timed.advanceUntil(next, 'frames', STEP_MS) : next);
    const [, head, number, json] = /^(\d+(?:\/cli,)?)(\d*)(.*)$/.exec(actual);
    if (isCall) values.call = number;
    const [, shownHead, shownNumber, shownJson] = /^(\d+(?:\/cli,)?)(\d*)(.*)$/.exec(fillIn(frame, values));
    assert.deepEqual([shownHead, shownNumber], [head, number], actual);
    assert.deepEqual(shownJson === '' ? [] : differences(parsePattern(shownJson), JSON.parse(json)), [], actual);
  }
  assert.deepEqual((await response).body, { success: true, branch: 'main', files: [] });
});

test('PROTOCOL-EVENTS.md: one event of each type', async (t) => {
  const world = await openWorld(t, timed, 'events');
  const feed = await world.web.openSocket({ all: 'true', sessionId: world.values.session, visibility: 'visible' });
  t.after(() => feed.close());
  for (const { text } of readEvents()) {
    const { type, data = {} } = parsePattern(text);
    await CAUSES_OF_EVENTS[type](world, feed);
    const hasFields = (event) => event.type === type && Object.keys(data).every((name) => name in (event.data ?? {}) || name === '\u0000');
    const first = feed.first(hasFields, type);
    assertShown(text, world.values, await (type === 'heartbeat' ? timed.advanceUntil(first, 'events', STEP_MS) : first));
  }
});

/** Requests `git-status`, which calls the CLI as a page shows. The web client gets the CLI's result. */
async function assertCall({ web, cli, values }, call, result) {
  const method = `${values.session}:gitStatus`;
  await cli.serve(method, () => result);
  const { body } = await web.get(`/api/sessions/${values.session}/git-status`);
  const { payload } = await cli.events.next(({ name }) => name === 'rpc-request', 'the call');
  assertShown(call, values, payload);
  assert.deepEqual(body, result);
}
