/** Each view of the web console while it loads, after an error, offline, and without data. In each state, axe finds no violation. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferred } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { PHONE, signIn } from '../lib/browser.mjs';
import { startConsole, waitForRecords } from '../lib/console.mjs';
import { assertNoViolations, createSample, openInPage, waitUntilLoaded } from '../lib/views.mjs';

const { hub, open } = await startConsole();

/** The folder for a picture of each state. By default, no pictures are saved. */
const PICTURES = process.env.STATE_PICTURES;

const EVERY_REQUEST = '**/api/**';

/**
 * The views. `requests`: the requests that are held, or fail; by default all. `loading`: the label of the loading state. `shows`: a text
 * of the loaded view.
 */
const VIEWS = [
  { path: () => '/', loading: 'Loading the sessions', shows: 'Parse the dates' },
  { path: () => '/inbox', loading: 'Loading what waits', shows: 'Run a command' },
  { path: () => '/machines', loading: 'Loading the machines', shows: 'online' },
  { path: () => '/new', loading: 'Loading the machines', shows: 'Another directory …' },
  { path: () => '/archive', loading: 'Loading the archive', shows: 'Rename the tables' },
  { path: () => '/settings', loading: 'Loading the devices', shows: 'This browser is signed in with an access token' },
  { path: () => '/settings/status', loading: 'Loading the status', shows: 'Latest faults' },
  { path: () => '/pair#RBCD-EFGH', loading: 'Loading the request', shows: 'Does the device show this code?' },
  { path: (id) => `/sessions/${id}`, loading: 'Loading the session', shows: 'Shall I commit it?' },
  { path: (id) => `/sessions/${id}`, requests: '**/messages?*', loading: 'Loading the messages', shows: 'Shall I commit it?' },
  { path: (id) => `/sessions/${id}/changes`, requests: '**/git-*', loading: 'Loading the changes', shows: 'src/dates.rs' },
  { path: (id) => `/sessions/${id}/files`, requests: '**/directory*', loading: 'Loading the directory', shows: 'Cargo.toml' },
  { path: (id) => `/sessions/${id}/files?path=src%2Fdates.rs`, requests: '**/file?*', loading: 'Loading the file', shows: 'parse_date' },
];

/** The views of an account without data, and of a session without data. `shows`: the text in place of the data. */
const EMPTY_VIEWS = [
  { path: '/', shows: 'Connect your computer' },
  { path: '/inbox', shows: 'Nothing waits for you' },
  { path: '/machines', shows: 'No machine is online' },
  { path: '/new', shows: 'No machine is online' },
  { path: '/archive', shows: 'The archive is empty' },
  { path: '/settings', shows: 'This browser is signed in with an access token' },
  { path: '/settings', shows: 'Notifications need a contact address.' },
  { path: '/settings/status', shows: 'The hub has no contact for push services.' },
  { path: '/nowhere', shows: 'Page not found' },
];
const EMPTY_TABS = [
  { tab: '', shows: 'No messages yet' },
  { tab: '/changes', shows: 'No changes' },
  { tab: '/files', shows: 'The directory is empty.' },
];

const UNAVAILABLE = { status: 503, json: { error: 'The database does not answer.', code: 'unavailable' } };
const REQUEST = { name: 'workshop', kind: 'cli', createdAt: Date.now(), expiresAt: Date.now() + 300_000 };

/** Opens a page that is signed in. `check` looks for violations in a view, and for content off the screen. */
async function visit(t, namespace) {
  const { page, context } = await open(t, PHONE);
  await page.route('**/api/devices/requests/*', (route) => route.fulfill({ json: { request: REQUEST } }));
  await signIn(page, hub, namespace);
  await waitUntilLoaded(page);
  const check = async (state, path) => {
    if (PICTURES) await page.screenshot({ path: `${PICTURES}/${state}${path.replace(/[^a-z]+/g, '-')}.png` });
    await assertNoViolations(page, `${path} ${state}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${path} ${state}`);
  };
  return { page, context, check };
}

/** Opens a view as in a browser that has stored no data of the hub. */
async function openFirst(page, path) {
  const client = await page.context().newCDPSession(page);
  await page.goto('about:blank');
  await client.send('Storage.clearDataForOrigin', { origin: hub.url, storageTypes: 'indexeddb' });
  await client.detach();
  await page.goto(path);
}

const shownText = (page, text) => page.locator('main').getByText(text).first();

test('each view says that it is loading, then shows an error, and one press of “Try again” loads it', async (t) => {
  const id = await createSample(t, hub, 'states');
  const { page, check } = await visit(t, 'states');
  for (const { path: pathOf, requests = EVERY_REQUEST, loading, shows } of VIEWS) {
    const path = pathOf(id);
    const refusal = deferred();
    const refuse = (route) => refusal.promise.then(() => route.fulfill(UNAVAILABLE));
    await page.route(requests, refuse);
    await openFirst(page, path);
    await page.locator('main').getByRole('status', { name: loading }).waitFor();
    await check('loading', path);
    refusal.resolve();
    const alert = page.locator('main').getByRole('alert');
    await alert.waitFor();
    await check('error', path);
    await page.unroute(requests, refuse);
    await alert.getByRole('button', { name: 'Try again' }).click();
    await shownText(page, shows).waitFor();
  }
});

test('a list and a session that the browser has stored stay readable below the error, and one press of “Try again” loads them', async (t) => {
  const id = await createSample(t, hub, 'stored-states');
  const { page, check } = await visit(t, 'stored-states');
  for (const [path, shows] of [
    ['/', 'Parse the dates'],
    [`/sessions/${id}`, 'Shall I commit it?'],
  ]) {
    await page.goto(path);
    await shownText(page, shows).waitFor();
    await waitForRecords(page, path === '/' ? 'list' : 'conversation', path === '/' ? 1 : 2);
    const refuse = (route) => route.fulfill(UNAVAILABLE);
    await page.route('**/api/sessions**', refuse);
    await page.reload();
    await shownText(page, shows).waitFor();
    const alert = page.locator('main').getByRole('alert');
    await alert.waitFor();
    await check('stored', path);
    await page.unroute('**/api/sessions**', refuse);
    await alert.getByRole('button', { name: 'Try again' }).click();
    await alert.waitFor({ state: 'detached' });
    await shownText(page, shows).waitFor();
  }
});

test('each view says that the page is offline, and keeps its content', async (t) => {
  const id = await createSample(t, hub, 'states');
  const { page, context, check } = await visit(t, 'states');
  for (const { path: pathOf, shows } of VIEWS) {
    const path = pathOf(id);
    await openInPage(page, path);
    await shownText(page, shows).waitFor();
    await waitUntilLoaded(page);
    await context.setOffline(true);
    await page.getByText('You are offline.').waitFor();
    await shownText(page, shows).waitFor();
    await check('offline', path);
    await context.setOffline(false);
  }
});

test('a view that is opened offline says so, and loads when the page is online again', async (t) => {
  const id = await createSample(t, hub, 'states');
  const { page, context, check } = await visit(t, 'states');
  const paths = VIEWS.map(({ path }) => path(id));
  // The code of each view is loaded before the page is offline.
  for (const [index, { shows }] of VIEWS.entries()) {
    await openInPage(page, paths[index]);
    await shownText(page, shows).waitFor();
  }
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  for (const path of ['/settings', '/settings/status', `/sessions/${id}/changes`, `/sessions/${id}/files`]) {
    await openInPage(page, path);
    await page.locator('main').getByRole('alert').getByText('The hub cannot be reached.').waitFor();
    await check('opened-offline', path);
  }
  await context.setOffline(false);
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await page.locator('main').getByRole('button', { name: 'Try again' }).click();
  await shownText(page, 'Cargo.toml').waitFor();
});

test('each view of an account without data says so', async (t) => {
  const { page, check } = await visit(t, 'nothing');
  const show = async (path, text) => {
    await openInPage(page, path);
    await shownText(page, text).waitFor();
    await waitUntilLoaded(page);
    await check('empty', path);
  };
  for (const { path, shows } of EMPTY_VIEWS) await show(path, shows);
  const { session, cli } = await liveSession(t, hub, { namespace: 'nothing', tag: '/code/a', metadata: { path: '/code/a', host: 'h' } });
  const answers = {
    gitStatus: { success: true, branch: 'main', files: [] },
    gitDiffNumstat: { success: true, files: [] },
    listDirectory: { success: true, entries: [] },
  };
  for (const [name, answer] of Object.entries(answers)) await cli.serve(`${session.id}:${name}`, () => answer);
  for (const { tab, shows } of EMPTY_TABS) await show(`/sessions/${session.id}${tab}`, shows);
});
