/** Modes, models, commands and titles. */

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { isRunning } from 'session-gateway-cli-kit/system-processes';
import { eventually } from '../../packages/cli-kit/test/support/wait.mjs';
import { AGENTS } from '../src/agents.mjs';
import { toAgentMode, toAgentModel, toOfferedModes, toPermissionMode } from '../src/settings.mjs';
import { askToRun, putScriptedAgent, setUp } from './support/setup.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';

const MODES = {
  currentModeId: 'ask',
  availableModes: [
    { id: 'ask', name: 'Ask' },
    { id: 'plan', name: 'Plan', description: 'Reads only' },
  ],
};
const modelOption = (currentValue = 'small') => ({
  id: 'model',
  category: 'model',
  type: 'select',
  currentValue,
  options: [
    {
      group: 'all',
      name: 'All',
      options: [
        { value: 'small', name: 'Small' },
        { value: 'large', name: 'Large' },
      ],
    },
  ],
});
const SCRIPT = { newSession: { modes: MODES, configOptions: [modelOption()] } };

test('the session metadata have the modes, the models and the id of the agent', async (t) => {
  const { hub, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const { metadata } = await hub.waitUntil(() => hub.sessions.get(session.id).metadata.modes && hub.sessions.get(session.id));
  const free = { id: 'yolo', name: 'Approve everything', description: 'Approves every request without asking', neverAsks: true };
  assert.deepEqual(metadata.modes, [{ id: 'ask', name: 'Ask' }, { id: 'plan', name: 'Plan', description: 'Reads only' }, free]);
  assert.deepEqual(metadata.models, [
    { id: 'small', name: 'Small' },
    { id: 'large', name: 'Large' },
  ]);
  assert.equal(metadata.currentModel, 'small');
  assert.match(metadata.alphaSessionId, /^scripted-/);
});

test('an agent whose own first mode lets a model approve is set to the mode that asks, after a start and after a resume', async (t) => {
  const modes = { currentModeId: 'auto', availableModes: ['default', 'auto'].map((id) => ({ id, name: id })) };
  const initialize = { agentCapabilities: { sessionCapabilities: { resume: {} } } };
  const { hub, calls, prompt, start } = await setUp(t, { newSession: { modes }, initialize });
  putScriptedAgent(t, 'claude-agent-acp');
  const startClaude = () => start({ command: undefined, agent: 'claude' });
  const first = await startClaude();
  prompt(first.session.id, [{ say: 'before' }]);
  await hub.untilReady(first.session.id, 1);
  assert.deepEqual(pluck(calls('session/set_mode'), 'modeId'), ['default']);
  await first.stop();
  const second = await startClaude();
  prompt(second.session.id, [{ say: 'after' }]);
  await hub.untilReady(second.session.id, 2);
  assert.equal(calls('session/resume').length, 1);
  const [, ...later] = calls('session/set_mode').map(({ modeId }) => modeId);
  assert.equal(later[0], 'default');
});

test('an agent that refuses the mode that asks does not start in its own first mode', async (t) => {
  const options = ['default', 'auto'].map((value) => ({ value, name: value }));
  const mode = { id: 'mode', category: 'mode', type: 'select', currentValue: 'auto', options };
  const { start } = await setUp(t, { newSession: { configOptions: [mode] }, refusedValues: ['default'] });
  putScriptedAgent(t, 'claude-agent-acp');
  const refusal = { message: 'Claude Code cannot open a session: Invalid value for mode: default' };
  await assert.rejects(start({ command: undefined, agent: 'claude' }), refusal);
});

test('a mode and a model of the agent are set, and any other is refused with the reason', async (t) => {
  const { hub, calls, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const configure = (params) => hub.call(session.id, 'set-session-config', params);
  assert.deepEqual(await configure({ permissionMode: 'plan' }), { success: true, applied: { permissionMode: 'plan' } });
  assert.equal(calls('session/set_mode').at(-1).modeId, 'plan');
  await hub.waitUntil(() => hub.sessions.get(session.id).permissionMode === 'plan', 'the keep-alive with the mode');
  assert.deepEqual(await configure({ modelMode: 'large' }), { success: true, applied: { modelMode: 'large' } });
  assert.equal(calls('session/set_config_option').at(-1).value, 'large');
  await hub.waitUntil(() => hub.sessions.get(session.id).metadata.currentModel === 'large', 'the model in the metadata');
  assert.deepEqual(await configure({ permissionMode: 'acceptEdits' }), {
    success: false,
    error: 'node has no mode acceptEdits. Its modes are: ask, plan.',
  });
  assert.deepEqual(await configure({ modelMode: 'huge' }), {
    success: false,
    error: 'node has no model huge. Its models are: small, large.',
  });
  assert.equal(hub.sessions.get(session.id).permissionMode, 'plan');
});

test('a prompt waits until the stored mode is set again', async (t) => {
  const { hub, calls, prompt, setScript, start } = await setUp(t, SCRIPT);
  const first = await start();
  await hub.call(first.session.id, 'set-session-config', { permissionMode: 'plan' });
  await first.stop();
  const initialize = { agentCapabilities: { sessionCapabilities: { resume: {} } } };
  setScript({ ...SCRIPT, initialize, setModeDelayMs: 300 });
  const { session } = await start({ agentStartTimeoutMs: 1 });
  prompt(session.id, [{ say: 'done' }]);
  await hub.untilReady(session.id, 1);
  const methods = calls().map(({ method }) => method);
  assert.deepEqual(methods.slice(-3), ['session/resume', 'session/set_mode', 'session/prompt']);
});

for (const how of ['the session ends', 'the agent ends']) {
  test(`if ${how} while the mode is set again, the mode and the model are kept, and no setting is reported as refused`, async (t) => {
    const { hub, calls, prompt, setScript, start, scriptHome, log } = await setUp(t, SCRIPT);
    const first = await start();
    await hub.call(first.session.id, 'set-session-config', { permissionMode: 'plan', modelMode: 'large' });
    await first.stop();
    const before = calls().length;
    const initialize = { agentCapabilities: { sessionCapabilities: { resume: {} } } };
    setScript({ ...SCRIPT, initialize, setModeDelayMs: 600_000, recordsWire: true });
    const second = await start({ agentStartTimeoutMs: 1 });
    const wires = () => readdirSync(scriptHome).filter((name) => name.startsWith('wire-'));
    const isSetting = (name) => readFileSync(path.join(scriptHome, name), 'utf8').includes('session/set_mode');
    await eventually(() => wires().some(isSetting), 'the request');
    const pid = Number(/wire-(\d+)/.exec(wires()[0])[1]);
    if (how === 'the agent ends') {
      process.kill(pid, 'SIGKILL');
      await eventually(() => log.warnings.some((line) => line.includes('node ended (ended by SIGKILL)')), 'the end of the agent');
    }
    await second.stop();
    assert.equal(isRunning(pid), false);
    setScript({ ...SCRIPT, initialize });
    const { session } = await start();
    prompt(session.id, [{ say: 'Back.' }]);
    await hub.untilReady(session.id, 1);
    const settings = calls()
      .slice(before)
      .filter(({ method }) => method.startsWith('session/set_'));
    assert.deepEqual(
      settings.map(({ params }) => params.modeId ?? params.value),
      ['plan', 'large'],
    );
    const [failure, ...said] = hub.transcript(session.id);
    if (how === 'the session ends') return assert.deepEqual([failure, ...said], ['Back.', '(ready)']);
    assert.match(failure, /^node did not start: ended by SIGKILL/);
    assert.deepEqual(said, ['Back.', '(ready)']);
  });
}

test('a mode in the answer to a request is set after the answer', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  prompt(session.id, askToRun('a', 'ls'));
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, mode: 'plan' });
  await hub.untilReady(session.id, 1);
  await hub.waitUntil(() => hub.sessions.get(session.id).permissionMode === 'plan', 'the mode');
  assert.equal(calls('session/set_mode').at(-1).modeId, 'plan');
  const methods = calls().map(({ method }) => method);
  assert.deepEqual(methods.slice(-2), ['answer', 'session/set_mode']);
});

test('a change of the mode by the agent, its title and its commands are published', async (t) => {
  const { hub, prompt, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const commands = [{ name: 'review', description: 'Reads a change', _meta: { large: 'x' } }];
  prompt(session.id, [
    { update: { sessionUpdate: 'current_mode_update', currentModeId: 'plan' } },
    { update: { sessionUpdate: 'session_info_update', title: 'Fix the build' } },
    { update: { sessionUpdate: 'available_commands_update', availableCommands: commands } },
  ]);
  await hub.untilReady(session.id, 1);
  const stored = hub.sessions.get(session.id);
  await hub.waitUntil(() => stored.permissionMode === 'plan' && stored.metadata.slashCommands && stored.metadata.summary);
  assert.equal(stored.metadata.summary.text, 'Fix the build');
  assert.deepEqual(stored.metadata.slashCommands, ['review']);
  const listed = [{ name: 'review', description: 'Reads a change' }];
  assert.deepEqual(await hub.call(session.id, 'listSlashCommands'), { success: true, commands: listed });
});

test('the usage of a turn is published at the end of the turn', async (t) => {
  const { hub, prompt, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const stored = hub.sessions.get(session.id);
  const usage = (used, more) => ({ update: { sessionUpdate: 'usage_update', used, size: 1000, ...more } });
  const cost = { amount: 0.02, currency: 'USD' };
  prompt(session.id, [usage(5), { wait: 50 }, { say: 'half' }, usage(7, { cost }), { wait: 60_000 }]);
  await hub.waitUntil(() => stored.deltas?.length > 0, 'live text');
  assert.equal(stored.metadata.usage, undefined);
  await hub.abort(session.id);
  await hub.waitUntil(() => stored.metadata.usage, 'the usage');
  assert.deepEqual(stored.metadata.usage, { used: 7, size: 1000, cost });
});

test('modes that the hub knows are published under the hub’s names', async (t) => {
  const availableModes = ['default', 'autoEdit', 'yolo', 'plan', 'other'].map((id) => ({ id, name: `Mode ${id}` }));
  const { hub, start } = await setUp(t, { newSession: { modes: { currentModeId: 'default', availableModes } } });
  putScriptedAgent(t, 'gemini');
  const { session } = await start({ command: undefined, agent: 'gemini', flavor: 'delta' });
  const { modes } = await hub.waitUntil(() => hub.sessions.get(session.id).metadata.modes && hub.sessions.get(session.id).metadata);
  assert.deepEqual(pluck(modes, 'id', 'name'), [
    ['default', 'Mode default'],
    ['safe-yolo', 'Mode autoEdit'],
    ['yolo', 'Approve everything'],
    ['read-only', 'Mode plan'],
    ['other', 'Mode other'],
  ]);
});

test('the mode that never asks has the same name for each agent, and its description has the agent’s own name', () => {
  const neverAsking = (name, modes) => toOfferedModes(modes, AGENTS[name]).filter(({ neverAsks }) => neverAsks);
  const mode = (id, own = '') => ({
    id,
    name: 'Approve everything',
    description: `Approves every request without asking${own}`,
    neverAsks: true,
  });
  assert.deepEqual(neverAsking('codex', [{ id: 'agent-full-access', name: 'Full access', description: 'Unrestricted' }]), [
    mode('yolo', ' (Full access)'),
  ]);
  // The bridge approves requests for agents without a mode that never asks, and for agents that do not offer the mode to every user.
  assert.deepEqual(neverAsking('copilot', [{ id: 'x', name: 'Agent' }]), [mode('yolo')]);
  assert.deepEqual(neverAsking('claude', [{ id: 'default', name: 'Manual' }]), [mode('bypassPermissions')]);
  assert.deepEqual(neverAsking('claude', [{ id: 'bypassPermissions', name: 'Bypass' }]), [mode('bypassPermissions', ' (Bypass)')]);
  // In this mode, the agent's classifier approves safe calls.
  assert.deepEqual(toOfferedModes([{ id: 'auto', name: 'Auto' }], AGENTS.claude)[0], { id: 'auto', name: 'Auto' });
});

test('an agent without modes has the modes of the bridge', async (t) => {
  const { hub, calls, prompt, untilRequest, start } = await setUp(t);
  const { session } = await start();
  const { modes } = await hub.waitUntil(() => hub.sessions.get(session.id).metadata.modes && hub.sessions.get(session.id).metadata);
  assert.deepEqual(pluck(modes, 'id'), ['default', 'yolo']);
  await hub.call(session.id, 'set-session-config', { permissionMode: 'yolo' });
  prompt(session.id, askToRun('a', 'ls'));
  await hub.untilReady(session.id, 1);
  await hub.call(session.id, 'set-session-config', { permissionMode: 'default' });
  prompt(session.id, askToRun('b', 'ls'));
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: false });
  await hub.untilReady(session.id, 2);
  assert.deepEqual(pluck(calls('answer'), 'outcome.optionId'), ['yes', 'no']);
});

test('Claude Code is started without the permission to skip requests if it would refuse to start', () => {
  const { sessionMeta } = AGENTS.claude;
  const optionsOf = (env, uid) => sessionMeta(env, uid).claudeCode.options;
  const without = { allowDangerouslySkipPermissions: false };
  for (const env of [{}, { IS_SANDBOX: 'yes' }, { IS_SANDBOX: '' }]) assert.deepEqual(optionsOf(env, 0), without, JSON.stringify(env));
  assert.equal(optionsOf({ IS_SANDBOX: '1' }, 0), undefined);
  for (const uid of [1000, undefined]) assert.equal(optionsOf({}, uid), undefined);
});

test('the permission modes of the hub map to the permission modes of each agent', () => {
  const launch = (name) => ({ title: name, entry: AGENTS[name] });
  const modes = (...ids) => ids.map((id) => ({ id, name: id }));
  const byAgent = { modeId: 'yolo', approvesAll: false };
  assert.deepEqual(toAgentMode('yolo', launch('gemini'), modes('default', 'yolo')), byAgent);
  assert.deepEqual(toAgentMode('read-only', launch('qwen'), modes('default', 'plan')), { modeId: 'plan', approvesAll: false });
  // As root, Claude does not offer its mode without permissions.
  assert.deepEqual(toAgentMode('bypassPermissions', launch('claude'), modes('default')), { modeId: 'default', approvesAll: true });
  assert.deepEqual(toAgentMode('yolo', launch('opencode'), modes('build', 'plan')), { modeId: 'build', approvesAll: true });
  assert.deepEqual(toAgentMode('yolo', launch('unknown'), modes('x')), { modeId: null, approvesAll: true });
  assert.throws(() => toAgentMode('ask', launch('copilot'), modes('x')), /copilot has no mode ask\. Its modes are: x\./);
  assert.equal(toPermissionMode('autoEdit', AGENTS.gemini), 'safe-yolo');
  assert.equal(toPermissionMode('auto', AGENTS.claude), 'auto');
  assert.equal(toAgentModel('model_fast', launch('claude'), modes('haiku', 'opus'), 'opus'), 'haiku');
  assert.equal(toAgentModel('default', launch('claude'), modes('haiku', 'opus'), 'opus'), 'opus');
});

test('a mode that the user selects with the approval of a plan is set after the agent’s own mode, and applies to requests meanwhile', async (t) => {
  const script = {
    newSession: { modes: { currentModeId: 'plan', availableModes: ['default', 'acceptEdits', 'plan'].map((id) => ({ id, name: id })) } },
    setModeDelayMs: 200,
  };
  const { hub, dir, calls, prompt, untilRequest, start } = await setUp(t, script);
  const { session } = await start();
  const plan = { toolCallId: 'p', title: 'Plan', kind: 'switch_mode', rawInput: { plan: '# Plan' } };
  const file = `${dir}/a.txt`;
  const edit = { toolCallId: 'e', title: 'Edit', kind: 'edit', content: [{ type: 'diff', path: file, oldText: 'a', newText: 'b' }] };
  const ask = (toolCall) => ({ ask: { ...askToRun('x', 'ls')[1].ask, toolCall } });
  const report = { update: { sessionUpdate: 'current_mode_update', currentModeId: 'default' } };
  prompt(session.id, [ask(plan), { wait: 100 }, report, ask(edit), ...askToRun('c', 'ls')]);
  await hub.call(session.id, 'permission', { id: await untilRequest(session.id), approved: true, mode: 'acceptEdits' });
  assert.equal(await hub.waitUntil(() => hub.pendingRequest(session.id), 'the request of the command'), 'c');
  const { completedRequests } = hub.sessions.get(session.id).agentState;
  await hub.call(session.id, 'permission', { id: 'c', approved: false });
  await hub.untilReady(session.id, 1);
  assert.deepEqual(completedRequests.e.approvedBy, { kind: 'mode', label: 'Accept edits' });
  assert.equal(calls('session/set_mode').at(-1).modeId, 'acceptEdits');
  await hub.waitUntil(() => hub.sessions.get(session.id).permissionMode === 'acceptEdits', 'the mode');
});
