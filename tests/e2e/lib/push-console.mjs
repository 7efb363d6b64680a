/** A console whose browsers use a local push service. */

import assert from 'node:assert/strict';
import { after } from 'node:test';
import { signInUrl } from './browser.mjs';
import { startConsole } from './console.mjs';
import { mockPushManager, setPageVisibility } from './push-browser.mjs';
import { PushService } from './push-service.mjs';

export const turnOnButton = (page) => page.getByRole('button', { name: 'Turn notifications on' });
export const turnOffButton = (page) => page.getByRole('button', { name: 'Turn notifications off' });

/** Starts the hub and a push service for the tests of a file. */
export async function startPushConsole() {
  const service = await new PushService().start({ after });
  const { hub, open, visit } = await startConsole({
    vars: { PUSH_ALLOW_INSECURE: 'true' },
    serviceWorkers: 'allow',
    whole: true,
  });

  /** Opens the settings in a browser that uses the local push service. */
  const openSettings = async (t, namespace, subscription) => {
    const opened = await open(t);
    await mockPushManager(opened.context, subscription);
    await opened.page.goto(signInUrl(hub, namespace, '/settings'));
    await opened.page.getByRole('heading', { name: 'Notifications' }).waitFor();
    return opened;
  };

  /** Returns the number of subscriptions of a namespace. */
  const countSubscriptions = async (namespace) => {
    const query = (await hub.database()).prepare('SELECT count(*) AS n FROM push_subscriptions WHERE namespace = ?').bind(namespace);
    return (await query.first()).n;
  };

  return { service, hub, open, visit, openSettings, countSubscriptions };
}

/** Sets the page's visibility, and waits until the page has reported its visibility to the hub. */
export async function setVisibility(page, visibility) {
  // A report of the state before may still be on its way.
  const isReport = (request) => request.url().endsWith('/api/visibility') && request.postDataJSON().visibility === visibility;
  const report = page.waitForResponse((response) => isReport(response.request()));
  await setPageVisibility(page, visibility);
  assert.equal((await report).status(), 200);
}

/** Turns notifications on, and waits until they are. @param {import('playwright-core').Page} page */
export async function turnOn(page) {
  await turnOnButton(page).click();
  await turnOffButton(page).waitFor();
}

/** Turns notifications off, and waits until they are. @param {import('playwright-core').Page} page */
export async function turnOff(page) {
  await turnOffButton(page).click();
  await turnOnButton(page).waitFor();
}
