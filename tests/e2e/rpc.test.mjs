/** RPC calls from web clients to a CLI. tests/it/rpc.rs has all cases of calls, examples.test.mjs calls the methods of the kit. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { withTimeout } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

describe('a call', () => {
  for (const [how, disconnect] of Object.entries({ closes: (cli) => cli.close(), 'is terminated': (cli) => cli.terminate() })) {
    for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
      test(`fails at once when its socket ${how} (token by ${tokenIn})`, async (t) => {
        const { session, cli } = await liveSession(t, hub, { namespace: 'closing', tag: `${how} ${tokenIn}`, tokenIn });
        await cli.serve('listSkills', () => {
          disconnect(cli);
          return new Promise(() => {});
        });
        // Long before the timeout of 30 s.
        const { status, body } = await withTimeout(hub.web('closing').get(`/api/sessions/${session.id}/skills`), 'the call to fail');
        assert.deepEqual([status, body.success], [200, false]);
        assert.doesNotMatch(body.error, /timed out/);
      });
    }
  }

  test('returns results of several megabytes', async (t) => {
    for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
      const { session, cli } = await liveSession(t, hub, { namespace: 'large', tag: `large ${tokenIn}`, tokenIn });
      for (const megabytes of [1, 10]) {
        const content = `${'x'.repeat(megabytes * 1024 * 1024 - 8)}"\\\n€`;
        await cli.serve('readFile', () => ({ success: true, content }));
        const { status, body } = await hub.web('large').get(`/api/sessions/${session.id}/file?path=large.txt`);
        assert.deepEqual([status, body.success, body.content === content], [200, true, true], `${megabytes} MB`);
      }
    }
  });
});
