/** The console of a deployment whose CLIs have their own words: offered agents and modes, and results in the shapes of these CLIs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { waitForValue, waitForEqual, waitForCount } from '../lib/browser.mjs';
import { liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, fillDirectory, openMore, startConsole } from '../lib/console.mjs';
import { DIALECTS, ScriptedCli } from '../lib/dialects.mjs';

const { hub, visit } = await startConsole({ vars: { VOCABULARY: 'preset:hapi' } });

const optionsOf = (select) => select.locator('option').allTextContents();

test('offers the agents that a machine lists, and shows the agent of a session and its tokens and cost', async (t) => {
  const agents = [
    { id: 'claude', name: 'Claude Code', flavor: 'claude' },
    { id: 'my-agent', name: 'My agent', flavor: 'my-agent' },
  ];
  const startMachine = (id, listed) =>
    liveMachine(t, hub, { namespace: 'listed', id, metadata: { host: id, platform: 'linux', agents: listed } });
  const runner = await startMachine('full', agents);
  await startMachine('bare', []);
  const usage = { used: 12_345, size: 200_000, cost: { amount: 0.05, currency: 'USD' } };
  const metadata = { path: '/code/demo', host: 'full', machineId: 'full', flavor: 'my-agent', agentName: 'My agent', usage };
  const { session } = await liveSession(t, hub, { namespace: 'listed', tag: '/code/demo', metadata });
  const spawned = [];
  await runner.serve('full:path-exists', ({ paths }) => ({ exists: Object.fromEntries(paths.map((path) => [path, true])) }));
  await runner.serve('full:spawn-happy-session', (params) => (spawned.push(params), { type: 'success', sessionId: session.id }));

  const { page } = await visit(t, 'listed', { path: '/new?machine=bare' });
  const agent = page.getByLabel('Agent', { exact: true });
  const start = page.getByRole('button', { name: /^Start (another )?session$/ });
  await fillDirectory(page, '/code/demo');
  assert.deepEqual(
    [await optionsOf(agent), await agent.isDisabled(), await start.isDisabled()],
    [['No agent is installed on this machine'], true, true],
  );
  await page.getByLabel('Machine').selectOption('full');
  assert.deepEqual(await optionsOf(agent), ['Claude Code', 'My agent']);
  await agent.selectOption('My agent');
  await start.click();
  await page.waitForURL(`**/sessions/${session.id}`);
  assert.deepEqual(spawned, [{ directory: '/code/demo', agent: 'my-agent' }]);
  await page.locator('.session-head').getByText('My agent').waitFor();
  await page.getByText('12K of 200K tokens · $0.05').waitFor();
});

test('shows git output and commands of a CLI in the CLI’s own shapes, and an error for unknown shapes', async (t) => {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'shapes',
    tag: '/code/s',
    metadata: { path: '/code/s', host: 'h', flavor: 'claude' },
  });
  const gitResult = (stdout) => () => ({ success: true, stdout, stderr: '', exitCode: 0 });
  await cli.serve('git-status', gitResult('# branch.head topic\n1 .M N... 100644 100644 100644 a b notes.txt\n? new file.txt\n'));
  await cli.serve('git-diff-numstat', ({ staged }) => gitResult(staged ? '' : '1\t2\tnotes.txt\n')());
  await cli.serve('git-diff-file', gitResult('--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+zwei\n'));
  await cli.serve('listSlashCommands', () => ({
    success: true,
    commands: [{ name: 'compact', description: 'Shortens the conversation' }],
  }));
  await cli.serve('listSkills', () => ({ success: true, skills: [] }));

  const { page } = await visit(t, 'shapes', { path: `/sessions/${session.id}` });
  await page.getByLabel('Message to the agent').fill('/com');
  await page
    .getByRole('option', { name: /compact/ })
    .getByText('Shortens the conversation')
    .waitFor();
  // Keys of an input method neither pick the command nor send the text.
  const composer = page.getByLabel('Message to the agent');
  for (const text of ['/com', '/compact'])
    for (const sign of [{ isComposing: true }, { keyCode: 229 }]) {
      await composer.fill(text);
      for (const key of ['Enter', 'Tab']) await composer.dispatchEvent('keydown', { key, bubbles: true, cancelable: true, ...sign });
      await waitForEqual(() => composer.inputValue(), text);
    }
  await composer.fill('/com');
  await composer.press('Tab');
  await waitForValue(composer, '/compact ');
  await page.goto(`${hub.url}/sessions/${session.id}/changes`);
  await page.getByRole('heading', { name: 'topic' }).waitFor();
  await page.getByText('new file.txt').waitFor();
  await page.getByText('notes.txt').click();
  await page.getByText('zwei').waitFor();

  await cli.serve('git-status', () => ({ success: true, output: ' M notes.txt' }));
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page
    .getByRole('alert')
    .getByText(/cannot read/)
    .waitFor();
  await waitForCount(page.getByText('No changes'), 0);
});

test('shows which methods a CLI registered if the vocabulary has none of them', async (t) => {
  const { session, cli } = await liveSession(t, hub, {
    namespace: 'unknown',
    tag: '/code/u',
    metadata: { path: '/code/u', host: 'h', flavor: 'claude' },
  });
  await cli.serve('show-changes', () => ({ success: true }));
  const { page } = await visit(t, 'unknown', { path: `/sessions/${session.id}/changes` });
  await page
    .getByRole('alert')
    .getByText(/No handler registered for gitStatus\. The CLI registered show-changes: .* VOCABULARY/)
    .waitFor();
});

for (const [name, dialect] of /** @type {[keyof typeof DIALECTS, any][]} */ (Object.entries(DIALECTS))) {
  test(`drives a session of a CLI with the words of ${name}, from its start to its resume`, async (t) => {
    const machine = new ScriptedCli(t, hub, name, `story-${name}`);
    const { directory, received } = machine;
    await machine.startRunner();
    const { page } = await visit(t, `story-${name}`, { path: '/new' });
    const chat = new Chat(page);
    await fillDirectory(page, directory);
    await page.getByText('Directory found').waitFor();
    await openMore(page);
    await page.getByLabel('Model (optional)').fill('sonnet');
    await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
    await page.waitForURL('**/sessions/*');
    const sessionId = new URL(page.url()).pathname.split('/')[2];
    assert.deepEqual(received.spawnSession, { directory, agent: dialect.agents[0], model: dialect.models.fast });

    await chat.send('change the notes');
    assert.equal((await machine.sessions.get(sessionId).nextUpdate('new-message')).message.content.content.text, 'change the notes');
    const answerEdit = async (id, button) => {
      await machine.ask(sessionId, id);
      await chat.answer(button, 'Edit');
      return received.permission;
    };
    assert.deepEqual(await answerEdit('r-1', 'Approve and accept edits'), {
      sessionId,
      id: 'r-1',
      approved: true,
      mode: 'acceptEdits',
      decision: 'approved',
    });
    assert.deepEqual(await answerEdit('r-2', 'Deny and stop'), { sessionId, id: 'r-2', approved: false, decision: 'abort' });
    // These CLIs report the end of a turn before its last text.
    await machine.ready(sessionId);
    await machine.say(sessionId, 'The notes are changed.');
    const [text, end] = [chat.log.getByText('The notes are changed.'), chat.log.locator('hr.turn-end')];
    await text.waitFor();
    await eventually(async () => (await end.boundingBox())?.y > (await text.boundingBox())?.y, 'the end of the turn to be below its text');

    await machine.sendSystemRecord(sessionId, 'turn_duration', { durationMs: 1234, messageId: 'm-1' });
    await machine.sendSystemRecord(sessionId, 'api_error', {
      error: { status: 529, error: { message: 'Overloaded' } },
      retryAttempt: 1,
      maxRetries: 10,
    });
    await machine.sendSystemRecord(sessionId, 'compact_boundary', { compactMetadata: { trigger: 'auto', preTokens: 155_000 } });
    await machine.sendSystemRecord(sessionId, 'microcompact_boundary', { microcompactMetadata: { trigger: 'auto', preTokens: 90_000 } });
    await machine.sendEvent(sessionId, 'message', 'Aborted by user');
    // The first row of a minute also shows the time.
    await chat.log.getByText(/^\s*Aborted by user\s*(\d\d:\d\d)?\s*$/).waitFor();
    await chat.log.locator('.turn-error', { hasText: 'API error: Overloaded. Retry 1 of 10.' }).waitFor();
    for (const tokens of ['155K', '90K'])
      await chat.log.locator('.boundary', { hasText: `Context compacted at ${tokens} tokens` }).waitFor();
    await waitForCount(chat.log.getByText('Unknown message'), 0);

    await page.getByLabel('Model', { exact: true }).selectOption('Opus');
    await waitForValue(page.getByLabel('Model', { exact: true }), dialect.models.strong);
    assert.equal(received['set-session-config'][dialect.modelField], dialect.models.strong);
    await page.locator('input[type=file]').setInputFiles([{ name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('hi') }]);
    await page.locator('li[data-state="done"]', { hasText: 'a.txt' }).waitFor();
    assert.deepEqual(received.uploadFile, { sessionId, filename: 'a.txt', content: 'aGk=', mimeType: 'text/plain' });
    await chat.composer.fill('/com');
    await page.getByRole('option', { name: /compact/ }).waitFor();
    await chat.composer.fill('');

    await page.getByRole('link', { name: 'Changes' }).click();
    await page.getByRole('heading', { name: 'main', exact: true }).waitFor();
    await page.locator('summary', { hasText: 'notes.txt' }).first().click();
    await page.locator('[data-kind="added"]', { hasText: 'two' }).first().waitFor();
    await page.getByRole('link', { name: 'Files' }).click();
    await page.getByLabel('Search files').fill('notes');
    await page.getByRole('list', { name: 'Search results' }).getByRole('button', { name: /notes/ }).click();
    await page.getByRole('article', { name: 'notes.txt' }).getByText('two').waitFor();

    await page.getByRole('button', { name: 'Session actions' }).click();
    await page.getByRole('menuitem', { name: 'Archive' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
    await page.getByRole('link', { name: 'Chat' }).click();
    await page.getByText("The agent's process has ended").waitFor();
    machine.sessions.get(sessionId).close();
    await page.getByRole('button', { name: 'Resume' }).click();
    await chat.composer.waitFor();
    assert.deepEqual(received.spawnSession, { directory, agent: dialect.agents[0], sessionId, resumeSessionId: 'conversation-1' });
  });
}
