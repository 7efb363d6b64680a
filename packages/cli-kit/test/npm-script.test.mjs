/** Agents do not receive the variables that `npm run` adds to the environment. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { removeNpmVariables } from '../src/npm-script.mjs';
import { tempDir } from './support/repository.mjs';

const NPMRC = new URL('../../../.npmrc', import.meta.url);
const SETTINGS = readFileSync(NPMRC, 'utf8').matchAll(/^([a-z-]+)=/gm);

test('the settings of this project are removed, and those of the user are kept', () => {
  const env = { PATH: '/hub/node_modules/.bin:/node_modules/.bin:/npm/lib/node-gyp-bin:/usr/bin', HOME: '/home/me' };
  Object.assign(env, { npm_lifecycle_event: 'agent:shell', npm_package_name: 'hub', npm_command: 'run', INIT_CWD: '/home/me' });
  Object.assign(env, { npm_config_local_prefix: '/hub', npm_config_registry: 'https://registry.example.com/' });
  for (const [, name] of SETTINGS) env[`npm_config_${name.replaceAll('-', '_')}`] = 'true';
  removeNpmVariables(env);
  assert.deepEqual(env, { PATH: '/usr/bin', HOME: '/home/me', npm_config_registry: 'https://registry.example.com/' });
});

test('the additions of npx are removed: the package, the folders on the PATH and the options', () => {
  const env = { PATH: '/npm/_npx/1a/node_modules/.bin:/node_modules/.bin:/npm/lib/node-gyp-bin:/usr/bin', HOME: '/home/me' };
  Object.assign(env, { npm_lifecycle_event: 'npx', npm_lifecycle_script: 'session-gateway-agent', npm_command: 'exec', INIT_CWD: '/me' });
  Object.assign(env, { npm_config_package: 'session-gateway-agent', npm_config_yes: 'true', npm_config_cache: '/cache' });
  removeNpmVariables(env);
  assert.deepEqual(env, { PATH: '/usr/bin', HOME: '/home/me', npm_config_cache: '/cache' });
});

test('the variables of another script are kept', () => {
  const env = { PATH: '/my/node_modules/.bin:/npm/lib/node-gyp-bin:/usr/bin', npm_lifecycle_event: 'start', npm_config_audit: '' };
  const before = { ...env };
  removeNpmVariables(env);
  assert.deepEqual(env, before);
});

test('all variables of a real npm run are removed', (t) => {
  const dir = tempDir(t);
  const source = new URL('../src/npm-script.mjs', import.meta.url);
  writeFileSync(
    path.join(dir, 'print.mjs'),
    `import { removeNpmVariables } from ${JSON.stringify(source.href)};
     removeNpmVariables(process.env);
     console.log(JSON.stringify(process.env));`,
  );
  writeFileSync(path.join(dir, 'package.json'), JSON.stringify({ name: 'p', version: '1.0.0', scripts: { agent: 'node print.mjs' } }));
  writeFileSync(path.join(dir, '.npmrc'), readFileSync(NPMRC));
  const { stdout, stderr } = spawnSync('npm', ['run', '--silent', 'agent'], { cwd: dir, encoding: 'utf8' });
  assert.equal(stderr, '');
  const { PWD, ...env } = JSON.parse(stdout);
  const names = Object.keys(env).filter((name) => env[name].includes(dir));
  assert.deepEqual(names, []);
  assert.deepEqual(
    Object.keys(env).filter((name) => /^npm_(package|lifecycle|config_(ignore|omit|save))_/.test(name)),
    [],
  );
});
