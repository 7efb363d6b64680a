/** `npm run upgrade`: shows the changes, applies them, and rolls them back when the new version fails. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { addDeployedHub, appliedMigrations, MIGRATIONS, NAME, run, startFront, startPlatform, VERSION } from './lib/deployment.mjs';
import { SECRET, startHub } from './lib/hub.mjs';

/** The version that is deployed before an upgrade. The changelog has a section of a later version. */
const OLD_VERSION = '0.1.0';

const hub = await startHub();
after(() => hub.stop());

/**
 * Deploys the old version, with a database that lacks the newest migration. The proxy `front` answers as the version that is active.
 * @param {any} t
 * @param {{isNewBroken?: boolean}} [options] `isNewBroken`: whether the new version does not work
 */
async function setUp(t, { isNewBroken = false } = {}) {
  const place = await startPlatform(t);
  const front = await startFront(t, hub.url);
  front.version = OLD_VERSION;
  const versionId = addDeployedHub(place, { address: front.url, secret: SECRET, missing: 1 });
  place.platform.onActivate = (id) =>
    Object.assign(front, id === versionId ? { version: OLD_VERSION, isBroken: false } : { version: VERSION, isBroken: isNewBroken });
  // `npx --yes`, which installs the package without a question, sets the second variable.
  const env = { CLI_API_TOKEN: SECRET, npm_config_yes: 'true' };
  const upgrade = (...args) => run(place, ['upgrade', ...args], { env });
  return { ...place, front, versionId, upgrade, worker: place.platform.workers.get(NAME) };
}

describe('npm run upgrade', { concurrency: 2 }, () => {
  test('shows the changes and the missing migrations, and changes nothing without a terminal or --yes', async (t) => {
    const { upgrade, platform, worker } = await setUp(t);
    const { code, output } = await upgrade();
    assert.equal(code, 1);
    assert.match(output, new RegExp(`from version ${OLD_VERSION} to ${VERSION}\\.\\n\\n## \\[${VERSION}\\] - [^]*### Added\\n`));
    assert.match(output, new RegExp(`These migrations are applied first:\\n +${MIGRATIONS.at(-1)}\\n`));
    assert.match(output, /Nothing was changed: there is no terminal to ask on\.\nTo upgrade without a question, add --yes\./);
    assert.ok(!output.includes('## [Unreleased]'), 'a package has released changes only');
    assert.deepEqual([worker.versions.length, appliedMigrations(platform)], [1, MIGRATIONS.slice(0, -1)]);
  });

  test('applies the migrations and the version, tests the hub, and says how to go back; then nothing is left to do', async (t) => {
    const { upgrade, platform, worker, versionId } = await setUp(t);
    const { code, output } = await upgrade('--yes');
    assert.equal(code, 0, output);
    assert.match(output, /✓ migrations [^]*1 applied\n[^]*✓ deployment [^]*✓ smoke test .*\n +8 checks\n/);
    assert.match(
      output,
      new RegExp(
        `upgraded from version ${OLD_VERSION} to ${VERSION}\\.\\n.*\\n +npx session-gateway-hub wrangler rollback ${versionId}\\n`,
      ),
    );
    assert.deepEqual([worker.versions.length, worker.active], [2, worker.versions[1]]);
    assert.deepEqual(appliedMigrations(platform), MIGRATIONS);
    const again = await upgrade();
    assert.equal(again.code, 0, again.output);
    assert.match(again.output, new RegExp(`Nothing to do: the hub has version ${VERSION} and all migrations\\.`));
    assert.equal(worker.versions.length, 2);
  });

  test('rolls back when the smoke test fails, and says what happened and what to type next', async (t) => {
    const { upgrade, worker, versionId, front } = await setUp(t, { isNewBroken: true });
    const { code, output } = await upgrade('--yes');
    assert.equal(code, 1);
    assert.match(output, /✗ smoke test [^]*The test broke the hub\.[^]*✓ rollback /);
    assert.match(output, new RegExp(`The upgrade to version ${VERSION} failed, and was rolled back: version ${OLD_VERSION} runs again\\.`));
    assert.match(output, /Try again: npx session-gateway-hub upgrade/);
    assert.ok(!output.includes('Run the same command again'), output);
    assert.deepEqual([worker.versions.length, worker.active, front.version], [2, versionId, OLD_VERSION]);
  });

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

  test('says what is wrong without a deployed hub, with a hub that does not answer, and with a newer hub', async (t) => {
    const { upgrade, front, data } = await setUp(t);
    front.version = '99.0.0';
    const newer = await upgrade('--yes');
    assert.equal(newer.code, 1);
    assert.match(
      newer.output,
      /version 99\.0\.0 is newer than the version of this package, [\d.]+\.\nGet the newest version with: npx session-gateway-hub@latest upgrade/,
    );
    const silent = await upgrade('--yes', '--hub', 'http://127.0.0.1:1');
    assert.equal(silent.code, 1);
    assert.match(silent.output, /http:\/\/127\.0\.0\.1:1 does not answer as a hub/);
    writeFileSync(path.join(data, 'deployment.json'), '{}');
    const none = await upgrade('--yes');
    assert.equal(none.code, 1);
    assert.match(none.output, /There is no deployed hub of the environment production\.\nTo deploy it: npx session-gateway-hub deploy/);
  });
});
