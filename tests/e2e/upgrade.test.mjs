/** `npm run upgrade`: shows the changes, applies them, and rolls them back when the new version fails. upgrade-faults.test.mjs has more failures. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { appliedMigrations, MIGRATIONS, OLD_VERSION, setUpUpgrade, VERSION } from './lib/deployment.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub({ after });
const setUp = (t, options = {}) => setUpUpgrade(t, hub.url, options);

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
