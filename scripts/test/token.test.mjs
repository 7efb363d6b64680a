// `npm run token` and the hubs to which it may send the secret.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { inProject } from '../lib/paths.mjs';

/** Runs the command. @param {string[]} args @param {Record<string, string>} env */
function runToken(args, env) {
  const { CLI_API_TOKEN: _, ...environment } = process.env;
  return spawnSync(process.execPath, [inProject('scripts', 'token.mjs'), ...args], { encoding: 'utf8', env: { ...environment, ...env } });
}

test('the token of a namespace is printed without asking a hub', () => {
  const { status, stdout } = runToken(['team'], { CLI_API_TOKEN: 'secret' });
  assert.equal(status, 0);
  assert.match(stdout, /^[\w-]{43}:team\n$/);
});

test('the secret is not sent to another computer without encryption', () => {
  const { status, stderr } = runToken(['team', '--hub', 'http://hub.example'], { CLI_API_TOKEN: 'secret' });
  assert.deepEqual([status, /must be an https address/.test(stderr)], [2, true], stderr);
});

test('the secret of the local hub is not sent to another hub', () => {
  const { status, stderr } = runToken(['team', '--hub', 'https://hub.example'], {});
  assert.deepEqual([status, /Set CLI_API_TOKEN to the secret of https:\/\/hub\.example/.test(stderr)], [2, true], stderr);
});
