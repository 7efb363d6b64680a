/** The lifecycle state of a session in its metadata. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lifecycle } from '../src/lifecycle.mjs';
import { mergeMetadata } from '../src/metadata.mjs';

function setUp({ hasMessages = false } = {}) {
  /** @type {{mode: 'local' | 'remote'}} */
  const settings = { mode: 'remote' };
  const published = [];
  const publish = ({ lifecycleState, agentError }) =>
    published.push(agentError === undefined ? lifecycleState : `${lifecycleState}: ${agentError}`);
  return { settings, published, lifecycle: new Lifecycle({ hasMessages, settings, publish }) };
}

test('a session initializes until its first message, and each change is published once', () => {
  const { lifecycle, published } = setUp();
  assert.equal(lifecycle.fields.lifecycleState, 'initializing');
  lifecycle.setAgentError(null);
  lifecycle.onMessage();
  lifecycle.onMessage();
  assert.deepEqual(published, ['running']);
  assert.equal(setUp({ hasMessages: true }).lifecycle.fields.lifecycleState, 'running');
});

test('a session has failed while its agent cannot be started, unless the terminal is in control', () => {
  const { lifecycle, published, settings } = setUp({ hasMessages: true });
  lifecycle.setAgentError('not signed in');
  lifecycle.setAgentError('not signed in');
  settings.mode = 'local';
  lifecycle.publish();
  settings.mode = 'remote';
  lifecycle.setAgentError(null);
  assert.deepEqual(published, ['failed: not signed in', 'paused: not signed in', 'running']);
  lifecycle.setAgentError('x'.repeat(5000));
  assert.equal(lifecycle.fields.agentError.length, 1000);
});

test('mergeMetadata removes an old error of the agent, and keeps `lifecycleStateSince` if the state is the same', () => {
  const stored = { lifecycleState: 'running', lifecycleStateSince: 1, agentError: 'old', name: 'Mine' };
  const own = { lifecycleState: 'running', lifecycleStateSince: 2, agentError: undefined };
  assert.deepEqual(mergeMetadata(stored, own), { lifecycleState: 'running', lifecycleStateSince: 1, name: 'Mine' });
  assert.equal(mergeMetadata(stored, { ...own, lifecycleState: 'failed' }).lifecycleStateSince, 2);
});
