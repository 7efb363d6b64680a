/** The machine of a CLI. */

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { Machine } from '../src/machine.mjs';

/** Opens a machine. `known`: the machine as the hub has it. Returns the warnings. */
async function open(known) {
  const warnings = [];
  await Machine.open(
    /** @type {any} */ ({
      hub: 'http://127.0.0.1:1',
      token: 't',
      // The answer already has the new metadata.
      client: { findMachine: async () => known, openMachine: async (body) => ({ ...body, metadataVersion: 2, runnerStateVersion: 2 }) },
      outage: Object.assign(new EventEmitter(), { callWithRetry: (_, call) => call() }),
      log: { warn: (text) => warnings.push(text), debug: () => {} },
      program: { version: '1' },
      root: '/code',
      machineId: 'm',
      store: { installationId: 'one' },
      spawner: { directories: ['/code'] },
    }),
  );
  return warnings;
}

test('a machine id that another installation serves, such as on a second computer, is reported', async () => {
  const other = { host: 'desktop', installationId: 'two' };
  assert.deepEqual(await open({ active: true, metadata: other }), [
    'Another installation, on desktop, also serves machine m: the hub starts sessions on either. Give each its own --machine-id.',
  ]);
  for (const machine of [
    { active: false, metadata: other },
    { active: true, metadata: { host: 'laptop', installationId: 'one' } },
    { active: true, metadata: { host: 'laptop' } },
    { active: false, metadata: null },
    null,
  ])
    assert.deepEqual(await open(machine), [], JSON.stringify(machine));
});
