/** `npm run deploy`: the whole smoke test, a second hub in the same account, several databases, and two runs at the same time. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { assertDeployed, MIGRATIONS, NAME, readDeployments, run, startHealth, startPlatform } from './lib/deployment.mjs';
import { ACCOUNT } from './lib/fake-platform.mjs';
import { startHub } from './lib/hub.mjs';

describe('npm run deploy', { concurrency: 3 }, () => {
  test('tests a new hub with all checks of the smoke test', async (t) => {
    const place = await startPlatform(t);
    const hub = await startHub(t);
    place.platform.onUpload = (_, { secrets }) => hub.restart({ CLI_API_TOKEN: secrets.get('CLI_API_TOKEN') });
    const { code, output } = await run(place, ['deploy', '--address', hub.url]);
    assert.equal(code, 0, output);
    assertDeployed(place, [output]);
    assert.match(output, /✓ smoke test .*\n +13 checks\n/);
  });

  test('deploys an environment beside production, and runs commands of wrangler for the environment that is named', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const deploy = (...args) =>
      run(place, ['deploy', '--no-smoke', '--address', address, ...args], { env: { CLOUDFLARE_ACCOUNT_ID: ACCOUNT.id } });
    const staging = ['--env', 'staging', '--location', 'weur'];
    const { platform, data } = place;
    await deploy();
    platform.failOn({ on: 'POST /d1/database', status: 429 });
    assert.equal((await deploy(...staging)).code, 1);
    platform.recover();
    // The failed attempt has stored the location, so the first command needs no `--location`.
    for (const args of [['--env', 'staging'], staging]) {
      const { code, output } = await deploy(...args);
      assert.equal(code, 0, output);
    }
    assert.deepEqual(pluck([...platform.databases.values()], 'name', 'options.primary_location_hint'), [
      [NAME, undefined],
      [`${NAME}-staging`, 'weur'],
    ]);
    const [production, tests] = [NAME, `${NAME}-staging`].map((name) => platform.workers.get(name));
    const bindingOf = (worker, name) => worker.metadata.bindings.find((binding) => binding.name === name);
    assert.equal(bindingOf(tests, 'HUB_LOCATION').text, 'weur');
    for (const name of ['DB', 'AUTH_RATE_LIMIT']) assert.notDeepEqual(bindingOf(tests, name), bindingOf(production, name));
    assert.notEqual(tests.secrets.get('CLI_API_TOKEN'), production.secrets.get('CLI_API_TOKEN'));
    assert.deepEqual(readDeployments(data).staging.vars, { HUB_LOCATION: 'weur' });

    platform.requests.length = 0;
    const listed = await run(place, ['wrangler', 'secret', 'list', '--env', 'staging']);
    assert.equal(listed.code, 0, listed.output);
    assert.deepEqual(platform.requests, [`GET /workers/scripts/${NAME}-staging/secrets`]);
    const unknown = await run(place, ['wrangler', 'secret', 'list', '--env', 'other']);
    assert.equal(unknown.code, 1);
    assert.match(unknown.output, /There is no environment other: wrangler would use the settings and the database of production\./);
    assert.equal(platform.requests.length, 1);

    for (const [args, reason] of /** @type {[string[], RegExp][]} */ ([
      [['--name', 'other'], /deployed with the name session-gateway-hub\./],
      [['--account', 'f'.repeat(32)], /deployed in the account ac0ac0/],
      [['--location', 'weur'], /database session-gateway-hub exists already\. Its place cannot be changed\./],
    ])) {
      const { code, output } = await deploy(...args);
      assert.equal(code, 1);
      assert.match(output, reason);
    }
    assert.equal(platform.databases.size, 2);
  });

  test('creates further databases once, and applies the migrations to each', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const deploy = (...args) => run(place, ['deploy', '--no-smoke', '--address', address, ...args]);
    const { platform, data } = place;
    const first = await deploy();
    assert.equal(first.code, 0, first.output);
    for (const args of [['--databases', '3'], []]) {
      const { code, output } = await deploy(...args);
      assert.equal(code, 0, output);
      assert.deepEqual(pluck([...platform.databases.values()], 'name'), [NAME, `${NAME}-2`, `${NAME}-3`]);
    }
    const bindings = platform.workers.get(NAME).metadata.bindings.filter(({ type }) => type === 'd1');
    assert.deepEqual(
      pluck(bindings, 'name', 'id'),
      [...platform.databases.keys()].map((id, index) => [index === 0 ? 'DB' : `DB_${index + 1}`, id]),
    );
    for (const { sqlite } of platform.databases.values()) {
      assert.equal(sqlite.prepare('SELECT count(*) AS count FROM d1_migrations').get().count, MIGRATIONS.length);
    }
    assert.equal(readDeployments(data).production.moreDatabaseIds.length, 2);
    const fewer = await deploy('--databases', '2');
    assert.deepEqual([fewer.code, /This hub has 3 databases/.test(fewer.output)], [1, true], fewer.output);
  });

  test('two runs at the same time deploy one hub', async (t) => {
    const place = await startPlatform(t);
    const address = await startHealth(t);
    const args = ['deploy', '--no-smoke', '--address', address];
    const runs = await Promise.all([run(place, args), run(place, args)]);
    for (const { code, output } of runs) assert.equal(code, 0, output);
    assertDeployed(
      place,
      runs.map(({ output }) => output),
    );
    assert.match(runs.map(({ output }) => output).join(''), /Waiting for process \d+, which runs the deployment of production/);
  });
});
