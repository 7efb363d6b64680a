/** Files, changes and uploads in the web console. */

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { pageOf } from '../../../packages/cli-kit/src/pages.mjs';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { eventually } from '../../../scripts/lib/await.mjs';
import { DESK, PHONE, waitForCount, waitForValue, waitForEqual, waitForMatch } from '../lib/browser.mjs';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';
import { startConsole } from '../lib/console.mjs';
import { Repository, temporaryFolder } from '../lib/git.mjs';

const { hub, visit, startSession, openTalk } = await startConsole();

/** Opens a view of a session whose CLI answers with these methods. */
async function openView(t, namespace, view, methods, options = DESK) {
  const { session, cli } = await liveSession(t, hub, { namespace, tag: '/code/a', metadata: { path: '/code/a', host: 'h' } });
  for (const [name, answer] of Object.entries(methods)) await cli.serve(`${session.id}:${name}`, answer);
  return visit(t, namespace, { ...options, path: `/sessions/${session.id}/${view}` });
}

const noChanges = {
  gitStatus: () => ({ success: true, stdout: '## main' }),
  gitDiffNumstat: () => ({ success: true, stdout: '' }),
};

test('shows staged and unstaged changes with diffs, and updates the changes after the agent has worked', async (t) => {
  const { repository, agent, page, chat } = await startSession(t, 'changes', { args: ['--auto-approve'] });
  repository.write('notes.txt', 'one\ntwo\n');
  repository.git('add', 'notes.txt');
  repository.write('src/main.rs', 'fn main() {\n    println!("goodbye");\n}\n');
  repository.write('new.txt', 'fresh\n');
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByRole('heading', { name: 'main', exact: true }).waitFor();
  const staged = page.locator('.change-section', { has: page.getByRole('heading', { name: /^Staged/ }) });
  const unstaged = page.locator('.change-section', { has: page.getByRole('heading', { name: /^Unstaged/ }) });
  await unstaged.locator('.change-path').nth(1).waitFor();
  await waitForEqual(() => staged.locator('.change-path').allTextContents(), ['notes.txt']);
  assert.deepEqual((await unstaged.locator('.change-path').allTextContents()).sort(), ['new.txt', 'src/main.rs']);

  await staged.locator('summary', { hasText: 'notes.txt' }).click();
  await staged.getByRole('region', { name: 'Diff of notes.txt' }).locator('[data-kind="added"]', { hasText: 'two' }).waitFor();
  await unstaged.locator('summary', { hasText: 'main.rs' }).click();
  const diff = unstaged.getByRole('region', { name: 'Diff of src/main.rs' });
  await diff.locator('mark').nth(1).waitFor();
  await waitForEqual(() => diff.locator('mark').allTextContents(), ['hello', 'goodbye']);
  await unstaged.locator('summary', { hasText: 'new.txt' }).click();
  await unstaged.getByRole('region', { name: 'Diff of new.txt' }).getByText('fresh').waitFor();
  // Open diffs stay open while the agent works, and are updated.
  await hub.web('changes').post(`/api/sessions/${agent.sessionId}/messages`, { text: 'sed -i s/goodbye/farewell/ src/main.rs' });
  await diff.locator('mark', { hasText: 'farewell' }).waitFor();
  await waitForCount(unstaged.getByRole('region', { name: 'Diff of new.txt' }), 1);

  await page.getByRole('link', { name: 'Chat' }).click();
  await chat.send('git add --all; git -c user.name=A -c user.email=a@example.com commit -qm second');
  await chat.waitForText('Exit code 0.');
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByRole('heading', { name: 'No changes' }).waitFor();
});

/** Returns names of files, in order. */
const fileNames = (count) => Array.from({ length: count }, (_, index) => `file-${String(index).padStart(5, '0')}.txt`);

/** Writes empty files in a folder of a repository. */
function writeMany(repository, folder, count) {
  mkdirSync(path.join(repository.folder, folder), { recursive: true });
  for (const name of fileNames(count)) writeFileSync(path.join(repository.folder, folder, name), '');
}

test('groups many changed files by folder, and loads them in parts', async (t) => {
  const { repository, page } = await startSession(t, 'many-changes', { options: PHONE });
  for (let part = 0; part < 6; part += 1) writeMany(repository, `data/part-${part}`, 200);
  writeMany(repository, 'data/part-6', 700);
  repository.write('src/main.rs', 'fn main() {}\n');
  await page.getByRole('link', { name: 'Changes' }).tap();
  const folderSummary = (name) => page.locator('summary', { hasText: name });
  await folderSummary('data/1,900 files').waitFor();
  await page.getByRole('heading', { name: 'Unstaged 1,901' }).waitFor();
  await waitForEqual(() => page.locator('.change-path').allTextContents(), ['data/', 'src/main.rs']);
  await folderSummary('data/1,900 files').tap();
  await folderSummary('part-6/700 files').tap();
  const inside = page.locator('.change.folder .change.folder', { hasText: 'part-6/' });
  const files = inside.locator('.change .change-path');
  await waitForCount(files, 200);
  await inside.getByRole('button', { name: 'Show 200 of 500 more' }).tap();
  await waitForCount(files, 400);
  await inside.getByRole('button', { name: 'Show 200 of 300 more' }).tap();
  await waitForCount(files, 600);
  await inside.getByRole('button', { name: 'Show 100 of 100 more' }).tap();
  await waitForCount(files, 700);
  assert.deepEqual([await files.first().textContent(), await files.last().textContent()], ['file-00000.txt', 'file-00699.txt']);
  await files.last().tap();
  await inside.getByText('The new file is empty.').waitFor();
});

test('if a CLI lists all files, the console shows a limited number of rows, and says that it cannot list a folder', async (t) => {
  const stdout = ['## main', '?? vendor/', ...Array.from({ length: 50_000 }, (_, index) => `?? file-${index}`)].join('\n');
  const { page } = await openView(t, 'flat', 'changes', { ...noChanges, gitStatus: () => ({ success: true, stdout }) }, PHONE);
  await page.getByRole('button', { name: 'Show 200 of 49,801 more' }).tap();
  await waitForCount(page.locator('.change-path'), 400);
  await page.locator('summary', { hasText: 'vendor/' }).tap();
  await page.getByText('The agent does not list the files of this folder.').waitFor();
});

test('on a phone that is offline, the banner covers neither the button nor the search above the changes and the files', async (t) => {
  const methods = { ...noChanges, listDirectory: () => ({ success: true, entries: [] }) };
  const { page, context } = await openView(t, 'banner', 'changes', methods, PHONE);
  const refresh = page.getByRole('button', { name: 'Refresh' });
  const search = page.getByRole('searchbox', { name: 'Search files' });
  await page.getByText('No changes').waitFor();
  await page.getByRole('link', { name: 'Files' }).tap();
  await search.waitFor();
  await context.setOffline(true);
  await page.getByText('You are offline.').waitFor();
  const banner = page.locator('.connection > .notice');
  const assertFree = async (control) => {
    const [covering, covered] = await Promise.all([banner, control].map((element) => element.boundingBox()));
    assert.ok(covering.y >= covered.y + covered.height, `the banner at ${covering.y} is below ${control}`);
  };
  await assertFree(search);
  await page.getByRole('link', { name: 'Changes' }).tap();
  await refresh.waitFor();
  await assertFree(refresh);
});

test('shows a conflict as one change, and the changes of a repository inside', async (t) => {
  const { repository, page } = await startSession(t, 'conflict');
  const commit = (file, text) => (repository.write(file, text), repository.commit(text));
  repository.git('switch', '--quiet', '-c', 'other');
  repository.git('rm', '--quiet', 'notes.txt');
  commit('src/main.rs', 'theirs\n');
  repository.git('switch', '--quiet', 'main');
  repository.write('notes.txt', 'ours\n');
  commit('src/main.rs', 'ours\n');
  assert.throws(() => repository.git('merge', 'other'));
  const inner = new Repository(t, path.join(repository.folder, 'vendor/inner'));
  inner.write('tool.sh', 'true\n');
  inner.commit('first');
  chmodSync(path.join(inner.folder, 'tool.sh'), 0o755);
  inner.write('new.txt', 'fresh\n');
  inner.git('add', 'new.txt');

  await page.getByRole('link', { name: 'Changes' }).click();
  const row = (text) => page.locator('.change', { has: page.locator('> summary', { hasText: text }) });
  await page.getByRole('heading', { name: 'Unstaged 2' }).waitFor();
  await waitForCount(page.getByRole('heading', { name: /^Staged/ }), 0);
  await row('src/main.rs').locator('summary', { hasText: 'conflicted, both modified' }).click();
  await row('src/main.rs').locator('[data-kind="added"]', { hasText: '<<<<<<< HEAD' }).waitFor();
  await row('notes.txt').locator('summary', { hasText: 'conflicted, deleted by them' }).click();
  await row('notes.txt').locator('[data-kind="added"]', { hasText: 'ours' }).waitFor();

  await page.getByRole('heading', { name: 'Repositories 1' }).waitFor();
  await page.locator('summary', { hasText: 'vendor/inner/' }).click();
  const inside = row('vendor/inner/');
  await inside.getByRole('heading', { name: 'Staged 1', exact: true }).waitFor();
  await inside.locator('summary', { hasText: /^A?new\.txt/ }).click();
  await inside.locator('[data-kind="added"]', { hasText: 'fresh' }).waitFor();
  await inside.locator('summary', { hasText: 'tool.sh' }).click();
  await inside.getByText('The mode changed from 100644 (a plain file) to 100755 (an executable file).').waitFor();
});

test('a key on the row for more files of the directory leaves the tree as it is', async (t) => {
  const entries = ['src', 'main.rs'].map((name, index) => ({ name, type: ['directory', 'file'][index] }));
  const listDirectory = () => ({ success: true, entries, more: 3, truncated: true });
  const { page } = await openView(t, 'root-more', 'files', { listDirectory });
  await page.getByRole('treeitem', { name: 'src' }).focus();
  await page.keyboard.press('End');
  const more = page.getByRole('treeitem', { name: /Show more: \d+ follow/ });
  await more.waitFor();
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('Show more'));
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.activeElement?.textContent?.startsWith('src'));
});

test('shows the first part of a long file, and more of it on request', async (t) => {
  const text = Array.from({ length: 30_000 }, (_, index) => `line ${index} of a long log\n`).join('');
  const { page } = await openView(t, 'long-file', 'files', {
    listDirectory: () => ({ success: true, entries: [{ name: 'long.log', type: 'file', size: text.length }] }),
    readFile: () => ({ success: true, content: Buffer.from(text).toString('base64') }),
  });
  await page.getByRole('treeitem', { name: 'long.log' }).click();
  const file = page.getByRole('article', { name: 'long.log' });
  const lines = async () =>
    (await file.getByRole('region', { name: 'Content' }).locator('code').textContent())?.trimEnd().split('\n') ?? [];
  await file.getByText(/^The first 488\.\d KiB of 721\.\d KiB are shown\./).waitFor();
  assert.match((await lines()).at(-1) ?? '', /^line \d+ of a long log$/);
  await file.getByRole('button', { name: 'Show more' }).click();
  await file.getByRole('button', { name: 'Show more' }).waitFor({ state: 'detached' });
  assert.equal((await lines()).length, 30_000);
});

test('on a phone, shows either the tree or the file, and a long directory in order and in parts with the number of entries that follow', async (t) => {
  const names = fileNames(10_450);
  const root = [...['data', 'src'].map((name) => ({ name, type: 'directory' })), { name: 'notes.txt', type: 'file' }];
  const data = names.map((name) => ({ name, type: 'file', size: 0 }));
  const methods = {
    listDirectory: ({ path: folder, offset }) => {
      const { entries, moreField } = pageOf(folder === 'data' ? data : root, offset, 10_000);
      return { success: true, entries, ...moreField };
    },
    readFile: () => ({ success: true, content: Buffer.from('one\n').toString('base64') }),
    runRipgrep: () => ({ success: true, stdout: names.map((name) => `data/${name}\n`).join('') }),
  };
  const { page } = await openView(t, 'long-directory', 'files', methods, PHONE);
  const treeItem = (name) => page.getByRole('treeitem', { name });
  await treeItem('notes.txt').tap();
  await page.getByRole('article', { name: 'notes.txt' }).getByText('one').waitFor();
  await page.getByRole('tree').waitFor({ state: 'hidden' });
  await page.getByRole('button', { name: 'All files' }).tap();
  await page.getByRole('tree').waitFor();

  await treeItem('data').tap();
  await treeItem('file-00000.txt').waitFor();
  await treeItem('data').focus();
  await page.keyboard.press('End');
  // The entries after the folder: `src` and `notes.txt`.
  for (let count = 0; count < 2; count += 1) await page.keyboard.press('ArrowUp');
  await page.waitForFunction(() => document.activeElement?.textContent === 'The first 10,000 are listed. Show more: 450 follow.');
  await treeItem('file-09999.txt').waitFor();
  await page.keyboard.press('Enter');
  await treeItem('file-10000.txt').waitFor();
  await page.keyboard.press('End');
  for (let count = 0; count < 2; count += 1) await page.keyboard.press('ArrowUp');
  await page.waitForFunction(() => document.activeElement?.textContent?.startsWith('file-10449.txt'));
  await page.getByLabel('Search files').fill('file-');
  await page.getByText('The first 200 matches.').waitFor();
  await page.getByRole('link', { name: 'Back to sessions' }).tap();
  await page.getByRole('heading', { name: 'Sessions', level: 1 }).waitFor();
});

test('shows an error outside a repository, with a retry', async (t) => {
  /** @type {() => object} */
  let gitStatus = () => ({ success: false, error: 'Not a git repository' });
  const { page } = await openView(t, 'no-git', 'changes', { ...noChanges, gitStatus: () => gitStatus() });
  await page.getByRole('alert').getByText('Not a git repository').waitFor();
  gitStatus = noChanges.gitStatus;
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { name: 'No changes' }).waitFor();
});

test('browses, searches and shows files by mouse and keyboard', async (t) => {
  const { repository, page } = await startSession(t, 'files');
  // Every JavaScript object inherits a property of this name.
  repository.write('constructor/inner.constructor', 'inside\n');
  repository.write('data.bin', Buffer.from([0, 1, 2, 3]));
  repository.write(
    'dot.png',
    Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'),
  );
  await page.getByRole('link', { name: 'Files' }).click();
  const treeItem = (name) => page.getByRole('treeitem', { name });
  await treeItem('constructor').click();
  await treeItem('inner.constructor').click();
  await page.getByRole('article', { name: 'constructor/inner.constructor' }).getByText('inside').waitFor();
  await treeItem('constructor').first().click();
  await treeItem('inner.constructor').waitFor({ state: 'detached' });
  await treeItem('src').click();
  await treeItem('main.rs').click();
  const file = page.getByRole('article', { name: 'src/main.rs' });
  await file.locator('.hljs-keyword', { hasText: 'fn' }).waitFor();
  await page.reload();
  await file.getByText('println!').waitFor();

  await treeItem('src').focus();
  await page.keyboard.press('ArrowRight');
  await treeItem('main.rs').waitFor();
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('main.rs'));
  await page.keyboard.press('ArrowLeft');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('src'));
  await page.keyboard.press('ArrowLeft');
  await treeItem('main.rs').waitFor({ state: 'detached' });

  await page.getByLabel('Search files').fill('note');
  await page.getByRole('list', { name: 'Search results' }).getByRole('button', { name: 'notes.txt' }).click();
  await page.getByRole('article', { name: 'notes.txt' }).getByText('one').waitFor();
  await page.getByLabel('Search files').fill('no such file');
  await page.getByText('No file name matches').waitFor();
  await page.getByLabel('Search files').fill('');

  await treeItem('data.bin').click();
  await page.getByText('Not a text file.').waitFor();
  await treeItem('dot.png').click();
  await page.getByRole('img', { name: 'dot.png' }).evaluate((/** @type {HTMLImageElement} */ image) => image.decode());
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download dot.png' }).click();
  assert.equal((await download).suggestedFilename(), 'dot.png');
});

/** Dispatches a paste or drop event with files. */
function dispatchFiles(page, kind, files) {
  return page.evaluate(
    ([kind, files]) => {
      const transfer = new DataTransfer();
      for (const [name, text] of files) transfer.items.add(new File([text], name, { type: 'text/plain' }));
      const target = document.getElementById('composer');
      if (kind === 'paste') target.dispatchEvent(new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true, cancelable: true }));
      else target.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
    },
    [kind, files],
  );
}

test('uploads files by picker, paste and drop, with their progress, retries and removes some, and sends a message with what is uploaded', async (t) => {
  const { repository, page, chat } = await startSession(t, 'uploads', { args: ['--auto-approve'] });
  const files = page.getByRole('list', { name: 'Files to send' });
  await page.locator('input[type=file]').setInputFiles([{ name: 'picked.txt', mimeType: 'text/plain', buffer: Buffer.from('picked\n') }]);
  await dispatchFiles(page, 'paste', [['pasted.txt', 'pasted\n']]);
  await dispatchFiles(page, 'drop', [
    ['dropped.txt', 'dropped\n'],
    ['unwanted.txt', 'x'],
  ]);
  await files.locator('li[data-state="done"]').nth(3).waitFor();
  await page.getByRole('button', { name: 'Remove unwanted.txt' }).click();
  await chat.send('cat $ATTACHMENTS > got.txt');
  await chat.waitForText('Exit code 0.');
  const attached = page.getByRole('list', { name: 'Attachments' });
  assert.deepEqual(
    (await attached.locator('li').allTextContents()).map((text) => text.trim().split(' ')[0]),
    ['picked.txt', 'pasted.txt', 'dropped.txt'],
  );
  assert.equal(readFileSync(path.join(repository.folder, 'got.txt'), 'utf8'), 'picked\npasted\ndropped\n');
  await files.waitFor({ state: 'detached' });

  // A failed upload, and its progress.
  let isRejecting = true;
  let progressShown;
  await page.route('**/upload', async (route) => {
    if (isRejecting) await route.fulfill({ status: 503, json: { error: 'The hub is busy.', code: 'overloaded' } });
    else await progressShown.then(() => route.continue());
  });
  await page
    .locator('input[type=file]')
    .setInputFiles([{ name: 'large.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(1_000_000, 7) }]);
  await page.getByText('The hub is busy.').waitFor();
  await waitForEqual(() => page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
  isRejecting = false;
  // The upload is delayed until its progress is visible.
  progressShown = page.getByRole('progressbar', { name: 'Uploading large.bin' }).waitFor();
  await page.getByRole('button', { name: 'Retry large.bin' }).click();
  await progressShown;
  await page.locator('li[data-state="done"]', { hasText: '976.6 KiB' }).waitFor();
  await chat.send('wc -c < "$ATTACHMENTS"');
  await page.locator('summary', { hasText: 'wc -c' }).click();
  await chat.waitForText('1000000');
  await page.unroute('**/upload');

  // A file above the limit can only be removed.
  await chat.composer.fill('see the file');
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    for (const mebibytes of [49, 51]) dataTransfer.items.add(new File([new Uint8Array(mebibytes * 1024 ** 2)], `${mebibytes}.bin`));
    document.getElementById('composer').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  });
  await files.getByText('51.0 MiB is above the limit of 50.0 MiB').waitFor();
  await files.locator('li', { hasText: '49.bin' }).getByText('49.0 MiB').waitFor();
  await page.getByText('A file is too large. Remove it to send the message.').waitFor();
  await waitForCount(page.getByRole('button', { name: 'Retry' }), 0);
  await page.getByRole('button', { name: 'Remove 51.bin' }).click();
  await page.getByText('A file is too large.').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Remove 49.bin' }).click();

  // The message waits for all its files. The hub refuses a name of more than 255 characters.
  const broken = `broken-${'x'.repeat(250)}.txt`;
  const fileToAttach = (name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(name) });
  await page.locator('input[type=file]').setInputFiles([fileToAttach('good.txt'), fileToAttach(broken)]);
  await page
    .getByRole('alert')
    .getByText(/could not be uploaded/)
    .waitFor();
  await page.locator('li[data-state="done"]', { hasText: 'good.txt' }).waitFor();
  await chat.composer.fill('cat $ATTACHMENTS > last.txt');
  await waitForEqual(() => page.getByRole('button', { name: 'Send', exact: true }).isDisabled(), true);
  await chat.composer.press('Enter');
  await waitForValue(chat.composer, 'cat $ATTACHMENTS > last.txt');
  await page.getByRole('button', { name: /^Remove broken/ }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  const last = path.join(repository.folder, 'last.txt');
  await eventually(() => existsSync(last) && readFileSync(last, 'utf8') === 'good.txt', 'the command with the file');
  await waitForMatch(() => attached.last().textContent(), /^good\.txt/);
});

test('inserts dragged text, and the text of pasted cells without their picture', async (t) => {
  const { page, chat } = await openTalk(t, 'dragged-text');
  await chat.composer.waitFor();
  await page.evaluate(() => {
    const source = document.createElement('p');
    source.textContent = 'dragged';
    source.style.cssText = 'position:fixed;inset:0 auto auto 0;z-index:9;user-select:text';
    document.body.append(source);
    getSelection()?.selectAllChildren(source);
  });
  await page.getByText('dragged', { exact: true }).dragTo(page.locator('#composer'));
  await waitForValue(page.locator('#composer'), 'dragged');
  const isPastedByBrowser = await page.locator('#composer').evaluate((field) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', 'a\tb');
    clipboardData.setData('text/html', '<table></table>');
    clipboardData.items.add(new File(['x'], 'image.png', { type: 'image/png' }));
    return field.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  });
  assert.equal(isPastedByBrowser, true);
  await waitForCount(page.getByRole('list', { name: 'Files to send' }), 0);
});

test('scales a large picture down before the upload', async (t) => {
  const { session, cli, page, chat } = await openTalk(t, 'pictures');
  const uploaded = [];
  await cli.serve(`${session.id}:uploadFile`, (file) => (uploaded.push(file), { success: true, path: '/uploads/large.png' }));
  await chat.composer.waitFor();
  const base64 = await page.evaluate(() => {
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: 3000, height: 1500 });
    return canvas.toDataURL('image/png').split(',')[1];
  });
  const buffer = Buffer.from(base64, 'base64');
  await page.locator('input[type=file]').setInputFiles([{ name: 'large.png', mimeType: 'image/png', buffer }]);
  await page.locator('li[data-state="done"]', { hasText: 'large.png' }).waitFor();
  assert.deepEqual(pluck(uploaded, 'filename'), ['large.png']);
  const picture = Buffer.from(uploaded[0].content, 'base64');
  assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [2000, 1000]);
});

test('shows how much of a large file is uploaded, and cancels the upload', async (t) => {
  const home = temporaryFolder(t);
  const { page, agent } = await startSession(t, 'cancel', { args: ['--auto-approve'], home });
  const client = await page.context().newCDPSession(page);
  await client.send('Network.enable');
  await client.send('Network.emulateNetworkConditions', {
    offline: false,
    latency: 0,
    downloadThroughput: -1,
    uploadThroughput: 3_000_000,
  });
  const file = path.join(temporaryFolder(t), 'large.bin');
  writeFileSync(file, Buffer.alloc(40_000_000, 7));
  await page.locator('input[type=file]').setInputFiles(file);
  const files = page.getByRole('list', { name: 'Files to send' });
  await files.getByText(/^\d+\.\d MiB of 38\.1 MiB$/).waitFor();
  const folder = path.join(home, 'uploads', agent.sessionId);
  await eventually(() => existsSync(folder) && readdirSync(folder).length === 1, 'the first chunk to arrive');
  await page.getByRole('button', { name: 'Remove large.bin' }).click();
  await files.waitFor({ state: 'detached' });
  await eventually(() => readdirSync(folder).length === 0, 'the part to be deleted');
});
