/**
 * An agent for tests, on the official SDK. A prompt is a JSON array of steps. The variable SCRIPT is JSON with the results of
 * `initialize` and `session/new` (`newSession`), and other settings. The folder SCRIPT_HOME contains the sessions and a log of the
 * received calls.
 */

import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { RequestError, agent, ndJsonStream } from '@agentclientprotocol/sdk';
import { GeminiRecords } from './gemini-records.mjs';

const {
  initialize = {},
  newSession = {},
  signedOut = false,
  startDelayMs = 0,
  startError,
  crashes = false,
  ignoresCancel = false,
  setModeDelayMs = 0,
  steering = 'injected',
  title,
  replayed = [],
  refusedValues = [],
  history,
  sessions,
  recordsWire = false,
  linesAtStart = 0,
  logsInput = false,
  silentCommands = false,
  repeatsUsage = false,
} = JSON.parse(process.env.SCRIPT ?? '{}');
const home = process.env.SCRIPT_HOME;
const record = (method, params) => appendFileSync(path.join(home, 'calls.jsonl'), `${JSON.stringify({ method, params })}\n`);

/** Records the messages of a direction as they are on the wire, if the script asks for it. */
function recordWire(dir) {
  const decoder = new TextDecoder();
  let rest = '';
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      if (logsInput && dir === '>') process.stdout.write(`received ${Buffer.from(chunk)}`);
      if (!recordsWire) return;
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      const text = lines.map((line) => `${JSON.stringify({ dir, msg: JSON.parse(line) })}\n`).join('');
      appendFileSync(path.join(home, `wire-${process.pid}.jsonl`), text);
    },
  });
}

const sessionFile = (id) => path.join(home, `${id}.session`);

/** The sessions in the format and in the folder of Gemini CLI. */
const geminiRecords = process.env.GEMINI_CLI_HOME ? new GeminiRecords(process.env.GEMINI_CLI_HOME) : null;
geminiRecords?.cleanUp();

const conversation = path.join(home, 'conversation');

/** The cancellation of the current prompt. */
let canceled = new AbortController();
let authenticated = !signedOut;
const sessionIds = [];

/** @returns {Promise<{stopReason: 'end_turn' | 'cancelled'}>} */
async function runPrompt({ sessionId, prompt }, client) {
  canceled = new AbortController();
  const update = (body, id = sessionId) => client.notify('session/update', { sessionId: id, update: body });
  const text = prompt.find(({ type }) => type === 'text')?.text ?? '[]';
  if (silentCommands && text.startsWith('/')) return { stopReason: 'end_turn' };
  if (!text.startsWith('[')) {
    await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `You said: ${text}` } });
    return { stopReason: 'end_turn' };
  }
  for (const step of JSON.parse(text)) {
    if (canceled.signal.aborted) return { stopReason: 'cancelled' };
    if (step.say) await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: step.say } });
    if (step.update) await update(step.update, step.updateSessionId);
    if (step.retry)
      await client.notify('_claude/sdkMessage', { sessionId, message: { type: 'system', subtype: 'api_retry', ...step.retry } });
    if (step.ask) {
      const answer = await client.request('session/request_permission', { sessionId: step.askSessionId ?? sessionId, ...step.ask });
      record('answer', answer);
      if (answer.outcome.outcome === 'cancelled') return { stopReason: 'cancelled' };
    }
    if (step.elicit) record('answer', await client.request('elicitation/create', { sessionId, mode: 'form', ...step.elicit }));
    if (step.flood) {
      for (let i = 0; i < step.flood; i += 1) {
        const content = { type: 'text', text: `${i} ${'x'.repeat(10_000)}` };
        await update({ sessionUpdate: 'agent_message_chunk', messageId: `flood-${i}`, content });
      }
      record('flooded', {});
    }
    if (step.askLater) {
      const { afterMs, ...ask } = step.askLater;
      setTimeout(async () => record('answer', await client.request('session/request_permission', { sessionId, ...ask })), afterMs);
    }
    // Works on after the turn.
    if (step.background) {
      const work = async () => {
        for (const later of step.background) {
          if (later.until) await waitForRelease(later.until);
          else await update(later.update);
        }
      };
      setImmediate(work);
    }
    // Starts a process outside of the agent's process group. The process inherits the agent's output and keeps it open.
    if (step.detach) {
      const other = spawn('sleep', [String(step.detach)], { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
      appendFileSync(path.join(home, 'detached'), String(other.pid));
    }
    // Starts a process that belongs to the agent, such as a server that a command has started.
    if (step.child) {
      const child = spawn('sleep', [String(step.child)], { stdio: 'ignore' });
      appendFileSync(path.join(home, 'background'), `${child.pid}\n`);
    }
    if (step.huge) await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'x'.repeat(step.huge) } });
    if (step.warn) process.stderr.write(`${step.warn}\n`);
    if (step.until) await waitForRelease(step.until);
    if (step.wait) await delay(step.wait, undefined, ignoresCancel ? {} : { signal: canceled.signal }).catch(() => {});
    if (step.fail) throw new RequestError(step.fail.code, step.fail.message);
    if (step.env) await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: JSON.stringify(process.env) } });
    if (step.crash) {
      process.stderr.write(`${step.crash}\n`);
      process.exit(7);
    }
  }
  return canceled.signal.aborted ? { stopReason: 'cancelled' } : { stopReason: 'end_turn' };
}

/** Waits until the test releases the step, or the prompt is canceled. @param {string} name */
async function waitForRelease(name) {
  while (!canceled.signal.aborted && !existsSync(path.join(home, `released-${name}`))) await delay(10);
}

const textOf = (sessionUpdate, text, messageId) => ({ sessionUpdate, messageId, content: { type: 'text', text } });

/**
 * The updates of a history: first the list `updates`, then a number of `turns`, with `waitMs` before each turn, then one turn for each line
 * of the file `conversation`: the prompts, and what was said in a terminal program. The agent crashes once, after `crashAfter` turns.
 */
async function* replayedHistory() {
  const { turns = 0, waitMs = 0, crashAfter = Infinity, updates = [] } = history;
  yield* updates;
  for (let turn = 1; turn <= turns; turn += 1) {
    if (turn > crashAfter && !existsSync(path.join(home, 'crashed'))) {
      writeFileSync(path.join(home, 'crashed'), '');
      process.kill(process.pid, 'SIGKILL');
    }
    await delay(waitMs);
    yield textOf('user_message_chunk', `Question ${turn}`);
    yield textOf('agent_message_chunk', `Answer ${turn} ${'x'.repeat(history.size ?? 0)}`);
  }
  for (const line of existsSync(conversation) ? readFileSync(conversation, 'utf8').trim().split('\n') : []) {
    yield textOf('user_message_chunk', line);
    yield textOf('agent_message_chunk', `Answer to: ${line}`);
  }
}

function requireSession(id) {
  const refusal = path.join(home, 'refusal');
  if (existsSync(refusal)) throw new RequestError(-32603, readFileSync(refusal, 'utf8'));
  if (!existsSync(sessionFile(id))) throw new RequestError(-32602, `Session not found: ${id}`);
  return JSON.parse(readFileSync(sessionFile(id), 'utf8'));
}

// The bridge waits for the events of the server that opencode runs. This server has none.
const port = process.argv.indexOf('--port') + 1;
if (port > 0)
  createServer((_, response) => response.writeHead(200).flushHeaders())
    .listen(Number(process.argv[port]), '127.0.0.1')
    .unref();

process.stdout.write('A line that is no JSON\n');
const startLines = Array.from({ length: linesAtStart }, (_, i) => `Line ${i} at the start\n`).join('');
await new Promise((resolve) => process.stdout.write(startLines, resolve));
const toClient = recordWire('<');
toClient.readable.pipeTo(Writable.toWeb(process.stdout)).catch(() => {});
const fromClient = /** @type {ReadableStream<Uint8Array>} */ (Readable.toWeb(process.stdin)).pipeThrough(recordWire('>'));
agent({ name: 'scripted' })
  .onRequest('initialize', async ({ params }) => {
    record('initialize', params);
    if (startError) process.stderr.write(`${startError}\n`);
    if (crashes) process.exit(1);
    await delay(startDelayMs);
    return { protocolVersion: 1, ...initialize };
  })
  .onRequest('authenticate', ({ params }) => {
    record('authenticate', params);
    authenticated = true;
    return {};
  })
  .onRequest('session/new', ({ params }) => {
    record('session/new', params);
    if (!authenticated) throw new RequestError(-32000, 'Authentication required');
    const sessionId = `scripted-${process.pid}`;
    sessionIds.push(sessionId);
    writeFileSync(sessionFile(sessionId), JSON.stringify(newSession));
    geminiRecords?.open(sessionId);
    return { sessionId, ...newSession };
  })
  // The parser: this version of the SDK does not know the method.
  .onRequest(
    'session/fork',
    (/** @type {any} */ params) => params,
    async ({ params, client }) => {
      record('session/fork', params);
      const answer = requireSession(params.sessionId);
      if (params._meta?.jetbrains?.air.fork.messageId === 'unknown')
        throw new RequestError(-32602, 'Fork point message unknown was not found');
      const sessionId = `fork-${process.pid}`;
      sessionIds.push(sessionId);
      writeFileSync(sessionFile(sessionId), JSON.stringify(answer));
      for (const update of replayed) await client.notify('session/update', { sessionId, update });
      return { sessionId, ...answer };
    },
  )
  .onRequest('session/resume', ({ params }) => {
    record('session/resume', params);
    return requireSession(params.sessionId);
  })
  .onRequest('session/load', async ({ params, client }) => {
    record('session/load', params);
    const answer = requireSession(params.sessionId);
    geminiRecords?.open(params.sessionId);
    if (geminiRecords?.find(params.sessionId) === null) throw new RequestError(-32603, 'No previous sessions found for this project.');
    const replay = (update) => client.notify('session/update', { sessionId: params.sessionId, update });
    if (history) {
      for await (const update of replayedHistory()) await replay(update);
      return answer;
    }
    const text = (value) => ({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: value } });
    await replay(text('replayed before the answer'));
    for (const update of replayed) await replay(update);
    setTimeout(() => replay(text('replayed after the answer')), 50);
    if (repeatsUsage) setInterval(() => replay({ sessionUpdate: 'usage_update', used: 1, size: 2 }), 50).unref();
    return answer;
  })
  .onRequest('session/list', ({ params }) => {
    record('session/list', params);
    if (sessions) {
      const page = Number(params.cursor ?? 0);
      return { sessions: sessions[page], nextCursor: page + 1 < sessions.length ? String(page + 1) : null };
    }
    return {
      sessions: [
        { sessionId: 'another', cwd: params.cwd, title: 'Another' },
        { sessionId: sessionIds.at(-1), cwd: params.cwd, title },
      ],
    };
  })
  .onRequest('session/close', ({ params }) => {
    record('session/close', params);
    return {};
  })
  .onRequest('session/set_mode', async ({ params }) => {
    await delay(setModeDelayMs);
    record('session/set_mode', params);
    return {};
  })
  .onRequest('session/set_config_option', ({ params }) => {
    record('session/set_config_option', params);
    if (refusedValues.includes(params.value)) throw new RequestError(-32602, `Invalid value for ${params.configId}: ${params.value}`);
    const option = newSession.configOptions.find(({ id }) => id === params.configId);
    option.currentValue = params.value;
    return { configOptions: newSession.configOptions };
  })
  .onNotification('session/cancel', ({ params }) => {
    record('session/cancel', params);
    canceled.abort();
  })
  .onRequest(
    '_session/steering',
    (/** @type {any} */ params) => params,
    ({ params }) => {
      record('_session/steering', params);
      if (steering === 'crash') process.exit(7);
      if (steering === 'error') throw new RequestError(-32602, 'The turn cannot take this message');
      return { outcome: steering };
    },
  )
  .onRequest('session/prompt', ({ params, client }) => {
    record('session/prompt', params);
    if (history) appendFileSync(conversation, `${/** @type {any} */ (params.prompt[0]).text}\n`);
    geminiRecords?.addPrompt();
    return runPrompt(params, client);
  })
  .connect(ndJsonStream(toClient.writable, fromClient));
