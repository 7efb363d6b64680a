/** Machines over REST and from CLIs: register, list, update by version. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { assertRefused } from './lib/assertions.mjs';
import { connectCli } from '../../scripts/lib/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

describe('machines', () => {
  test('are registered, updated by version, and listed while they are online', async (t) => {
    const web = hub.web('machines');
    const metadata = { host: 'box', platform: 'linux', displayName: 'The box', future: [1] };
    const machine = await web.registerMachine({ id: 'm-1', metadata, runnerState: { status: 'running' } });
    assert.deepEqual([machine.id, machine.namespace, machine.active], ['m-1', 'machines', false]);
    assert.deepEqual([machine.metadataVersion, machine.runnerStateVersion], [1, 1]);
    assert.deepEqual([machine.metadata, machine.runnerState], [metadata, { status: 'running' }]);
    assert.deepEqual((await web.get('/api/machines')).body, { machines: [] }, 'the machine is not online yet');
    assert.deepEqual((await web.get('/cli/machines/m-1')).body.machine.metadata, metadata);

    const cli = await connectCli(t, hub, { namespace: 'machines', auth: { machineId: 'm-1' } });
    const second = await connectCli(t, hub, { namespace: 'machines', auth: { machineId: 'm-1' } });
    await cli.emitWithAck('machine-alive', { machineId: 'm-1', time: Date.now() });
    await web.registerMachine({ id: 'm-2' });
    await cli.emitWithAck('machine-alive', { machineId: 'm-2', time: Date.now() });
    const online = (await web.get('/api/machines')).body.machines;
    assert.deepEqual(
      online.map(({ id }) => id),
      ['m-2', 'm-1'],
      'the last active one first',
    );
    for (const field of ['seq', 'createdAt', 'updatedAt', 'activeAt']) assert.equal(typeof online[0][field], 'number', field);

    for (const [name, field, value] of /** @type {any[]} */ ([
      ['machine-update-metadata', 'metadata', { ...metadata, displayName: 'Renamed' }],
      ['machine-update-state', 'runnerState', { status: 'busy' }],
    ])) {
      const sendUpdate = (expectedVersion) => cli.emitWithAck(name, { machineId: 'm-1', expectedVersion, [field]: value });
      assert.deepEqual(await sendUpdate(1), { result: 'success', version: 2, [field]: value });
      assert.deepEqual(await sendUpdate(1), { result: 'version-mismatch', version: 2, [field]: value });
      const received = await second.nextUpdate('update-machine');
      assert.deepEqual([received.machineId, received[field]], ['m-1', { version: 2, value }]);
      const stored = (await web.get('/cli/machines/m-1')).body.machine;
      assert.deepEqual([stored[field], stored[`${field}Version`]], [value, 2]);
    }
  });

  test('require an id and metadata of the right types', async () => {
    const web = hub.web('machines');
    for (const [body, field] of /** @type {any[]} */ ([
      [{ metadata: {} }, 'id'],
      [{ id: '', metadata: {} }, 'id'],
      [{ id: 'm', metadata: 5 }, 'metadata'],
      [{ id: 'm' }, 'metadata'],
    ])) {
      assertRefused(await web.post('/cli/machines', body), 400, 'invalid_field', field);
    }
    assertRefused(await web.get('/cli/machines/unknown'), 404, 'machine_not_found');
  });
});
