/** Several accounts in one browser: adding, switching and signing out, and what stays apart. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { DESK, PHONE, signInUrl, waitForValue, waitForEqual, waitForCount } from '../lib/browser.mjs';
import { Chat, startConsole, waitForRecords } from '../lib/console.mjs';
import { CLOCK_WORKER } from '../lib/hub.mjs';

const { hub, open, visit } = await startConsole({ wrappers: CLOCK_WORKER });

const metadata = (name) => ({ path: '/code/demo', host: 'laptop', name });

/** Starts a session that is named like its namespace. */
const startNamed = (t, namespace, options = {}) =>
  liveSession(t, hub, { namespace, tag: '/code/demo', metadata: metadata(`The ${namespace}`), ...options });

const switcher = (page) => page.getByRole('button', { name: /^Account / });
const row = (page, namespace) => page.getByRole('link', { name: new RegExp(`The ${namespace}`) });
const dialogOf = (page) => page.getByRole('dialog');

/** Adds an account with a sign-in link. */
async function addAccount(page, namespace) {
  await page.goto(signInUrl(hub, namespace));
  await dialogOf(page).getByRole('button', { name: 'Add account' }).click();
  await switcher(page).filter({ hasText: namespace }).waitFor();
}

/** Opens an account with the switcher. */
async function switchTo(page, namespace) {
  await switcher(page).click();
  await page.getByRole('menuitemradio', { name: new RegExp(`^${namespace}\\b`) }).click();
  await switcher(page).filter({ hasText: namespace }).waitFor();
}

/** Opens a browser with several accounts, the last one open. */
async function visitAll(t, [first, ...others], options = DESK) {
  const opened = await visit(t, first, options);
  await switcher(opened.page).filter({ hasText: first }).waitFor();
  for (const namespace of others) await addAccount(opened.page, namespace);
  return opened;
}

/** Marks a page. A reload removes the mark. */
const mark = (page) => page.evaluate(() => Object.assign(window, { isMarked: true }));
const isMarked = (page) => page.evaluate(() => 'isMarked' in window);

test('drafts, unsent messages and lists of two accounts stay apart, and unsent messages are sent when the account is opened again', async (t) => {
  const { session, cli } = await startNamed(t, 'mine');
  await startNamed(t, 'theirs');
  const { page, context } = await visit(t, 'mine', { path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  const isMessage = (route) => route.request().method() === 'POST';
  await context.route('**/messages', (route) => (isMessage(route) ? route.abort() : route.fallback()));
  await chat.send('from mine');
  await page.getByText('Waiting for the hub').waitFor();
  await chat.composer.fill('half a sentence');
  await waitForRecords(page, 'outbox', 1, 'mine');
  await waitForRecords(page, 'draft', 1, 'mine');

  await page.goto(signInUrl(hub, 'theirs'));
  await dialogOf(page)
    .getByText('The link signs in to the account “theirs”. You are signed in to “mine”, and stay signed in there.')
    .waitFor();
  await page.waitForURL((url) => url.hash === '');
  await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
  await row(page, 'mine').waitFor();
  await addAccount(page, 'theirs');
  await row(page, 'theirs').waitFor();
  await waitForCount(row(page, 'mine'), 0);
  await waitForRecords(page, 'outbox', 1, 'mine');
  await waitForRecords(page, 'draft', 1, 'mine');

  await switcher(page).click();
  await page.getByRole('menuitemradio', { name: /^mine/ }).getByText('1 unsent message').waitFor();
  await context.unroute('**/messages');
  await page.getByRole('menuitemradio', { name: /^mine/ }).click();
  await row(page, 'mine').click();
  await waitForValue(chat.composer, 'half a sentence');
  assert.equal((await cli.nextUpdate('new-message')).message.content.content.text, 'from mine');
  await waitForRecords(page, 'outbox', 0);
});

test('the account above the list has an arrow that is visible once its menu is loaded', async (t) => {
  const { page } = await visit(t, 'arrow');
  const chip = switcher(page).locator('.chip').first();
  await chip.waitFor();
  const colors = await chip.evaluate((element) => [getComputedStyle(element, '::after').borderRightColor, getComputedStyle(element).color]);
  assert.equal(colors[0], colors[1]);
});

test('the menu works with the keyboard, and the sign-in page has a way back', async (t) => {
  const { page } = await visitAll(t, ['one', 'two'], PHONE);
  await switcher(page).focus();
  await page.keyboard.press('Enter');
  const items = page.getByRole('menu').locator('[role^="menuitem"]');
  await waitForEqual(() => items.allTextContents(), ['one', 'two', 'Add account', 'Sign out of two']);
  await waitForEqual(() => page.getByRole('menuitemradio', { name: 'two' }).getAttribute('aria-checked'), 'true');
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Add an account' }).waitFor();
  await page.getByRole('link', { name: 'Back to two' }).click();
  await switcher(page).filter({ hasText: 'two' }).waitFor();
});

test('an account is added with a code, also with the code of a link', async (t) => {
  const { page } = await visit(t, 'first');
  const { code } = (await hub.web('second').post('/api/devices/codes', {})).body;
  await page.goto(`/pair#${code}`);
  await page.getByText('already signed in to the account first').waitFor();
  await page.getByRole('link', { name: 'Add account' }).click();
  await waitForValue(page.getByRole('textbox', { name: 'Code' }), code);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await switcher(page).filter({ hasText: 'second' }).waitFor();
  await switchTo(page, 'first');
});

test('signing out of one account deletes only its data, and tabs of the other account notice nothing', async (t) => {
  const { session: kept } = await startNamed(t, 'kept');
  const { session: left } = await startNamed(t, 'leaving');
  const { page, context } = await visitAll(t, ['kept', 'leaving']);
  const keptTab = await context.newPage();
  await keptTab.goto(`/sessions/${kept.id}?account=kept`);
  await new Chat(keptTab).composer.fill('a draft of kept');
  await waitForRecords(page, 'draft', 1, 'kept');
  await mark(keptTab);
  await page.goto(`/sessions/${left.id}`);
  await new Chat(page).composer.fill('a draft of leaving');
  await waitForRecords(page, 'draft', 1, 'leaving');
  const other = await context.newPage();
  await other.goto(`/sessions/${left.id}?account=leaving`);
  await other.getByRole('heading', { name: 'The leaving', level: 1 }).waitFor();

  await switcher(page).click();
  await page.getByRole('menuitem', { name: 'Sign out of leaving' }).click();
  for (const tab of [page, other]) {
    await row(tab, 'kept').waitFor();
    assert.equal(new URL(tab.url()).pathname, '/');
  }
  for (const kind of ['draft', 'list', 'outbox']) await waitForRecords(page, kind, 0, 'leaving');
  await waitForRecords(page, 'draft', 1, 'kept');
  assert.equal(await isMarked(keptTab), true);
  await waitForValue(new Chat(keptTab).composer, 'a draft of kept');
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Sign out of kept' }).click();
  for (const tab of [page, other, keptTab]) await tab.getByLabel('Code').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
});

test('a revoked account is removed with the reason, whether it is open or not', async (t) => {
  for (const namespace of ['stays', 'revoked-1', 'revoked-2']) await startNamed(t, namespace);
  const { page } = await visit(t, 'stays');
  const revoke = [];
  for (const namespace of ['revoked-1', 'revoked-2']) {
    const { code } = (await hub.web(namespace).post('/api/devices/codes', {})).body;
    await page.goto(`/sign-in#${code}`);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await switcher(page).filter({ hasText: namespace }).waitFor();
    const [device] = (await hub.web(namespace).get('/api/devices')).body.devices;
    revoke.push(() => hub.web(namespace).delete(`/api/devices/${device.id}`));
  }
  await page.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await revoke[1]();
  await page.getByText('revoked-2: This device was signed out on another device.').waitFor();
  await row(page, 'stays').waitFor();
  await revoke[0]();
  const { token } = JSON.parse(await page.evaluate(() => localStorage.getItem('account-1 revoked-1')));
  // The worker believes a token for 10 s, and again if the next check is slow.
  const isRefused = async () => {
    await hub.advance('revoked-1', 10_000);
    return (await hub.webWithoutToken().post('/api/auth', { accessToken: token })).status === 401;
  };
  await eventually(isRefused, 'the refusal of the token');
  await page.evaluate(() => sessionStorage.removeItem('jwt revoked-1'));
  await page.reload();
  await page.getByText('Signed out of “revoked-1”').waitFor();
  await row(page, 'stays').waitFor();
  await switcher(page).click();
  await waitForEqual(() => page.getByRole('menuitemradio').allTextContents(), ['stays']);
});

test('the switcher says what waits in the other accounts', async (t) => {
  const agentState = { requests: { r1: { tool: 'Bash', arguments: { command: 'ls' } }, r2: { tool: 'Bash', arguments: {} } } };
  await startNamed(t, 'waits', { agentState });
  const { page } = await visitAll(t, ['waits', 'calm']);
  await switcher(page)
    .and(page.getByRole('button', { name: 'Account calm, 2 waiting in other accounts' }))
    .waitFor();
  await switcher(page).click();
  await page
    .getByRole('menuitemradio', { name: /^waits/ })
    .getByText('2 waiting')
    .waitFor();
});

test('a link to a session opens its account, and says if this browser does not have the account', async (t) => {
  const { session } = await startNamed(t, 'linked');
  const { page } = await visitAll(t, ['linked', 'open']);
  await page.goto(`/sessions/${session.id}?account=linked`);
  await page.getByRole('heading', { name: 'The linked', level: 1 }).waitFor();
  await page.waitForURL(`${hub.url}/sessions/${session.id}`);
  await page.goto(`/sessions/${session.id}?account=unknown`);
  await dialogOf(page).getByText('The link is for the account “unknown”.').waitFor();
  await dialogOf(page).getByRole('button', { name: 'Cancel' }).click();
  await row(page, 'linked').waitFor();
  assert.equal(page.url(), `${hub.url}/`);
  await page.goto(`/?account=${encodeURIComponent('your own”. Go on')}`);
  await page.getByText('The link names no valid account').waitFor();
  await waitForCount(dialogOf(page), 0);

  const { page: signedOut } = await open(t);
  await signedOut.goto(`/sessions/${session.id}?account=linked`);
  await signedOut.getByText('The link is for the account “linked”. Sign in to it first.').waitFor();
  await signedOut.getByText('Use an access token').click();
  await signedOut.getByLabel('Access token').fill(hub.token('linked'));
  await signedOut.getByRole('button', { name: 'Sign in with the token' }).click();
  await signedOut.getByRole('heading', { name: 'The linked', level: 1 }).waitFor();
});

test('a link to an account that the browser does not have opens after the account is added', async (t) => {
  const { session } = await startNamed(t, 'added');
  const { page } = await visit(t, 'already');
  const { code } = (await hub.web('added').post('/api/devices/codes', {})).body;
  await page.goto(`/sessions/${session.id}/files?path=src&account=added`);
  await dialogOf(page).getByRole('button', { name: 'Add account' }).click();
  await page.getByText('Sign in to the account “added” to open the link. You stay signed in to “already”.').waitFor();
  await page.getByRole('textbox', { name: 'Code' }).fill(code);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'The added', level: 1 }).waitFor();
  await page.waitForURL(`${hub.url}/sessions/${session.id}/files?path=src`);

  // The author of a link cannot choose another site.
  for (const link of [
    'https://hub.example.com/?account=added',
    '//hub.example.com/?account=added',
    `${hub.url}//x.example.com/?account=added`,
  ]) {
    await page.goto(`/sign-in?link=${encodeURIComponent(link)}`);
    await page.getByText('Use an access token').click();
    await page.getByLabel('Access token').fill(hub.token('added'));
    await page.getByRole('button', { name: 'Sign in with the token' }).click();
    await page.waitForURL((url) => url.pathname !== '/sign-in');
    assert.equal(new URL(page.url()).origin, hub.url);
  }
});

test('a device that asks for access can be connected to another account', async (t) => {
  const { page } = await visitAll(t, ['home', 'work']);
  const { code } = (await hub.webWithoutToken().post('/api/devices/requests', { name: 'A laptop', kind: 'cli' })).body;
  await page.goto(`/pair#${code}`);
  await page.getByText('full access to the account work').waitFor();
  await page.getByRole('link', { name: 'home' }).click();
  await page.getByText('full access to the account home').waitFor();
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByRole('status').filter({ hasText: 'is connected' }).waitFor();
});

test('links to other hubs are added, opened and removed', async (t) => {
  const { page, context } = await visit(t, 'hubs', { ...DESK, path: '/settings' });
  await context.route('https://hub.example.com/**', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>The other hub</h1>' }));
  await page.getByRole('button', { name: 'Add a hub' }).click();
  await page.getByLabel('Name (optional)').fill('Work');
  for (const [address, error] of [
    ['javascript:alert(1)', /Enter the address of a hub/],
    ['ftp://hub.example.com', /Enter the address of a hub/],
    ['https://user:password@hub.example.com', /Enter the address of a hub/],
    [hub.url, /This is the address of this hub/],
  ]) {
    await page.getByLabel('Address').fill(/** @type {string} */ (address));
    await page.getByRole('button', { name: 'Add hub' }).click();
    await page.getByRole('alert').filter({ hasText: error }).waitFor();
  }
  await page.getByLabel('Address').fill('hub.example.com/tools/settings');
  await page.getByRole('button', { name: 'Add hub' }).click();
  await page.getByRole('list', { name: 'Other hubs' }).getByRole('link', { name: 'Work' }).waitFor();
  await page.goto('/');
  await switcher(page).click();
  await page.getByRole('menuitem', { name: 'Work' }).click();
  await page.waitForURL('https://hub.example.com/tools');
  await page.goBack();
  await page.goto('/settings');
  await page.getByRole('button', { name: 'Remove Work' }).click();
  await page.getByRole('list', { name: 'Other hubs' }).waitFor({ state: 'detached' });
});
