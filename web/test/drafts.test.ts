// Drafts: what is kept when a page is closed before the database has stored it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Accounts, draftsKey } from '../src/api/accounts.ts';
import { MemoryDatabase } from '../src/state/database.ts';
import { FakeStorage } from './support/storage.ts';
import { flushPromises } from './support/promises.ts';

const storage = new FakeStorage();
Object.assign(globalThis, { localStorage: storage });

/** Loads the module of a new page. */
let pageCount = 0;
const openPage = async (): Promise<typeof import('../src/state/drafts.ts')> => import(`../src/state/drafts.ts?page=${(pageCount += 1)}`);

/** A database whose writes wait until the test ends them, or are lost with the page. */
class SlowDatabase extends MemoryDatabase {
  writes: (() => void)[] = [];
  override async put(...record: Parameters<MemoryDatabase['put']>): Promise<void> {
    await new Promise<void>((resolve) => this.writes.push(resolve));
    await super.put(...record);
  }
}

test('a draft whose write is lost with the page is restored and stored by the next page, and only in its namespace', async () => {
  const database = new SlowDatabase();
  const page = await openPage();
  await page.restoreDrafts(Promise.resolve(database), 'mine');
  page.updateMessageDraft('a', { text: 'half a sent' });
  await flushPromises();
  page.updateMessageDraft('a', { text: 'half a sentence' });
  page.updateAnswerDraft('a', 'r1', { typedTexts: new Map([['Its name?', 'half a name']]) });
  void page.flushDrafts();
  assert.deepEqual(storage.keys(), [draftsKey('mine')], 'before any write has ended');

  const other = await openPage();
  await other.restoreDrafts(Promise.resolve(new MemoryDatabase()), 'other');
  assert.equal(other.getMessageDraft('a').text, '');

  const stored = new MemoryDatabase();
  const next = await openPage();
  await next.restoreDrafts(Promise.resolve(stored), 'mine');
  assert.equal(next.getMessageDraft('a').text, 'half a sentence');
  assert.equal(next.getAnswerDraft('a', 'r1').typedTexts.get('Its name?'), 'half a name');
  await flushPromises();
  assert.deepEqual([(await stored.getAll('draft')).length, storage.keys()], [2, []]);
});

test('a draft that was deleted just before the page is closed stays deleted', async () => {
  const database = new MemoryDatabase();
  await database.put('draft', 'message a', { text: 'sent', files: [] });
  const page = await openPage();
  await page.restoreDrafts(Promise.resolve(database), 'mine');
  database.delete = () => new Promise(() => {});
  page.updateMessageDraft('a', { text: '' });
  void page.flushDrafts();
  const next = await openPage();
  const records = new MemoryDatabase();
  await records.put('draft', 'message a', { text: 'sent', files: [] });
  await next.restoreDrafts(Promise.resolve(records), 'mine');
  assert.equal(next.getMessageDraft('a').text, '');
  await flushPromises();
  assert.deepEqual([await records.getAll('draft'), storage.keys()], [[], []]);
});

test('a page that stays open deletes the copy when its writes have ended, and a sign-out deletes the copy at once', async () => {
  const database = new SlowDatabase();
  const page = await openPage();
  await page.restoreDrafts(Promise.resolve(database), 'mine');
  page.updateMessageDraft('a', { text: 'hello' });
  void page.flushDrafts();
  assert.deepEqual(storage.keys(), [draftsKey('mine')]);
  await flushPromises();
  for (const end of database.writes) end();
  await flushPromises();
  assert.deepEqual(storage.keys(), []);
  page.updateMessageDraft('a', { text: 'hello again' });
  void page.flushDrafts();
  new Accounts(storage).remove('mine');
  assert.deepEqual(storage.keys(), []);
});

test('a damaged copy of drafts does not keep a page from restoring the stored drafts', async () => {
  for (const damaged of ['[["message a", {"te', '{"message a":1}', '[1]', 'null']) {
    const records = new MemoryDatabase();
    await records.put('draft', 'message a', { text: 'stored', files: [] });
    storage.setItem(draftsKey('mine'), damaged);
    const page = await openPage();
    await page.restoreDrafts(Promise.resolve(records), 'mine');
    assert.equal(page.getMessageDraft('a').text, 'stored', damaged);
    page.updateMessageDraft('a', { text: 'changed' });
    await page.flushDrafts();
    await flushPromises();
    assert.deepEqual(storage.keys(), [], damaged);
  }
});

test('the drafts of deleted sessions are deleted, and no others', async () => {
  const records = new MemoryDatabase();
  const page = await openPage();
  await page.restoreDrafts(Promise.resolve(records), 'mine');
  for (const id of ['deleted', 'archived', page.NEW_SESSION]) page.updateMessageDraft(id, { text: id });
  for (const id of ['deleted', 'archived']) page.updateAnswerDraft(id, 'r1', { reason: id });
  page.setStartChoice('deleted /code', { agent: 'claude', model: '' });
  await page.deleteDraftsOfDeleted(async (id) => id !== 'archived');
  await flushPromises();
  const kept = ['answer archived r1', 'message archived', 'message new', 'start deleted /code'];
  assert.deepEqual((await records.getAll('draft')).map(([id]) => id).sort(), kept);
});
