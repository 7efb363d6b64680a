/** What must be true when the storm is over, whatever was killed in the middle of what. */

import assert from 'node:assert/strict';
import { part } from '../agent.mjs';
import { requestOf } from './crowd.mjs';

/** What the agent says at the end of a command: that it is done, or that the agent was killed meanwhile. */
const DONE = 'Exit code 0.';
const CUT_SHORT = 'The outcome is unknown. The command is not run again.';

/** All that is known of a session. @param {import('./crowd.mjs').Crowd} crowd */
export async function record({ web, session: { id }, storm }) {
  const database = await storm.hub.database();
  const rows = (sql) => database.prepare(sql).bind(id).all().then(({ results }) => results);
  return {
    session: (await web.get(`/api/sessions/${id}`)).body.session,
    history: await web.history(id),
    row: (await rows('SELECT * FROM sessions WHERE id = ?'))[0],
    messages: await rows(
      'SELECT seq, id, local_id AS localId, created_at AS createdAt FROM messages WHERE session_id = ? ORDER BY seq',
    ),
    completed: await rows('SELECT request_id AS id, value FROM completed_requests WHERE session_id = ?'),
  };
}

/** Every message that was acknowledged is there once, in the order of its sender, and nothing else is there. */
export function checkMessages({ clis, writers }, { session, history, row, messages }) {
  assert.deepEqual(history.map(({ seq }) => seq), history.map((_, at) => at + 1), 'seq is gapless');
  assert.deepEqual([session.seq, row.seq], [history.length, history.length]);
  assert.deepEqual(history.map(({ content: _, ...rest }) => rest), messages, 'the history is what the database holds');
  const byLocalId = Map.groupBy(history, ({ localId }) => localId);
  let sum = 0;
  for (const { name, sent, acked } of [...clis, ...writers]) {
    sum += sent.length;
    const own = sent.map(({ localId }) => byLocalId.get(localId) ?? []);
    assert.deepEqual(own.map(({ length }) => length), sent.map(() => 1), `each message of ${name} is there once`);
    const stored = own.flat();
    assert.deepEqual(stored.map(({ content }) => content), sent.map(({ message }) => message), `as ${name} sent it`);
    assert.ok(stored.every(({ seq }, at) => at === 0 || seq > stored[at - 1].seq), `in the order in which ${name} sent them`);
    const kept = new Map(stored.map(({ localId, id, seq }) => [localId, { id, seq }]));
    assert.equal(acked.size, sent.length, `everything of ${name} is acknowledged`);
    for (const [localId, { id, seq }] of acked) assert.deepEqual({ id, seq }, kept.get(localId), `${localId}, as acknowledged`);
  }
  assert.equal(history.length, sum, 'what nobody sent is not there');
}

/** Whoever read along knows the whole history: each message once and in order. */
export function checkReaders({ clis, listeners }, { history }) {
  const text = new Map(history.map((message) => [message.seq, JSON.stringify(message)]));
  const isKept = (message) => JSON.stringify(message) === text.get(message.seq);
  for (const { name, heard, known } of clis) {
    // An acknowledgement tells it of a message of its own; that comes back only when it reads the history.
    assert.equal(known.size, history.length, `${name} knows all messages`);
    for (const { seq, content } of heard) assert.deepEqual(content, history[seq - 1].content, `${name} heard message ${seq}`);
  }
  for (const { name, heard, fetched, resumed } of listeners) {
    assert.deepEqual(heard.filter((message) => !isKept(message)), [], `${name} heard what is kept`);
    const known = new Set([...heard.map(({ seq }) => seq), ...fetched.keys()]);
    assert.equal(known.size, history.length, `${name} knows all messages`);
    if (resumed.gap === 0) assert.equal(heard.length, history.length, `${name}, who was told of no gap, heard all messages`);
  }
}

/** Versions count the updates: each that was acknowledged under its version, each other one once or not at all. */
export function checkUpdates(updaters, { marks }, version, others = 0) {
  const sent = new Set(updaters.flatMap((updater) => [...updater.sent]));
  assert.equal(new Set(marks).size, marks.length, 'no update was taken twice');
  assert.deepEqual(marks.filter((mark) => !sent.has(mark)), []);
  assert.equal(version, 1 + marks.length + others, 'the version counts them all');
  const acked = new Map(updaters.flatMap((updater) => [...updater.acked]));
  const versions = marks.map((mark) => acked.get(mark)).filter((one) => one !== undefined);
  assert.equal(versions.length, acked.size, 'what was acknowledged stands');
  assert.ok(versions.every((one, at) => at === 0 || one > versions[at - 1]), 'in the order of the versions');
  if (others > 0) return;
  for (const [mark, one] of acked) assert.equal(marks[one - 2], mark, `${mark} made version ${one}`);
}

/** Every request that was made is answered, as it was decided, and the CLI was told so. */
export function checkRequests({ clis, approver }, { session, completed }) {
  const { requests, completedRequests, marks } = session.agentState;
  const made = marks.map(requestOf).filter((id) => id !== undefined);
  assert.deepEqual(requests, {}, 'none waits any more');
  assert.deepEqual(Object.keys(completedRequests).sort(), made.sort(), 'none is lost, and none came back');
  const stored = Object.fromEntries(completed.map(({ id, value }) => [id, JSON.parse(value)]));
  assert.deepEqual(stored, completedRequests, 'the database holds them');
  for (const [id, status] of approver.decided) {
    assert.equal(completedRequests[id].status, status, `${id} as it was decided`);
    assert.ok(clis.some(({ answers }) => answers.get(id) === (status === 'approved')), `the CLI knows that ${id} is ${status}`);
  }
}

/** The agent did what it was told, each command once and in order; only one that a kill cut short may not have run. */
export function checkAgent({ name, kills, writer, ran }, { session, history }) {
  assert.deepEqual(history.map(({ seq }) => seq), history.map((_, at) => at + 1), 'seq is gapless');
  const byLocalId = new Map(history.map((message) => [message.localId, message]));
  const calls = history.map(part).filter((one) => one?.type === 'tool_use');
  const told = writer.sent.map((_, at) => writer.text(at + 1));
  assert.deepEqual(calls.map(({ input }) => input.command), told, `${name} begins what it is told, once and in order`);
  for (const { id } of calls) {
    const said = ['use', 'result', 'end', 'ready'].map((what) => byLocalId.get(`${id}-${what}`)?.seq);
    assert.ok(said.every((seq, at) => seq > (said[at - 1] ?? 0)), `${name} closed what it began: ${said}`);
  }
  const ends = calls.map(({ id }) => part(byLocalId.get(`${id}-end`)).text);
  // A killed agent takes with it what the hub had not acknowledged: that may be the ends of several commands.
  const known = kills === 0 ? [DONE] : [DONE, CUT_SHORT];
  assert.deepEqual(ends.filter((end) => !known.includes(end)), []);
  const finished = ends.map((end) => end === DONE);
  const expected = finished.flatMap((one, at) => (one || ran.includes(at + 1) ? [at + 1] : []));
  assert.deepEqual(ran, expected, 'each ran once and in order');
  assert.equal(session.active, true);
}

/**
 * The session is as alive as its CLI says.
 * @param {{clis: import('./steady-cli.mjs').SteadyCli[]}} life
 * @param {{session: any, row?: any}} found
 * @param {number} [settled] which of its thoughts was acknowledged last when the hub was asked: it may tell of that one, or
 *   of any since
 */
export function checkLife({ clis: [leader] }, { session, row }, settled = leader.settled) {
  const thoughts = leader.thoughts.slice(settled);
  assert.deepEqual([session.active, session.mode], [true, 'remote']);
  assert.ok(thoughts.includes(session.thinking), `it said ${thoughts}, and the hub says ${session.thinking}`);
  if (row) assert.deepEqual([row.active, row.thinking], [1, Number(session.thinking)], 'and so says the database');
}
