// The configuration of a deployment: wrangler.toml with the settings of deployment.json. tests/e2e/deploy.test.mjs tests the deployment
// itself.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { changesBetween } from '../product/deploy/changelog.mjs';
import { makeConfig, mergeDeployment } from '../product/deploy/config.mjs';
import { inProject } from '../lib/paths.mjs';

const TOML = readFileSync(inProject('wrangler.toml'), 'utf8');
const ID = '5f0d2b0a-0000-4000-8000-000000000001';

/** @param {string} toml @param {string} env @param {import('../product/deploy/record.mjs').Deployment} [settings] of deployment.json */
function configOf(toml, env, settings) {
  const base = /** @type {Record<string, any>} */ (parse(toml));
  return /** @type {Record<string, any>} */ (makeConfig(base, env, mergeDeployment(base, env, settings)));
}

test('a hub that was deployed by hand keeps its database and its variables', () => {
  const byHand = `${TOML.replace(/^database_id = ".*"/m, `database_id = "${ID}"`)}
[env.staging]
name = "my-staging"
[env.staging.vars]
FORBID_MODES = "yolo"
[[env.staging.d1_databases]]
binding = "DB"
database_id = "${ID.replace('5f', '6f')}"
`;
  const production = configOf(byHand, 'production');
  assert.deepEqual([production.name, production.d1_databases[0].database_id], ['session-gateway-hub', ID]);
  const staging = configOf(byHand, 'staging');
  assert.deepEqual([staging.name, staging.d1_databases[0].database_id], ['my-staging', ID.replace('5f', '6f')]);
  assert.equal(staging.vars.FORBID_MODES, 'yolo');
  assert.notEqual(staging.ratelimits[0].namespace_id, production.ratelimits[0].namespace_id);
  assert.equal(staging.env, undefined);
});

test('deployment.json replaces variables and other parts of wrangler.toml', () => {
  const vars = { HUB_LOCATION: 'weur', VOCABULARY: { agents: { 'my-claude': 'alpha' } } };
  const config = configOf(TOML, 'production', { domain: 'hub.example.com', vars, wrangler: { limits: { cpu_ms: 300_000 } } });
  assert.deepEqual(config.routes, [{ pattern: 'hub.example.com', custom_domain: true }]);
  assert.deepEqual(config.vars.VOCABULARY, vars.VOCABULARY);
  assert.equal(config.vars.HUB_LOCATION, 'weur');
  assert.equal(config.vars.NAMESPACE_ROUTING, 'token', 'the other variables stay');
  assert.deepEqual(config.limits, { cpu_ms: 300_000 });
});

test('a deployment with several databases binds each, in the order of their numbers', () => {
  const ids = ['1', '2', '3'].map((digit) => `${ID.slice(0, -1)}${digit}`);
  const config = configOf(TOML, 'staging', { databaseId: ids[0], moreDatabaseIds: ids.slice(1), databases: 3 });
  const name = 'session-gateway-hub-staging';
  assert.deepEqual(pluck(config.d1_databases, 'binding', 'database_name', 'database_id'), [
    ['DB', name, ids[0]],
    ['DB_2', `${name}-2`, ids[1]],
    ['DB_3', `${name}-3`, ids[2]],
  ]);
});

test('a deployment without the access token is refused, and the local hub reads all variables of .dev.vars', () => {
  assert.deepEqual(configOf(TOML, 'production').secrets, { required: ['CLI_API_TOKEN'] });
  // If wrangler.toml had `secrets`, `wrangler dev` would ignore the variables of .dev.vars that `secrets` does not list.
  assert.equal(parse(TOML).secrets, undefined);
});

test('the platform records no traces, and no query string of an address: an address may have a JWT in `?token=`', () => {
  for (const environment of ['production', 'staging']) {
    const { observability } = configOf(TOML, environment);
    assert.deepEqual([observability.traces.enabled, observability.redact_query_string], [false, true], environment);
  }
});

test('an upgrade has the changelog’s sections after the old version up to the new version; in a clone, also the unreleased changes', () => {
  const section = (version) => `## [${version}]${version === 'Unreleased' ? '' : ' - 2026-01-01'}\n\n- Change of ${version}.`;
  const changelog = `# Changelog\n\n${['Unreleased', '0.10.0', '0.9.1', '0.9.0'].map(section).join('\n\n')}\n`;
  const versionsOf = (range) => changesBetween(changelog, range).map((text) => /\[(.+?)\]/.exec(text)[1]);
  assert.deepEqual(versionsOf({ from: '0.9.0', to: '0.10.0', isReleased: true }), ['0.10.0', '0.9.1']);
  assert.deepEqual(versionsOf({ from: '0.9.0', to: '0.9.1', isReleased: true }), ['0.9.1']);
  assert.deepEqual(versionsOf({ from: '0.10.0', to: '0.10.0', isReleased: true }), []);
  assert.deepEqual(versionsOf({ from: '0.10.0', to: '0.10.0', isReleased: false }), ['Unreleased']);
  const empty = changelog.replace('- Change of Unreleased.\n', '');
  assert.deepEqual(changesBetween(empty, { from: '0.10.0', to: '0.10.0', isReleased: false }), []);
});
