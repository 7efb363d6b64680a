// The texts of notifications, and which requests they show whole.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeAnswerFailure } from '../src/content/answer-failure.ts';
import { notificationText } from '../src/content/notification-text.ts';

const FALLBACK = { title: 'Permission Request', body: 'demo (Bash)' };

const textOf = (tool: string, input: unknown, session = 'demo') =>
  notificationText({ session, agent: 'Alpha', tool, request: { tool, arguments: input } }, FALLBACK);
const isWhole = (tool: string, input: unknown) => textOf(tool, input).isWhole;

test('says what a request asks, with the name of the session', () => {
  assert.deepEqual(textOf('Bash', { command: 'npm test' }), { title: 'Run a command · demo', body: 'npm test', isWhole: true });
  const edit = textOf('Edit', { file_path: 'src/a.ts', old_string: 'a', new_string: 'b' });
  assert.equal(edit.title, 'Change a.ts · demo');
  assert.equal(edit.body, 'src/a.ts\n- a\n+ b\nTool: Edit');
  assert.ok(edit.isWhole);
});

test('shows all arguments, also those that are easily overlooked', () => {
  const { body, isWhole } = textOf('Bash', { command: 'make', description: 'Builds', dangerouslyDisableSandbox: true });
  assert.equal(body, 'make\ndescription: Builds\ndangerouslyDisableSandbox: true');
  assert.ok(isWhole);
});

test('escapes control and bidi characters', () => {
  const { title, body } = textOf('Bash', { command: 'echo \u202etxt.sh\u0007' }, 'de\u202emo\n');
  assert.equal(title, 'Run a command · de\\u202Emo');
  assert.equal(body, 'echo \\u202Etxt.sh\\u0007');
});

test('offers an approval only of a call that is visible as a whole', () => {
  assert.ok(isWhole('Bash', { command: 'x'.repeat(200) }));
  assert.ok(!isWhole('Bash', { command: 'x'.repeat(201) }));
  assert.ok(!isWhole('Bash', { command: '\u202e'.repeat(40) }), 'longer than 200 characters with its escapes');
  assert.ok(!isWhole('Bash', { command: 'a\nb\nc\nd\ne' }), 'more than four lines');
  assert.ok(!isWhole('Bash', { command: `ls${' '.repeat(60)}; rm -rf ~` }), 'spaces could hide the rest');
  assert.ok(!isWhole('Bash', { command: 'ls\n\n; rm -rf ~' }), 'an empty line could hide the rest');
  const change = (path: string) => ({ file_path: path, old_string: 'a', new_string: 'b' });
  assert.ok(!isWhole('MultiEdit', { changes: [change('a'), change('b')] }), 'two files');
  assert.ok(!isWhole('Bash', { command: 'ls', ...change('a') }), 'a command and a file');
});

test('without the whole request, shows its detail and offers no approval', () => {
  const details = { session: 'demo', agent: 'Alpha', tool: 'Bash', detail: 'cat big.txt…' };
  assert.deepEqual(notificationText(details, FALLBACK), { title: 'Run a command · demo', body: 'cat big.txt…', isWhole: false });
});

test('shows the text of a hub of an earlier version', () => {
  assert.deepEqual(notificationText({ url: '/sessions/s' }, FALLBACK), { ...FALLBACK, isWhole: false });
});

test('names the agent that is ready', () => {
  const { title, isWhole } = notificationText({ session: 'demo', agent: 'Alpha' }, { title: 'Session Ready', body: 'x' });
  assert.deepEqual([title, isWhole], ['Alpha is waiting · demo', false]);
});

test('malformed details do not throw', () => {
  for (const details of [
    { tool: 7 },
    { tool: 'x', request: {} },
    { tool: 'x', request: { arguments: 'text' } },
    { session: {}, agent: [] },
  ])
    assert.equal(typeof notificationText(details as never, FALLBACK).title, 'string');
});

test('a refused answer is described in the words of the console, and opens the inbox', () => {
  const describe = (status: number, code: string, error: string) => describeAnswerFailure(status, { code, error });
  const used = describe(410, 'answer_token_used', 'The token was used.');
  assert.deepEqual(used, { title: 'Already answered', text: 'This request was answered already.', isRefused: true });
  const unreachable = describe(503, 'cli_unreachable', 'The CLI is not reachable: No handler registered for permission. Check it.');
  const text = 'The agent is not connected, or not ready yet. Try again in a few seconds.';
  assert.deepEqual(unreachable, { title: 'Not answered', text, isRefused: true });
  for (const [status, code] of [
    [401, 'device_revoked'],
    [401, 'invalid_answer_token'],
    [404, 'request_not_found'],
    [404, 'session_not_found'],
    [409, 'request_changed'],
    [410, 'answer_token_expired'],
    [410, 'push_unsubscribed'],
  ] as const) {
    const { text, isRefused } = describe(status, code, 'The `token` is wrong.');
    assert.ok(isRefused, code);
    assert.doesNotMatch(text, /token/, code);
  }
});

test('an answer that may have arrived is not confirmed, and opens the session', () => {
  for (const [status, body] of [
    [0, null],
    [504, { code: 'rpc_timeout', error: 'x' }],
    [502, 'html'],
  ] as const) {
    const { title, isRefused } = describeAnswerFailure(status, body);
    assert.deepEqual([title, isRefused], ['Not confirmed', false], `${status}`);
  }
});
