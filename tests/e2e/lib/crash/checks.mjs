/** The conditions that must hold after a load test with kills. */

import assert from 'node:assert/strict';
import { pluck } from '../../../../packages/cli-kit/test/support/pluck.mjs';
import { partOf } from '../agent.mjs';
import { requestIdOf } from './session-load.mjs';

/** The agent's last text about a command: `DONE` after the execution, `INTERRUPTED` after the agent was killed. */
const DONE = 'Exit code 0.';
const INTERRUPTED = 'The outcome is unknown. The command is not run again.';

/** Reads a session from the hub and from the database. @param {import('./session-load.mjs').SessionLoad} load */
export async function readStoredSession({ web, session: { id }, loadTest }) {
  const database = await loadTest.hub.database();
  const readRows = (sql) =>
    database
      .prepare(sql)
      .bind(id)
      .all()
      .then(({ results }) => results);
  return {
    session: await web.readSession(id),
    history: await web.readHistory(id),
    row: (await readRows('SELECT * FROM sessions WHERE id = ?'))[0],
    messages: await readRows(
      'SELECT seq, id, local_id AS localId, created_at AS createdAt FROM messages WHERE session_id = ? ORDER BY seq',
    ),
    completed: await readRows('SELECT request_id AS id, value FROM completed_requests WHERE session_id = ?'),
  };
}

/** Checks that every acknowledged message is stored once, in the order of its sender, and there are no other messages. */
export function checkMessages({ clis, writers }, { session, history, row, messages }) {
  assert.deepEqual(
    pluck(history, 'seq'),
    history.map((_, index) => index + 1),
    'seqs have no gap',
  );
  assert.equal(session.seq, history.length);
  assert.ok(row.seq <= history.length, 'a message does not write the row of its session');
  assert.deepEqual(
    history.map(({ content: _, ...rest }) => rest),
    messages,
    'the database has the same messages',
  );
  const byLocalId = Map.groupBy(history, ({ localId }) => localId);
  let sentCount = 0;
  for (const { name, sent, acked } of [...clis, ...writers]) {
    sentCount += sent.length;
    const storedOfEach = sent.map(({ localId }) => byLocalId.get(localId) ?? []);
    assert.deepEqual(
      pluck(storedOfEach, 'length'),
      sent.map(() => 1),
      `each message of ${name} is stored once`,
    );
    const stored = storedOfEach.flat();
    assert.deepEqual(pluck(stored, 'content'), pluck(sent, 'message'), `messages of ${name} are unchanged`);
    assert.ok(
      stored.every(({ seq }, index) => index === 0 || seq > stored[index - 1].seq),
      `messages of ${name} are in order`,
    );
    const byId = new Map(stored.map(({ localId, id, seq }) => [localId, { id, seq }]));
    assert.equal(acked.size, sent.length, `all messages of ${name} are acknowledged`);
    for (const [localId, { id, seq }] of acked) assert.deepEqual({ id, seq }, byId.get(localId), `${localId} as acknowledged`);
  }
  assert.equal(history.length, sentCount, 'there are no other messages');
}

/** Checks that every CLI and listener has received the whole history: each message once and in order. */
export function checkReaders({ clis, listeners }, { history }) {
  const storedTexts = new Map(history.map((message) => [message.seq, JSON.stringify(message)]));
  const isStored = (message) => JSON.stringify(message) === storedTexts.get(message.seq);
  for (const { name, received, knownSeqs } of clis) {
    // A CLI knows its own messages from their acknowledgements.
    assert.equal(knownSeqs.size, history.length, `${name} knows all messages`);
    for (const { seq, content } of received) assert.deepEqual(content, history[seq - 1].content, `${name}, message ${seq}`);
  }
  for (const { name, received, fetched, resumptions } of listeners) {
    assert.deepEqual(
      received.filter((message) => !isStored(message)),
      [],
      `${name} received only stored messages`,
    );
    const knownSeqs = new Set([...received.map(({ seq }) => seq), ...fetched.keys()]);
    assert.equal(knownSeqs.size, history.length, `${name} knows all messages`);
    if (resumptions.gap === 0) assert.equal(received.length, history.length, `${name}, without a gap, received all messages`);
  }
}

/**
 * Checks that the version counts the updates, that each acknowledged update has its acknowledged version, and that any other update was applied
 * once or not at all.
 * @param {import('./updater.mjs').Updater[]} updaters
 * @param {{marks: string[]}} value
 * @param {number} version
 * @param {number} [otherUpdates] the number of updates without a mark
 */
export function checkUpdates(updaters, { marks }, version, otherUpdates = 0) {
  const sent = new Set(updaters.flatMap((updater) => [...updater.sent]));
  assert.equal(new Set(marks).size, marks.length, 'no update was applied twice');
  assert.deepEqual(
    marks.filter((mark) => !sent.has(mark)),
    [],
  );
  assert.equal(version, 1 + marks.length + otherUpdates, 'the version counts all updates');
  const ackedVersions = new Map(updaters.flatMap((updater) => [...updater.acked]));
  const versions = marks.map((mark) => ackedVersions.get(mark)).filter((ackedVersion) => ackedVersion !== undefined);
  assert.equal(versions.length, ackedVersions.size, 'all acknowledged updates are in the value');
  assert.ok(
    versions.every((ackedVersion, index) => index === 0 || ackedVersion > versions[index - 1]),
    'in the order of the versions',
  );
  if (otherUpdates > 0) return;
  for (const [mark, ackedVersion] of ackedVersions) assert.equal(marks[ackedVersion - 2], mark, `${mark} is version ${ackedVersion}`);
}

/** Checks that every request is completed with its decision, and that a CLI has received the decision. */
export function checkRequests({ clis, approver }, { session, completed }) {
  const { requests, completedRequests, marks } = session.agentState;
  const requestIds = marks.map(requestIdOf).filter((id) => id !== undefined);
  assert.deepEqual(requests, {}, 'no request is pending');
  assert.deepEqual(Object.keys(completedRequests).sort(), requestIds.sort(), 'all requests are completed');
  const stored = Object.fromEntries(completed.map(({ id, value }) => [id, JSON.parse(value)]));
  assert.deepEqual(stored, completedRequests, 'the database has the same');
  for (const [id, status] of approver.decisions) {
    assert.equal(completedRequests[id].status, status, `the decision on ${id}`);
    assert.ok(
      clis.some(({ answers }) => answers.get(id) === (status === 'approved')),
      `a CLI received that ${id} is ${status}`,
    );
  }
}

/** Checks that the agent executed each command once and in order. Only a command that a kill interrupted may be missing. */
export function checkAgent({ name, kills, writer, executedCommands }, { session, history }) {
  assert.deepEqual(
    pluck(history, 'seq'),
    history.map((_, index) => index + 1),
    'seqs have no gap',
  );
  const byLocalId = new Map(history.map((message) => [message.localId, message]));
  const calls = history.map(partOf).filter((part) => part?.type === 'tool_use');
  const commands = writer.sent.map((_, index) => writer.text(index + 1));
  assert.deepEqual(pluck(calls, 'input.command'), commands, `${name} starts each command once and in order`);
  for (const { id } of calls) {
    const seqs = ['use', 'result', 'end', 'ready'].map((kind) => byLocalId.get(`${id}-${kind}`)?.seq);
    assert.ok(
      seqs.every((seq, index) => seq > (seqs[index - 1] ?? 0)),
      `${name} completed its call: ${seqs}`,
    );
  }
  const ends = calls.map(({ id }) => partOf(byLocalId.get(`${id}-end`)).text);
  // A killed agent loses its unacknowledged messages. These messages may be the last texts of several commands.
  const validEnds = kills === 0 ? [DONE] : [DONE, INTERRUPTED];
  assert.deepEqual(
    ends.filter((end) => !validEnds.includes(end)),
    [],
  );
  const isExecuted = ends.map((end) => end === DONE);
  const expected = isExecuted.flatMap((executed, index) => (executed || executedCommands.includes(index + 1) ? [index + 1] : []));
  assert.deepEqual(executedCommands, expected, 'each command is executed once and in order');
  assert.equal(session.active, true);
}

/**
 * Checks that the session is active, with the `thinking` value of a recent keep-alive.
 * @param {{clis: import('./reliable-cli.mjs').ReliableCli[]}} load
 * @param {{session: any, row?: any}} stored
 * @param {number} [lastAcked] the index of the last acknowledged `thinking` value before the request: the hub's value is this
 *   or a later one
 */
export function checkLiveness({ clis: [leader] }, { session, row }, lastAcked = leader.lastAckedThinking) {
  const possibleValues = leader.thinkingValues.slice(lastAcked);
  assert.deepEqual([session.active, session.mode], [true, 'remote']);
  assert.ok(possibleValues.includes(session.thinking), `the CLI sent ${possibleValues}, the hub has ${session.thinking}`);
  if (row) assert.deepEqual([row.active, row.thinking], [1, Number(session.thinking)], 'the database has the same');
}
