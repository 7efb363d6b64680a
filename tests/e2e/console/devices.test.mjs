/** Devices in the web console: adding, using and revoking them, and approving a CLI. */

import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, signInUrl, waitForEqual, waitForCount } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';
import { temporaryFolder } from '../lib/git.mjs';
import { startUnpaired } from '../lib/unpaired.mjs';

/** A revocation reaches every isolate within this time. */
const REVOKED_WITHIN_MS = 10_000;

const NOT_VALID = /^This code is not valid\. It may be mistyped, used, or older than 5 minutes/;

const { hub, open, visit } = await startConsole();

const SETTINGS = { ...DESK, path: '/settings' };

const codeField = (page) => page.getByRole('textbox', { name: 'Code' });
const signInButton = (page) => page.getByRole('button', { name: 'Sign in', exact: true });
const waitUntilSignedIn = (page) => page.getByRole('link', { name: 'Settings' }).waitFor();

/** Opens the dialog that adds a device, in the settings. */
async function addDevice(page) {
  await page.getByRole('button', { name: 'Add a device' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add a device' });
  await dialog.getByRole('img', { name: 'QR code of the sign-in link' }).waitFor();
  await dialog.getByText('A phone cannot open this link: its address is this computer.').waitFor();
  const code = await dialog.locator('.device-code').textContent();
  return { dialog, code, link: `${hub.url}/pair#${code}` };
}

/** Advances the clock of a page to the next time its dialog asks whether its code is valid or used. */
const pollCode = (page) => page.clock.runFor(2_000);

/** Signs a browser in with a link. */
async function openLink(page, link, name) {
  await page.goto(link);
  await page.getByLabel('Name of this device').fill(name);
  await signInButton(page).click();
  await waitUntilSignedIn(page);
}

/** Adds a phone to a namespace. Returns the page of the phone, and the page of the browser that added the phone. */
async function setUpTwo(t, namespace) {
  const { page: desk } = await visit(t, namespace, { ...SETTINGS, hasClock: true });
  const { dialog, link } = await addDevice(desk);
  const { page: phone } = await open(t, PHONE);
  await openLink(phone, link, 'My phone');
  return { desk, phone, dialog };
}

test('a phone that opens the link of a code is signed in, and both browsers work', async (t) => {
  const { desk, phone, dialog } = await setUpTwo(t, 'add');
  await phone.waitForURL(`${hub.url}/`);
  await pollCode(desk);
  await dialog.getByText('Used by My phone').waitFor();
  await dialog.getByRole('button', { name: 'Close' }).click();
  const row = desk.getByRole('listitem').filter({ hasText: 'My phone' });
  await row.getByText('last used now').waitFor();
  await phone.reload();
  await phone.goto('/settings');
  const own = phone.getByRole('listitem').filter({ hasText: 'this device' });
  await own.getByRole('button', { name: 'Actions for My phone' }).click();
  await phone.getByRole('menuitem', { name: 'Rename' }).click();
  await phone.getByRole('dialog').getByLabel('Name').fill('Pocket');
  await phone.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await own.getByText('Pocket').waitFor();

  await phone.getByRole('button', { name: /^Sign out of/ }).click();
  await codeField(phone).waitFor();
  await desk.reload();
  await desk.getByRole('heading', { name: 'Devices' }).waitFor();
  await desk.getByRole('list', { name: 'Devices' }).waitFor({ state: 'attached' });
  await waitForCount(desk.getByRole('listitem').filter({ hasText: 'Pocket' }), 0);
});

test('a device that is connected already says so and is not added again, and the dialog offers a new code in place of the used one', async (t) => {
  const { desk, phone, dialog } = await setUpTwo(t, 'twice');
  await pollCode(desk);
  await dialog.getByText('Used by My phone').waitFor();
  await desk.reload();
  const again = await addDevice(desk);
  await again.dialog.getByText('A device that is connected already says so, and is not added again.').waitFor();
  await phone.goto(again.link);
  await phone.getByText('This browser is already signed in to the account twice.').waitFor();
  await phone.getByRole('link', { name: 'Add account' }).click();
  await phone.getByLabel('Name of this device').fill('My phone again');
  await signInButton(phone).click();
  await waitUntilSignedIn(phone);
  await pollCode(desk);
  await again.dialog.getByText('Used by My phone again').waitFor();
  await again.dialog.getByText(again.code).waitFor({ state: 'detached' });
  await again.dialog.getByRole('button', { name: 'New code' }).click();
  await again.dialog.getByRole('img', { name: 'QR code of the sign-in link' }).waitFor();
  assert.notEqual(await again.dialog.locator('.device-code').textContent(), again.code);
  const { devices } = (await hub.web('twice').get('/api/devices')).body;
  assert.deepEqual(pluck(devices, 'name'), ['My phone']);
});

test('of two dialogs, only the one whose code was used says so', async (t) => {
  const { page: first } = await visit(t, 'two-dialogs', { ...SETTINGS, hasClock: true });
  const { page: second } = await visit(t, 'two-dialogs', { ...SETTINGS, hasClock: true });
  const [used, unused] = [await addDevice(first), await addDevice(second)];
  const added = await hub.webWithoutToken().post('/api/devices', { code: used.code, name: 'Tablet', kind: 'browser' });
  assert.equal(added.status, 200);
  await pollCode(first);
  await used.dialog.getByText('Used by Tablet').waitFor();
  // The other dialog has read the state of its own code since.
  for (let poll = 0; poll < 2; poll += 1)
    await Promise.all([second.waitForResponse((response) => response.url().includes('/api/devices/codes/')), pollCode(second)]);
  assert.equal(await unused.dialog.locator('.device-code').textContent(), unused.code);
});

/** Returns the code in the command of the quick start. */
async function readQuickStartCode(page) {
  const command = page.locator('pre.command');
  await command.getByText(/--code [A-Z0-9]{4}-[A-Z0-9]{4}/).waitFor();
  return (await command.textContent()).trim().split(' ').at(-1);
}

test('the command of the quick start connects a computer, the page says so, and the first session starts', async (t) => {
  const { page, context } = await visit(t, 'first-run');
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByText('Waiting for your machine …').waitFor();
  await page.getByRole('radio', { name: 'Codex' }).check();
  const code = await readQuickStartCode(page);
  const command = `npx session-gateway-agent --agent codex --hub ${hub.url} --code ${code}`;
  assert.equal((await page.locator('pre.command').textContent()).trim(), command);
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByText('Copied', { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), command);
  // The command line is that of the bridge. The example agent, which needs no account, has the same option.
  const agent = startUnpaired(t, hub, { dir: temporaryFolder(t), home: temporaryFolder(t), args: ['--code', code] });
  await page.getByRole('status').getByText(`${hostname()} is connected`).waitFor();
  await agent.sessionId();
  await page.getByRole('link', { name: 'Start a session' }).click();
  await page.getByRole('textbox', { name: 'Task' }).fill('echo started');
  await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
  await page.getByRole('log', { name: 'Conversation' }).getByText('echo started').first().waitFor();
  assert.equal((await hub.web('first-run').get('/api/devices')).body.devices[0].kind, 'cli');
});

test('the code of the quick start is renewed before it expires, and only while the page is visible', async (t) => {
  const { page, context } = await open(t);
  let created = 0;
  context.on('request', (request) => {
    if (request.url().endsWith('/api/devices/codes')) created += 1;
  });
  await page.clock.install();
  await page.goto(signInUrl(hub, 'renewal'));
  const first = await readQuickStartCode(page);
  const setVisibility = (state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, 'visibilityState', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await setVisibility('hidden');
  // A code is renewed a minute before it expires.
  await page.clock.fastForward('04:05');
  assert.equal(created, 1);
  await setVisibility('visible');
  await eventually(async () => (await readQuickStartCode(page)) !== first, 'another code');
  assert.equal(created, 2);
  // Another view shows the same code.
  const second = await readQuickStartCode(page);
  await page.getByRole('link', { name: 'Machines' }).click();
  await page.getByRole('heading', { name: 'No machine is online' }).waitFor();
  assert.equal(await readQuickStartCode(page), second);
  assert.equal(created, 2);
});

test('a reload keeps the code of the quick start until a computer has used it', async (t) => {
  const { page } = await visit(t, 'reloads');
  const first = await readQuickStartCode(page);
  for (let reload = 0; reload < 2; reload += 1) {
    await page.reload();
    assert.equal(await readQuickStartCode(page), first);
  }
  await hub.webWithoutToken().post('/api/devices', { code: first, name: 'build server', kind: 'cli' });
  await page.reload();
  assert.notEqual(await readQuickStartCode(page), first);
});

test('without a code, the quick start shows the command with which the computer shows its own', async (t) => {
  const { page, context } = await open(t, PHONE);
  await context.route('**/api/devices/codes', (route) => route.fulfill({ status: 409, json: { error: 'x', code: 'too_many_codes' } }));
  await page.goto(signInUrl(hub, 'no-code'));
  await page.getByText('The computer shows a code. Approve it under Settings').waitFor();
  assert.equal((await page.locator('pre.command').textContent()).trim(), `npx session-gateway-agent --agent claude --hub ${hub.url}`);
});

test('a revoked device is signed out at once, and the other browser notices nothing', async (t) => {
  const { desk, phone, dialog } = await setUpTwo(t, 'revoke');
  await phone.locator('.connection[data-state="live"]').waitFor({ state: 'attached' });
  await dialog.getByRole('button', { name: 'Close' }).click();
  await desk.getByRole('button', { name: 'Actions for My phone' }).click();
  await desk.getByRole('menuitem', { name: 'Revoke' }).click();
  const confirmation = desk.getByRole('dialog', { name: 'Revoke “My phone”?' });
  await confirmation.getByRole('button', { name: 'Revoke' }).click();
  await confirmation.waitFor({ state: 'detached' });
  const since = Date.now();
  await phone.getByText('This device was signed out on another device.').waitFor({ timeout: REVOKED_WITHIN_MS });
  t.diagnostic(`signed out after ${Date.now() - since} ms`);
  await codeField(phone).waitFor();
  assert.equal(await phone.evaluate(() => localStorage.length), 0);
  await waitForEqual(() => desk.locator('.connection').getAttribute('data-state'), 'live');
  await desk.reload();
  await waitUntilSignedIn(desk);
});

test('the dialog and the quick start replace a code that the hub has deleted because a device was revoked', async (t) => {
  const { page } = await visit(t, 'deleted-code', { ...DESK, hasClock: true });
  const web = hub.web('deleted-code');
  const addDeviceWithoutDialog = async () => {
    const { code } = (await web.post('/api/devices/codes', {})).body;
    return (await hub.webWithoutToken().post('/api/devices', { code, name: 'Old phone', kind: 'phone' })).body.device.id;
  };
  const first = await addDeviceWithoutDialog();
  await page.reload();
  const shown = await readQuickStartCode(page);
  await page.goto('/settings');
  const { dialog, code } = await addDevice(page);
  assert.equal((await web.request('DELETE', `/api/devices/${first}`)).status, 200);
  await pollCode(page);
  await dialog.getByText('The code is no longer valid, because a device was revoked.').waitFor();
  await dialog.getByRole('button', { name: 'New code' }).click();
  await dialog.getByRole('img', { name: 'QR code of the sign-in link' }).waitFor();
  assert.notEqual(await dialog.locator('.device-code').textContent(), code);
  await page.goto('/');
  assert.notEqual(await readQuickStartCode(page), shown);
});

test('wrong, used and expired codes are refused with what to do', async (t) => {
  const createCode = async () => (await hub.web('codes').post('/api/devices/codes', {})).body.code;
  const code = await createCode();
  assert.equal((await hub.webWithoutToken().post('/api/devices', { code, name: 'First', kind: 'browser' })).status, 200);
  const expired = await createCode();
  const database = await hub.database();
  await database.prepare('UPDATE pairings SET expires_at = 1 WHERE namespace = ?').bind('codes').run();

  const { page } = await open(t);
  await page.goto(`/pair#${code}`);
  const wrong = code.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
  for (const [kind, text] of Object.entries({ used: code, wrong, expired })) {
    await codeField(page).fill(text);
    const [response] = await Promise.all([page.waitForResponse(`${hub.url}/api/devices`), signInButton(page).click()]);
    assert.equal(response.status(), 404, kind);
    await page.getByText(NOT_VALID).waitFor();
  }
  // The id of the request is below the message, not beside it.
  const [notice, id] = await Promise.all(['.notice.danger', '.request-id'].map((selector) => page.locator(selector).boundingBox()));
  assert.ok(id.width > notice.width / 2, 'the id has the width of the message');
  await codeField(page).fill('ABC');
  await signInButton(page).click();
  await page.getByText('A code has 8 letters and digits, such as ABCD-EFGH.').waitFor({ state: 'visible' });
  await codeField(page).fill('RBCD-EFGH');
  await signInButton(page).click();
  await page.getByText('This is the code of a device that asks for access.').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
});

test('a code that expires is replaced in the dialog', async (t) => {
  const { page } = await visit(t, 'expires', { ...SETTINGS, hasClock: true });
  const { dialog, code } = await addDevice(page);
  await page.clock.fastForward('05:00');
  await dialog.getByText('The code has expired.').waitFor();
  await page.clock.resume();
  await dialog.getByRole('button', { name: 'New code' }).click();
  await eventually(async () => ![null, code].includes(await dialog.locator('.device-code').textContent()), 'another code');
});

/** Starts a CLI that asks for access. */
const startCli = (t) => startUnpaired(t, hub, { dir: temporaryFolder(t), home: temporaryFolder(t) });

test('a CLI that shows a code is approved in the console, and connects', async (t) => {
  const cli = startCli(t);
  const { page } = await open(t);
  await page.goto(await cli.link());
  await page.getByText('Sign in here first, to approve it.').waitFor();
  await page.getByText('Use an access token').click();
  await page.getByLabel('Access token').fill(hub.token('approve'));
  await page.getByRole('button', { name: 'Sign in with the token' }).click();
  await page.getByText('Does the device show this code?').waitFor();
  await waitForEqual(() => page.locator('.device-code').textContent(), await cli.code());
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await page.getByRole('status').filter({ hasText: 'is connected' }).waitFor();
  const id = await cli.sessionId();
  await page.goto(`/sessions/${id}`);
  await page.getByLabel('Message to the agent').waitFor();
});

test('a typed code of a CLI is denied, and the CLI says so', async (t) => {
  const cli = startCli(t);
  const { page } = await visit(t, 'deny', SETTINGS);
  await page.getByRole('link', { name: 'Enter a device’s code' }).click();
  await codeField(page).fill('RZZZ-ZZZZ');
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByText(NOT_VALID).waitFor();
  await page.getByRole('button', { name: 'Enter another code' }).click();
  await codeField(page).fill((await cli.code()).toLowerCase());
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('button', { name: 'Deny', exact: true }).click();
  await page.getByText('The request was denied.').waitFor();
  assert.equal((await cli.exited)[0], 77);
  assert.match(cli.lines.all.at(-1), /The request was denied in the console/);
});
