/** What people and faults do with a session in the soak test. Each activity ends when the session is idle. */

import { once } from 'node:events';
import { askToRun } from '../support/setup.mjs';

const update = (body) => ({ update: body });
const text = (value, messageId) => update({ sessionUpdate: 'agent_message_chunk', messageId, content: { type: 'text', text: value } });
const thought = (value) => update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: value } });
const plan = (status) => update({ sessionUpdate: 'plan', entries: [{ content: 'Look', priority: 'high', status }] });

let ids = 0;
/** Returns an id that was not used before, as the ids of calls and messages are. */
const newId = () => `id-${(ids += 1)}`;

/** A turn with all that needs no answer. */
const WORK = () => [
  thought('I look.'),
  text('I have ', newId()),
  { say: 'a plan.' },
  plan('in_progress'),
  update({ sessionUpdate: 'usage_update', used: 1000 + ids, size: 200_000 }),
  ...askToRun(newId(), 'make').filter((step) => !('ask' in step)),
  plan('completed'),
  { say: 'Done.' },
];

/**
 * The activities by name. `world`: of the sessions; `i`: the index of the session.
 * @type {Record<string, (world: import('./world.mjs').World, i: number) => Promise<unknown>>}
 */
export const ACTIVITIES = {
  work: (world, i) => world.turn(i, WORK()),

  'approve a command for the session': async (world, i) => {
    const turn = world.turn(i, [...askToRun(newId(), 'touch one'), ...askToRun(newId(), 'touch two')]);
    await world.call(i, 'permission', { id: await world.untilRequest(i), approved: true, decision: 'approved_for_session' });
    await turn;
    for (const { id } of world.hub.sessions.get(world.id(i)).agentState.sessionRules) await world.call(i, 'revokeSessionRule', { id });
  },

  'deny a command with a reason': async (world, i) => {
    const turn = world.turn(i, askToRun(newId(), 'rm all'));
    await world.call(i, 'permission', { id: await world.untilRequest(i), approved: false, reason: 'Too much' });
    await turn;
  },

  'answer a form': async (world, i) => {
    const turn = world.turn(i, [{ elicit: { message: 'Sure?', requestedSchema: { properties: { sure: { type: 'boolean' } } } } }]);
    await world.call(i, 'permission', { id: await world.untilRequest(i), approved: true, answers: { sure: ['true'] } });
    await turn;
  },

  'change the queue, send a message into the turn, and abort': async (world, i) => {
    const { hub } = world;
    const sid = world.id(i);
    const first = world.post(i, [text('I work.', newId()), { wait: 10_000_000 }]);
    const waiting = ['one', 'two', 'three', 'four'].map((word) => world.post(i, word).seq);
    await hub.waitUntil(() => hub.sessions.get(sid).agentState.queuedMessages?.length === 4, 'the queue');
    await world.call(i, 'queue', { action: 'edit', seq: waiting[0], text: 'edited' });
    await world.call(i, 'queue', { action: 'cancel', seq: waiting[1] });
    await world.call(i, 'queue', { action: 'order', seqs: [waiting[3], waiting[2]] });
    await world.call(i, 'queue', { action: 'send', seq: waiting[2] });
    await hub.abort(sid);
    await world.untilReady(sid, first);
  },

  'lose the agent in a turn': async (world, i) => {
    await world.turn(i, [...askToRun(newId(), 'make').slice(0, 1), { child: 1000 }, { crash: 'out of memory' }]);
    await world.turn(i, 'Go on.');
  },

  'restart the bridge': async (world, i) => {
    await world.restart(i);
    await world.turn(i, WORK());
  },

  fork: (world, i) => world.fork(i),

  'change the mode and an option': async (world, i) => {
    for (const permissionMode of ['acceptEdits', 'default']) await world.call(i, 'set-session-config', { permissionMode });
    for (const value of ['high', 'low']) await world.call(i, 'set-session-option', { id: 'effort', value });
    await world.turn(i, WORK());
  },

  'write much': (world, i) => {
    const messageId = newId();
    // A paragraph that is stored in several messages.
    const lines = Array.from({ length: 10 }, () => text(`${'long '.repeat(200)}\n`.repeat(10), messageId));
    return world.turn(i, [{ flood: 30 }, ...lines]);
  },

  'attach a file': async (world, i) => {
    const { path } = await world.call(i, 'uploadFile', { filename: 'notes.txt', content: btoa('notes'), mimeType: 'text/plain' });
    await world.turn(i, 'Read it.', [{ path, filename: 'notes.txt', mimeType: 'text/plain' }]);
    await world.call(i, 'deleteUploadFile', { path });
  },

  'lose the connection in a turn': async (world, i) => {
    const turn = world.turn(i, [...WORK(), { wait: 300 }, ...WORK()]);
    world.hub.cutConnections();
    await turn;
  },
};

const MINUTE_MS = 60_000;

/**
 * What happens to all sessions at once.
 * @type {Record<string, (world: import('./world.mjs').World) => Promise<unknown> | void>}
 */
export const FAULTS = {
  nothing() {},

  'all agents are killed': async ({ agents, clock }) => {
    const ended = Promise.all(agents.map((agent) => once(agent, 'close')));
    for (const agent of agents) agent.kill('SIGKILL');
    await clock.follow(ended);
  },

  'the hub is away': async ({ hub, clock }) => {
    hub.outageStatus = 503;
    hub.cutConnections();
    await clock.advance(5 * MINUTE_MS);
    hub.outageStatus = undefined;
    hub.cutConnections();
    await clock.advance(MINUTE_MS);
  },

  'the computer sleeps': ({ clock }) => clock.sleep(30 * MINUTE_MS),

  'the sessions of the agents are listed': ({ clock, hub, apps }) =>
    clock.follow(hub.call(apps[0].machine.id, 'listAgentSessions', { agent: 'claude' })),
};
