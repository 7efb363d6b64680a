// The configuration of a deployment: wrangler.toml with the settings of deployment.json. tests/e2e/deploy.test.mjs tests the deployment
// itself.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'smol-toml';
import { makeConfig, mergeDeployment } from '../lib/deploy/config.mjs';
import { inProject } from '../lib/paths.mjs';

const TOML = readFileSync(inProject('wrangler.toml'), 'utf8');
const ID = '5f0d2b0a-0000-4000-8000-000000000001';

/** @param {string} toml @param {string} env @param {import('../lib/deploy/record.mjs').Deployment} [settings] of deployment.json */
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

test('a deployment without the access token is refused, and the local hub reads all variables of .dev.vars', () => {
  assert.deepEqual(configOf(TOML, 'production').secrets, { required: ['CLI_API_TOKEN'] });
  // If wrangler.toml had `secrets`, `wrangler dev` would ignore the variables of .dev.vars that `secrets` does not list.
  assert.equal(parse(TOML).secrets, undefined);
});
