/** A fixed sample project with every kind of content that the console shows, for accessibility tests and screenshots. */

import { eventually } from '../../../scripts/lib/await.mjs';
import { outputRecord } from './records.mjs';

/** The page's clock. */
export const NOW = Date.UTC(2026, 4, 12, 9, 30);

const resultRecord = (id, content, is_error = false) => ({
  role: 'agent',
  content: {
    type: 'output',
    data: { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content, is_error }] } },
  },
});
const userMessage = (text) => ({ role: 'user', content: { type: 'text', text }, meta: { sentFrom: 'cli' } });

const CODE = `use std::fmt;

/// A day of the calendar.
pub struct Date {
    pub year: i32,
    pub month: u8,
    pub day: u8,
}

/// Reads \`2026-05-12\`.
pub fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let year = parts.next()?.parse().ok()?;
    let month = parts.next()?.parse().ok()?;
    let day = parts.next()?.parse().ok()?;
    (1..=12).contains(&month).then_some(Date { year, month, day })
}

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}
`;

const DIFF = `diff --git a/src/dates.rs b/src/dates.rs
index 1f2e3d4..5a6b7c8 100644
--- a/src/dates.rs
+++ b/src/dates.rs
@@ -9,8 +9,8 @@ pub struct Date {
 /// Reads \`2026-05-12\`.
 pub fn parse_date(text: &str) -> Option<Date> {
-    let mut parts = text.split('-');
+    let mut parts = text.splitn(3, '-');
     let year = parts.next()?.parse().ok()?;
     let month = parts.next()?.parse().ok()?;
     let day = parts.next()?.parse().ok()?;
-    Some(Date { year, month, day })
+    (1..=12).contains(&month).then_some(Date { year, month, day })
 }
`;

const ANSWER = `The parser accepted a 13th month. It now rejects that, and any text after the day:

| Text | Before | Now |
|---|---|---|
| \`2026-05-12\` | valid | valid |
| \`2026-13-01\` | valid | invalid |

Shall I commit it?`;

/** The sample machine's RPC methods. */
const METHODS = {
  gitStatus: () => ({
    success: true,
    branch: 'parse-dates',
    files: [
      { path: 'src/dates.rs', status: 'modified', index: '.', worktree: 'M' },
      { path: 'tests/dates.rs', status: 'added', index: 'A', worktree: '.' },
      { path: 'notes/old.md', status: 'deleted', index: '.', worktree: 'D' },
    ],
  }),
  gitDiffNumstat: ({ staged }) => ({
    success: true,
    files: staged
      ? [{ path: 'tests/dates.rs', added: 18, removed: 0 }]
      : [
          { path: 'src/dates.rs', added: 2, removed: 2 },
          { path: 'notes/old.md', added: 0, removed: 7 },
        ],
  }),
  gitDiffFile: () => ({ success: true, diff: DIFF }),
  readFile: () => ({ success: true, content: Buffer.from(CODE).toString('base64') }),
  listDirectory: ({ path }) => ({
    success: true,
    entries: path
      ? [{ name: 'dates.rs', type: 'file', size: CODE.length }]
      : [
          { name: 'src', type: 'directory' },
          { name: 'tests', type: 'directory' },
          { name: 'Cargo.toml', type: 'file', size: 214 },
          { name: 'README.md', type: 'file', size: 1822 },
        ],
  }),
  listSlashCommands: () => ({ success: true, commands: ['todo', 'help'] }),
  listSkills: () => ({ success: true, skills: [{ name: 'review', description: 'Reviews the current changes' }] }),
};

/**
 * Fills a session with sample content, and creates other sessions and the machine `bench` in its namespace.
 * @param {import('./hub.mjs').Hub} hub
 * @param {any} session
 * @param {import('../../../scripts/product/clients/cli.mjs').Cli} cli the session's CLI
 */
export async function fillSample(hub, session, cli) {
  const { id, namespace } = session;
  for (const [name, answer] of Object.entries(METHODS)) await cli.serve(`${id}:${name}`, answer);
  // Another test has already filled the session.
  if (session.seq > 0) return;
  const todos = ['Find out why month 13 is accepted', 'Reject it, with a test', 'Commit'];
  const statuses = ['completed', 'completed', 'in_progress'];
  const messages = [
    userMessage('The parser accepts a 13th month. Please fix it, with a test.'),
    outputRecord(
      { type: 'thinking', thinking: 'The month is parsed but never validated.' },
      { type: 'text', text: 'I will look at the parser first.' },
      { type: 'tool_use', id: 't1', name: 'Read', input: { file_path: 'src/dates.rs' } },
    ),
    resultRecord('t1', CODE),
    outputRecord({
      type: 'tool_use',
      id: 't2',
      name: 'Edit',
      input: { file_path: 'src/dates.rs', old_string: "text.split('-')", new_string: "text.splitn(3, '-')" },
    }),
    resultRecord('t2', 'The file was updated.'),
    outputRecord({ type: 'tool_use', id: 't3', name: 'Bash', input: { command: 'cargo test dates' } }),
    resultRecord('t3', 'test result: FAILED. 11 passed; 1 failed', true),
    outputRecord({
      type: 'tool_use',
      id: 't4',
      name: 'TodoWrite',
      input: {
        todos: todos.map((content, index) => ({
          id: `${index}`,
          content,
          status: statuses[index],
          priority: index === 2 ? 'high' : 'medium',
        })),
      },
    }),
    outputRecord({ type: 'tool_use', id: 't5', name: 'Bash', input: { command: 'cargo test dates' } }),
    resultRecord('t5', 'test result: ok. 12 passed; 0 failed'),
    outputRecord({ type: 'text', text: ANSWER }),
  ];
  // The position before the second test run.
  const beforeTests = 8;
  for (const message of messages.slice(0, beforeTests)) await cli.sendMessage(id, message);
  const completedAt = Date.now() + 1;
  await eventually(() => Date.now() > completedAt, 'the next millisecond');
  for (const message of messages.slice(beforeTests)) await cli.sendMessage(id, message);
  const completedRequests = {
    t2: {
      tool: 'Edit',
      arguments: { file_path: 'src/dates.rs' },
      status: 'approved',
      decision: 'approved_for_session',
      mode: 'default',
      completedAt,
    },
    r0: {
      tool: 'Bash',
      arguments: { command: 'cargo install date-checker' },
      status: 'denied',
      decision: 'denied',
      reason: 'The tests are enough',
      mode: 'default',
      completedAt,
    },
  };
  const requests = {
    r1: {
      tool: 'Bash',
      arguments: { command: 'git commit --all --message "Reject a 13th month"' },
      sessionRule: { kind: 'command', label: '`git commit` with any message' },
      createdAt: NOW - 30_000,
    },
  };
  await cli.emitWithAck('update-state', { sid: id, expectedVersion: 1, agentState: { requests, completedRequests } });
  const web = hub.web(namespace);
  const openOtherSession = (tag, metadata) => web.openSession({ tag, metadata: { host: 'workshop', flavor: 'beta', ...metadata } });
  await openOtherSession('/code/almanac/2', { path: '/code/almanac', name: 'Write the moon tables' });
  await openOtherSession('/code/tide', { path: '/code/tide', host: 'harbour', summary: { text: 'Read the tide gauge', updatedAt: NOW } });
  const archived = await openOtherSession('/code/tide/2', { path: '/code/tide', host: 'harbour', name: 'Rename the tables' });
  await web.post(`/api/sessions/${archived.id}/archive`, {});
  await web.post('/cli/machines', {
    id: 'bench',
    metadata: { host: 'workshop', platform: 'linux', version: '1.4.0', displayName: 'Workshop' },
  });
}
