// The modes, models and agents that can be chosen.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Choice } from '../src/api/types.ts';
import {
  acceptEditsMode,
  agentLabel,
  agents,
  allowsNeverAsking,
  agentsOn,
  currentModel,
  defaultAgent,
  modeLabel,
  modelsOf,
  modesOf,
  optionsOf,
} from '../src/state/catalog.ts';
import { isEffort } from '../src/content/agent-options.ts';
import { state } from '../src/state/store.ts';
import { EMPTY_STATE } from '../src/state/types.ts';
import { pluck } from './support/pluck.ts';

const choice = (id: string, label = id): Choice => ({ id, label });
const CONFIG = {
  version: '1',
  agents: [
    { id: 'zeta', kind: 'beta' as const, label: 'Zeta', modes: [choice('default', 'Ask'), choice('yolo', 'Auto')], models: [] },
    {
      id: 'eta',
      kind: 'alpha' as const,
      label: 'Eta',
      modes: [choice('default', 'Ask'), { ...choice('edits', 'Edits'), acceptsEdits: true }],
      models: [choice('default'), choice('swift', 'Swift')],
    },
  ],
  defaultAgent: 'eta',
  forbiddenModes: '',
  limits: { uploadBytes: 10, messageBytes: 10 },
  push: { available: true },
};
const ids = (choices: Choice[]) => choices.map(({ id }) => id);

before(() => {
  state.value = { ...EMPTY_STATE, config: CONFIG };
});

test('a session has the modes and models of its agent, which its flavor names by `id` or by `kind`', () => {
  for (const flavor of ['eta', 'alpha', null, undefined]) {
    assert.deepEqual(
      [ids(modesOf({ flavor })), ids(modelsOf({ flavor }))],
      [
        ['default', 'edits'],
        ['default', 'swift'],
      ],
      String(flavor),
    );
  }
  for (const flavor of ['zeta', 'beta'])
    assert.deepEqual([ids(modesOf({ flavor })), modelsOf({ flavor })], [['default', 'yolo'], []], flavor);
  assert.deepEqual(ids(modesOf(null)), ['default', 'edits']);
  for (const flavor of ['epsilon', 'constructor', 5]) assert.deepEqual(modesOf({ flavor }), [], String(flavor));
});

test('a session offers its own modes and models instead of those of its agent', () => {
  const modes = [
    { id: 'build', name: 'Build', description: 'Builds' },
    { id: 'yolo', name: 'Free', neverAsks: true },
    { name: 'no id' },
    'plan',
    { id: 'bare', name: 7, neverAsks: 'yes' },
  ];
  assert.deepEqual(modesOf({ flavor: 'zeta', modes }), [
    { id: 'build', label: 'Build', description: 'Builds' },
    { id: 'yolo', label: 'Free', neverAsks: true },
    choice('bare'),
  ]);
  assert.deepEqual(modelsOf({ flavor: 'eta', models: [{ id: 'acme/large', name: 'Large' }] }), [choice('acme/large', 'Large')]);
  for (const own of [[], 'acme', undefined, [{ name: 'no id' }]]) {
    assert.deepEqual(
      [ids(modesOf({ flavor: 'eta', modes: own })), ids(modelsOf({ flavor: 'eta', models: own }))],
      [
        ['default', 'edits'],
        ['default', 'swift'],
      ],
    );
  }
});

test('a mode that the deployment forbids is not offered, even if a session lists the mode', () => {
  const modes = [{ id: 'build' }, { id: 'turbo' }, { id: 'bypassPermissions' }];
  assert.equal(allowsNeverAsking.value, true);
  state.value = { ...EMPTY_STATE, config: { ...CONFIG, forbiddenModes: 'turbo,bypassPermissions' } };
  assert.deepEqual([ids(modesOf({ flavor: 'zeta', modes })), allowsNeverAsking.value], [['build'], false]);
  state.value = { ...EMPTY_STATE, config: CONFIG };
});

test('a machine offers its own list of agents, or else the agents of the deployment', () => {
  const listed = [{ id: 'own', name: 'Own', flavor: 'alpha' }, { id: 'zeta' }, { id: 'other', flavor: 7 }, { name: 'no id' }, 'zeta'];
  const offers = agentsOn({ metadata: { agents: listed } as never });
  assert.deepEqual(
    offers.map(({ id, label, models }) => [id, label, ids(models)]),
    [
      ['own', 'Own', ['default', 'swift']],
      // The machine has no label for this agent, and the deployment has one.
      ['zeta', 'Zeta', []],
      ['other', 'other', []],
    ],
  );
  assert.deepEqual(agentsOn({ metadata: { agents: [] } }), []);
  for (const metadata of [null, {}, { agents: 'all' as never }]) assert.equal(agentsOn({ metadata }), agents.value);
  assert.equal(agentsOn(undefined), agents.value);
});

test('the model is the last reported model, or else the model of the metadata', () => {
  assert.equal(currentModel({ metadata: { currentModel: 'acme/large' }, modelMode: 'swift' }), 'swift');
  assert.equal(currentModel({ metadata: { currentModel: 'acme/large' } }), 'acme/large');
  for (const metadata of [{ currentModel: 5 }, {}, null]) assert.equal(currentModel({ metadata }), 'default');
});

test('the label of a mode is from the session’s agent, or else from the configuration', () => {
  const labelIn = (metadata: object | null) => (mode: string) => modeLabel(mode, metadata);
  assert.deepEqual(['edits', 'toString'].map(labelIn(null)), ['Edits', 'toString']);
  assert.deepEqual(
    ['edits', 'yolo', 'default'].map(labelIn({ flavor: 'zeta', modes: [{ id: 'edits', name: 'Own edits' }, { id: 'default' }] })),
    ['Own edits', 'Auto', 'default'],
  );
});

test('the configuration marks the mode that accepts edits, also for modes that a session lists', () => {
  assert.deepEqual([acceptEditsMode({ flavor: 'eta' })?.label, acceptEditsMode({ flavor: 'zeta' })], ['Edits', undefined]);
  assert.equal(
    acceptEditsMode({ flavor: 'theta', modes: [{ id: 'acceptEdits' }, { id: 'edits', name: 'Own edits' }] })?.label,
    'Own edits',
  );
});

test('the default agent is that of the configuration, if the deployment offers this agent', () => {
  assert.equal(defaultAgent.value?.label, 'Eta');
  state.value = { ...EMPTY_STATE, config: { ...CONFIG, defaultAgent: 'alpha', agents: CONFIG.agents.slice(0, 1) } };
  assert.deepEqual([defaultAgent.value, modesOf(null)], [undefined, []]);
});

test('nothing is offered before the configuration is loaded', () => {
  state.value = EMPTY_STATE;
  assert.deepEqual([agents.value, defaultAgent.value, modesOf({ flavor: 'alpha' }), modelsOf(null)], [[], undefined, [], []]);
});

test('an agent has its own name, the name on its machine, or the name of the deployment', () => {
  const agents = [
    { id: 'claude', name: 'Claude Code', flavor: 'alpha' },
    { id: 'gemini', name: 'Gemini CLI', flavor: 'delta' },
    { id: 'qwen', name: 'Qwen Code', flavor: 'delta' },
  ];
  state.value = { ...EMPTY_STATE, config: CONFIG, machines: { m: { id: 'm', metadata: { agents } } as never } };
  assert.equal(agentLabel({ flavor: 'alpha', agentName: 'My agent', machineId: 'm' }), 'My agent');
  assert.equal(agentLabel({ flavor: 'alpha', machineId: 'm' }), 'Claude Code');
  assert.equal(agentLabel({ flavor: 'alpha', machineId: 'constructor' }), 'Eta');
  assert.equal(agentLabel({ flavor: 'zeta' }), 'Zeta');
  // Two agents of the machine have this flavor, and no agent of the deployment has it.
  assert.equal(agentLabel({ flavor: 'delta', machineId: 'm' }), 'Delta');
  assert.deepEqual([agentLabel({ flavor: null }), agentLabel(null), agentLabel({ flavor: '' })], [undefined, undefined, undefined]);
});

test('invalid options of an agent, and repeated ids, are left out', () => {
  const effort = {
    id: 'effort',
    name: 'Effort',
    category: 'thought_level',
    type: 'select',
    value: 'low',
    choices: [{ id: 'low', name: 'Low' }, 4],
  };
  const fast = { id: 'fast', value: false };
  const invalid = [
    null,
    'x',
    { id: 4, value: true },
    { id: 'a' },
    { id: 'b', value: 3 },
    { id: 'c', value: 'x', choices: [] },
    { ...fast, value: true },
  ];
  const options = optionsOf({ options: [effort, fast, ...invalid] });
  assert.deepEqual(options, [
    { id: 'effort', label: 'Effort', category: 'thought_level', value: 'low', choices: [{ id: 'low', label: 'Low' }] },
    { id: 'fast', label: 'fast', value: false, choices: [] },
  ]);
  assert.deepEqual(options.map(isEffort), [true, false]);
  for (const value of [undefined, null, 'x', {}]) assert.deepEqual(optionsOf({ options: value }), []);
});

test('a machine’s agent has the models and options that it last offered', () => {
  const models = [{ id: 'opus', name: 'Opus' }];
  const metadata = {
    agents: [
      { id: 'a', models, options: [{ id: 'fast', value: true }] },
      { id: 'b', models: 'x', options: 'y' },
    ],
  };
  const offers = agentsOn({ metadata } as unknown as Parameters<typeof agentsOn>[0]);
  assert.deepEqual(pluck(offers, 'models', 'options'), [
    [[{ id: 'opus', label: 'Opus' }], [{ id: 'fast', label: 'fast', value: true, choices: [] }]],
    [[], []],
  ]);
});
