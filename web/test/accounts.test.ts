// The stored list of accounts.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Accounts } from '../src/api/accounts.ts';
import { FakeStorage } from './support/storage.ts';

function setup(stored: Record<string, string> = {}) {
  const storage = new FakeStorage();
  for (const [key, value] of Object.entries(stored)) storage.setItem(key, value);
  let time = 1000;
  const open = () => new Accounts(storage, () => (time += 1));
  const names = () =>
    open()
      .all()
      .map(({ namespace }) => namespace);
  return { storage, open, names };
}

test('lists accounts in the order in which they were added, also when one gets another token', () => {
  const { open, names } = setup();
  for (const name of ['z', 'a', 'm']) open().add(name, `secret:${name}`);
  open().add('z', 'sgd_1');
  assert.deepEqual(names(), ['z', 'a', 'm']);
  assert.equal(open().get('z')?.token, 'sgd_1');
});

test('two tabs that add and remove different accounts at the same time lose nothing', () => {
  const { open, names } = setup();
  const [first, second] = [open(), open()];
  first.add('a', 'secret:a');
  assert.equal(second.get('b'), null);
  second.add('b', 'secret:b');
  first.add('c', 'secret:c');
  second.remove('a');
  assert.deepEqual(names(), ['b', 'c']);
});

test('imports the access token of an earlier version', () => {
  const { open, storage } = setup({ 'access-token': 'secret:team', 'access-namespace': 'team', device: 'd1', theme: 'dark' });
  const [account, ...others] = open().all();
  assert.deepEqual([account?.namespace, account?.token, account?.device, account?.notifies], ['team', 'secret:team', 'd1', undefined]);
  assert.equal(others.length, 0);
  assert.deepEqual(open().all(), [account], 'a second page does not import it again');
  // An open tab of the earlier version signs out when its keys change.
  assert.equal(storage.getItem('access-token'), 'secret:team');
  open().remove('team');
  assert.deepEqual(storage.keys(), ['theme']);
  assert.deepEqual(open().all(), []);
});

test('imports the device token of an earlier version, which stored its namespace under another key', () => {
  const { open, names } = setup({ 'access-token': 'sgd_1', 'access-namespace': 'team' });
  assert.deepEqual(names(), ['team']);
  assert.match(open().get('team')?.device ?? '', /^[0-9a-f]{32}$/);
});

test('an imported account can get a new token, and removing another account keeps the keys of the earlier version', () => {
  const { open, storage } = setup({ 'access-token': 'sgd_1', 'access-namespace': 'team' });
  open().add('team', 'sgd_2');
  assert.equal(open().get('team')?.token, 'sgd_2');
  open().add('home', 'secret:home');
  open().remove('home');
  assert.equal(storage.getItem('access-token'), 'sgd_1');
});

test('ignores stored values that are no valid accounts', () => {
  const { names } = setup({
    'account-1 broken': '{',
    'account-1 old': '{"token": 1}',
    'account-1 null': 'null',
    'access-token': 'sgd_1',
    theme: 'dark',
  });
  assert.deepEqual(names(), []);
});

test('opens the tab’s account, else the account that was opened last, else the first', () => {
  const { open } = setup();
  assert.equal(open().choose(null), null);
  for (const name of ['a', 'b', 'c']) open().add(name, `secret:${name}`);
  const chosen = (preferred: string | null) => open().choose(preferred)?.namespace;
  assert.equal(chosen(null), 'a');
  open().setLast('c');
  assert.deepEqual([chosen(null), chosen('b'), chosen('unknown')], ['c', 'b', 'c']);
  open().remove('c');
  assert.deepEqual([chosen(null), chosen('c')], ['a', 'a']);
});

test('notifications of an account that was removed stay off', () => {
  const { open, names } = setup();
  open().setNotifies('a', true);
  assert.deepEqual(names(), []);
  open().add('a', 'secret:a');
  assert.equal(open().get('a')?.notifies, false);
  open().setNotifies('a', true);
  open().add('a', 'sgd_1');
  assert.equal(open().get('a')?.notifies, true);
});
