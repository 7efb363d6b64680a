// Environments of wrangler: a command that names an environment never uses the database of production.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { checkEnvironment } from '../product/deploy/environments.mjs';
import { inProject, ROOT } from '../lib/paths.mjs';
import { LOCAL_COMMAND_ENV } from '../product/hub/wrangler.mjs';

/** Runs `npm run wrangler -- ARGS`. */
function wrangler(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [inProject('scripts', 'product', 'wrangler.mjs'), ...args], {
    cwd: ROOT,
    env: { ...process.env, ...LOCAL_COMMAND_ENV },
    encoding: 'utf8',
  });
  return { status, output: stripVTControlCharacters(stdout + stderr) };
}

/** An environment in wrangler.toml, as operators wrote it before deployment.json existed. */
const STAGING = `[env.staging.vars]
NAMESPACE_ROUTING = "token"

[[env.staging.d1_databases]]
binding = "DB"
database_name = "session-gateway-hub-staging"
database_id = "5f0d2b0a-0000-4000-8000-000000000001"
migrations_dir = "migrations"

[[env.staging.durable_objects.bindings]]
name = "HUB"
class_name = "NamespaceHub"

[[env.staging.ratelimits]]
name = "AUTH_RATE_LIMIT"
namespace_id = "1002"
simple = { limit = 30, period = 60 }
`;

/** Writes the project's configuration with the environment `staging`, and an empty worker. Returns the path of the configuration. */
function configWithStaging(t) {
  const folder = tempDir(t);
  const projectConfig = readFileSync(inProject('wrangler.toml'), 'utf8')
    .replace(/^\[(?:build|assets)\]\n(?:.+\n)+/gm, '')
    .replace('build/index.js', 'index.js');
  const config = path.join(folder, 'wrangler.toml');
  writeFileSync(config, `${projectConfig}\n${STAGING}`);
  writeFileSync(path.join(folder, 'index.js'), 'export class NamespaceHub {}\nexport default { fetch() {} };\n');
  return config;
}

test('a deployment to an environment that does not exist is refused', () => {
  const { status, output } = wrangler('deploy', '--dry-run', '--env', 'staging');
  assert.equal(status, 1, output);
  assert.match(output, /There is no environment staging: wrangler would use the settings and the database of production\./);
  assert.doesNotMatch(output, /bindings/);
});

test('each way to name an environment is checked, also for commands on the database', () => {
  const command = ['d1', 'execute', 'DB', '--remote', '--command', 'DELETE FROM messages'];
  for (const args of [['--env', 'staging'], ['--env=staging'], ['-e', 'staging'], ['-e=staging'], ['--env', '', '--env=staging']]) {
    assert.throws(() => checkEnvironment([...command, ...args], {}), /There is no environment staging/, args.join(' '));
  }
  assert.throws(() => checkEnvironment(command, { CLOUDFLARE_ENV: 'staging' }), /There is no environment staging/);
  for (const args of [[], ['--env='], ['--env', ''], ['-e', '']]) checkEnvironment([...command, ...args], {});
  checkEnvironment([...command, '--env='], { CLOUDFLARE_ENV: 'staging' });
});

test('an environment in wrangler.toml uses its own database and object, and is refused if it has the database of production', (t) => {
  const config = configWithStaging(t);
  const { status, output } = wrangler('deploy', '--dry-run', '--env', 'staging', '--config', config);
  assert.equal(status, 0, output);
  for (const binding of [
    'env.DB (session-gateway-hub-staging)',
    'env.HUB (NamespaceHub)',
    'env.AUTH_RATE_LIMIT',
    'env.NAMESPACE_ROUTING ("token")',
  ]) {
    assert.ok(output.includes(binding), `${binding}\n${output}`);
  }
  const [, productionId] = /^database_id = "(.*)"$/m.exec(readFileSync(config, 'utf8'));
  writeFileSync(
    config,
    `${readFileSync(config, 'utf8').replace(STAGING, '')}${STAGING.replace(/database_id = ".*"/, `database_id = "${productionId}"`)}`,
  );
  const same = wrangler('deploy', '--dry-run', '--env', 'staging', '--config', config);
  assert.equal(same.status, 1);
  assert.match(same.output, /The environment staging has the database of production: 0+-/);
});
