/** Completed permission requests in the conversation. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitForCount, waitForEqual } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/lib/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit, startSession } = await startConsole();

test('shows completed requests with their tool calls', async (t) => {
  const { page, chat, pageErrors } = await startSession(t, 'answered');
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
  assert.deepEqual(pageErrors, []);
});

test('shows completed requests that have no tool call, in order', async (t) => {
  const namespace = 'completed';
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/code/t', metadata: { path: '/code/t', host: 'h' } });
  await cli.sendMessage(session.id, { role: 'agent', content: { type: 'text', text: 'Before.' } });
  const { page } = await visit(t, namespace, { path: `/sessions/${session.id}` });
  const chat = new Chat(page);
  await chat.waitForText('Before.');
  const completedAt = Date.now() + 1000;
  const questions = [{ id: 'shape', question: 'Which shape?', options: ['Round'] }];
  const completedRequests = {
    r1: { tool: 'Ask', arguments: { questions }, completedAt, status: 'approved', answers: { shape: { answers: ['Round'] } } },
    r2: {
      tool: 'Edit',
      arguments: { file_path: '/code/t/a.txt', content: 'new' },
      completedAt: completedAt + 1,
      status: 'approved',
      decision: 'approved_for_session',
      mode: 'acceptEdits',
      allowTools: ['Edit', 'Write'],
    },
    r3: { tool: 'Bash', arguments: { command: 'ls' }, completedAt: completedAt + 2, status: 'canceled', reason: 'The agent was restarted' },
  };
  await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests: {}, completedRequests } });
  const lines = chat.log.locator('summary');
  await lines.nth(2).waitFor();
  await waitForEqual(
    () => lines.allTextContents(),
    ['AnsweredWhich shape?', 'Approved for the sessionEdit a.txt', 'Not answeredRun command ls — The agent was restarted'],
  );
  await lines.nth(0).click();
  await lines.nth(1).click();
  await chat.log.locator('.decision-details').nth(1).waitFor();
  await waitForEqual(
    () => chat.log.locator('.decision-details > div').allTextContents(),
    ['DecisionAnswered', 'Which shape?Round', 'DecisionApproved for the session', 'ModeAccept edits', 'Also allowedEdit, Write'],
  );
  await page.getByRole('region', { name: 'Edit of /code/t/a.txt' }).waitFor();
});
