/** The branch `release`: the deploy button deploys it without a compiler, and asks for one secret. */

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { parseDevVars } from '../../packages/cli-kit/src/dev-vars.mjs';
import { writeReleaseTree } from '../../scripts/dev/package/release-tree.mjs';
import { inProject } from '../../scripts/lib/paths.mjs';
import { ACCOUNT, API_TOKEN, FakePlatform } from './lib/fake-platform.mjs';

const tree = mkdtempSync(path.join(tmpdir(), 'hub-release-'));
after(() => rmSync(tree, { recursive: true, force: true }));
writeReleaseTree(tree, 'https://git.example.com/owner/hub');

const readText = (name) => readFileSync(path.join(tree, name), 'utf8');
const readJson = (name) => JSON.parse(readText(name));

test('the deploy button asks for one secret, and describes each binding', () => {
  assert.deepEqual(parseDevVars(readText('.dev.vars.example')), { CLI_API_TOKEN: '' });
  const config = readJson('wrangler.json');
  assert.equal(config.vars, undefined, 'the deploy button would ask for each variable');
  const bindings = [config.d1_databases, config.durable_objects.bindings, config.ratelimits].flat();
  const names = bindings.map(({ binding, name }) => binding ?? name);
  assert.deepEqual(Object.keys(readJson('package.json').cloudflare.bindings).sort(), ['CLI_API_TOKEN', ...names].sort());
  assert.match(readText('README.md'), /deploy\.workers\.cloudflare\.com\/\?url=https:\/\/git\.example\.com\/owner\/hub\/tree\/release\)/);
});

test('the commands of the branch migrate and deploy with wrangler and Node alone', async (t) => {
  const platform = await new FakePlatform().start();
  t.after(() => platform.stop());
  // The button has created a database, written its id into the configuration, and created a Worker with the secret.
  const database = platform.addDatabase('my-hub');
  platform.addWorker('session-gateway-hub', { CLI_API_TOKEN: 'chosen by the user' });
  const bin = path.join(tree, 'bin');
  symlinkSync(inProject('node_modules', '.bin'), bin);
  symlinkSync(inProject('node_modules'), path.join(tree, 'node_modules'));
  const config = readText('wrangler.json').replace('00000000-0000-0000-0000-000000000000', database);
  writeFileSync(path.join(tree, 'wrangler.json'), config);

  const { scripts } = readJson('package.json');
  assert.deepEqual(Object.keys(scripts), ['deploy'], 'there is no build');
  const env = {
    // Only Node and wrangler: no Rust, no git.
    PATH: [path.dirname(process.execPath), bin].join(':'),
    HOME: tree,
    CI: 'true',
    WRANGLER_SEND_METRICS: 'false',
    CLOUDFLARE_API_BASE_URL: platform.url,
    CLOUDFLARE_API_TOKEN: API_TOKEN,
    CLOUDFLARE_ACCOUNT_ID: ACCOUNT.id,
  };
  const { error, output } = await new Promise((resolve) => {
    execFile('/bin/sh', ['-c', scripts.deploy], { cwd: tree, env }, (failure, stdout, stderr) =>
      resolve({ error: failure, output: stdout + stderr }),
    );
  });
  assert.equal(error, null, output);
  const { metadata, versions, secrets } = platform.workers.get('session-gateway-hub');
  assert.equal(versions.length, 1);
  assert.equal(metadata.bindings.find(({ name }) => name === 'DB').id, database);
  assert.equal(secrets.get('CLI_API_TOKEN'), 'chosen by the user');
  const migrations = readdirSync(inProject('migrations')).filter((name) => name.endsWith('.sql'));
  assert.equal(platform.databases.get(database).sqlite.prepare('SELECT count(*) AS n FROM d1_migrations').get().n, migrations.length);
});
