/** The hub of the tests of invalid input. */

import assert from 'node:assert/strict';
import { after, afterEach } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { startHub } from './hub.mjs';
import { Lifetime } from './lifetime.mjs';

/** Starts a hub with one session and one machine, and checks after every test that the hub has changed nothing. */
export async function startUnchangedHub() {
  const hub = await startHub({ after });
  const suite = new Lifetime();
  const web = hub.web('team');
  const { session, cli } = await liveSession(suite, hub, { namespace: 'team', tag: 'bad-input', auth: { machineId: 'm' } });
  after(() => suite.end());
  await web.registerMachine({ id: 'm' });

  afterEach(async () => {
    assert.deepEqual(await cli.emitWithAck('ping', {}), { ok: true }, 'the CLI’s socket works');
    const { status, body } = await web.get(`/api/sessions/${session.id}`);
    assert.equal(status, 200);
    assert.deepEqual([body.session.seq, body.session.metadataVersion, body.session.agentStateVersion], [0, 1, 1]);
    assert.deepEqual(pluck((await web.get('/api/sessions')).body.sessions, 'id'), [session.id]);
  });

  return { hub, web, session, cli };
}
