/** Approvals in the web console: the scope of an approval, approvals without a question, plans, shortened requests, and completed requests. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { PHONE, waitForCount, waitForFocus, waitForEqual } from '../lib/browser.mjs';
import { openMore, startConsole } from '../lib/console.mjs';

const { hub, openTalk, startSession } = await startConsole();

const bashRequest = (more) => ({ tool: 'Bash', arguments: { command: 'git commit -m one' }, createdAt: 1, ...more });
/** Returns the labels of the choices of a card that can be clicked. */
const buttonsOf = (card) =>
  card
    .locator('.request-choices > button:enabled')
    .evaluateAll((buttons) => buttons.map((button) => button.innerText.replace(/\s+[ad.]$/, '').trim()));
const DENIALS = ['Deny with a reason …', 'Deny and stop'];

test('an approval for the session names its scope, covers only this scope, is listed, and can be withdrawn', async (t) => {
  const { page, chat } = await startSession(t, 'scope');
  const rules = page.getByRole('list', { name: 'Allowed until the agent ends' });
  await chat.send('ls src');
  await chat.answer('Allow ls with any path in the folder until the agent ends');
  await rules.getByText('ls with any path in the folder').waitFor();
  await chat.send('ls');
  await chat.log
    .locator('details', { hasText: /^ ?Run command ?ls ?\d/ })
    .getByRole('img', { name: 'Allowed by the rule `ls` with any path in the folder' })
    .waitFor();
  await chat.send('ls && ./touch dangerous');
  await chat.request().getByText('touch dangerous').waitFor();
  const exact = 'Allow exactly ls && ./touch dangerous until the agent ends';
  assert.deepEqual(await chat.answersInSheet(chat.request()), [exact, ...DENIALS]);
  await chat.answer('Deny and stop');
  await rules.getByRole('button', { name: 'Ask again for ls with any path in the folder' }).click();
  await rules.waitFor({ state: 'detached' });
  await chat.send('ls -a');
  await chat.request().getByText('ls -a').waitFor();
});

test('the button for the session names no scope if the scope is unknown, and is missing without a scope', async (t) => {
  const { chat, setRequests } = await openTalk(t, 'generic', { requests: { r1: bashRequest() } });
  assert.deepEqual(await chat.answersInSheet(chat.request()), ['Approve for session, as its agent decides', ...DENIALS]);
  const edit = {
    tool: 'Edit',
    arguments: { file_path: 'a', old_string: 'a', new_string: 'b' },
    createdAt: 1,
    sessionRule: { kind: 'edit', label: 'edits in shop' },
  };
  await setRequests({ r2: edit });
  const answers = ['Approve and accept edits', 'Allow edits in shop until the agent ends', ...DENIALS];
  assert.deepEqual(await chat.answersInSheet(chat.request('Edit')), answers);
  await setRequests({ r3: bashRequest({ sessionRule: null }) });
  assert.deepEqual(await chat.answersInSheet(chat.request()), DENIALS);
  assert.deepEqual(await buttonsOf(chat.request()), ['Approve', 'Deny', 'More']);
});

test('a mode that never asks is red and needs a confirmation, in a session and in the form for a new session', async (t) => {
  const { page, chat, agent } = await startSession(t, 'never');
  const mode = page.getByLabel('Permission mode');
  const dialog = page.getByRole('dialog', { name: 'Approve everything?' });
  const readStoredMode = async () => (await hub.web('never').readSession(agent.sessionId)).permissionMode;
  const colorOf = (locator) => locator.evaluate((element) => getComputedStyle(element).color);
  const plain = await colorOf(mode);
  await mode.selectOption('Approve everything');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.deepEqual([await mode.inputValue(), await readStoredMode()], ['default', 'default']);
  await mode.selectOption('Approve everything');
  await dialog.getByRole('button', { name: 'Approve everything' }).click();
  await page.locator('select.never-asks').waitFor();
  assert.notEqual(await colorOf(mode), plain);
  await chat.send('ls src');
  await chat.log.locator('details', { hasText: 'ls src' }).getByRole('img', { name: 'Not asked: Approve everything' }).waitFor();

  await page.goto('/new');
  await openMore(page);
  const box = page.getByRole('checkbox', { name: /Approve everything/ });
  await box.click();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await waitForEqual(() => box.isChecked(), false);
  await box.click();
  await dialog.getByRole('button', { name: 'Approve everything' }).click();
  await page.locator('input[type=checkbox]:checked').waitFor();
});

test('if an agent lists modes and models, the console offers only these', async (t) => {
  const modes = [
    { id: 'default', name: 'Manual' },
    { id: 'plan', name: 'Plan' },
    { id: 'yolo', name: 'Approve everything', neverAsks: true },
  ];
  const { page } = await openTalk(t, 'own', { metadata: { flavor: 'gamma', modes, models: [{ id: 'opus', name: 'Opus 5.5' }] } });
  const mode = page.getByLabel('Permission mode');
  await mode.waitFor();
  await waitForEqual(() => mode.locator('option').allInnerTexts(), ['Manual', 'Plan', 'Approve everything']);
  await waitForEqual(() => page.getByLabel('Model', { exact: true }).locator('option').allInnerTexts(), ['default', 'Opus 5.5']);
});

test('if an agent offers only permanent approvals, the console warns before the click', async (t) => {
  const choices = [{ id: 'always', label: 'Always allow git commit *' }];
  const sessionRule = { kind: 'command', label: '`git commit` with any message' };
  const requests = { r1: bashRequest({ sessionRule, choices, needsChoice: true }) };
  const { page, chat, answered } = await openTalk(t, 'always', { requests });
  await page.getByText('The agent offers no approval of this call alone.').waitFor();
  assert.deepEqual(await buttonsOf(chat.request()), ['Choose …', 'Deny', 'More']);
  await chat.request().getByRole('button', { name: 'Choose …' }).click();
  await waitForEqual(() => chat.moreAnswers.getByRole('button').allInnerTexts(), ['Always allow git commit *', ...DENIALS, 'Cancel']);
  await chat.moreAnswers.getByRole('button', { name: 'Always allow git commit *' }).click();
  await chat.request().waitFor({ state: 'detached' });
  assert.deepEqual(answered, [
    { id: 'r1', approved: true, decision: 'approved', answers: { choice: ['always'] }, sessionId: answered[0].sessionId },
  ]);
});

test('the agent’s own answers are in a sheet, which can be closed with or without an answer', async (t) => {
  const choices = [
    { id: 'project', label: 'Always allow git commit *' },
    { id: 'free', label: 'Always allow everything', neverAsks: true },
  ];
  const small = { ...PHONE, viewport: { width: 390, height: 480 } };
  const requests = {
    r1: bashRequest({ sessionRule: { kind: 'command', label: '`git commit` with any message' }, choices }),
    r2: bashRequest({ createdAt: 2, choices, needsChoice: true }),
  };
  const { page, chat, answered } = await openTalk(t, 'sheet', { requests }, small);
  await chat.request().first().waitFor();
  const more = page.getByRole('button', { name: 'More', exact: true });
  const sheet = chat.moreAnswers;
  await more.press('Enter');
  await page.waitForFunction(() => document.activeElement?.textContent === 'Always allow git commit *');
  await page.keyboard.press('Escape');
  await waitForFocus(more);
  await more.tap();
  await sheet.getByRole('button', { name: 'Always allow everything' }).tap();
  const confirmation = page.getByRole('dialog', { name: 'Approve everything?' });
  await confirmation.getByRole('button', { name: 'Cancel' }).tap();
  assert.deepEqual(answered, []);
  await more.tap();
  await sheet.getByRole('button', { name: 'Always allow git commit *' }).tap();
  await page.getByRole('button', { name: 'Choose …' }).tap();
  await sheet.getByText('The agent offers no approval of this call alone.').waitFor();
  await sheet.getByRole('button', { name: 'Deny and stop' }).tap();
  await chat.request().waitFor({ state: 'detached' });
  assert.deepEqual(pluck(answered, 'id', 'decision', 'answers'), [
    ['r1', 'approved', { choice: ['project'] }],
    ['r2', 'abort', undefined],
  ]);
});

const PLAN = '# Discounts\n\n1. Read the **invoice**.\n2. Subtract the discount.\n\n<!-- rm -rf ~ -->\n';
const planRequest = (more) => ({
  tool: 'ExitPlanMode',
  arguments: { plan: PLAN },
  createdAt: 1,
  sessionRule: null,
  choices: [
    { id: 'auto', label: 'Yes, and use auto mode' },
    { id: 'free', label: 'Yes, and bypass permissions', neverAsks: true },
  ],
  ...more,
});
const PLAN_ANSWERS = [
  'Approve and accept edits',
  'Yes, and use auto mode',
  'Yes, and bypass permissions',
  'Say what to change …',
  'Deny and stop',
];

test('a plan is shown as a document and as its text, and is approved with accepted edits or in the agent’s own words', async (t) => {
  const { page, chat, answered, setRequests } = await openTalk(t, 'plans', { requests: {} });
  for (const [index, [name, expected]] of /** @type {[string, object][]} */ ([
    ['Approve', { decision: 'approved' }],
    ['Yes, and use auto mode', { decision: 'approved', answers: { choice: ['auto'] } }],
    ['Yes, and bypass permissions', { decision: 'approved', answers: { choice: ['free'] } }],
    ['Approve and accept edits', { decision: 'approved', mode: 'acceptEdits' }],
  ]).entries()) {
    await setRequests({ [`r${index}`]: planRequest() });
    const card = chat.request('ExitPlanMode');
    await card.getByRole('heading', { name: 'Discounts' }).waitFor();
    // Markdown would hide the comment.
    await card.getByText('rm -rf').waitFor();
    await card.getByRole('button', { name: 'Show as text' }).click();
    await card.getByText('**invoice**').waitFor();
    await card.getByRole('heading', { name: 'Approve this plan' }).waitFor();
    assert.deepEqual(await buttonsOf(card), ['Approve', 'Keep planning', 'More']);
    assert.deepEqual(await chat.answersInSheet(card), PLAN_ANSWERS);
    await chat.choose(card, name);
    if (name === 'Yes, and bypass permissions') await page.getByRole('dialog').getByRole('button', { name: 'Approve everything' }).click();
    await card.waitFor({ state: 'detached' });
    const { id: _id, approved, sessionId: _sessionId, ...rest } = answered[index];
    assert.deepEqual([approved, rest], [true, expected], name);
  }
});

test('a plan stays in the conversation with the decision', async (t) => {
  const { page, chat, write, answered } = await openTalk(t, 'kept', { requests: { call: planRequest() } }, PHONE);
  await write({ type: 'tool_use', id: 'call', name: 'ExitPlanMode', input: { plan: PLAN } });
  const card = chat.request('ExitPlanMode');
  await chat.choose(card, 'Say what to change …');
  await page
    .getByRole('dialog')
    .getByLabel(/What to change/)
    .fill('Also round the total');
  await page.getByRole('dialog').getByRole('button', { name: 'Keep planning' }).tap();
  const kept = chat.log.getByRole('region', { name: 'Plan' });
  await kept.getByRole('heading', { name: 'Discounts' }).waitFor();
  await kept.getByText('Kept planning').waitFor();
  await kept.getByText('Reason: Also round the total').waitFor();
  assert.deepEqual([answered[0].approved, answered[0].reason], [false, 'Also round the total']);
});

test('a shortened request can be approved only after its full arguments are loaded', async (t) => {
  const whole = { command: `echo ${'x'.repeat(50)}; rm -r src` };
  const json = JSON.stringify(whole);
  const shortened = { parts: 3, bytes: 1_000_000 };
  const short = { tool: 'Bash', arguments: { command: 'echo xxx\n[52 more characters]' }, createdAt: 1, sessionRule: null, shortened };
  const { page, chat, session, cli, answered } = await openTalk(t, 'short', { requests: { r1: short } });
  const read = [];
  let fails = true;
  await cli.serve(`${session.id}:readPermissionRequest`, ({ id, part }) => {
    read.push([id, part]);
    if (fails && part === 1) return { success: false, error: 'The agent is busy.' };
    return { success: true, text: json.slice(part * 20, part === 2 ? undefined : (part + 1) * 20), parts: 3, proof: `p${part}` };
  });
  const card = chat.request();
  await card.getByText('Load all of it (976.6 KiB) to approve it.').waitFor();
  assert.deepEqual(await buttonsOf(card), ['Deny', 'More']);
  await card.getByRole('button', { name: 'Load all' }).click();
  await page.getByText('The agent is busy.').waitFor();
  assert.deepEqual(await buttonsOf(card), ['Deny', 'More']);
  fails = false;
  await card.getByRole('button', { name: 'Load all' }).click();
  await card.getByText('rm -r src').waitFor();
  assert.deepEqual(read, [
    ['r1', 0],
    ['r1', 1],
    ['r1', 0],
    ['r1', 1],
    ['r1', 2],
  ]);
  await card.getByRole('button', { name: 'Approve', exact: true }).click();
  await card.waitFor({ state: 'detached' });
  assert.deepEqual([answered[0].approved, answered[0].answers], [true, { proof: ['p0p1p2'] }]);
  await waitForCount(page.getByText('Could not approve'), 0);
});

test('shows completed requests with their tool calls', async (t) => {
  const { page, chat } = await startSession(t, 'answered');
  await chat.send('echo allowed');
  await chat.answer('Approve');
  await chat.waitForText('Exit code 0.');
  await chat.send('rm notes.txt');
  await chat.denyWithReason(chat.request(), 'It is still needed');
  await chat.waitForText('Reason: It is still needed');

  await page.reload();
  const allowed = chat.log.locator('details', { hasText: 'echo allowed' });
  await allowed.getByRole('img', { name: 'Approved' }).waitFor();
  await allowed.locator('summary').click();
  await allowed.locator('.decision-details').waitFor();
  await waitForEqual(() => allowed.locator('.decision-details > div').allTextContents(), ['DecisionApproved', 'ModeAsk']);
  // The reason is shown only once, at the denied call.
  const denied = chat.log.locator('details', { hasText: 'rm notes.txt' });
  await waitForCount(chat.log.getByText('It is still needed'), 1);
  await denied.getByRole('img', { name: 'Denied' }).waitFor();
  await denied.locator('summary').click();
  await denied.locator('.decision-details').waitFor();
  await waitForEqual(
    () => denied.locator('.decision-details > div').allTextContents(),
    ['DecisionDenied', 'ReasonIt is still needed', 'ModeAsk'],
  );
  await waitForEqual(() => denied.locator('.command').textContent(), 'rm notes.txt');
  // Only the two tool calls can be expanded: the requests are shown with them.
  await waitForCount(chat.log.locator('summary'), 2);
});
