/** `npm run deploy`: deploys and updates a hub, and says what is missing. deploy-variants.test.mjs has what takes long. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { assertDeployed, NAME, run, startPlatform } from './lib/deployment.mjs';
import { ACCOUNT } from './lib/fake-platform.mjs';
import { startHub } from './lib/hub.mjs';

describe('npm run deploy', { concurrency: 3 }, () => {
  test('deploys a hub, tests it, and prints its secret once; a second run is an update', async (t) => {
    const place = await startPlatform(t);
    const hub = await startHub(t);
    place.platform.onUpload = (_, { secrets }) => hub.restart({ CLI_API_TOKEN: secrets.get('CLI_API_TOKEN') });

    const first = await run(place, ['deploy', '--no-smoke', '--address', hub.url]);
    assert.equal(first.code, 0, first.output);
    const secret = assertDeployed(place, [first.output]);
    assert.ok(first.output.includes(`The hub is deployed: ${hub.url}`));
    assert.match(first.output, /npx session-gateway-hub wrangler rollback\n/);
    const [, link] = /Open the console, signed in.*:\n +(\S+)\n/.exec(first.output);
    assert.ok(link.startsWith(`${hub.url}/`));
    assert.ok(!link.includes(secret), 'the link opens one namespace only');

    const files = readdirSync(place.data, { recursive: true, encoding: 'utf8' }).filter((name) =>
      statSync(path.join(place.data, name)).isFile(),
    );
    const withSecret = files.filter((name) => readFileSync(path.join(place.data, name), 'utf8').includes(secret));
    assert.deepEqual(withSecret, [], 'no file has the secret');

    const second = await run(place, ['deploy']);
    assert.equal(second.code, 0, second.output);
    assertDeployed(place, [first.output, second.output]);
    assert.match(second.output, new RegExp(`${NAME} exists\\n[^]*CLI_API_TOKEN is set\\n[^]*the database has all\\n[^]*8 checks\\n`));
    assert.equal(place.platform.workers.get(NAME).versions.length, 2);
  });

  test('a dry run needs no network, account or data', async (t) => {
    const place = await startPlatform(t);
    const { code, output } = await run(place, ['deploy', '--dry-run', '--env', 'staging'], { env: { CLOUDFLARE_API_TOKEN: undefined } });
    assert.equal(code, 0, output);
    assert.match(output, /Nothing was uploaded\./);
    assert.deepEqual(place.platform.requests, []);
  });

  test('says what is missing without a login, with several accounts, and without a secret on a CI machine', async (t) => {
    const place = await startPlatform(t);
    // An empty home folder hides the login of the user who runs the tests.
    const nobody = await run(place, ['deploy'], {
      env: { CLOUDFLARE_API_TOKEN: undefined, HOME: place.data, XDG_CONFIG_HOME: place.data },
    });
    assert.equal(nobody.code, 1);
    assert.match(nobody.output, /You are not signed in to Cloudflare/);

    const other = { id: 'b'.repeat(32), name: 'Another account' };
    place.platform.accounts = [ACCOUNT, other];
    const several = await run(place, ['deploy']);
    assert.equal(several.code, 1);
    assert.match(several.output, new RegExp(`several accounts:\\n +${ACCOUNT.id} +${ACCOUNT.name}\\n[^]*--account ID`));

    const onCi = await run(place, ['deploy', '--account', ACCOUNT.id], { env: { CI: 'true' } });
    assert.equal(onCi.code, 1);
    assert.match(onCi.output, /A generated token would be in the log/);
    assert.equal(place.platform.workers.size, 0);
  });

  test('says what is wrong in deployment.json', async (t) => {
    const place = await startPlatform(t);
    for (const [text, reason] of /** @type {[string, RegExp][]} */ ([
      ['{', /deployment\.json is not JSON/],
      ['{"production": {"database": "x"}}', /`production\.database` is unknown/],
      ['{"production": {"vars": "x"}}', /`production\.vars` must be an object/],
    ])) {
      writeFileSync(path.join(place.data, 'deployment.json'), text);
      const { code, output } = await run(place, ['deploy']);
      assert.equal(code, 1);
      assert.match(output, reason);
    }
  });
});
