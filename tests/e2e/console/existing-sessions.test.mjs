/** The sessions that agents have already, and the use of a session in a terminal, in the web console. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { DESK, PHONE, waitForCount, waitForFocus, waitForEqual } from '../lib/browser.mjs';
import { startConsole } from '../lib/console.mjs';

const { hub, visit } = await startConsole();

const AGENTS = [
  { id: 'claude', name: 'Claude Code', flavor: 'alpha' },
  { id: 'gemini', name: 'Gemini CLI', flavor: 'delta' },
];

/** A machine that lists its agents. Its id is the namespace. */
function startMachine(t, namespace) {
  const metadata = { host: 'workshop', displayName: 'The workshop', platform: 'linux', homeDir: '/home/ada', agents: AGENTS };
  return liveMachine(t, hub, { namespace, id: namespace, metadata, runnerState: { directories: ['/home/ada'] } });
}

test('lists the sessions of an agent page by page, and imports one', async (t) => {
  const machine = await startMachine(t, 'import');
  const web = hub.web('import');
  const imported = await web.openSession({ tag: 'one', metadata: { path: '/home/ada/site', host: 'workshop', machineId: 'import' } });
  const session = (number) => ({ id: `s${number}`, title: `Title ${number}`, directory: '/home/ada/site', updatedAt: 1_700_000_000_000 });
  const requests = [];
  await machine.serve('import:listAgentSessions', ({ agent, cursor }) => {
    requests.push([agent, cursor]);
    if (agent === 'gemini') return { success: false, error: 'Gemini CLI does not list its sessions.' };
    if (cursor === 'next') return { success: true, sessions: [{ ...session(3), title: undefined, updatedAt: undefined }] };
    return { success: true, sessions: [{ ...session(1), sessionId: imported.id }, session(2)], nextCursor: 'next' };
  });
  const imports = [];
  await machine.serve('import:importAgentSession', (params) => {
    imports.push(params);
    if (imports.length === 1) return { success: false, error: 'Session not found: s2.' };
    if (!params.trust) return { success: false, error: 'Not trusted.', code: 'untrusted_directory' };
    return { success: true, sessionId: imported.id };
  });
  const { page } = await visit(t, 'import', { ...DESK, path: '/machines' });
  await page.getByRole('link', { name: 'Existing sessions' }).click();
  const list = page.getByRole('region', { name: 'Existing sessions' });
  await waitForCount(list.getByRole('article'), 2);
  const first = list.getByRole('article').filter({ hasText: 'Title 1' });
  await waitForEqual(() => first.getByTitle('/home/ada/site').textContent(), '~/site');
  await first.getByText('14 Nov, 22:13', { exact: true }).waitFor();
  await waitForEqual(() => list.getByRole('link', { name: 'Open', exact: true }).getAttribute('href'), `/sessions/${imported.id}`);
  await list.getByRole('button', { name: 'Load more' }).press('Enter');
  await list.getByRole('heading', { name: 's3' }).waitFor();
  await list.getByText('Time unknown').waitFor();
  await waitForFocus(list.getByRole('article').filter({ hasText: 's3' }).getByRole('button', { name: 'Import' }));
  await waitForCount(list.getByRole('button', { name: 'Load more' }), 0);
  const second = list.getByRole('article').filter({ hasText: 'Title 2' });
  const importButton = second.getByRole('button', { name: 'Import' });
  await importButton.press('Enter');
  await page.getByText('Session not found: s2.').waitFor();
  await waitForFocus(importButton);
  await second.getByRole('button', { name: 'Import' }).click();
  await page.getByRole('dialog', { name: 'Trust this folder?' }).getByRole('button', { name: 'Trust and start' }).click();
  await page.waitForURL(`${hub.url}/sessions/${imported.id}`);
  const request = { agent: 'claude', id: 's2', directory: '/home/ada/site' };
  assert.deepEqual(imports.slice(1), [request, { ...request, trust: true }]);
  await page.goBack();
  await list.getByLabel('Agent').selectOption('gemini');
  await list.getByText('Gemini CLI does not list its sessions.').waitFor();
  assert.deepEqual(requests.at(-1), ['gemini', undefined]);
});

test('says that there are no sessions, that the machine is offline, and that its program is too old', async (t) => {
  const machine = await startMachine(t, 'none');
  const { page } = await visit(t, 'none', { ...PHONE, path: '/machines?existing=gone' });
  await page.getByText('That machine is offline.').waitFor();
  await page.getByRole('link', { name: 'Back to machines' }).click();
  await page.getByRole('link', { name: 'Existing sessions' }).click();
  await page.getByRole('alert').waitFor();
  await machine.serve('none:listAgentSessions', () => ({ success: true, sessions: [] }));
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('This agent has no sessions in the directories of this machine.').waitFor();
});

test('shows the commands for the terminal, and that a session is in use there', async (t) => {
  const metadata = { path: '/home/ada/site', host: 'workshop', terminalCommand: 'cd /home/ada/site && claude --resume 1' };
  const { session, cli } = await liveSession(t, hub, { namespace: 'terminal', tag: 'one', metadata });
  const { page, context } = await visit(t, 'terminal', { ...DESK, path: `/sessions/${session.id}` });
  await page.getByRole('button', { name: 'Session actions' }).click();
  await page.getByRole('menuitem', { name: 'Continue in the terminal' }).click();
  const dialog = page.getByRole('dialog', { name: 'Continue in the terminal' });
  await dialog.getByText(`npx session-gateway-agent attach ${session.id}`).waitFor();
  await dialog.getByText('cd /home/ada/site && claude --resume 1').waitFor();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  for (const command of [`npx session-gateway-agent attach ${session.id}`, metadata.terminalCommand]) {
    await dialog.getByRole('button', { name: `Copy: ${command}` }).click();
    await eventually(async () => (await page.evaluate(() => navigator.clipboard.readText())) === command, 'the copied command');
  }
  await dialog.getByRole('button', { name: 'Close' }).click();
  const change = { sid: session.id, expectedVersion: session.metadataVersion, metadata: { ...metadata, terminalProgram: 'claude' } };
  await cli.emitWithAck('update-metadata', change);
  await cli.emitWithAck('session-alive', { sid: session.id, time: Date.now(), mode: 'local', thinking: false });
  await page.getByText('In use in a terminal on workshop. Messages wait until the program there ends.').waitFor();
  await waitForCount(page.getByRole('button', { name: 'Take control' }), 0);
  await waitForCount(page.getByRole('textbox', { name: 'Message' }), 0);
});
