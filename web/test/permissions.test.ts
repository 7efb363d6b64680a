// Texts about completed permission requests.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answeredQuestions, describeDecision, summarizeRequest } from '../src/content/permissions.ts';

test('describes a decision by its status first', () => {
  const describe = (request: Parameters<typeof describeDecision>[0]) => describeDecision(request).label;
  assert.equal(describe({ status: 'approved', decision: 'approved' }), 'Approved');
  assert.equal(describe({ status: 'approved', decision: 'approved_for_session' }), 'Approved for the session');
  assert.equal(describe({ status: 'approved', arguments: { questions: [{ question: 'Go?' }] } }), 'Answered');
  assert.equal(describe({ status: 'denied' }), 'Denied');
  assert.equal(describe({ status: 'denied', decision: 'abort' }), 'Denied and stopped');
  assert.equal(describe({ status: 'canceled', decision: 'approved' }), 'Not answered');
  assert.equal(describe({}), 'Not answered');
});

test('summarizes a request as its question, or as the tool with its input', () => {
  assert.equal(summarizeRequest({ tool: 'Bash', arguments: { command: 'ls' } }), 'Bash ls');
  assert.equal(summarizeRequest({ arguments: null }), 'A tool');
  assert.equal(summarizeRequest({ tool: 'Ask', arguments: { questions: [{ question: 'Go on?' }] } }), 'Go on?');
});

test('matches answers with their questions, in both formats', () => {
  const questions = [{ id: 'shape', question: 'Which shape?' }, { question: 'Name?' }];
  const answers = { shape: ['Round', 'Flat'], 'Name?': { answers: ['Tile'] }, gone: ['x'], constructor: ['y'] };
  assert.deepEqual(answeredQuestions({ arguments: { questions }, answers } as Parameters<typeof answeredQuestions>[0]), [
    { question: 'Which shape?', answers: ['Round', 'Flat'] },
    { question: 'Name?', answers: ['Tile'] },
    { question: 'gone', answers: ['x'] },
    { question: 'constructor', answers: ['y'] },
  ]);
  assert.deepEqual(answeredQuestions({ tool: 'Bash' }), []);
});
