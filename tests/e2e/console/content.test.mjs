/** What agents and people write, as the web console shows it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../lib/await.mjs';
import { counted, DESK, PHONE } from '../lib/browser.mjs';
import { liveSession } from '../lib/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';

const { hub, visit } = await startConsole();

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const output = (...content) => ({ role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content } } } });
const text = (words) => output({ type: 'text', text: words });

/** A session whose agent has said something. */
async function talk(t, namespace, tag, messages, metadata = {}) {
  const live = await liveSession(t, hub, { namespace, tag, metadata: { path: '/code/x', host: 'h', ...metadata } });
  for (const message of messages) await live.cli.say(live.session.id, message);
  return live;
}

/** A session whose agent has said something, on a page. */
async function conversation(t, namespace, messages, options = DESK, metadata = {}) {
  const live = await talk(t, namespace, '/code/x', messages, metadata);
  return { ...live, ...(await visit(t, namespace, { ...options, path: `/sessions/${live.session.id}` })) };
}

test('what an agent writes cannot do anything to the page, and what is not known is shown as it is', async (t) => {
  const { session: one, cli } = await liveSession(t, hub, { namespace: 'unknown', tag: '/code/u', metadata: { path: '/code/u', host: 'h' } });
  const evil = '# Title\n\n<div class="toasts" data-state="x">over all</div>\n\n<img src=x onerror="document.title=1"><script>document.title=2</script>[click](javascript:document.title=3) <b style="position:fixed" id="app">bold</b> <form><input></form>\n\n```rust\nfn main() {}\n```\n';
  await cli.say(one.id, { role: 'agent', content: { type: 'output', data: { type: 'assistant', message: { content: [{ type: 'text', text: evil }] } } } });
  await cli.say(one.id, { whatever: { nested: [1, 2, 'three'] } });
  await cli.say(one.id, { role: 'agent', content: { type: 'event', data: { type: 'context_compacted', message: 'to 20 %' } } });
  const { page, complaints } = await visit(t, 'unknown', { path: `/sessions/${one.id}` });
  await page.getByText('context compacted: to 20 %').waitFor();
  await page.locator('summary', { hasText: 'Unknown message' }).click();
  await page.getByText('"three"').waitFor();
  await page.locator('.hljs-keyword', { hasText: 'fn' }).waitFor();
  const markdown = page.locator('.markdown');
  assert.deepEqual(await markdown.evaluate((element) => [...element.querySelectorAll('script, form, input, [style], [id], [onerror], a[href^="javascript"], .toasts, [data-state]')].map(({ outerHTML }) => outerHTML)), []);
  assert.match(await page.title(), /Session gateway$/);
  // The browser says that the policy would not have let it pass, either.
  assert.deepEqual(complaints.filter((text) => !/Content Security Policy/.test(text)), []);
});

test('pictures of agents and tools are shown, and one that lies elsewhere is a link', async (t) => {
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
  const { page, complaints } = await conversation(t, 'pictures', [
    output(picture),
    output({ type: 'tool_use', id: 's', name: 'Screenshot', input: { url: 'http://localhost' } }),
    output({ type: 'tool_result', tool_use_id: 's', content: [{ type: 'text', text: 'Two of them' }, picture, { type: 'image', data: PNG, mimeType: 'image/png' }] }),
    text(`![the plan](https://pictures.example/plan.png) ![own](data:image/png;base64,${PNG}) ![lost](lost.png)`),
  ]);
  const isDrawn = (name) => page.getByRole('img', { name, exact: true }).evaluate((image) => image.decode().then(() => image.naturalWidth === 1));
  assert.equal(await isDrawn('Image'), true);
  assert.equal(await isDrawn('own'), true);
  await page.locator('summary', { hasText: 'Screenshot' }).click();
  await page.getByText('Two of them').waitFor();
  for (const name of ['Image 1', 'Image 2']) assert.equal(await isDrawn(name), true);
  assert.equal(await page.getByRole('link', { name: 'the plan' }).getAttribute('href'), 'https://pictures.example/plan.png');
  await counted(page.locator('.markdown').getByRole('link'), 1);
  await page.locator('.markdown', { hasText: 'lost' }).waitFor();
  assert.deepEqual(complaints, []);
});

test('words run in the direction of their script, and code from left to right', async (t) => {
  const said = { role: 'user', content: { type: 'text', text: 'مرحبا\nhello' } };
  const { page } = await conversation(t, 'scripts', [said, text('بالتأكيد، سأنظر أولا.\n\nIn English.\n\n1. أولا\n\n```sh\nls\n```')], DESK, { name: 'اسم' });
  const directionOf = (locator) => locator.first().evaluate((element) => getComputedStyle(element).direction);
  await page.locator('.markdown').waitFor();
  assert.equal(await directionOf(page.getByText('بالتأكيد')), 'rtl');
  assert.equal(await directionOf(page.getByText('In English.')), 'ltr');
  assert.equal(await directionOf(page.locator('.markdown ol')), 'rtl');
  assert.equal(await directionOf(page.locator('.markdown pre')), 'ltr');
  const line = new Chat(page).line;
  await line.fill('שלום');
  assert.equal(await directionOf(line), 'rtl');
});

test('on a phone nothing is wider than the page, however long its words are', async (t) => {
  const long = 'a_word_without_an_end_'.repeat(11);
  const table = `| ${long} | two |\n|---|---:|\n| 1 | 2 |`;
  const { page, session, cli } = await conversation(
    t,
    'long',
    [
      { role: 'user', content: { type: 'text', text: long, attachments: [{ id: 'a', filename: `${long}.png`, mimeType: 'image/png', size: 1, path: '/x' }] } },
      text(`# ${long}\n\n${long}\n\n\`${long}\`\n\n${table}\n\n\`\`\`rust\nfn ${long}() {}\n\`\`\``),
      output({ type: 'tool_use', id: 't', name: `mcp__${long}`, input: { command: long } }),
      output({ type: 'tool_result', tool_use_id: 't', content: long, is_error: true }),
    ],
    PHONE,
    { name: long, path: `/code/${long}`, host: long },
  );
  await cli.ask('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests: { r: { tool: long, arguments: { command: long }, createdAt: 1 } } } });
  await page.getByRole('region', { name: 'Requested action' }).waitFor();
  await page.locator('summary', { hasText: 'mcp__' }).tap();
  const wide = () =>
    page.evaluate(() => {
      const isScrolled = (element) => element !== null && (/auto|scroll|hidden/.test(getComputedStyle(element).overflowX) || isScrolled(element.parentElement));
      const all = [...document.querySelectorAll('#app *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !isScrolled(one.parentElement));
      return [document.documentElement.scrollWidth <= innerWidth, all.map(({ outerHTML }) => outerHTML.slice(0, 120))];
    });
  await page.locator('.disclosure-body').waitFor();
  assert.deepEqual(await wide(), [true, []]);
  await page.locator('input[type=file]').setInputFiles([{ name: `${long}.txt`, mimeType: 'text/plain', buffer: Buffer.from('x') }]);
  await page.getByRole('list', { name: 'Files to send' }).waitFor();
  assert.deepEqual(await wide(), [true, []]);
  const column = await page.getByRole('log').evaluate((log) => log.scrollWidth <= log.clientWidth);
  assert.equal(column, true);
  await page.goto('/');
  await page.getByRole('link', { name: /a_word/ }).waitFor();
  assert.deepEqual(await wide(), [true, []]);
});

test('code is copied with a button, and of what is very long the beginning is shown first', async (t) => {
  const lines = Array.from({ length: 3000 }, (_, at) => `line ${at + 1}`);
  const { page, context } = await conversation(t, 'copy', [
    text('Run this:\n\n```sh\nnpm run dev\n```'),
    output({ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'seq 3000' } }),
    output({ type: 'tool_result', tool_use_id: 't', content: lines.join('\n') }),
    output({ type: 'tool_use', id: 'w', name: 'Write', input: { file_path: 'long.txt', content: `${lines.join('\n')}\n` } }),
    output({ type: 'tool_result', tool_use_id: 'w', content: 'x'.repeat(60_000) }),
  ]);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.locator('.code-block').hover();
  await page.getByRole('button', { name: 'Copy code' }).click();
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'npm run dev');
  await page.locator('summary', { hasText: 'seq 3000' }).click();
  const shown = page.locator('.disclosure-body .output');
  const shows = (isRight, what) => eventually(async () => isRight(await shown.textContent()), what);
  const endsWith = (line) => shows((all) => all.endsWith(`\n${line}`), `an output that ends with ${line}`);
  await endsWith('line 200');
  await page.getByRole('button', { name: 'Show all 3000 lines' }).click();
  await endsWith('line 3000');
  await page.locator('summary', { hasText: 'seq 3000' }).click();

  await page.locator('summary', { hasText: 'long.txt' }).click();
  const diff = page.getByRole('region', { name: 'Edit of long.txt' });
  await diff.waitFor();
  await counted(diff.locator('[data-kind="added"]'), 1000);
  await page.getByRole('button', { name: 'Show all 3000 lines' }).click();
  await counted(diff.locator('[data-kind="added"]'), 3000);
  await shows(({ length }) => length === 50_000, 'the beginning of the output');
  await page.getByRole('button', { name: 'Show all 60000 characters' }).click();
  await shows(({ length }) => length === 60_000, 'the whole output');
});

test('texts that are made to hold up the page are shown as they were written, and the page answers', async (t) => {
  const costly = {
    blanks: `a${' '.repeat(60_000)}b`,
    addresses: `${'a.'.repeat(20_000)}@`,
    quotations: '>'.repeat(2000),
    lists: Array.from({ length: 400 }, (_, at) => `${' '.repeat(2 * at)}- a`).join('\n'),
    lines: 'a\n'.repeat(45_000),
    headings: '# a\n'.repeat(24_000),
    tables: '|a|\n|-|\n|b|\n\n'.repeat(7000),
    'blocks of code': '```x\n1\n```\n'.repeat(8000),
    tags: `${'<b>'.repeat(400)}${'<div>\n'.repeat(10_000)}`,
    long: 'a '.repeat(100_000),
  };
  const { page, complaints } = await visit(t, 'costly');
  for (const [name, words] of Object.entries(costly)) {
    const { session } = await talk(t, 'costly', name, [text(`This is about ${name}.\n\n${words}`), text('The end.\n\n```constructor\nx\n```')]);
    await page.goto(`/sessions/${session.id}`);
    await page.getByText('The end.').last().waitFor();
    await page.getByRole('log').getByText(`This is about ${name}.`).waitFor({ state: 'attached' });
    assert.equal(await page.getByText('This part could not be displayed').count(), 0);
    await page.getByLabel('Message to the agent').fill('It answers.');
    assert.deepEqual(complaints, []);
  }
});

test('requests and files of another kind than they should be take nothing with them', async (t) => {
  const odd = { role: 'user', content: { type: 'text', text: 'with files', attachments: [{ filename: { a: 1 }, size: 'x' }, 5, null] } };
  const { page, cli, session, complaints } = await conversation(t, 'odd', [odd, text('Said.')]);
  const requests = { odd: { tool: { a: 1 }, arguments: null, createdAt: 'x' } };
  const completedRequests = { odd: { tool: {}, status: {}, reason: { a: 1 }, allowTools: 5, answers: [1], completedAt: 'x' } };
  const { result } = await cli.ask('update-state', { sid: session.id, expectedVersion: 1, agentState: { requests, completedRequests } });
  assert.equal(result, 'success');
  await page.getByRole('region', { name: 'A tool request' }).waitFor();
  await page.locator('summary', { hasText: 'Not answered' }).click();
  await page.getByText('Said.').last().waitFor();
  await page.getByText('Unnamed file', { exact: true }).waitFor();
  assert.deepEqual(complaints, []);
});

test('what is deeper than any stack is shown, and takes nothing with it', async (t) => {
  const deep = `${'{"a":'.repeat(6000)}1${'}'.repeat(6000)}`;
  // As a text that holds JSON, which the hub unwraps: the client cannot send it in another way.
  const holding = (block) => JSON.stringify(output(block)).replace('"DEEP"', deep);
  const { page, complaints } = await conversation(t, 'deep', [
    text('Before.'),
    holding({ type: 'tool_use', id: 'd', name: 'Bash', input: { command: ['DEEP'] } }),
    holding({ type: 'tool_result', tool_use_id: 'd', content: 'DEEP' }),
    deep,
    text('After.'),
  ]);
  const log = page.getByRole('log');
  for (const words of ['Before.', 'After.']) await log.getByText(words).waitFor();
  for (const words of ['Bash', 'Unknown message']) await log.locator('summary', { hasText: words }).click();
  await log.locator('.disclosure-body .output').nth(2).waitFor();
  assert.equal(await page.getByText('This part could not be displayed').count(), 0);
  assert.deepEqual(complaints, []);
});

test('machines and sessions whose CLIs describe them in another way than they should take nothing with them', async (t) => {
  const namespace = 'described';
  const odd = { name: { a: 1 }, summary: { text: [] }, worktree: 5, flavor: {}, machineId: 7, homeDir: [] };
  const { page, cli, complaints } = await conversation(t, namespace, [text('Said.')], DESK, odd);
  const web = hub.web(namespace);
  for (const [id, metadata] of Object.entries({ m1: { host: 'workshop' }, m2: { displayName: { a: 1 }, host: 5, platform: [], version: 5, homeDir: {} }, constructor: { displayName: 5 } })) {
    assert.equal((await web.post('/cli/machines', { id, metadata })).status, 200);
    await cli.ask('machine-alive', { machineId: id, time: Date.now() });
  }
  await page.getByRole('log').getByText('Said.').waitFor();
  await page.getByRole('link', { name: 'Machines' }).click();
  await counted(page.locator('.machine'), 3);
  assert.deepEqual(await page.locator('.machine h2').allTextContents(), ['construc', 'm2', 'workshop']);
  for (const path of ['/machines', '/new?machine=__proto__', '/']) {
    await page.goto(path);
    await page.getByRole('link', { name: /x.*ready/ }).waitFor();
  }
  await page.goto('/new?machine=m2');
  await page.getByRole('textbox', { name: 'Directory' }).waitFor();
  assert.equal(await page.getByText('This part could not be displayed').count(), 0);
  assert.deepEqual(complaints, []);
});

test('an address with a name that every object inherits is that of no session', async (t) => {
  const { page, complaints } = await visit(t, 'inherited');
  for (const name of ['__proto__', 'constructor']) {
    await page.goto(`/sessions/${name}`);
    await page.getByRole('link', { name: 'Back to sessions' }).waitFor();
    assert.equal(await page.getByText('This part could not be displayed').count(), 0);
  }
  assert.deepEqual(complaints, []);
});

test('answers of a CLI that are of another kind than they should be are left out, or said in words', async (t) => {
  const { page, cli, session, complaints } = await conversation(t, 'answers', [text('Said.')]);
  const answer = { gitDiffNumstat: { success: true, files: {} } };
  for (const name of ['listDirectory', 'readFile', 'gitStatus', 'gitDiffNumstat', 'listSlashCommands', 'listSkills']) await cli.serve(`${session.id}:${name}`, () => answer[name]);
  const shows = async (path, changes, words) => {
    Object.assign(answer, changes);
    await page.goto(`/sessions/${session.id}${path}`);
    await page.getByText(words, { exact: true }).first().waitFor();
  };
  const refused = 'The agent could not do that.';
  await shows('/files', { listDirectory: { success: true, entries: {} } }, 'The directory is empty.');
  await shows('/files', { listDirectory: { success: true, entries: [null, { name: 5 }, { name: 'a.txt', type: 'file', size: {} }] } }, 'a.txt');
  await counted(page.getByRole('treeitem'), 1);
  await shows('/files', { listDirectory: { success: false, error: { a: 1 } } }, refused);
  for (const content of [5, '!no base64!']) await shows('/files?path=a.txt', { readFile: { success: true, content } }, 'The agent’s answer holds no file.');
  await shows('/changes', { gitStatus: { success: true, branch: {}, files: [null, { path: 5 }, { path: 'b.txt', status: {}, index: 5 }] } }, 'No changes');
  await shows('/changes', { gitStatus: { success: 'yes' } }, refused);
  await shows('', { listSlashCommands: { success: true, commands: [5, null, 'compact'] }, listSkills: { success: true, skills: [null, { name: {} }, { name: 'review', description: {} }] } }, 'Said.');
  await page.getByLabel('Message to the agent').fill('/');
  await counted(page.locator('.completions li'), 2);
  assert.deepEqual(await page.locator('.completions li').allTextContents(), ['/compact', '/reviewSkill']);
  assert.deepEqual(complaints, []);
});

test('what a person wrote says when, at a glance and exactly', async (t) => {
  const { page } = await conversation(t, 'when', [{ role: 'user', content: { type: 'text', text: 'hello' } }]);
  const time = page.getByRole('log').locator('time');
  assert.equal(await time.textContent(), 'now');
  assert.ok(Math.abs(Date.parse(await time.getAttribute('datetime')) - Date.now()) < 600_000);
  assert.match(await time.getAttribute('title'), /\d{2}:\d{2}/);
});
