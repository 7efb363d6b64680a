import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LockHeldError } from '../src/lock.mjs';
import { StateStore } from '../src/state.mjs';
import { tempDir } from './support/repository.mjs';

test('a machine id is stable per hub, namespace and directory', (t) => {
  const home = tempDir(t);
  const id = (namespace, dir) => new StateStore({ home, hub: 'http://hub', namespace }).loadMachineId(dir);
  assert.equal(id('a', '/dir'), id('a', '/dir'));
  assert.notEqual(id('a', '/dir'), id('b', '/dir'));
  assert.notEqual(id('a', '/dir'), id('a', '/other'));
});

test('one process at a time holds the lock of a machine', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const release = store.lockMachine('one');
  assert.throws(() => store.lockMachine('one'), { name: 'Error', pid: process.pid });
  store.lockMachine('two')();
  release();
  const again = store.lockMachine('one');
  // A second release does not release the lock of the next holder.
  release();
  assert.throws(() => store.lockMachine('one'), LockHeldError);
  again();
});

test('the last handled seq is stored per session, not per tag', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const first = store.openSession('/dir');
  first.attach('one', 7);
  assert.equal(first.lastSeq, 7);
  first.markHandled(9);
  first.markHandled(10, true);
  first.release();
  const second = store.openSession('/dir');
  second.attach('one', 30);
  assert.deepEqual([second.lastSeq, second.agentId], [10, first.agentId]);
  second.release();
  const third = store.openSession('/dir');
  third.attach('two', 0);
  assert.equal(third.lastSeq, 0);
  third.release();
});

test('the value of an agent is stored per session, not per tag', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const saved = { cwd: '/dir/sub', env: { A: '1', B: null } };
  const first = store.openSession('/dir');
  first.attach('one', 0);
  first.save(saved);
  first.release();
  const second = store.openSession('/dir');
  second.attach('one', 0);
  assert.deepEqual(second.saved, saved);
  second.release();
  const third = store.openSession('/dir');
  third.attach('two', 0);
  assert.equal(third.saved, undefined);
  third.release();
});

test('one process at a time serves a session', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const first = store.openSession('/dir');
  assert.throws(() => store.openSession('/dir'), /already serves this session/);
  store.openSession('/other').release();
  first.release();
  store.openSession('/dir').release();
});

test('a call stays recorded until its last message is stored, also over restarts', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const open = (sessionId) => {
    const state = store.openSession('/dir');
    state.attach(sessionId, 5);
    return state;
  };
  const [first, second] = ['one', 'two'].map((id) => ({ id, name: 'Bash', input: { command: `echo ${id}` } }));
  const initial = open('s');
  initial.recordCall(first, 6);
  initial.recordCall(second);
  initial.handleStored('one-result');
  initial.release();
  const restarted = open('s');
  assert.deepEqual([restarted.calls, restarted.lastSeq], [[first, second], 6]);
  restarted.handleStored('one-ready');
  restarted.release();
  const later = open('s');
  assert.deepEqual(later.calls, [second]);
  later.release();
  const other = open('another');
  assert.deepEqual(other.calls, []);
  other.release();
});

test('a session id from the hub cannot move the uploads to another folder', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  for (const id of ['..', '../x', 'a/b', '']) assert.throws(() => store.uploadFolder(id), /cannot be a folder name/);
});
