/** A Prometheus server reads the metrics of a running hub with the configuration, alert rules and dashboard of docs/operations. */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { freePort } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, startHub } from './lib/hub.mjs';

const METRICS_TOKEN = 'a token for metrics';
const OPERATIONS = path.join(ROOT, 'docs', 'operations');

const isMissing = spawnSync('prometheus', ['--version']).error !== undefined;
const skip = isMissing && process.env.REQUIRE_PROMETHEUS !== '1' && 'Prometheus is not installed: apt-get install prometheus';

test('Prometheus reads the metrics, and each rule and each panel of the dashboard has data or is empty', { skip }, async (t) => {
  const hub = await startHub(t, { vars: { METRICS_TOKEN } });
  const { session } = await liveSession(t, hub, { tag: 'read by Prometheus' });
  const web = hub.web();
  await web.get(`/api/sessions/${session.id}/git-status`);
  await web.get('/api/sessions');

  const folder = temporaryFolder(t);
  const address = new URL(hub.url).host;
  const config = readFileSync(path.join(OPERATIONS, 'prometheus.yml'), 'utf8')
    .replaceAll('hub.example.com', address)
    .replaceAll('scheme: https', 'scheme: http')
    .replaceAll(/_interval: \w+/g, '_interval: 1s');
  writeFileSync(path.join(folder, 'prometheus.yml'), config);
  writeFileSync(path.join(folder, 'alerts.yml'), readFileSync(path.join(OPERATIONS, 'alerts.yml')));
  writeFileSync(path.join(folder, 'metrics-token'), METRICS_TOKEN);
  const port = await freePort();
  const prometheus = spawn(
    'prometheus',
    ['--config.file=prometheus.yml', `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`],
    { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] },
  );
  t.after(() => prometheus.kill('SIGKILL'));
  const ask = async (route) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${route}`).catch(() => undefined);
    return response?.ok ? (await response.json()).data : undefined;
  };
  const query = async (expression) => (await ask(`query?query=${encodeURIComponent(expression)}`))?.result;

  for (const job of ['hub', 'hub-namespaces'])
    await eventually(async () => (await query(`up{job="${job}"} == 1`))?.length === 1, `the job ${job}`);
  await eventually(async () => (await query('hub_requests_total{route="/api/sessions",status="200"} >= 1'))?.length > 0, 'the requests');
  assert.equal((await query('hub_sockets{namespace="default",kind="cli"}'))[0].value[1], '1');
  assert.equal((await query('hub_rpc_calls_total{outcome="no_method"}'))[0].value[1], '1');

  const { groups } = await ask('rules');
  const rules = groups.flatMap((group) => group.rules);
  assert.equal(rules.length, readFileSync(path.join(OPERATIONS, 'alerts.yml'), 'utf8').match(/- alert:/g).length);
  await eventually(async () => (await ask('rules')).groups[0].rules.every(({ health }) => health === 'ok'), 'the rules to be evaluated');
  assert.deepEqual((await ask('alerts')).alerts, []);

  const { panels } = JSON.parse(readFileSync(path.join(OPERATIONS, 'dashboard.json'), 'utf8'));
  const names = new Set(await ask('label/__name__/values'));
  for (const { expr } of panels.flatMap((panel) => panel.targets)) {
    assert.ok(Array.isArray(await query(expr)), expr);
    for (const [name] of expr.matchAll(/hub_\w+/g)) assert.ok(names.has(name), `${name} is not a metric of the hub`);
  }

  await hub.stop();
  await eventually(async () => (await ask('alerts')).alerts.some(({ labels }) => labels.alertname === 'HubDown'), 'the alert HubDown');
});
