// Texts about completed permission requests.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answeredQuestions, describeDecision, summarizeRequest, validRequests } from '../src/content/permissions.ts';

test('describes a decision by its status first', () => {
  const describe = (request: Parameters<typeof describeDecision>[0]) => describeDecision(request).label;
  assert.equal(describe({ status: 'approved', decision: 'approved' }), 'Approved');
  assert.equal(describe({ status: 'approved', decision: 'approved_for_session' }), 'Approved for the session');
  assert.equal(describe({ status: 'approved', arguments: { questions: [{ question: 'Go?' }] } }), 'Answered');
  assert.equal(
    describe({ status: 'approved', approvedBy: { kind: 'command', label: '`git commit` with any message' } }),
    'Allowed by the rule `git commit` with any message',
  );
  assert.equal(
    describe({ status: 'approved', approvedBy: { kind: 'mode', label: 'Approve everything' } }),
    'Not asked: Approve everything',
  );
  assert.equal(describe({ status: 'denied' }), 'Denied');
  assert.equal(describe({ status: 'denied', decision: 'abort' }), 'Denied and stopped');
  assert.equal(describe({ status: 'canceled', decision: 'approved' }), 'Not answered');
  assert.equal(describe({}), 'Not answered');
});

test('summarizes a request as its question, or as the tool with its input', () => {
  assert.deepEqual(summarizeRequest({ tool: 'Bash', arguments: { command: 'ls' } }), { text: 'Run command ls' });
  assert.deepEqual(summarizeRequest({ tool: 'Read', arguments: { file_path: '/etc/hosts' } }), { text: 'Read ', path: '/etc/hosts' });
  assert.deepEqual(summarizeRequest({ arguments: null }), { text: 'A tool' });
  assert.deepEqual(summarizeRequest({ tool: 'Ask', arguments: { questions: [{ question: 'Go on?' }] } }), { text: 'Go on?' });
  const plan = { plan: '## Move the billing service\n\n1. Add a column' };
  assert.deepEqual(summarizeRequest({ tool: 'ExitPlanMode', arguments: plan }), { text: 'Plan: Move the billing service' });
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

test('the user’s choice among the agent’s own approvals is shown by its label', () => {
  const choices = [{ id: 'auto', label: 'Yes, and use auto mode' }];
  assert.deepEqual(answeredQuestions({ choices, answers: { choice: ['auto'] } }), [
    { question: 'Choice', answers: ['Yes, and use auto mode'] },
  ]);
  assert.deepEqual(answeredQuestions({ choices, answers: { choice: ['gone'] } }), [{ question: 'Choice', answers: ['gone'] }]);
  assert.deepEqual(answeredQuestions({ answers: { choice: ['red'] } } as Parameters<typeof answeredQuestions>[0]), [
    { question: 'choice', answers: ['red'] },
  ]);
});

test('drops invalid fields of a request, and keeps `sessionRule: null`', () => {
  const request = { sessionRule: null, choices: [{ id: 'a' }], needsChoice: 'yes', shortened: 5, approvedBy: {} };
  assert.deepEqual(
    validRequests({
      r: request,
      s: { sessionRule: 'ls' },
      t: { sessionRule: { kind: 'tool', label: 'Fetch' }, shortened: { parts: 2, bytes: 9 } },
    }),
    [
      ['r', { sessionRule: null }],
      ['s', {}],
      ['t', { sessionRule: { kind: 'tool', label: 'Fetch' }, shortened: { parts: 2, bytes: 9 } }],
    ],
  );
});
