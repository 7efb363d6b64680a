/** What agents write about failed requests to their model, in the pinned versions. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readCopilotLine, readGeminiLine, readQwenLine, toCodexRetry } from '../../src/translate/model-retries.mjs';
import { createTranslator } from '../../src/translate/translator.mjs';

const retry = (fields) => ({ sessionUpdate: 'model_retry', ...fields });

test('Gemini CLI writes each attempt to its debug log', () => {
  const at = '[2026-11-29T14:36:45.109Z]';
  const read = (text) => readGeminiLine(`${at} ${text}`);
  assert.deepEqual(
    [
      read('[WARN] Attempt 1 failed with status 429. Retrying with backoff... _ApiError: {"error":{"message":"No more."}}'),
      read('[WARN] Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {}'),
      read('[WARN] Attempt 3 failed with 429 error (no Retry-After header). Retrying with backoff... Error: 429'),
      read('[WARN] Attempt 4 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request'),
      read('[WARN] Attempt 5 failed: Quota exceeded. Retrying after 34000ms...'),
      // The words of the provider end in another line.
      read('[WARN] Attempt 6 failed: You exceeded your current quota.'),
    ],
    [
      retry({ attempt: 1, status: 429 }),
      retry({ attempt: 2, status: 503 }),
      retry({ attempt: 3, status: 429 }),
      retry({ attempt: 4, status: null }),
      retry({ attempt: 5, reason: 'Quota exceeded' }),
      retry({ attempt: 6, reason: 'You exceeded your current quota.' }),
    ],
  );
  const others = ['[WARN] Attempt 10 failed: Quota exceeded. Max attempts reached', '[DEBUG] Attempt 1 failed with status 429.'];
  assert.deepEqual([...others.map(read), readGeminiLine('    at async retryWithBackoff'), readGeminiLine('')], [null, null, null, null]);
});

test('Qwen Code writes each failed request to the record of the session', () => {
  const record = (uiEvent) => JSON.stringify({ type: 'system', subtype: 'ui_telemetry', systemPayload: { uiEvent } });
  const failed = (status) =>
    record({ 'event.name': 'qwen-code.api_error', error_message: `${status} No more.`, error_type: 'RateLimitError', status_code: status });
  const said = JSON.stringify({ type: 'user', message: { parts: [{ text: '"qwen-code.api_error"' }] } });
  const lines = [failed(429), failed(503), failed(401), failed(undefined), record({ 'event.name': 'qwen-code.api_response' }), said, '{'];
  assert.deepEqual(lines.map(readQwenLine), [retry({ status: 429 }), retry({ status: 503 }), null, null, null, null, null]);
});

test('Copilot CLI writes each failed request to its log', () => {
  const failed = (status) =>
    `2026-11-29T14:40:21.432Z [WARNING] [rust:model_events::producer] Model provider request failed {"stage":"inference","http_status":${status},"failure_kind":"http_error"}`;
  const lines = [failed(429), failed(502), failed(400), failed('"'), '2026-11-29T14:40:20.229Z [INFO] ACP server started'];
  assert.deepEqual(lines.map(readCopilotLine), [retry({ status: 429 }), retry({ status: 502 }), null, null, null]);
});

test('Codex sends each failed request as an update of the session', () => {
  const update = (error) => ({ sessionUpdate: 'session_info_update', _meta: { codex: { error } } });
  const failed = (cause) => update({ message: 'Reconnecting... 2/5', codexErrorInfo: cause, willRetry: true });
  assert.deepEqual(
    [
      failed({ responseStreamDisconnected: { httpStatusCode: 503 } }),
      failed({ responseStreamConnectionFailed: { httpStatusCode: null } }),
      update({ message: 'No more.', codexErrorInfo: 'other', willRetry: false }),
      { sessionUpdate: 'session_info_update', title: 'A title' },
      undefined,
    ].map(toCodexRetry),
    [retry({ attempt: 2, maxAttempts: 5, status: 503 }), retry({ attempt: 2, maxAttempts: 5, status: null }), null, null, null],
  );
});

test('failures without a number are counted until the agent goes on, and a note of the agent is sent once in a turn', () => {
  const translator = createTranslator({ agent: 'copilot', flavor: 'gamma' });
  const say = (text) => ({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  const note = say('Info: Request failed due to a transient API error. Retrying...');
  const failure = { ...retry({ status: 503 }), text: 'It fails.' };
  const sent = [failure, note, failure, note].map((update) => translator.onUpdate(update).length);
  assert.deepEqual(sent, [1, 1, 0, 0]);
  assert.match(translator.activity, /status 503, attempt 2$/);
  translator.onUpdate(say('I go on.'));
  assert.equal(translator.activity, null);
  translator.onUpdate(failure);
  assert.match(translator.activity, /attempt 1$/);
});

test('the text with which Codex ends a turn after an error of the model is an error, and the next text is not', () => {
  const translator = createTranslator({ agent: 'codex', flavor: 'beta' });
  const status = (type) => ({ sessionUpdate: 'session_info_update', _meta: { codex: { threadStatus: { type } } } });
  const say = (text) => ({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  translator.onUpdate(status('active'));
  translator.onUpdate(say('I look.'));
  translator.onUpdate(status('systemError'));
  const records = translator.onUpdate(say('exceeded retry limit, last status: 429 Too Many Requests\n\n'));
  translator.endTurn('end_turn');
  translator.onUpdate(say('Again.'));
  const shown = [...records, ...translator.endTurn('end_turn')].map(({ content }) => content.content.data);
  assert.deepEqual(
    shown.map(({ isApiErrorMessage, message }) => [isApiErrorMessage === true, message.content[0].text]),
    [
      [false, 'I look.'],
      [true, 'exceeded retry limit, last status: 429 Too Many Requests'],
      [false, 'Again.'],
    ],
  );
});
