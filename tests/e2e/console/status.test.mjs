/** The status of an account in the web console, and the ids of requests in error texts. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { hashOfNamespace } from '../../../scripts/product/namespace/list.mjs';
import { PHONE, waitForEqual } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { PushService } from '../lib/push-service.mjs';

const service = await new PushService().start({ after });

const { hub, visit } = await startConsole({ vars: { PUSH_ALLOW_INSECURE: 'true' } });

/** The value of a fact on the page. */
const fact = (page, name) => page.locator(`dt:text-is("${name}") + dd`);

test('the settings lead to the status, which a refresh brings up to date, with a fault and its log line', async (t) => {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'status',
    tag: '/code/demo',
    metadata: { path: '/code/demo', host: 'laptop', name: 'The talk' },
    agentState: {},
  });
  const { page } = await visit(t, 'status', { ...PHONE, path: '/settings' });
  await page.getByRole('link', { name: 'Show the status' }).click();
  await page.waitForURL(/\/settings\/status$/);
  await fact(page, 'Sessions').getByText('1 · 1 active').waitFor();
  await fact(page, 'Connection').getByText('Connected').waitFor();
  await fact(page, 'Database').getByText('Answers').waitFor();
  await waitForEqual(() => fact(page, 'Name in logs').innerText(), hashOfNamespace('status'));
  await waitForEqual(() => fact(page, 'Hub version').innerText(), await fact(page, 'Page version').innerText());
  const faults = page.getByRole('region', { name: 'Latest faults' });
  await faults.getByText('None.').waitFor();

  const rejecting = service.addBrowser(() => ({ status: 403 }));
  await hub.web('status').post('/api/push/subscribe', rejecting.subscription);
  await hub.web('status').post('/api/push/subscribe', service.addBrowser().subscription);
  const requests = { r1: { tool: 'shell', arguments: {} } };
  await page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests } });
  await rejecting.next();
  const isLogged = async () => (await hub.web('status').get('/api/status')).body.pushes[0]?.outcome === 'sent';
  await eventually(isLogged, 'the outcome of the notification');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await faults.getByText('A push service did not accept a notification.').waitFor();
  await faults.getByText('Log line').click();
  await faults.getByText('"event": "push-failed"').waitFor();
  const pushes = page.getByRole('region', { name: 'Latest notifications' });
  await pushes.getByText('Permission Request: Delivered to 1 browser').waitFor();
  await page.getByRole('link', { name: 'Back to settings' }).click();
  await page.getByRole('heading', { name: 'Settings' }).waitFor();
});

test('an error text has the id of the request, by which its log line is found', async (t) => {
  const { page } = await visit(t, 'errors', { ...PHONE, path: '/settings/status' });
  await fact(page, 'Sessions').waitFor();
  // The answer to an invalid request, as a fault of the hub.
  await page.route('**/api/status', (route) => route.continue({ url: `${hub.url}/api/inbox?cursor=x` }));
  await page.getByRole('button', { name: 'Refresh' }).click();
  const id = await page.getByRole('alert').locator('code').innerText();
  const line = await eventually(() => hub.logLines().find(({ requestId }) => requestId === id), `the log line of ${id}`);
  assert.deepEqual([line.route, line.status, line.namespace], ['/api/inbox', 400, hashOfNamespace('errors')]);
  await page.unroute('**/api/status');
  await page.getByRole('button', { name: 'Try again' }).click();
  await fact(page, 'Sessions').waitFor();
});

test('the page shows a stalled database, a nearly full storage and another version', async (t) => {
  const { page } = await visit(t, 'warnings', { ...PHONE, path: '/settings' });
  await page.route('**/api/status', async (route) => {
    const response = await route.fetch();
    const status = await response.json();
    const database = { isStalled: true, queuedBytes: 2048 };
    await route.fulfill({ response, json: { ...status, version: '9.9.9', database, storage: { bytes: 95, maxBytes: 100 } } });
  });
  await page.getByRole('link', { name: 'Show the status' }).click();
  await page.getByText('This page and the hub have different versions.').waitFor();
  await fact(page, 'Database').getByText('does not answer').waitFor();
  await fact(page, 'Database').getByText('2.0 KiB of changes wait').waitFor();
  await fact(page, 'Storage').getByText('nearly full').waitFor();
  await waitForEqual(() => page.getByRole('progressbar', { name: 'Used storage' }).getAttribute('value'), '0.95');
});
