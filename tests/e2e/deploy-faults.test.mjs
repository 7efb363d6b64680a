/** `npm run deploy` continues after a failure or a kill at each step. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertDeployed, NAME, run, startHealth, startPlatform } from './lib/deployment.mjs';

/** A request of each step, in their order. */
const STEPS = [
  { step: 'account', on: 'GET /accounts', status: 500 },
  { step: 'database', on: 'GET /d1/database', status: 403 },
  { step: 'database', on: 'POST /d1/database', status: 429 },
  { step: 'access token', on: `GET /workers/scripts/${NAME}/secrets`, status: 403 },
  // Some migrations are applied before the fault.
  { step: 'migrations', on: 'POST /d1/database/', skip: 6, status: 500 },
  { step: 'deployment', on: `POST /workers/scripts/${NAME}/assets-upload-session`, status: 403 },
  { step: 'deployment', on: `PUT /workers/scripts/${NAME}`, status: 400 },
];

describe('npm run deploy', { concurrency: true }, () => {
  test('continues after a failure at each step', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const outputs = [];
    for (const { step, ...fault } of STEPS) {
      const failed = place.platform.failOn(fault);
      const { code, output } = await run(place, ['deploy', '--no-smoke', '--address', address]);
      outputs.push(output);
      assert.equal(code, 1, output);
      await failed;
      assert.ok(output.includes(`The step "${step}" failed. Run the same command again: it continues there.`), output);
      place.platform.recover();
    }
    const { code, output } = await run(place, ['deploy', '--no-smoke']);
    assert.equal(code, 0, output);
    assertDeployed(place, [...outputs, output]);
    assert.equal(place.platform.workers.get(NAME).versions.length, 1);
  });

  test('continues after a kill at each step, even if the platform had already served the request of the step', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const outputs = [];
    const secrets = new Set();
    place.platform.onUpload = (_, worker) => secrets.add(worker.secrets.get('CLI_API_TOKEN'));
    for (const { step: _, status: __, ...fault } of STEPS) {
      const { code, output } = await run(place, ['deploy', '--no-smoke', '--address', address], {
        killAfter: place.platform.failOn(fault),
      });
      outputs.push(output);
      assert.equal(code, null, output);
      place.platform.recover();
    }
    const { code, output } = await run(place, ['deploy', '--no-smoke']);
    assert.equal(code, 0, output);
    assertDeployed(place, [...outputs, output]);
    assert.equal(secrets.size, 1, 'the secret was never replaced');
  });
});
