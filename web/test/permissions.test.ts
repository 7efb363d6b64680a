// What became of an agent's request.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answersOf, askedOf, decisionOf } from '../src/content/permissions.ts';

test('a decision is told by its status first, then by what was decided', () => {
  const words = (request: Parameters<typeof decisionOf>[0]) => decisionOf(request).words;
  assert.equal(words({ status: 'approved', decision: 'approved' }), 'Approved');
  assert.equal(words({ status: 'approved', decision: 'approved_for_session' }), 'Approved for the session');
  assert.equal(words({ status: 'approved', arguments: { questions: [{ question: 'Go?' }] } }), 'Answered');
  assert.equal(words({ status: 'denied' }), 'Denied');
  assert.equal(words({ status: 'denied', decision: 'abort' }), 'Denied and stopped');
  assert.equal(words({ status: 'canceled', decision: 'approved' }), 'Not answered');
  assert.equal(words({}), 'Not answered');
});

test('what was asked is a question, or a tool with what it would do', () => {
  assert.equal(askedOf({ tool: 'Bash', arguments: { command: 'ls' } }), 'Bash ls');
  assert.equal(askedOf({ arguments: null }), 'A tool');
  assert.equal(askedOf({ tool: 'Ask', arguments: { questions: [{ question: 'Go on?' }] } }), 'Go on?');
});

test('answers stand with their questions, in both shapes', () => {
  const questions = [{ id: 'shape', question: 'Which shape?' }, { question: 'Name?' }];
  const answers = { shape: ['Round', 'Flat'], 'Name?': { answers: ['Tile'] }, gone: ['x'], constructor: ['y'] };
  assert.deepEqual(answersOf({ arguments: { questions }, answers } as Parameters<typeof answersOf>[0]), [
    { question: 'Which shape?', answers: ['Round', 'Flat'] },
    { question: 'Name?', answers: ['Tile'] },
    { question: 'gone', answers: ['x'] },
    { question: 'constructor', answers: ['y'] },
  ]);
  assert.deepEqual(answersOf({ tool: 'Bash' }), []);
});
