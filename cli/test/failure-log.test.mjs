/** The files to which agents write failed requests to their model. */

import assert from 'node:assert/strict';
import { appendFileSync, closeSync, existsSync, fstatSync, mkdirSync, openSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { deferred } from '../../scripts/lib/await.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { FailureLog, copilotLog, geminiLog, qwenLog } from '../src/failure-log.mjs';

const log = { debug: () => {} };
const failedAttempt = (attempt) =>
  `[2026-11-29T14:36:45.109Z] [WARN] Attempt ${attempt} failed with status 429. Retrying with backoff...\n`;
const qwenFailure = `${JSON.stringify({
  subtype: 'ui_telemetry',
  systemPayload: { uiEvent: { 'event.name': 'qwen-code.api_error', status_code: 429 } },
})}\n`;

/** Follows the file until the test ends. @returns {Promise<() => Promise<any>>} the next report */
async function follow(t, source) {
  const { promise: ended, resolve: end } = deferred();
  t.after(() => {
    end(undefined);
    return source.close();
  });
  const reports = [];
  let next = deferred();
  const onUpdate = (update) => {
    reports.push(update);
    next.resolve(undefined);
  };
  await source.follow({ sessionId: 'session', cwd: '/my app', ended, log, onUpdate });
  return async () => {
    if (reports.length === 0) await next.promise;
    next = deferred();
    return reports.shift();
  };
}

test('only what is written after the start of a session is reported, also to a file that appears later', async (t) => {
  const base = tempDir(t);
  const chats = path.join(base, 'projects', '-my-app', 'chats');
  const file = path.join(chats, 'session.jsonl');
  const early = await follow(t, await qwenLog({ QWEN_RUNTIME_DIR: base }));
  mkdirSync(chats, { recursive: true });
  writeFileSync(file, qwenFailure);
  assert.equal((await early()).status, 429);
  const late = await follow(t, await qwenLog({ QWEN_HOME: base }));
  appendFileSync(file, qwenFailure.replace('429', '503'));
  assert.equal((await late()).status, 503);
});

test('the debug log of Gemini CLI has no name after the start, and is deleted if the agent does not start', async (t) => {
  assert.equal(await geminiLog({ GEMINI_DEBUG_LOG_FILE: '/tmp/mine' }), undefined);
  const failed = await geminiLog({});
  const { GEMINI_DEBUG_LOG_FILE: unused } = failed.env;
  assert.equal(statSync(unused).mode & 0o777, 0o600);
  await failed.close();
  assert.equal(existsSync(path.dirname(unused)), false);
  const source = await geminiLog({});
  const { GEMINI_DEBUG_LOG_FILE: file } = source.env;
  await follow(t, source);
  assert.equal(existsSync(path.dirname(file)), false);
});

test('a log that only the bridge reads is emptied before it is large', async (t) => {
  const folder = tempDir(t);
  const file = path.join(folder, 'log');
  writeFileSync(file, '');
  const toRetry = (line) => (line.includes('Attempt') ? { sessionUpdate: /** @type {const} */ ('model_retry'), reason: line } : null);
  const source = new FailureLog({ toRetry, find: async () => file, folder, intervalMs: 10 });
  const agent = openSync(file, 'a');
  t.after(() => closeSync(agent));
  const next = await follow(t, source);
  appendFileSync(agent, `${'x'.repeat(2_000_000)}\n${failedAttempt(1)}`);
  assert.match((await next()).reason, /Attempt 1/);
  appendFileSync(agent, failedAttempt(2));
  assert.match((await next()).reason, /Attempt 2/);
  assert.ok(fstatSync(agent).size < 1000);
});

test('the log of Copilot CLI is that of the process that has the session', async (t) => {
  const base = tempDir(t);
  const [state, logs] = [path.join(base, 'session-state', 'session'), path.join(base, 'logs')];
  for (const folder of [state, logs]) mkdirSync(folder, { recursive: true });
  for (const name of ['inuse.12.lock', 'inuse.34.lock', 'events.jsonl']) writeFileSync(path.join(state, name), '');
  for (const name of ['process-1-12.log', 'process-2-34.log', 'process-3-56.log']) writeFileSync(path.join(logs, name), '');
  const next = await follow(t, await copilotLog({ COPILOT_HOME: base }));
  const failure = (status) => `[WARNING] Model provider request failed {"http_status":${status}}\n`;
  for (const [name, status] of [
    ['process-3-56.log', 500],
    ['process-1-12.log', 501],
    ['process-2-34.log', 429],
  ]) {
    appendFileSync(path.join(logs, String(name)), failure(status));
  }
  assert.equal((await next()).status, 429);
});
