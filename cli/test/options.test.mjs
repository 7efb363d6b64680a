/** The options of an agent other than its mode and its model: effort, switches and others. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toOptions } from '../src/options.mjs';
import { program } from '../src/program.mjs';
import { setUp } from './support/setup.mjs';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';

const choices = (...ids) => ids.map((id) => ({ value: id, name: id.toUpperCase() }));
const effort = (currentValue = 'low') => ({
  id: 'effort',
  name: 'Effort',
  description: 'How long the model thinks',
  category: 'thought_level',
  type: 'select',
  currentValue,
  options: choices('low', 'high', 'max'),
});
const fast = (currentValue = false) => ({ id: 'fast', name: 'Fast mode', category: 'model_config', type: 'boolean', currentValue });
const MODEL = { id: 'model', name: 'Model', category: 'model', type: 'select', currentValue: 'small', options: choices('small') };
const RESUMABLE = { agentCapabilities: { sessionCapabilities: { resume: {} } } };
const SCRIPT = { initialize: RESUMABLE, newSession: { configOptions: [MODEL, effort(), fast()] }, refusedValues: ['max'] };

const optionsOf = (hub, { id }) =>
  Object.fromEntries((hub.sessions.get(id).metadata.options ?? []).map((option) => [option.id, option.value]));
const set = (hub, { id }, params) => hub.call(id, 'set-session-option', params);

test('the options of the agent, without its mode and its model, are in the session’s metadata', async (t) => {
  const { hub, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const { options } = await hub.waitUntil(() => hub.sessions.get(session.id).metadata.options && hub.sessions.get(session.id).metadata);
  assert.deepEqual(options, [
    {
      id: 'effort',
      name: 'Effort',
      description: 'How long the model thinks',
      category: 'thought_level',
      type: 'select',
      value: 'low',
      choices: ['low', 'high', 'max'].map((id) => ({ id, name: id.toUpperCase() })),
    },
    { id: 'fast', name: 'Fast mode', category: 'model_config', type: 'boolean', value: false },
  ]);
});

test('an option is set at the agent, and the answer to an unknown or refused value has the agent’s reason', async (t) => {
  const { hub, calls, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  assert.deepEqual(await set(hub, session, { id: 'effort', value: 'high' }), { success: true });
  assert.deepEqual(await set(hub, session, { id: 'fast', value: true }), { success: true });
  assert.deepEqual(
    calls('session/set_config_option').map(({ configId, type, value }) => ({ configId, type, value })),
    [
      { configId: 'effort', type: undefined, value: 'high' },
      { configId: 'fast', type: 'boolean', value: true },
    ],
  );
  await hub.waitUntil(() => optionsOf(hub, session).fast === true, 'the options in the metadata');
  assert.deepEqual(optionsOf(hub, session), { effort: 'high', fast: true });
  const refused = async (params) => {
    const { success, error } = await set(hub, session, params);
    assert.equal(success, false);
    return error;
  };
  assert.equal(await refused({ id: 'effort', value: 'max' }), 'node refused Effort: Invalid value for effort: max');
  assert.equal(await refused({ id: 'speed', value: 'x' }), 'node has no option speed. Its options are: effort, fast.');
  assert.equal(await refused({ id: 'model', value: 'small' }), 'node has no option model. Its options are: effort, fast.');
  assert.equal(await refused({ id: 'fast', value: 'very' }), 'Fast mode is on or off: its value must be true or false.');
  assert.equal(await refused({ id: 'effort', value: 3 }), 'Effort is a choice: its value must be a text.');
  assert.equal(await refused({}), 'node has no option undefined. Its options are: effort, fast.');
  assert.deepEqual(optionsOf(hub, session), { effort: 'high', fast: true });
});

test('an agent that keeps its old value without an error has refused the value', async (t) => {
  // The scripted agent answers with the value that it has been sent, so a duplicate of the option keeps the old one.
  const stubborn = { ...effort(), id: 'fast' };
  const { hub, start } = await setUp(t, { newSession: { configOptions: [{ ...fast(), type: 'unknown' }, stubborn] } });
  const { session } = await start();
  const answer = await set(hub, session, { id: 'fast', value: 'high' });
  assert.deepEqual(answer, { success: false, error: 'node did not set Effort to high: it is low.' });
});

test('the options are set again after a restart of the bridge and of the agent, before the next prompt', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, SCRIPT);
  const first = await start();
  await set(hub, first.session, { id: 'effort', value: 'high' });
  await set(hub, first.session, { id: 'fast', value: true });
  await first.stop();
  const { session } = await start();
  await hub.waitUntil(() => optionsOf(hub, session).effort === 'high', 'the options after the restart of the bridge');
  assert.equal(calls('session/set_config_option').length, 4);
  prompt(session.id, [{ crash: 'out of memory' }]);
  await hub.untilReady(session.id, 1);
  prompt(session.id, [{ say: 'back' }]);
  await hub.untilReady(session.id, 2);
  const methods = calls().map(({ method }) => method);
  assert.deepEqual(methods.slice(-4), ['session/resume', 'session/set_config_option', 'session/set_config_option', 'session/prompt']);
  assert.deepEqual(optionsOf(hub, session), { effort: 'high', fast: true });
});

test('a value that the agent has changed itself is kept', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, SCRIPT);
  const first = await start();
  await set(hub, first.session, { id: 'effort', value: 'high' });
  prompt(first.session.id, [{ update: { sessionUpdate: 'config_option_update', configOptions: [MODEL, effort('max'), fast(true)] } }]);
  await hub.untilReady(first.session.id, 1);
  await hub.waitUntil(() => optionsOf(hub, first.session).effort === 'max', 'the agent’s value');
  await first.stop();
  const { session } = await start();
  await hub.waitUntil(() => hub.transcript(session.id).some((line) => line.startsWith('Not set')), 'the notice');
  // The agent refuses the value now, and the conversation says so. Fast mode was never chosen.
  const sent = calls('session/set_config_option').slice(1);
  assert.deepEqual(pluck(sent, 'configId', 'value'), [['effort', 'max']]);
  assert.equal(hub.transcript(session.id).at(-1), 'Not set: node refused Effort: Invalid value for effort: max');
});

test('a session starts with the options of its command line', async (t) => {
  const { hub, start } = await setUp(t, SCRIPT);
  const { options } = program.readArgs(['--option', 'effort=high', '--option=fast=true', '--option=a=b=c', '--', 'agent'], {});
  assert.deepEqual(options, { effort: 'high', fast: 'true', a: 'b=c' });
  assert.throws(() => program.readArgs(['--option', 'effort', '--', 'agent'], {}), { message: '--option must be ID=VALUE, not "effort".' });
  const first = await start({ options });
  await hub.waitUntil(() => optionsOf(hub, first.session).fast === true, 'the options');
  assert.deepEqual(optionsOf(hub, first.session), { effort: 'high', fast: true });
  assert.deepEqual(hub.transcript(first.session.id), ['Not set: node has no option a. Its options are: effort, fast.']);
  // A later choice of the user takes precedence.
  await set(hub, first.session, { id: 'effort', value: 'low' });
  await first.stop();
  const { session } = await start({ options });
  await hub.waitUntil(() => optionsOf(hub, session).fast === true, 'the options after the restart');
  assert.deepEqual(optionsOf(hub, session), { effort: 'low', fast: true });
  assert.equal(hub.transcript(session.id).length, 1);
});

test('a machine lists the models and options that its agent last offered', async (t) => {
  const { hub, start } = await setUp(t, SCRIPT);
  const first = await start({ machine: true });
  await set(hub, first.session, { id: 'effort', value: 'high' });
  await first.stop();
  const { machine } = await start({ machine: true });
  const listed = () => hub.machines.get(machine.id).metadata.agents?.[0].options;
  await hub.waitUntil(listed, 'the options of the agent');
  const [{ models, options }] = hub.machines.get(machine.id).metadata.agents;
  assert.deepEqual(models, [{ id: 'small', name: 'SMALL' }]);
  assert.deepEqual(pluck(options, 'id', 'value'), [
    ['effort', 'high'],
    ['fast', false],
  ]);
});

test('invalid options of an agent are left out, and long ones are cut', () => {
  const valid = { id: 'a', type: 'boolean', currentValue: true };
  const invalid = [null, 3, 'x', [], {}, { id: 'b' }, { ...valid, id: 7 }, { ...valid, id: 'x'.repeat(201) }, { ...valid, id: '\ud800' }];
  const wrongValues = [
    { ...valid, id: 'c', currentValue: 'yes' },
    { ...effort(), id: 'd', currentValue: false },
  ];
  const forbidden = { ...effort(), id: 'allow_all', category: 'permissions' };
  assert.deepEqual(toOptions([...invalid, ...wrongValues, forbidden, valid, { ...valid, currentValue: false }]), [
    { id: 'a', name: 'a', type: 'boolean', value: true },
  ]);
  for (const value of [undefined, null, 'x', {}]) assert.deepEqual(toOptions(value), []);
  const [grouped] = toOptions([
    {
      ...effort(),
      name: `${'n'.repeat(150)}\ud83d\ude00`,
      category: 5,
      options: [{ group: 'g', options: choices('low') }, null, { value: 4 }, 'x'],
    },
  ]);
  assert.deepEqual(grouped.choices, [{ id: 'low', name: 'LOW' }]);
  assert.ok(grouped.name.length <= 100 && grouped.name.isWellFormed());
  assert.equal(grouped.category, undefined);
  const many = toOptions(
    Array.from({ length: 100 }, (_, index) => ({ ...effort(), id: `o${index}`, options: choices(...Array(500).fill('y')) })),
  );
  assert.ok(many.length > 1 && many.length <= 50);
  assert.equal(many[0].choices.length, 300);
  assert.ok(Buffer.byteLength(JSON.stringify(many)) <= 100_002);
});

test('a sub-agent that is a session of its own does not change the session’s options, and is canceled with the turn', async (t) => {
  const { hub, calls, prompt, start } = await setUp(t, SCRIPT);
  const { session } = await start();
  const inside = { updateSessionId: 'child' };
  prompt(session.id, [
    { update: { sessionUpdate: 'subagent_update', sessionId: 'child', description: 'Look', capabilities: { cancel: {} } } },
    { update: { sessionUpdate: 'config_option_update', configOptions: [MODEL, effort('max')] }, ...inside },
    { update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'I look.' } }, ...inside },
    { wait: 60_000 },
  ]);
  const call = await hub.waitUntil(() => {
    const parts = hub.sessions.get(session.id).messages.map(({ content }) => content.content.data?.message?.content[0]);
    return parts.find((part) => part?.name === 'Agent');
  }, 'the call of the sub-agent');
  await hub.abort(session.id);
  await hub.untilReady(session.id, 1);
  assert.deepEqual(pluck(calls('session/cancel'), 'sessionId'), [session.state.agentId, 'child']);
  assert.equal(optionsOf(hub, session).effort, 'low');
  const texts = hub.sessions.get(session.id).messages.map(({ content }) => content.content.data);
  const [text] = texts.filter((data) => data?.message?.content[0].text === 'I look.');
  assert.equal(text.parent_tool_use_id, call.id);
});
