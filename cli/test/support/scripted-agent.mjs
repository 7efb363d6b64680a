/**
 * An agent for tests, on the official SDK. A prompt is a JSON array of steps. The variable SCRIPT is JSON with the results of
 * `initialize` and `session/new` (`newSession`), and other settings. The folder SCRIPT_HOME contains the sessions and a log of the
 * received calls.
 */

import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
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
  title,
  replayed = [],
} = JSON.parse(process.env.SCRIPT ?? '{}');
const home = process.env.SCRIPT_HOME;
const record = (method, params) => appendFileSync(path.join(home, 'calls.jsonl'), `${JSON.stringify({ method, params })}\n`);
const sessionFile = (id) => path.join(home, `${id}.session`);

/** The sessions in the format and in the folder of Gemini CLI. */
const geminiRecords = process.env.GEMINI_CLI_HOME ? new GeminiRecords(process.env.GEMINI_CLI_HOME) : null;
geminiRecords?.cleanUp();

/** The cancellation of the current prompt. */
let canceled = new AbortController();
let authenticated = !signedOut;
const sessionIds = [];

/** @returns {Promise<{stopReason: 'end_turn' | 'cancelled'}>} */
async function runPrompt({ sessionId, prompt }, client) {
  canceled = new AbortController();
  const update = (body) => client.notify('session/update', { sessionId, update: body });
  const text = prompt.find(({ type }) => type === 'text')?.text ?? '[]';
  if (!text.startsWith('[')) {
    await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `You said: ${text}` } });
    return { stopReason: 'end_turn' };
  }
  for (const step of JSON.parse(text)) {
    if (canceled.signal.aborted) return { stopReason: 'cancelled' };
    if (step.say) await update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: step.say } });
    if (step.update) await update(step.update);
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
    // Starts a process outside of the agent's process group. The process inherits the agent's output and keeps it open.
    if (step.detach) {
      const other = spawn('sleep', [String(step.detach)], { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
      appendFileSync(path.join(home, 'detached'), String(other.pid));
    }
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

function requireSession(id) {
  if (!existsSync(sessionFile(id))) throw new RequestError(-32602, `Session not found: ${id}`);
  return JSON.parse(readFileSync(sessionFile(id), 'utf8'));
}

process.stdout.write('A line that is no JSON\n');
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
    const text = (value) => ({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: value } });
    await replay(text('replayed before the answer'));
    for (const update of replayed) await replay(update);
    setTimeout(() => replay(text('replayed after the answer')), 50);
    return answer;
  })
  .onRequest('session/list', ({ params }) => {
    record('session/list', params);
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
    const option = newSession.configOptions.find(({ id }) => id === params.configId);
    option.currentValue = params.value;
    return { configOptions: newSession.configOptions };
  })
  .onNotification('session/cancel', ({ params }) => {
    record('session/cancel', params);
    canceled.abort();
  })
  .onRequest('session/prompt', ({ params, client }) => {
    record('session/prompt', params);
    geminiRecords?.addPrompt();
    return runPrompt(params, client);
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), /** @type {ReadableStream<Uint8Array>} */ (Readable.toWeb(process.stdin))));
