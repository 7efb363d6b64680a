/** The rows of tool calls in a conversation, and the names of files in all views. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DESK, PHONE, waitForEqual, waitForCount } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { Chat, startConsole } from '../lib/console.mjs';
import { outputRecord } from '../lib/records.mjs';

const { hub, visit } = await startConsole();

const DIRECTORY = '/home/ada/code/almanac';
const toolUseRecord = (id, name, input) => outputRecord({ type: 'tool_use', id, name, input });
const toolResultRecord = (id, content, more) => outputRecord({ type: 'tool_result', tool_use_id: id, content, ...more });

/** Opens a conversation of an agent that is working. */
async function openConversation(t, namespace, messages, { device = DESK, metadata = {}, methods = {} } = {}) {
  const live = await liveSession(t, hub, { namespace, tag: DIRECTORY, metadata: { path: DIRECTORY, host: 'h', ...metadata } });
  const { session, cli } = live;
  for (const [name, answer] of Object.entries(methods)) await cli.serve(`${session.id}:${name}`, answer);
  for (const message of messages) await cli.sendMessage(session.id, message);
  await cli.keepAlive(session.id, { thinking: true });
  const opened = await visit(t, namespace, { ...device, path: `/sessions/${session.id}` });
  return { ...live, ...opened, chat: new Chat(opened.page) };
}

const LONG_FOLDER = 'packages/calendar/source/components/navigation/breadcrumbs/internal';
const INTERNAL = 'The file has been updated successfully. (file state is current in your context)';

test('the row of an edit shows the relative path, the whole file name, the line counts and the diff', async (t) => {
  const name = 'parse-the-dates-of-leap-years-and-months.test.ts';
  const edit = { file_path: `${DIRECTORY}/${LONG_FOLDER}/${name}`, old_string: 'one\ntwo', new_string: 'one\n2' };
  for (const [size, device] of Object.entries({ PHONE, DESK })) {
    const { chat } = await openConversation(
      t,
      `edit-${size.toLowerCase()}`,
      [toolUseRecord('e', 'Edit', edit), toolResultRecord('e', INTERNAL, { is_final: true })],
      { device },
    );
    const row = chat.log.locator('.disclosure');
    await row.getByText('− two').waitFor();
    await row.getByRole('img', { name: 'done' }).waitFor();
    await waitForEqual(() => row.locator('.path').textContent(), `${LONG_FOLDER}/${name}`);
    assert.equal((await row.locator('.line-counts').textContent()).trim(), '+1 −1');
    assert.equal((await row.locator('.preview').textContent()).trim(), '− two\n+ 2');
    await waitForCount(row.getByText(INTERNAL), 0);
    const isWhole = await row.locator('.path-name').evaluate((element) => {
      const [own, detail] = [element.getBoundingClientRect(), element.closest('.disclosure-detail').getBoundingClientRect()];
      return element.scrollWidth <= element.clientWidth + 1 && own.right <= detail.right + 1 && own.bottom <= detail.bottom + 1;
    });
    assert.ok(isWhole, `the name of the file is cut: ${size}`);
    await row.locator('summary').click();
    await row.getByText(INTERNAL).waitFor();
  }
});

test('invisible and reordering characters in the names of files and of the session are escaped in all views', async (t) => {
  const name = 'invoice\u202Egnp.exe\u200B';
  const escaped = 'invoice\\u202Egnp.exe\\u200B';
  const methods = {
    gitStatus: () => ({
      success: true,
      branch: 'ma\u200Bin',
      files: [
        { path: name, oldPath: `old/${name}`, status: 'renamed', index: '.', worktree: 'R' },
        { path: `${name}/`, status: 'untracked', count: 2 },
      ],
    }),
    gitDiffNumstat: () => ({ success: true, files: [] }),
    listDirectory: () => ({ success: true, entries: [{ name, type: 'file', size: 4 }] }),
    ripgrep: () => ({ success: true, files: [] }),
    readFile: () => ({ success: true, content: 'dGVzdA==' }),
  };
  const { session, page, chat } = await openConversation(
    t,
    'names',
    [toolUseRecord('w', 'Write', { file_path: `${DIRECTORY}/${name}`, content: 'x' })],
    { methods, metadata: { name } },
  );
  await page.getByRole('heading', { level: 1, name: escaped }).waitFor();
  await chat.log.getByText(escaped).waitFor();
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByText(`old/${escaped} → ${escaped}`).waitFor();
  await page.getByText(`${escaped}/`, { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'ma\\u200Bin' }).waitFor();
  await page.getByRole('link', { name: 'Files' }).click();
  await page.getByRole('treeitem', { name: escaped }).click();
  await page.getByRole('article', { name: escaped }).getByRole('heading', { name: escaped }).waitFor();
  await page.getByRole('link', { name: `Download ${escaped}` }).waitFor();
  assert.equal(await page.evaluate(() => /[\u202E\u200B]/.test(document.body.innerText)), false);
  assert.ok(page.url().includes(session.id));
});
