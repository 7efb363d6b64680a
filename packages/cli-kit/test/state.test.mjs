import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
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
  first.advance(8);
  first.markHandled(9);
  first.advance(10);
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

test('a message that was handled out of order stays handled after a restart, and `lastSeq` passes it when all earlier messages are handled', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const first = store.openSession('/dir');
  first.attach('one', 7);
  first.changeQueue({ texts: { 8: 'eight', 10: 'ten' }, order: [10, 8] });
  first.markHandled(10);
  first.release();
  const second = store.openSession('/dir');
  second.attach('one', 30);
  assert.deepEqual([second.lastSeq, second.hasHandled(8), second.hasHandled(10)], [7, false, true]);
  assert.deepEqual([second.queue.texts, second.queue.order], [{ 8: 'eight' }, [8]]);
  second.markHandled(9, 8);
  assert.deepEqual([second.lastSeq, second.queue.handled, second.queue.texts], [10, [], {}]);
  second.release();
});

test('what an agent saves is stored per session, not per tag', (t) => {
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

test('the error for a session that a removed container locked names the file to delete', { skip: process.platform !== 'linux' }, (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const { lockFile } = store.openSession('/dir');
  const lock = JSON.parse(readFileSync(lockFile, 'utf8'));
  writeFileSync(lockFile, JSON.stringify({ ...lock, id: 'other', host: { ...lock.host, name: 'container-1', processes: 'pid:[1]' } }));
  const message = new RegExp(`host name container-1.*if that process no longer exists, delete ${lockFile}\\)`);
  assert.throws(() => store.openSession('/dir'), message);
  rmSync(lockFile);
  store.openSession('/dir').release();
});

test('the state of a newer version of the program is refused and stays unchanged, and a state without a version is accepted', (t) => {
  const store = new StateStore({ home: tempDir(t), hub: 'http://hub', namespace: 'a' });
  const session = store.openSession('/dir');
  session.attach('one', 7);
  session.release();
  const { version, ...content } = JSON.parse(readFileSync(session.file, 'utf8'));
  const newer = JSON.stringify({ ...content, version: version + 1 });
  writeFileSync(session.file, newer);
  // The second attempt shows that the first attempt has left no lock.
  for (let i = 0; i < 2; i += 1) assert.throws(() => store.openSession('/dir'), /A newer version of this program has served this session/);
  assert.equal(readFileSync(session.file, 'utf8'), newer);
  writeFileSync(session.file, JSON.stringify(content));
  const again = store.openSession('/dir');
  assert.equal(again.lastSeq, 7);
  again.release();
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
