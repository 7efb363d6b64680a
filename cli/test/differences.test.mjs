/** What each of the six agents cannot do, and what the bridge says instead. The scripted agent has the capabilities of each agent. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AGENTS } from '../src/agents.mjs';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { EFFORT } from './support/effort.mjs';
import { putScriptedAgent, setUp } from './support/setup.mjs';

/**
 * @type {Record<string, {lists?: boolean, steers?: boolean, forks?: boolean, movesForks?: boolean, hasEffort?: boolean}>} what the agents'
 *   own answers to `initialize` and `session/new` offer, and `movesForks`: whether a fork may work in another directory than its original.
 *   `npm run test:agents` shows the same with the agents themselves
 */
const ABILITIES = {
  claude: { lists: true, steers: true, forks: true, movesForks: true, hasEffort: true },
  codex: { lists: true, steers: true, forks: true, movesForks: true, hasEffort: true },
  copilot: { lists: true },
  gemini: {},
  opencode: { lists: true, forks: true, hasEffort: true },
  qwen: { lists: true },
};

test('the table has all agents', () => assert.deepEqual(Object.keys(ABILITIES), Object.keys(AGENTS)));

for (const [name, { lists, steers, forks, movesForks, hasEffort }] of Object.entries(ABILITIES)) {
  const { title, flavor, command: program, terminal } = AGENTS[name];
  test(`${title} does what it can, and says what it cannot`, async (t) => {
    const sessionCapabilities = { resume: {}, close: {}, ...(lists && { list: {} }), ...(forks && { fork: {} }) };
    const { hub, prompt, start } = await setUp(t, {
      initialize: { agentCapabilities: { loadSession: true, sessionCapabilities }, _meta: { steering: { supported: steers === true } } },
      newSession: { configOptions: hasEffort ? [EFFORT] : [] },
      sessions: [[]],
    });
    putScriptedAgent(t, program);
    const choice = { command: undefined, agent: name, flavor };
    const app = await start({ ...choice, machine: true });
    const sid = app.session.id;
    const stored = hub.sessions.get(sid);

    const listed = await hub.call(app.machine.id, 'listAgentSessions', { agent: name });
    if (lists) assert.equal(listed.success, true, listed.error);
    else assert.match(listed.error, new RegExp(`^${title} does not list its sessions\\. To import one by its id, run `));

    const set = await hub.call(sid, 'set-session-option', { id: 'effort', value: 'high' });
    assert.deepEqual(set, hasEffort ? { success: true } : { success: false, error: `${title} has no option effort. It has no options.` });

    prompt(sid, [{ say: 'First.' }]);
    await hub.untilReady(sid, 1);
    const agentId = stored.metadata[`${flavor}SessionId`];
    const shown = [terminal.command, ...terminal.args(agentId)].join(' ');
    await hub.waitUntil(() => stored.metadata.terminalCommand?.endsWith(` && ${shown}`), 'the command of the terminal program');

    prompt(sid, [{ wait: 60_000 }]);
    await hub.waitUntil(() => stored.thinking, 'the turn');
    const { seq } = prompt(sid, [{ say: 'Second.' }]);
    await hub.waitUntil(() => stored.agentState.queuedMessages?.includes(seq), 'the queue');
    assert.equal(stored.agentState.queue.steers, steers === true);
    await hub.call(sid, 'queue', { action: 'send', seq });
    const stopped = '(message: Stopped, because another message is sent now.)';
    if (steers) await hub.abort(sid);
    await hub.untilReady(sid, steers ? 2 : 3);
    assert.equal(hub.transcript(sid).includes(stopped), !steers);

    const fork = { sessionId: sid, seq: stored.messages.length + 1 };
    const untilForkNotice = async (options) => {
      const { session } = await start({ ...choice, ...options, fork });
      return hub.waitUntil(() => hub.transcript(session.id).find((line) => line.startsWith('This is a fork')), 'the notice');
    };
    const remembers = `This is a fork: ${title} remembers the conversation above.`;
    const forgets = (reason) => `This is a fork. ${title} does not remember the conversation above: ${reason}.`;
    const notice = await untilForkNotice({ tag: 'fork' });
    const sentence = forks ? remembers : forgets('it cannot fork sessions');
    assert.ok(notice.startsWith(sentence), notice);
    const movedNotice = await untilForkNotice({ tag: 'moved', dir: tempDir(t) });
    const staysThere = forks && !movesForks;
    assert.ok(movedNotice.startsWith(staysThere ? forgets('it can fork a session only in the same directory') : sentence), movedNotice);
  });
}
