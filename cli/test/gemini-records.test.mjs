import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { findStartMinute, removeEmptyRecords } from '../src/gemini-records.mjs';

const HEADER = { sessionId: '414f1963-0000', startTime: '2026-01-01T12:00:00Z', kind: 'main' };
// The context of the session. The line has no `type`, so it does not count as a message.
const CONTEXT = { $set: { messages: [{ id: '1', type: 'user', content: 'context' }] } };
const MESSAGES = [
  { id: '2', type: 'user', content: 'Hello' },
  { id: '3', type: 'gemini', content: 'Hi' },
];

/** Creates the folder of a project's records, with files of the given lines. */
function setUp(t, files) {
  const home = tempDir(t);
  const folder = path.join(home, '.gemini', 'tmp', 'project', 'chats');
  mkdirSync(folder, { recursive: true });
  for (const [name, lines] of Object.entries(files)) {
    writeFileSync(path.join(folder, name), lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'));
  }
  return { home, names: () => readdirSync(folder).sort() };
}

test('deletes the records of a session without messages, if another record has messages', async (t) => {
  const kept = 'session-2026-01-01T12-00-414f1963.jsonl';
  const { home, names } = setUp(t, {
    [kept]: [HEADER, CONTEXT, ...MESSAGES],
    'session-2026-01-01T12-01-414f1963.jsonl': [HEADER, CONTEXT],
    'session-2026-01-01T12-02-414f1963.jsonl': [HEADER, CONTEXT, HEADER, CONTEXT],
  });
  await removeEmptyRecords({ HOME: home });
  assert.deepEqual(names(), [kept]);
});

test('all other files are kept', async (t) => {
  const files = {
    // A session without messages yet.
    'session-2026-01-01T12-00-aaaaaaaa.jsonl': [HEADER, CONTEXT],
    // Records that cannot be read.
    'session-2026-01-01T12-00-bbbbbbbb.jsonl': [HEADER, '{"type":'],
    'session-2026-01-01T12-01-bbbbbbbb.jsonl': [HEADER, ...MESSAGES],
    // No record has messages.
    'session-2026-01-01T12-00-cccccccc.jsonl': [HEADER],
    'session-2026-01-01T12-01-cccccccc.jsonl': [HEADER],
    'notes-414f1963.jsonl': [HEADER],
  };
  const { home, names } = setUp(t, files);
  await removeEmptyRecords({ GEMINI_CLI_HOME: home, HOME: '/nowhere' });
  assert.deepEqual(names(), Object.keys(files).sort());
});

test('the minute of a session’s start is the latest in the names of its records', async (t) => {
  const { home } = setUp(t, {
    'session-2026-01-01T12-00-414f1963.jsonl': [HEADER, ...MESSAGES],
    'session-2026-01-01T12-07-414f1963.jsonl': [HEADER],
    'session-2026-01-01T12-09-aaaaaaaa.jsonl': [HEADER],
    'session-yesterday-414f1963.jsonl': [HEADER],
  });
  assert.equal(await findStartMinute({ HOME: home }, '414f1963-0000'), Date.UTC(2026, 0, 1, 12, 7));
  assert.equal(await findStartMinute({ HOME: home }, 'bbbbbbbb-0000'), 0);
});

test('a home without records is no error', async (t) => {
  const env = { HOME: tempDir(t) };
  await removeEmptyRecords(env);
  assert.equal(await findStartMinute(env, '414f1963-0000'), 0);
});
