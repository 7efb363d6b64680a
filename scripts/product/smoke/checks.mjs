// The checks of a smoke test, in their order. Each gets the client and its figures, and throws a `Failure`.

import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { inLanes } from '../../lib/parallel.mjs';
import { Web } from '../clients/web.mjs';
import { Failure, Skipped } from './client.mjs';
import { checkReconnect } from './reconnect.mjs';

const PROTOCOL_VERSION = 1;

const MESSAGE_COUNT = 5_000;
/** Limit on the messages that wait for their acknowledgement at a time. */
const MESSAGES_IN_FLIGHT = 50;
const MESSAGE_TEXT = 'A message of the smoke test. '.repeat(8);
const PAGE_MESSAGES = 200;

const MAX_UPLOAD_BYTES = 50 * 1024 * 1024;
/** Time limit of the upload. */
const UPLOAD_TIMEOUT_MS = 15 * 60_000;

/**
 * How long the check of hibernation waits in each attempt. The platform hibernates an object about 10 s after its last event. Further
 * events come every 30 s (pings), and at first from the closed stream (a heartbeat) and the session (its expiry).
 */
const IDLE_SECONDS = [12, 15, 25, 45];

const range = (count) => Array.from({ length: count }, (_, index) => index);

/** @param {unknown} condition @param {string} message a sentence */
function expect(condition, message) {
  if (!condition) throw new Failure(message);
}

/**
 * @typedef {import('./client.mjs').SmokeClient} SmokeClient
 * @typedef {import('./figures.mjs').Figures} Figures
 * @typedef {object} Check
 * @property {string} name
 * @property {string[]} needs the names of checks that must have passed; otherwise this check is skipped
 * @property {boolean} [isSlow] whether the check takes long, or writes or transfers much
 * @property {(smoke: SmokeClient, figures: Figures, results: any) => Promise<string | void>} run resolves to a
 *   detail for the table; `results`: what earlier checks have stored for later checks
 */

/** @type {Check[]} */
export const CHECKS = [
  { name: 'health', needs: [], run: checkHealth },
  { name: 'sign-in', needs: ['health'], run: checkSignIn },
  { name: 'timing', needs: ['sign-in'], run: checkTiming },
  { name: 'cli', needs: ['sign-in'], run: checkCli },
  { name: 'rpc', needs: ['cli'], run: checkRpc },
  { name: 'messages', needs: ['cli'], isSlow: true, run: checkMessages },
  { name: 'history', needs: ['messages'], isSlow: true, run: checkHistory },
  { name: 'upload', needs: ['rpc'], isSlow: true, run: checkUpload },
  { name: 'events', needs: ['cli'], run: checkEvents },
  { name: 'sleep', needs: ['timing', 'rpc'], isSlow: true, run: checkSleep },
  { name: 'replay', needs: ['events'], run: checkReplay },
  { name: 'reconnect', needs: ['rpc'], isSlow: true, run: checkReconnect },
];

async function checkHealth(smoke, figures, state) {
  const web = smoke.webWith(null);
  for (const _ of range(20)) {
    const { body } = await smoke.request('GET', '/health', { web, figures });
    expect(body?.status === 'ok', `${smoke.url} is not a hub: GET /health did not answer {"status": "ok"}.`);
    expect(
      body.protocolVersion === PROTOCOL_VERSION,
      `The hub has protocol version ${body.protocolVersion}, this script ${PROTOCOL_VERSION}.`,
    );
    state.version = body.version;
  }
  return `version ${state.version}`;
}

async function checkSignIn(smoke, figures, state) {
  const signIn = smoke.request('POST', '/api/auth', { web: smoke.webWith(null), figures, body: { accessToken: smoke.token } });
  const { body } = await signIn.catch((error) => {
    if (error.status === 401)
      throw new Failure(
        'The hub does not accept the token. Compare it with its CLI_API_TOKEN; with REQUIRE_NAMESPACE_TOKENS, only a token that `CLI_API_TOKEN=SECRET npm run token -- NAMESPACE` prints is valid.',
      );
    throw error;
  });
  const web = smoke.webWith(body.token);
  state.config = (await smoke.request('GET', '/api/config', { web, figures })).body;
  const { sessions } = (await smoke.request('GET', '/api/sessions', { web, figures })).body;
  state.otherActive = sessions.filter(({ active }) => active).length;
  return `namespace ${body.namespace}, ${state.otherActive} active sessions of others`;
}

async function checkTiming(smoke, figures) {
  for (const _ of range(20)) {
    const { timing } = await smoke.request('GET', '/api/config', { figures });
    const isComplete = ['worker', 'object', 'awake', 'd1'].every((name) => timing[name] !== undefined);
    expect(
      isComplete,
      'The hub does not say in `Server-Timing` how long worker, object and D1 took. It is older than this script: deploy the current version.',
    );
  }
}

async function checkCli(smoke, figures, state) {
  const { id } = await smoke.openSession('main', figures);
  const bridged = await figures.time(() => smoke.connectCli(id, 'connect'));
  await figures.time(() => bridged.emitWithAck('ping', {}));
  bridged.close();
  const cli = await figures.time(() => smoke.connectCli(id));
  const answer = await cli.keepAlive(id);
  expect(answer?.ok === true, `A keep-alive was answered with ${JSON.stringify(answer)}.`);
  smoke.startKeepAlive(cli, id);
  for (const _ of range(20)) await figures.time(() => cli.emitWithAck('ping', {}));
  const { session } = (await smoke.request('GET', `/api/sessions/${id}`, { figures })).body;
  expect(session.active === true, 'The session is not active after a keep-alive of its CLI.');
  Object.assign(state, { id, cli });
}

async function checkRpc(smoke, figures, { cli, id }) {
  let calls = 0;
  const registered = await cli.serve(`${id}:listSlashCommands`, () => ({ success: true, commands: [`call-${calls++}`] }));
  expect(registered?.ok === true, `The method was not registered: ${JSON.stringify(registered)}.`);
  for (const index of range(50)) {
    const { body } = await smoke.request('GET', `/api/sessions/${id}/slash-commands`, { figures });
    expect(body.success === true, `The hub did not answer call ${index + 1} to the CLI: ${body.error}.`);
    expect(body.commands[0] === `call-${index}`, `Call ${index + 1} got the answer of another call: ${JSON.stringify(body)}.`);
  }
}

/** Sends a message, and repeats it while the hub is overloaded or unavailable. The hub stores a repeated local id once. */
async function sendMessage(cli, id, localId, content) {
  for (let attempt = 1; ; attempt += 1) {
    const ack = await cli.sendMessage(id, content, localId);
    if (ack?.ok) return ack;
    const isTransient = ['overloaded', 'unavailable'].includes(ack?.code);
    expect(isTransient && attempt < 10, `The message ${localId} was not stored: ${ack?.error ?? JSON.stringify(ack)}`);
    await sleep(1_000);
  }
}

async function checkMessages(_smoke, figures, { cli, id }) {
  const startedAt = performance.now();
  await inLanes(range(MESSAGE_COUNT), MESSAGES_IN_FLIGHT, (n) =>
    figures.time(() => sendMessage(cli, id, `message-${n}`, { n, text: MESSAGE_TEXT })),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  return `${Math.round(MESSAGE_COUNT / seconds)}/s, ${MESSAGES_IN_FLIGHT} at a time`;
}

async function checkHistory(smoke, figures, { id }) {
  const messages = [];
  for (let hasMore = true; hasMore; ) {
    const after = messages.at(-1)?.seq ?? 0;
    const { body } = await smoke.request('GET', `/api/sessions/${id}/messages?limit=${PAGE_MESSAGES}&afterSeq=${after}`, { figures });
    expect(body.messages.length > 0 || !body.hasMore, `The history has an empty page after seq ${after}.`);
    messages.push(...body.messages);
    hasMore = body.hasMore;
  }
  expect(messages.length === MESSAGE_COUNT, `${MESSAGE_COUNT} messages were acknowledged, but ${messages.length} are stored.`);
  expect(
    messages.every(({ seq }, index) => seq === index + 1),
    'The numbers (`seq`) of the stored messages have gaps.',
  );
  expect(
    new Set(messages.map(({ content }) => content.n)).size === MESSAGE_COUNT,
    'A message is stored twice, and another message is lost.',
  );
  return `all ${MESSAGE_COUNT} stored once`;
}

/** Receives an upload in chunks, or in one call if the hub does not support chunks. Stores only the hash of the file. */
class UploadReceiver {
  #hash = createHash('sha256');
  #bytes = 0;
  calls = 0;

  receive({ offset = 0, content, last = true }) {
    if (offset !== this.#bytes) return { success: false, error: `A chunk begins at ${offset}, but ${this.#bytes} bytes were received.` };
    const part = Buffer.from(content, 'base64');
    this.#hash.update(part);
    this.#bytes += part.length;
    this.calls += 1;
    return { success: true, ...(last ? { path: '/smoke-test/file', hash: this.#hash.digest('hex') } : {}) };
  }
}

async function checkUpload(smoke, figures, { cli, id, config }) {
  const bytes = randomBytes(Math.min(MAX_UPLOAD_BYTES, config.limits.uploadBytes));
  const receiver = new UploadReceiver();
  for (const method of ['uploadFile', 'uploadChunk']) await cli.serve(`${id}:${method}`, (params) => receiver.receive(params));
  await cli.serve(`${id}:deleteUploadFile`, () => ({ success: true }));
  const startedAt = performance.now();
  const file = { filename: 'smoke-test.bin', mimeType: 'application/octet-stream', content: bytes.toString('base64') };
  // On a new connection: the hub may have closed an unused connection while this process was busy encoding the file.
  const web = new Web({ url: smoke.url, token: smoke.token });
  const { body } = await smoke.request('POST', `/api/sessions/${id}/upload`, { figures, web, body: file, timeoutMs: UPLOAD_TIMEOUT_MS });
  const megabytes = bytes.length / 1024 / 1024;
  const seconds = (performance.now() - startedAt) / 1000;
  expect(body.success === true, `The upload failed: ${body.error}`);
  expect(body.hash === createHash('sha256').update(bytes).digest('hex'), 'The uploaded file arrived changed.');
  const deleted = await smoke.request('POST', `/api/sessions/${id}/upload/delete`, { body: { path: body.path } });
  expect(deleted.body.success === true, `The deletion of the uploaded file failed: ${deleted.body.error}`);
  return `${Math.round(megabytes)} MB in ${receiver.calls} chunks, ${(megabytes / seconds).toFixed(1)} MB/s`;
}

const isMessage = ({ type }) => type === 'message-received';

async function checkEvents(smoke, figures, state) {
  const { cli, id } = state;
  const stream = await smoke.web.openStream({ sessionId: id });
  await stream.waitForGreeting();
  for (const n of range(20)) {
    await figures.time(async () => {
      const { body } = await smoke.request('POST', `/api/sessions/${id}/messages`, { body: { text: `event ${n}`, localId: `event-${n}` } });
      const update = await cli.nextUpdate('new-message');
      const event = await stream.nextEvent('message-received', id);
      expect(
        update.message.seq === body.message.seq && event.message.seq === body.message.seq,
        `Message ${body.message.seq} arrived out of order.`,
      );
    });
  }
  state.lastEvent = stream.all.findLast(isMessage);
  stream.close();
  return 'REST to CLI and event stream';
}

export async function checkSleep(smoke, figures, { cli, id, otherActive }, pauses = IDLE_SECONDS) {
  smoke.stopKeepAlives();
  const path = `/api/sessions/${id}`;
  await smoke.request('GET', path);
  for (const seconds of pauses) {
    const idleSince = performance.now();
    await sleep(seconds * 1000);
    const idleMs = performance.now() - idleSince;
    const { timing } = await smoke.request('GET', path, { figures });
    // The object was loaded after the previous request, so it has hibernated.
    if (timing.awake < idleMs) {
      expect(cli.socket.connected, 'The object lost the connection of its CLI while it slept.');
      const { body } = await smoke.request('GET', `${path}/slash-commands`, { figures });
      expect(body.success === true, `After it woke, the hub did not reach its CLI: ${body.error}.`);
      smoke.startKeepAlive(cli, id);
      await cli.keepAlive(id);
      return `asleep within ${seconds} s, its CLI stayed connected`;
    }
  }
  smoke.startKeepAlive(cli, id);
  const longest = pauses.at(-1);
  if (otherActive > 0)
    throw new Skipped(
      `The object was awake for ${longest} s: ${otherActive} active sessions of others use the namespace. Use a token of a namespace of its own.`,
    );
  throw new Failure(
    `The object did not sleep within ${longest} s. Unless another client uses this namespace, something in the hub keeps it awake, which costs money.`,
  );
}

async function checkReplay(smoke, figures, state) {
  const { cli, id, lastEvent } = state;
  await cli.keepAlive(id);
  const missed = [];
  for (const n of range(20)) missed.push((await sendMessage(cli, id, `missed-${n}`, { n })).seq);
  const stream = await figures.time(async () => {
    const opened = await smoke.web.openStream({ sessionId: id }, { lastEventId: lastEvent.eventId });
    const { data } = await opened.waitForGreeting();
    expect(data.resume === 'ok', 'The hub did not have the missed events any longer.');
    await opened.first((event) => isMessage(event) && event.message.seq === missed.at(-1), 'the last missed message');
    return opened;
  });
  missed.push((await sendMessage(cli, id, 'live', { n: missed.length })).seq);
  await stream.first((event) => isMessage(event) && event.message.seq === missed.at(-1), 'the message after the missed ones');
  stream.close();
  const received = stream.all.filter(isMessage).map(({ message }) => message.seq);
  expect(received.join() === missed.join(), `The messages ${missed.join()} were missed, but ${received.join()} were received.`);
  return '20 missed messages, each once';
}
