// The storage of a page: in memory, or by the prefix of its hub.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeStorage } from './support/storage.ts';

const shared = new FakeStorage();
Object.assign(globalThis, { window: { localStorage: shared, sessionStorage: shared }, document: { baseURI: 'https://a.test/' } });
const { createStorage, withPrefix } = await import('../src/state/page-storage.ts');
const { Accounts } = await import('../src/api/accounts.ts');

test('hubs of one origin see neither the accounts nor the other values of each other', () => {
  const pages = ['/hub ', '/hub/a '].map((prefix) => createStorage(withPrefix(shared, prefix)));
  const storages = [shared, ...pages];
  storages.forEach((storage, index) => new Accounts(storage).add('team', `token ${index}`));
  const tokens = () => storages.map((storage) => new Accounts(storage).all().map(({ token }) => token));
  assert.deepEqual(tokens(), [['token 0'], ['token 1'], ['token 2']]);
  new Accounts(pages[0] as Storage).remove('team');
  pages[1]?.setItem('theme', 'dark');
  assert.deepEqual(tokens(), [['token 0'], [], ['token 2']]);
  assert.deepEqual(
    storages.map((storage) => storage.getItem('theme')),
    [null, null, 'dark'],
  );
  pages[1]?.clear();
  assert.deepEqual(shared.keys(), ['account-1 team']);
});

test('a page whose browser blocks storage keeps values in memory', () => {
  const storage = createStorage(new Map());
  storage.setItem('a', '1');
  assert.deepEqual([storage.length, storage.key(0), storage.getItem('a'), storage.getItem('b')], [1, 'a', '1', null]);
  storage.removeItem('a');
  assert.equal(storage.length, 0);
});
