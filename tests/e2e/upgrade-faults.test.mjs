/** `npm run upgrade` when a step before the deployment fails, and when the rollback fails, too. */

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { NAME, OLD_VERSION, setUpUpgrade, VERSION } from './lib/deployment.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });
const setUp = (t, options = {}) => setUpUpgrade(t, hub.url, options);

describe('npm run upgrade', { concurrency: 2 }, () => {
  test('says how to roll back by hand when the rollback fails, too', async (t) => {
    const { upgrade, worker, platform, versionId, front } = await setUp(t, { isNewBroken: true });
    platform.onActivate = () => {
      Object.assign(front, { version: VERSION, isBroken: true });
      platform.failOn({ on: `POST /workers/scripts/${NAME}/deployments`, status: 403 });
    };
    const { code, output } = await upgrade('--yes');
    assert.equal(code, 1);
    assert.match(output, /✗ rollback /);
    assert.match(output, new RegExp(`The upgrade to version ${VERSION} failed, and so did the rollback to ${OLD_VERSION}\\.`));
    assert.match(output, new RegExp(`Roll back yourself: npx session-gateway-hub wrangler rollback ${versionId}\\n`));
    assert.equal(worker.active, worker.versions[1]);
  });

  test('if a step before the deployment fails, the old version still runs, and nothing is rolled back', async (t) => {
    const { upgrade, worker, platform, versionId } = await setUp(t);
    const failed = platform.failOn({ on: `POST /workers/scripts/${NAME}/versions`, status: 400 });
    const { code, output } = await upgrade('--yes');
    await failed;
    assert.equal(code, 1);
    assert.match(
      output,
      new RegExp(
        `The step "deployment" failed\\. Run the same command again: it continues there\\.\\n.*version ${OLD_VERSION} still runs\\.`,
      ),
    );
    assert.deepEqual(worker.versions, [versionId]);
  });
});
