/** Turning notifications on and off in the console, for one or several accounts of a browser. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred, eventually, withTimeout } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { signInUrl, waitForCount } from '../lib/browser.mjs';
import { clickNotification, deliverPush, waitForNotification } from '../lib/push-browser.mjs';
import { startPushConsole, turnOff, turnOffButton, turnOn, turnOnButton } from '../lib/push-console.mjs';

const { service, hub, open, openSettings, countSubscriptions } = await startPushConsole();

test('registers the subscription again after a reload, and turns notifications off, also while the hub is unreachable and at sign-out', async (t) => {
  const browser = service.addBrowser();
  const { page } = await openSettings(t, 'stays', browser.subscription);
  await turnOn(page);
  // The hub may drop the oldest of too many subscriptions.
  await hub.web('stays').delete('/api/push/subscribe', { body: { endpoint: browser.subscription.endpoint } });
  assert.equal(await countSubscriptions('stays'), 0);
  await page.goto(`${hub.url}/machines`);
  await eventually(async () => (await countSubscriptions('stays')) === 1, 'the subscription');
  await page.goto(`${hub.url}/settings`);
  await turnOff(page);
  assert.equal(await countSubscriptions('stays'), 0);
  await page.reload();
  await turnOn(page);
  await page.route('**/api/push/subscribe', (route) => route.abort());
  await turnOff(page);
  await page.unroute('**/api/push/subscribe');
  await page.reload();
  await turnOnButton(page).waitFor();
  await turnOn(page);
  await page.getByRole('button', { name: /^Sign out of/ }).click();
  await page.getByLabel('Code').waitFor();
  assert.equal(await countSubscriptions('stays'), 0);
  assert.equal(await page.evaluate(() => localStorage.length - Number('subscription key' in localStorage)), 0);
});

test('renews a subscription that the browser drops while the console is open, and says so if the browser no longer allows it', async (t) => {
  const browser = service.addBrowser();
  const { page, context } = await openSettings(t, 'dropped', browser.subscription);
  await turnOn(page);
  await hub.web('dropped').delete('/api/push/subscribe', { body: { endpoint: browser.subscription.endpoint } });
  await page.evaluate(() => localStorage.removeItem('subscription key'));
  const [worker] = context.serviceWorkers();
  await worker.evaluate(() => void self.dispatchEvent(new /** @type {any} */ (self).ExtendableEvent('pushsubscriptionchange')));
  await eventually(async () => (await countSubscriptions('dropped')) === 1, 'the new subscription');
  const notice = page.getByText('This browser has ended your notifications.');
  assert.equal(await notice.count(), 0);

  await page.evaluate(() => localStorage.removeItem('subscription key'));
  await context.clearPermissions();
  await page.goto(`${hub.url}/`);
  await notice.waitFor();
  await page.getByRole('link', { name: 'settings', exact: true }).click();
  await page.getByRole('heading', { name: 'Notifications' }).waitFor();
});

test('replaces a subscription that belongs to another key', async (t) => {
  const browser = service.addBrowser();
  const { page } = await openSettings(t, 'keys', browser.subscription);
  const other = (await service.addBrowser()).subscription.keys.p256dh;
  await page.evaluate((key) => localStorage.setItem('subscription key', key), other);
  await page.reload();
  await turnOn(page);
  const { publicKey } = (await hub.web('keys').get('/api/push/vapid-public-key')).body;
  assert.equal(await page.evaluate(() => localStorage.getItem('subscription key')), publicKey);
});

test('one browser is notified for two accounts, a notification names its account, and a click opens it', async (t) => {
  const browser = service.addBrowser();
  const start = (namespace) =>
    liveSession(t, hub, { namespace, tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop', name: `The ${namespace}` } });
  const [home, work] = [await start('home'), await start('work')];
  const { page, context } = await openSettings(t, 'home', browser.subscription);
  await turnOn(page);
  await page.goto(signInUrl(hub, 'work'));
  await page.getByRole('button', { name: 'Add account' }).click();
  await page.getByRole('link', { name: /The work/ }).waitFor();
  await page.goto('/settings');
  await turnOnButton(page).waitFor();
  assert.equal(await countSubscriptions('work'), 0, 'notifications are turned on in each account');
  await turnOn(page);
  assert.deepEqual([await countSubscriptions('home'), await countSubscriptions('work')], [1, 1]);

  const agentState = { requests: { r1: { tool: 'shell', arguments: {} } } };
  await home.cli.emitWithAck('update-state', { sid: home.session.id, expectedVersion: 1, agentState });
  const { payload } = await browser.next();
  assert.equal(payload.data.namespace, 'home');
  await deliverPush(page, payload);
  const { title, tag } = await waitForNotification(page);
  assert.match(title, / · home$/);
  assert.equal(tag, `home permission-${home.session.id}`);
  const other = await context.newPage();
  await other.goto(`/sessions/${work.session.id}`);
  await other.getByRole('heading', { name: 'The work', level: 1 }).waitFor();
  await page.goto('/?account=home');
  await page
    .getByRole('link', { name: /The home/ })
    .first()
    .waitFor();
  await clickNotification(page);
  await page.getByRole('heading', { name: 'The home', level: 1 }).waitFor();
  await waitForCount(other.getByRole('heading', { name: 'The work', level: 1 }), 1);

  await page.close();
  await deliverPush(other, payload);
  const opened = await clickNotification(other);
  assert.deepEqual(opened, [`${hub.url}/sessions/${home.session.id}?account=home`], 'a new window');
  await other.getByRole('heading', { name: 'The work', level: 1 }).waitFor();
  await other.goto(opened[0]);
  await other.getByRole('heading', { name: 'The home', level: 1 }).waitFor();
  await other.goto('/settings');
  await turnOff(other);
  assert.deepEqual([await countSubscriptions('home'), await countSubscriptions('work')], [0, 1]);
});

test('the other account gets a new subscription if the hub cannot be reached when an account is turned off', async (t) => {
  const browser = service.addBrowser();
  const { page } = await openSettings(t, 'off', browser.subscription);
  await turnOn(page);
  await page.goto(signInUrl(hub, 'stays-on', '/settings'));
  await page.getByRole('button', { name: 'Add account' }).click();
  await page.getByRole('link', { name: 'Settings' }).click();
  await turnOn(page);
  await page.getByRole('button', { name: 'Switch to off' }).click();
  await turnOffButton(page).waitFor();
  await hub.web('stays-on').delete('/api/push/subscribe', { body: { endpoint: browser.subscription.endpoint } });
  await page.route('**/api/push/subscribe', (route) => (route.request().method() === 'DELETE' ? route.abort() : route.fallback()));
  await turnOff(page);
  await eventually(async () => (await countSubscriptions('stays-on')) === 1, 'the new subscription');
});

test('turning notifications off wins over a registration in flight', async (t) => {
  const { page } = await openSettings(t, 'overtaken', service.addBrowser().subscription);
  await turnOn(page);
  // The settings register the subscription again each time the user opens the settings.
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('heading', { name: 'Machines' }).waitFor();
  const [delayed, released] = [deferred(), deferred()];
  await page.route('**/api/push/subscribe', async (route) => {
    if (route.request().method() === 'POST') {
      delayed.resolve();
      await released.promise;
    }
    await route.fallback();
  });
  await page.getByRole('link', { name: 'Settings' }).click();
  await turnOffButton(page).waitFor();
  await withTimeout(delayed.promise, 'the registration of the subscription');
  await turnOffButton(page).click();
  const registered = page.waitForResponse(
    (response) => response.url().endsWith('/api/push/subscribe') && response.request().method() === 'POST',
  );
  released.resolve();
  await registered;
  await turnOnButton(page).waitFor();
  assert.equal(await countSubscriptions('overtaken'), 0);
});

test('explains why notifications are unavailable', async (t) => {
  const removePushManager = () => delete window.PushManager;
  const simulatePhone = () => {
    delete window.PushManager;
    Object.defineProperty(Navigator.prototype, 'standalone', { value: false });
  };
  const denyPermission = () => Object.defineProperty(Notification, 'permission', { get: () => 'denied' });
  for (const [script, text] of /** @type {any[]} */ ([
    [denyPermission, /blocks notifications from this page\. Open the site settings/],
    [removePushManager, /This browser does not support notifications/],
    [simulatePhone, /Add to Home Screen/],
  ])) {
    const { page, context } = await open(t);
    await context.addInitScript(script);
    await page.goto(signInUrl(hub, 'without', '/settings'));
    await page.getByText(text).waitFor();
    await waitForCount(turnOnButton(page), 0);
  }
});
