// Environments of wrangler: a command that names an environment never uses the database of production.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { checkEnvironment } from '../lib/environments.mjs';
import { inProject, ROOT } from '../lib/paths.mjs';
import { LOCAL_COMMAND_ENV } from '../lib/wrangler.mjs';

/** Runs `npm run wrangler -- ARGS`. */
function wrangler(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [inProject('scripts', 'wrangler.mjs'), ...args], {
    cwd: ROOT,
    env: { ...process.env, ...LOCAL_COMMAND_ENV },
    encoding: 'utf8',
  });
  return { status, output: stripVTControlCharacters(stdout + stderr) };
}

/** The configuration of the project with the environment of docs/DEPLOY.md, and a worker without a build. */
function configWithStaging(t) {
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-env-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [, documented] = /```toml\n(\[env\.staging\.vars\]\n[^]*?)```/.exec(readFileSync(inProject('docs', 'DEPLOY.md'), 'utf8'));
  const own = readFileSync(inProject('wrangler.toml'), 'utf8')
    .replace(/^\[(?:build|assets)\]\n(?:.+\n)+/gm, '')
    .replace('build/index.js', 'index.js');
  const config = path.join(folder, 'wrangler.toml');
  writeFileSync(config, `${own}\n${documented}`);
  writeFileSync(path.join(folder, 'index.js'), 'export class NamespaceHub {}\nexport default { fetch() {} };\n');
  return { config, documented };
}

test('a deployment to an environment that does not exist is refused', () => {
  const { status, output } = wrangler('deploy', '--dry-run', '--env', 'staging');
  assert.equal(status, 1, output);
  assert.match(output, /wrangler\.toml has no environment staging: wrangler would use the settings and the database of production\./);
  assert.doesNotMatch(output, /bindings/);
});

test('each way to name an environment is checked, also for commands on the database', () => {
  const command = ['d1', 'execute', 'DB', '--remote', '--command', 'DELETE FROM messages'];
  for (const args of [['--env', 'staging'], ['--env=staging'], ['-e', 'staging'], ['-e=staging'], ['--env', '', '--env=staging']]) {
    assert.throws(() => checkEnvironment([...command, ...args], {}), /no environment staging/, args.join(' '));
  }
  assert.throws(() => checkEnvironment(command, { CLOUDFLARE_ENV: 'staging' }), /no environment staging/);
  for (const args of [[], ['--env='], ['--env', ''], ['-e', '']]) checkEnvironment([...command, ...args], {});
  checkEnvironment([...command, '--env='], { CLOUDFLARE_ENV: 'staging' });
});

test('the environment of docs/DEPLOY.md has its own database and its own object', (t) => {
  const { config, documented } = configWithStaging(t);
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
  const [, ownId] = /^database_id = "(.*)"$/m.exec(readFileSync(config, 'utf8'));
  writeFileSync(
    config,
    `${readFileSync(config, 'utf8').replace(documented, '')}${documented.replace(/database_id = ".*"/, `database_id = "${ownId}"`)}`,
  );
  const same = wrangler('deploy', '--dry-run', '--env', 'staging', '--config', config);
  assert.equal(same.status, 1);
  assert.match(same.output, /The environment staging has the database of production: 0+-/);
});
