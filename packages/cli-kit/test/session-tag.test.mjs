import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isServedHere } from '../src/session-tag.mjs';

test('a session with the tag of another version belongs to the state that served it last', () => {
  const state = { agentId: 'agent-1', installationId: 'laptop' };
  const isOwn = (tag, metadata) => isServedHere({ tag, metadata }, state);
  const served = { flavor: 'alpha', alphaSessionId: 'agent-1' };
  assert.equal(isOwn('/dir', served), true);
  assert.equal(isOwn('/dir', { ...served, installationId: 'laptop' }), true);
  // An earlier version on another computer keeps the installation id, and replaces the agent's id.
  assert.equal(isOwn('/dir', { ...served, installationId: 'laptop', alphaSessionId: 'agent-2' }), false);
  assert.equal(isOwn('/dir', { ...served, installationId: 'desktop' }), false);
  assert.equal(isOwn('/dir', { ...served, flavor: 'beta', betaSessionId: 'agent-2' }), false);
  assert.equal(isOwn('/dir', null), false);
  // A process that was killed had no time to publish the new id of its agent.
  assert.equal(isOwn('/dir#laptop', { ...served, alphaSessionId: 'agent-0' }), true);
  assert.equal(isOwn('/dir#laptop#new', null), true);
});
