// Questions and permission options.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onceOption, permissionResult } from '../../src/translate/permissions.mjs';
import { answersByPosition, elicitationResult, questionsOfCall, toQuestions } from '../../src/translate/questions.mjs';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';

const option = (kind, optionId = kind) => ({ kind, optionId, name: optionId });
const ONCE = option('allow_once');
const ALWAYS = option('allow_always');
const REJECT = option('reject_once');
const NEVER = option('reject_always');

test('an option is chosen by its kind, never by its position', () => {
  for (const options of [
    [ALWAYS, ONCE, REJECT],
    [NEVER, REJECT, ONCE, ALWAYS],
    [REJECT, ALWAYS, ALWAYS, ONCE],
  ]) {
    assert.equal(onceOption(options, 'approved'), ONCE);
    assert.equal(onceOption(options, 'denied'), REJECT);
  }
});

test('an option that may write a permanent rule is never chosen', () => {
  for (const options of [[ALWAYS, NEVER], [], undefined, [null, { kind: 'allow_once' }, { kind: 'allow_once', optionId: '' }]]) {
    assert.equal(onceOption(options, 'approved'), undefined);
    assert.deepEqual(permissionResult({ options }, { status: 'approved' }), { outcome: { outcome: 'cancelled' } });
    assert.deepEqual(permissionResult({ options }, { status: 'denied' }), { outcome: { outcome: 'cancelled' } });
  }
});

test('the decisions of a user become outcomes', () => {
  const result = (decision) => permissionResult({ options: [ALWAYS, ONCE, REJECT] }, decision).outcome;
  const selected = (optionId) => ({ outcome: 'selected', optionId });
  assert.deepEqual(result({ status: 'approved', decision: 'approved' }), selected('allow_once'));
  assert.deepEqual(result({ status: 'approved', decision: 'approved_for_session' }), selected('allow_once'));
  assert.deepEqual(result({ status: 'denied', decision: 'denied', reason: 'no' }), selected('reject_once'));
  assert.deepEqual(result({ status: 'denied', decision: 'abort' }), { outcome: 'cancelled' });
  assert.deepEqual(result({ status: 'canceled' }), { outcome: 'cancelled' });
});

const choices = [{ const: 'r', title: 'Red', description: 'like fire' }, { const: 'b' }];
const FORM = {
  message: 'Some questions',
  requestedSchema: {
    type: 'object',
    properties: {
      colour: { type: 'string', title: 'Colour', description: 'Which colour?', oneOf: choices },
      colour_custom: { type: 'string', title: 'Other' },
      sizes: {
        type: 'array',
        title: 'Sizes',
        items: {
          anyOf: [
            { const: 's', title: 'Small' },
            { const: 'l', title: 'Large' },
          ],
        },
      },
      letters: { type: 'array', items: { enum: ['x', 'y'] } },
      fast: { type: 'boolean', title: 'Fast?' },
      count: { type: 'integer' },
      name: { type: 'string', description: 'Your name?' },
      my_custom: { type: 'string' },
    },
  },
};

test('the fields of a form become questions', () => {
  const questions = toQuestions(FORM);
  assert.deepEqual(pluck(questions, 'id', 'question', 'header', 'multiSelect'), [
    ['colour', 'Some questions\nWhich colour?', 'Colour', false],
    ['sizes', 'Sizes', '', true],
    ['letters', 'letters', '', true],
    ['fast', 'Fast?', '', false],
    ['count', 'count', '', false],
    ['name', 'Your name?', '', false],
    ['my_custom', 'my_custom', '', false],
  ]);
  assert.deepEqual(questions[0].options, [
    { label: 'Red', description: 'like fire' },
    { label: 'b', description: '' },
  ]);
  assert.deepEqual(
    questions.slice(1).map(({ options }) => options.map(({ label }) => label)),
    [['Small', 'Large'], ['x', 'y'], ['Yes', 'No'], [], [], []],
  );
});

test('the message of a form with one question is the question', () => {
  const requestedSchema = { properties: { q: { type: 'string', title: 'Choice' } } };
  assert.deepEqual(pluck(toQuestions({ message: 'Go on?', requestedSchema }), 'question', 'header'), [['Go on?', 'Choice']]);
  const two = { properties: { a: {}, b: {} } };
  const asked = [{ question: 'First?' }, { question: 'Second?' }];
  assert.deepEqual(pluck(toQuestions({ message: 'Both', requestedSchema: two }, asked), 'question'), ['First?', 'Second?']);
  assert.deepEqual(toQuestions({ message: 'Nothing' }), []);
});

test('answers become the content of a form', () => {
  const answers = {
    colour: ['Red'],
    sizes: { answers: ['Large', 'Small'] },
    letters: ['x'],
    fast: ['No'],
    count: ['3'],
    name: ['Ada', 'L'],
    my_custom: ['z'],
  };
  assert.deepEqual(elicitationResult(FORM, { status: 'approved', answers }), {
    action: 'accept',
    content: { colour: 'r', sizes: ['l', 's'], letters: ['x'], fast: false, count: 3, name: 'Ada, L', my_custom: 'z' },
  });
});

test('a typed answer is put into the field for typed answers, and is left out if the form has no such field', () => {
  const answers = { colour: ['green'], fast: ['maybe'], sizes: ['Huge'], count: ['many'] };
  assert.deepEqual(elicitationResult(FORM, { status: 'approved', answers }).content, { colour_custom: 'green', count: 'many' });
});

test('a declined question differs from a canceled question', () => {
  assert.deepEqual(elicitationResult(FORM, { status: 'denied' }), { action: 'decline' });
  assert.deepEqual(elicitationResult(FORM, { status: 'denied', decision: 'abort' }), { action: 'cancel' });
  assert.deepEqual(elicitationResult(FORM, { status: 'canceled' }), { action: 'cancel' });
});

test('answers to the questions of a permission request are by position', () => {
  const questions = questionsOfCall({
    questions: [{ question: 'A?', options: [{ label: 'x' }, null] }, {}, { question: 'B?', multiSelect: true, secret: 1 }],
  });
  assert.deepEqual(questions, [
    { id: 'question_0', question: 'A?', header: '', options: [{ label: 'x', description: '' }], multiSelect: false },
    { id: 'question_1', question: 'B?', header: '', options: [], multiSelect: true },
  ]);
  assert.deepEqual(answersByPosition(questions, { question_1: ['p', 'q'] }), { 1: 'p, q' });
});
