/** The console of a session whose agent has options, sub-agents, a plan, and limits. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { liveMachine, liveSession } from '../../../scripts/product/clients/cli.mjs';
import { PHONE, waitForValue, waitForEqual, waitForCount } from '../lib/browser.mjs';
import { fillDirectory, openMore, startConsole } from '../lib/console.mjs';

const { hub, visit } = await startConsole();

const EFFORT = {
  id: 'effort',
  name: 'Effort',
  category: 'thought_level',
  type: 'select',
  value: 'medium',
  choices: [
    { id: 'low', name: 'Low' },
    { id: 'medium', name: 'Medium' },
    { id: 'max', name: 'Maximum', description: 'For the hardest tasks' },
  ],
};
const FAST = {
  id: 'fast',
  name: 'Fast mode',
  description: '1.5x speed, increased usage',
  category: 'model_config',
  type: 'boolean',
  value: false,
};
const STYLE = {
  id: 'style',
  name: 'Collaboration mode',
  type: 'select',
  value: 'default',
  choices: [
    { id: 'default', name: 'Default' },
    { id: 'pair', name: 'Pair', description: 'Explains each step before it is done' },
  ],
};
const OPTIONS = [EFFORT, FAST, STYLE];
const metadata = {
  path: '/code/demo',
  host: 'workshop',
  machineId: 'workshop',
  flavor: 'alpha',
  agentName: 'Claude Code',
  modes: [
    { id: 'default', name: 'Manual' },
    { id: 'acceptEdits', name: 'Accept edits' },
  ],
  models: [
    { id: 'opus', name: 'Default (recommended)' },
    { id: 'small', name: 'Small' },
  ],
  currentModel: 'opus',
  options: OPTIONS,
  usage: { used: 152_340, size: 200_000, cost: { amount: 12.34, currency: 'USD' } },
  limits: [
    { id: 'five_hour', used: 0.42, resetsAt: Date.UTC(2099, 0, 1) },
    { id: 'seven_day', used: 0.91 },
    { id: 'seven_day_next', used: 3 },
  ],
};

const optionsOf = (select) => select.locator('option').allTextContents();

test('the effort and other options of an agent are set, and a refused value shows what the agent said', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'options', tag: '/code/demo', metadata });
  let options = OPTIONS;
  const received = [];
  let version = session.metadataVersion;
  await cli.serve(`${session.id}:set-session-option`, async ({ id, value }) => {
    received.push([id, value]);
    if (value === 'max') return { success: false, error: 'Claude Code refused Effort: not on your plan' };
    options = options.map((option) => (option.id === id ? { ...option, value } : option));
    await cli.emitWithAck('update-metadata', { sid: session.id, expectedVersion: version, metadata: { ...metadata, options } });
    version += 1;
    return { success: true };
  });
  const { page } = await visit(t, 'options', { ...PHONE, path: `/sessions/${session.id}` });
  const effort = page.getByLabel('Effort');
  await effort.waitFor();
  assert.deepEqual([await optionsOf(effort), await effort.inputValue()], [['Low', 'Medium', 'Maximum'], 'medium']);
  await effort.selectOption('Low');
  await waitForValue(effort, 'low');
  await effort.selectOption('Maximum');
  await page.getByText('Claude Code refused Effort: not on your plan').waitFor();
  await waitForEqual(() => effort.inputValue(), 'low');

  await page.getByRole('button', { name: 'More options' }).click();
  const sheet = page.getByRole('dialog', { name: 'Options of the agent' });
  // Changes its state only when the agent has confirmed.
  await sheet.getByLabel('Fast mode').click();
  await eventually(() => sheet.getByLabel('Fast mode').isChecked(), 'the confirmation');
  await sheet.getByLabel('Collaboration mode').selectOption('Pair');
  await sheet.getByText('Explains each step before it is done').waitFor();
  await page.keyboard.press('Escape');
  assert.deepEqual(received, [
    ['effort', 'low'],
    ['effort', 'max'],
    ['fast', true],
    ['style', 'pair'],
  ]);
  await page.getByRole('button', { name: '152K of 200K tokens · $12.34' }).click();
  const usage = page.getByRole('dialog', { name: 'Context and limits' });
  for (const [name, value, text] of /** @type {[string, string, RegExp][]} */ ([
    ['Context of the agent', '0.7617', /^152K of 200K tokens · \$12\.34$/],
    ['5-hour limit', '0.42', /^42% used · resets at /],
    ['Weekly limit', '0.91', /^91% used$/],
    ['Seven day next', '1', /^100% used$/],
  ])) {
    await waitForEqual(() => usage.getByRole('progressbar', { name, exact: true }).getAttribute('value'), value);
    await usage.locator('.usage-row', { hasText: name }).getByText(text).waitFor();
  }
});

test('a session starts with the options that its agent last offered on the machine', async (t) => {
  const agents = [
    { id: 'claude', name: 'Claude Code', flavor: 'alpha', models: [{ id: 'opus', name: 'Opus' }], options: OPTIONS },
    { id: 'new', name: 'New agent', flavor: 'new' },
  ];
  const machine = { namespace: 'start', id: 'workshop', metadata: { host: 'workshop', platform: 'linux', agents } };
  const runner = await liveMachine(t, hub, machine);
  const { session } = await liveSession(t, hub, { namespace: 'start', tag: '/code/demo', metadata });
  const spawned = [];
  await runner.serve('workshop:checkPathExists', ({ paths }) => ({ exists: Object.fromEntries(paths.map((path) => [path, true])) }));
  await runner.serve('workshop:spawnSession', (params) => (spawned.push(params), { success: true, sessionId: session.id }));
  const { page } = await visit(t, 'start', { ...PHONE, path: '/new' });
  const start = async () => {
    await page.getByRole('button', { name: /^Start (another )?session$/ }).click();
    await page.waitForURL(`**/sessions/${session.id}`);
  };
  await fillDirectory(page, '/code/demo');
  await openMore(page);
  const effort = page.getByLabel('Effort (optional)');
  assert.deepEqual(await optionsOf(effort), ['Agent default', 'Low', 'Medium', 'Maximum']);
  await effort.selectOption('Maximum');
  await page.getByLabel('Fast mode (optional)').selectOption('On');
  await page.getByText('Effort: Maximum · Fast mode: on').waitFor();
  await start();
  const openForm = async () => {
    await page.goto(`${hub.url}/new`);
    await openMore(page);
  };
  // The next start in the directory has the same options.
  await openForm();
  await page.getByText('Effort: Maximum · Fast mode: on').waitFor();
  await effort.selectOption('Agent default');
  await start();
  const [first, second] = spawned.map(({ options }) => options);
  assert.deepEqual([first, second], [{ effort: 'max', fast: true }, { fast: true }]);
  await openForm();
  await page.getByLabel('Agent', { exact: true }).selectOption('New agent');
  await waitForCount(effort, 0);
});

const output = (data) => ({ role: 'agent', content: { type: 'output', data } });
const assistant = (block, parent) => output({ type: 'assistant', message: { content: [block] }, ...parent });
const call = (id, name, input, parent) => assistant({ type: 'tool_use', id, name, input }, parent);
const result = (id, content, parent) =>
  output({ type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: id, content, is_final: true }] }, ...parent });
const plan = (done) => ({
  role: 'agent',
  content: {
    type: 'alpha',
    data: {
      type: 'plan',
      entries: ['Find the word', 'Write it down'].map((content, index) => ({ content, status: index < done ? 'completed' : 'pending' })),
    },
  },
});

test('the steps of a sub-agent are folded below its call, and the plan is one card', async (t) => {
  const { session, cli } = await liveSession(t, hub, { namespace: 'subagents', tag: '/code/demo', metadata });
  const send = (content, localId) => cli.sendMessage(session.id, content, localId);
  const helper = { parent_tool_use_id: 'agent' };
  await send(plan(0), 'plan-0');
  await send(call('agent', 'Agent', { description: 'Look around', prompt: 'Find the word in notes.txt' }), 'agent');
  await send(assistant({ type: 'text', text: 'I read the notes.' }, helper), 'text');
  await send(call('read', 'Read', { file_path: '/code/demo/notes.txt' }, helper), 'read');
  await send(result('read', 'The word is zebra.', helper), 'read-result');
  await send(call('run', 'Bash', { command: 'echo zebra > word.txt' }, helper), 'run');
  const { page } = await visit(t, 'subagents', { ...PHONE, path: `/sessions/${session.id}` });
  const agent = page.locator('.disclosure', { hasText: 'Look around' }).first();
  await agent.getByText('2 calls').waitFor();
  await agent.getByText('running').waitFor();
  await waitForCount(page.getByText('I read the notes.'), 0);
  await agent.locator('summary').first().click();
  const steps = page.getByRole('region', { name: 'Sub-agent' });
  await steps.getByText('I read the notes.').waitFor();
  await steps.getByText('echo zebra').first().waitFor();
  await send(result('run', '', helper), 'run-result');
  await send(result('agent', 'The word is zebra.'), 'agent-result');
  await send(plan(2), 'plan-2');
  await waitForCount(agent.getByText('running'), 0);
  const lists = page.locator('.messages .todos');
  await waitForCount(lists.locator('[data-status="completed"]'), 2);
  await waitForCount(lists, 1);
});

test('a session is forked from a message of the user, whose text is then in the composer', async (t) => {
  const runner = await liveMachine(t, hub, { namespace: 'forks', id: 'forge', metadata: { host: 'workshop', platform: 'linux' } });
  const forkable = { ...metadata, machineId: 'forge', alphaSessionId: 'agent-1' };
  const { session, cli } = await liveSession(t, hub, { namespace: 'forks', tag: '/code/demo', metadata: forkable });
  const { session: forked } = await liveSession(t, hub, {
    namespace: 'forks',
    tag: '/code/fork',
    metadata: { ...forkable, name: 'The fork' },
  });
  const received = [];
  /** @type {{success: boolean, error?: string, code?: string, sessionId?: string}} */
  let answer = { success: false, error: 'The worktree exists already.' };
  await runner.serve('forge:forkSession', (params) => (received.push(params), answer));
  const web = hub.web('forks');
  await web.post(`/api/sessions/${session.id}/messages`, { text: 'Fix the login' });
  await cli.sendMessage(session.id, assistant({ type: 'text', text: 'Done.' }), 'done');
  await web.post(`/api/sessions/${session.id}/messages`, { text: 'Now the logout' });
  const { page } = await visit(t, 'forks', { ...PHONE, path: `/sessions/${session.id}` });
  await page.getByText('Now the logout').waitFor();
  await page.getByRole('button', { name: 'Fork from here' }).last().click();
  const dialog = page.getByRole('dialog', { name: 'Fork this session?' });
  await dialog.getByLabel('New git worktree').check();
  await waitForEqual(() => dialog.getByLabel('Worktree and branch name').inputValue(), 'now-the-logout');
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click();
  await dialog.getByText('The worktree exists already.').waitFor();
  answer = { success: false, error: 'Not trusted.', code: 'untrusted_directory' };
  await dialog.getByLabel('Same directory').check();
  await dialog.getByRole('button', { name: 'Fork', exact: true }).click();
  const question = page.getByRole('dialog', { name: 'Trust this folder?' });
  await question.waitFor();
  answer = { success: true, sessionId: forked.id };
  await question.getByRole('button', { name: 'Trust and start' }).click();
  await page.waitForURL(`**/sessions/${forked.id}`);
  await waitForValue(page.getByLabel('Message to the agent'), 'Now the logout');
  const common = { sessionId: session.id, resumeSessionId: 'agent-1', directory: '/code/demo', agent: 'alpha', seq: 3 };
  assert.deepEqual(received, [{ ...common, sessionType: 'worktree', worktreeName: 'now-the-logout' }, common, { ...common, trust: true }]);
});
